"""What debug switches cost: steps of one training with them and without, in alternating blocks.

A small Transformer trains in one thread. "own" is what the switches say that they take of a step,
here by the clock of the thread's CPU (on a GPU by wall time): other work on the machine changes it
little, but what torch does to call a hook is not in it. "ratio" has all: CPU time of steps with the
switch to those before and behind it (on a GPU wall time, waited for at both ends), median of the
blocks, as noisy as "spread" says. The first steps behind a switch, in which shapes are tabled and
rectifiers sampled, are left out of both.

"off again" is a block after debugging was switched on and off: nothing of it may be left.

Judged is "own" on a CPU, of gradient_norms (3 %) and of all light switches (5 %), where a step is
50 ms or longer. On a GPU it is "ratio" (1 % and 2 %): while the GPU has work, what the host does
beside it costs nothing, and what the GPU is made to do itself is in no time of ours.

Use: debug_cost.py [--width N] [--layers N] [--batch N] [--steps N] [--blocks N] [--tiny]
"""

import argparse
import logging
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

import kinetoscope.debug as debug  # noqa: E402
import torch  # noqa: E402
from kinetoscope.debug import session  # noqa: E402

FIRST_STEPS = 10
STEP_MS_MIN = 50
LIGHT = tuple(name for name in debug.SWITCHES if name.startswith("debug_"))
HEAVY = ("enable_autograd_anomaly",)


class Training:
    def __init__(self, options):
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(
            options.width, max(1, options.width // 64), 4 * options.width, batch_first=True
        )
        body = torch.nn.TransformerEncoder(layer, options.layers, enable_nested_tensor=False)
        head = torch.nn.Linear(options.width, 10)
        self.model = torch.nn.Sequential(body, head).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4)
        data = torch.randn(2 * options.batch, options.tokens, options.width)
        labels = torch.arange(2 * options.batch) % 10
        dataset = torch.utils.data.TensorDataset(data, labels)
        self.loader = torch.utils.data.DataLoader(dataset, options.batch)

    def run(self, steps):
        """Seconds a step."""
        batches = self.batches()
        self.wait()
        began = self.clock()
        for _ in range(steps):
            x, y = next(batches)
            self.optimizer.zero_grad()
            scores = self.model(x.to(self.device)).mean(1)
            torch.nn.functional.cross_entropy(scores, y.to(self.device)).backward()
            self.optimizer.step()
        self.wait()
        return (self.clock() - began) / steps

    def batches(self):
        while True:
            yield from self.loader

    def wait(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def clock(self):
        return time.perf_counter() if self.device.type == "cuda" else time.process_time()


def measure(training, names, options):
    """(what steps are longer by, own share, seconds of a plain step) of one block."""
    before = training.run(options.steps)
    if names is not None:
        debug.enable_debugging(names, training.model, training.optimizer)
    if not names:
        debug.disable_debugging()
    training.run(FIRST_STEPS)
    told = told_us()
    during = training.run(options.steps)
    told = told_us() - told
    debug.disable_debugging()
    plain = (before + training.run(options.steps)) / 2
    return during / plain - 1, told / 1e6 / options.steps / plain, plain


def told_us():
    """What all switches say to have taken until now."""
    status = debug.get_debugging_status().values()
    steps = session._current.step if session._current is not None else 0
    return steps * sum(entry["cost_us_per_step"] or 0 for entry in status)


def rows_of(options):
    rows = {"off again": []}
    rows |= {name.removeprefix("debug_"): [name] for name in LIGHT}
    rows |= {"all light": LIGHT, "autograd_anomaly": HEAVY}
    if options.only:
        rows = {name: rows[name] for name in options.only.split(",")}
    return rows


def main():
    options = arguments()
    torch.set_num_threads(1)
    logging.getLogger("kinetoscope.debug").addHandler(logging.NullHandler())
    logging.getLogger("kinetoscope.debug").propagate = False
    training = Training(options)
    if training.device.type == "cpu":
        session.perf_counter_ns = time.thread_time_ns
    training.run(3)
    rows = rows_of(options)
    found = {name: [] for name in rows}
    for _ in range(options.blocks):
        for name, names in rows.items():
            found[name].append(measure(training, names, options))
    step_ms = 1e3 * statistics.median(block[2] for row in found.values() for block in row)
    parameters = sum(p.numel() for p in training.model.parameters())
    print(f"{parameters / 1e6:.1f} M parameters, {training.device.type}, a step {step_ms:.1f} ms")
    print(f"{'switch':<20}{'own':>9}{'ratio':>9}{'spread':>9}{'us a step':>12}")
    costs = {name: show(name, blocks, step_ms) for name, blocks in found.items()}
    sys.exit(judge(costs, step_ms, training.device.type))


def show(name, blocks, step_ms):
    ratios = sorted(block[0] for block in blocks)
    own, ratio = statistics.median(block[1] for block in blocks), statistics.median(ratios)
    spread = ratios[-1] - ratios[0]
    print(f"{name:<20}{own:>8.2%}{ratio:>9.2%}{spread:>9.2%}{1e3 * own * step_ms:>12.0f}")
    return own, ratio


def judge(costs, step_ms, device):
    if step_ms < STEP_MS_MIN:
        print(f"not judged: steps are shorter than {STEP_MS_MIN} ms")
        return 0
    on_cpu = device == "cpu"
    limits = {"gradient_norms": 0.03 if on_cpu else 0.01, "all light": 0.05 if on_cpu else 0.02}
    costs = {name: own if on_cpu else ratio for name, (own, ratio) in costs.items()}
    late = {name: limit for name, limit in limits.items() if costs.get(name, 0) > limit}
    for name, limit in late.items():
        print(f"{name} costs more than {limit:.0%}")
    return 1 if late else 0


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--blocks", type=int, default=3)
    parser.add_argument("--only", help="rows, with commas between them")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    if options.tiny:
        options.width, options.layers, options.batch = 16, 1, 2
        options.steps, options.blocks, options.tokens = 2, 1, 4
    return options


if __name__ == "__main__":
    main()
