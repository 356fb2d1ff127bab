#!/usr/bin/env python3
"""Holds predicted step times without the profiler against the clock.

    predict_steps.py KSCOPE OUT [--device cpu] [--traces] [PROGRAM...]

Six programs, from one that the GPU limits to one that launches limit, each under `kscope run` with
five windows. The program itself measures its steps before the first window, between them and behind
the last: the median of blocks of steps with the device synchronised at both ends. The report of
each window's trace alone predicts a step without the profiler (`overhead.predicted_step_ns`): its
middle is compared with the mean of the times before and behind that window, since the speed of a
host drifts by more than what is looked for (the same steps differed by up to 27 % within a second).
The median of the five must be within 15 %.

OUT receives predict_steps.txt and predict_steps.json, with --traces the traces too. The last line
is `N of M predictions missed`; the exit status is 0 when N is 0 and something was predicted.

    predict_steps.py --program NAME [--device cpu]    runs one program, nothing else
"""

import argparse
import json
import pathlib
import re
import shutil
import statistics
import sys
import tempfile
import time

from commands import Failed, call

TOLERANCE = 0.15
STEPS_PER_BLOCK = 5
BLOCKS = 6
WARM_STEPS = 10
WINDOWS = 5
WINDOW_STEPS = 8
WINDOW = f"{WARM_STEPS + BLOCKS * STEPS_PER_BLOCK}:2:6:{WINDOWS}"

# ---------------------------------------------------------------- programs
# Each takes the device and gives a function that does one step. Sizes on a CPU only try the script.


def train(model, loss_of, fused=False, foreach=None):
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=fused, foreach=foreach)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(model).backward()
        optimizer.step()

    return step


def matmuls(device):
    """Large products: the GPU is the limit."""
    import torch

    width = 4096 if device == "cuda" else 64
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(8))).to(device)
    data = torch.randn(2048 if device == "cuda" else 8, width, device=device)
    return train(model, lambda net: net(data).square().mean(), fused=device == "cuda")


def convolutions(device):
    """Convolutions in bf16: the GPU is the limit, the host is near."""
    import torch

    width = 128 if device == "cuda" else 4
    layers = []
    for index in range(20):
        layers += [torch.nn.Conv2d(width if index else 3, width, 3, padding=1)]
        layers += [torch.nn.BatchNorm2d(width), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers).to(device)
    data = torch.randn(16, 3, 56 if device == "cuda" else 8, 56 if device == "cuda" else 8)
    data = data.to(device)

    def loss_of(net):
        with torch.autocast(device, dtype=torch.bfloat16):
            return net(data).float().mean()

    return train(model, loss_of, fused=device == "cuda")


def encoder(device, batch, length, width):
    import torch

    layer = torch.nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 8 if device == "cuda" else 2).to(device)
    return model, torch.randn(batch, length, width, device=device)


def transformer(device):
    """A transformer whose GPU and host take alike."""
    model, data = encoder(device, 16, 256 if device == "cuda" else 8, 512)
    return train(model, lambda net: net(data).square().mean(), fused=device == "cuda")


def reading(device):
    """A small transformer that reads its loss and its gradients in each step."""
    model, data = encoder(device, 2, 16, 128)

    def loss_of(net):
        loss = net(data).square().mean()
        return loss if loss.item() >= 0 else loss

    step = train(model, loss_of)

    def step_and_read():
        step()
        return sum(p.grad.norm().item() for p in model.parameters() if p.grad is not None)

    return step_and_read


def per_parameter(device):
    """A small transformer with an optimizer that updates one parameter after the other."""
    model, data = encoder(device, 2, 16, 128)
    return train(model, lambda net: net(data).square().mean(), foreach=False)


def cells(device):
    """A loop over LSTM cells: kernels of 2 us, the launches are the limit."""
    import torch

    class Cells(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = torch.nn.LSTMCell(64, 64)
            self.head = torch.nn.Linear(64, 8)

        def forward(self, series):
            state = (series.new_zeros(16, 64), series.new_zeros(16, 64))
            for part in series.unbind(1):
                state = self.cell(part, state)
            return self.head(state[0])

    model = Cells().to(device)
    data = torch.randn(16, 60 if device == "cuda" else 4, 64, device=device)
    return train(model, lambda net: net(data).square().mean())


PROGRAMS = (matmuls, convolutions, transformer, reading, per_parameter, cells)


def run_program(name, device):
    """Prints `step_ms N...`: before the first window, between the windows, and behind the last."""
    import torch

    torch.manual_seed(0)
    step = {program.__name__: program for program in PROGRAMS}[name](device)

    def synchronize():
        if device == "cuda":
            torch.cuda.synchronize()

    def block_ms():
        synchronize()
        began = time.perf_counter()
        for _ in range(STEPS_PER_BLOCK):
            step()
        synchronize()
        return (time.perf_counter() - began) * 1e3 / STEPS_PER_BLOCK

    def measured_ms():
        for _ in range(WARM_STEPS):
            step()
        return statistics.median(block_ms() for _ in range(BLOCKS))

    times = [measured_ms()]
    for _ in range(WINDOWS):
        for _ in range(WINDOW_STEPS):
            step()
        times.append(measured_ms())
    print("step_ms", *(f"{time_ms:.4f}" for time_ms in times))


# ---------------------------------------------------------------- checks


def record(options, name, work):
    """The times that the program measured, and the reports of each window's trace."""
    folder = pathlib.Path(work) / name
    program = [sys.executable, __file__, "--program", name, "--device", options.device]
    words = ("run", "--no-stacks", "--steps", WINDOW, "--out", folder)
    said = call(options.kscope, *words, *program)
    found = re.search(r"^step_ms ([0-9. ]+)$", said, re.MULTILINE)
    times_ms = [float(word) for word in found[1].split()]
    docs = []
    for trace in sorted(folder.glob("*.window*.pt.trace.json.gz")):
        alone = pathlib.Path(work) / "alone.pt.trace.json.gz"  # from the run
        shutil.copy(trace, alone)
        docs.append(json.loads(call(options.kscope, "report", "--json", alone)))
        if options.traces:
            shutil.copy(trace, options.out / f"{name}.{trace.name}")
    if not len(times_ms) == len(docs) + 1 == WINDOWS + 1:
        raise Failed(f"{len(times_ms)} times, {len(docs)} windows")
    return times_ms, docs


def check_window(measured_ms, doc):
    times = sorted(step["dur_ns"] for step in doc["steps"] if step["complete"])
    bounds = doc["overhead"]["predicted_step_ns"]
    keys = ("low", "middle", "high")
    return {
        "measured_ms": measured_ms,
        "trace_ms": statistics.median(times) / 1e6 if times else None,
        "predicted_ms": [bounds[key] / 1e6 for key in keys] if bounds else None,
        "off": bounds["middle"] / 1e6 / measured_ms - 1 if bounds else None,
    }


def check(options, name, work):
    times_ms, docs = record(options, name, work)
    between_ms = [statistics.mean(pair) for pair in zip(times_ms, times_ms[1:], strict=False)]
    windows = [check_window(*pair) for pair in zip(between_ms, docs, strict=True)]
    offs = [window["off"] for window in windows if window["off"] is not None]
    return {
        "program": name,
        "step_ms": times_ms,
        "windows": windows,
        "off": statistics.median(offs) if len(offs) == WINDOWS else None,
    }


def percent(share):
    return "no prediction" if share is None else f"{100 * share:+.1f} %"


def lines_of(row):
    yield f"{row['program']:<14} {percent(row['off'])}"
    for window in row["windows"]:
        numbers = [window["measured_ms"], window["trace_ms"], *(window["predicted_ms"] or [])]
        cells_ = " ".join(f"{'-' if n is None else format(n, '.2f'):>9}" for n in numbers)
        yield f"  {cells_}  {percent(window['off'])}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("kscope", nargs="?", type=pathlib.Path)
    parser.add_argument("out", nargs="?", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="PROGRAM")
    parser.add_argument("--program")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--traces", action="store_true")
    options = parser.parse_intermixed_args()
    if options.program:
        return run_program(options.program, options.device)
    options.kscope = options.kscope.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    lines = ["   measured     trace       low    middle      high  off"]
    print(lines[0], flush=True)
    with tempfile.TemporaryDirectory(prefix="predict-steps-") as work:
        for name in options.names or [program.__name__ for program in PROGRAMS]:
            try:
                rows.append(check(options, name, work))
                said = list(lines_of(rows[-1]))
            except Failed as failure:
                rows.append({"program": name, "off": None, "failure": str(failure)})
                said = [f"{name}: {failure}"]
            print(*said, sep="\n", flush=True)
            lines += said
    missed = sum(row["off"] is None or abs(row["off"]) > TOLERANCE for row in rows)
    lines.append(f"{missed} of {len(rows)} predictions missed")
    print(lines[-1])
    (options.out / "predict_steps.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (options.out / "predict_steps.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return 1 if missed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
