#!/usr/bin/env python3
"""What tuning from Python gains on a GPU, beside settings that are known to be good.

Small models with one fault each: float32, NCHW images, a loop over parameters, many small kernels,
attention by the slow backend. kinetoscope.tune looks for the repair; then this script times the
model as it is, as it is known to be good, and as it was found, with CUDA events of its own:

    precision        31.20 ms as it is   6.10 known   6.08 found   1.00 of the gain   rows ...

Then memory that checkpointing saves, by torch's counters; the largest batch within a limit, with
one more sample tried by hand; a whole plan; float16 that overflows; and a function beside itself.
Ends with 1 when less than 90 % of a gain is found, or something else is wrong. Two to three
minutes.

Use: tune_python_gpu.py [--only WORD] [--seconds S] [--small]    (--small: on any device, to try it)
"""

import argparse
import pathlib
import statistics
import sys
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import kinetoscope.tune as tune  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

GAIN_SHARE_MIN, GAIN_MIN = 0.9, 1.05
IS_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if IS_GPU else "cpu")


def milliseconds(step, repeats=20):
    """Of a step, by events around many of them; the median of three."""
    for _ in range(5):
        step()
    return statistics.median(_once(step, repeats) for _ in range(3))


def _once(step, repeats):
    if not IS_GPU:
        began = time.perf_counter()
        for _ in range(repeats):
            step()
        return (time.perf_counter() - began) * 1e3 / repeats
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    for _ in range(repeats):
        step()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / repeats


def training_step(model, x, loss_of, optimizer=None, dtype=None):
    """A function that trains one step, as a program would write it."""

    def step():
        model.zero_grad(set_to_none=True)
        with torch.autocast(DEVICE.type, dtype or torch.bfloat16, enabled=dtype is not None):
            loss = loss_of(model(x))
        loss.backward()
        if optimizer is not None:
            optimizer.step()

    return step


def mean_square(output, target=None):
    return output.float().square().mean()


class Report:
    def __init__(self):
        self.failures = []

    def gain(self, name, plain, known, found, result):
        gain = plain - known
        share = (plain - found) / gain if plain / known >= GAIN_MIN else None
        words = "no gain here" if share is None else f"{share:.2f} of the gain"
        told = result.best_row["speedup"] or 1.0
        print(
            f"{name:14} {plain:8.3f} ms as it is {known:8.3f} known {found:8.3f} found   {words}; "
            f"told {told:.2f}x, was {plain / found:.2f}x: {result.best_row['label']}"
        )
        self.check(name, share is None or share >= GAIN_SHARE_MIN, "too little of the gain")

    def check(self, name, is_fine, reason):
        if not is_fine:
            self.failures.append(f"{name}: {reason}")
            print(f"{name:14} FAILS: {reason}")

    def say(self, name, text):
        print(f"{name:14} {text}")


# ---------------------------------------------------------------- models with one fault


def wide(small):
    torch.manual_seed(0)
    width, rows = (64, 32) if small else (4096, 2048)
    layers = [part for _ in range(4) for part in (nn.Linear(width, width), nn.GELU())]
    return nn.Sequential(*layers).to(DEVICE), torch.randn(rows, width, device=DEVICE)


def convolutions(small):
    torch.manual_seed(0)
    width, size, rows = (8, 16, 4) if small else (128, 56, 64)
    blocks = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU()]
    for _ in range(4):
        blocks += [nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    model = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))
    return model.to(DEVICE), torch.randn(rows, 3, size, size, device=DEVICE)


class Pointwise(nn.Module):
    """Many small kernels, each of which reads and writes all of it."""

    def __init__(self, width):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        for _ in range(8):
            x = torch.tanh(x * self.scale + self.shift) + 0.5 * x
        return x


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads = heads

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = self.qkv(x).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(rows, length, width))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention = Attention(width, 8)
        self.rest = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = self.attention(x)
        return x + self.rest(x)


def transformer(small, layers=6):
    torch.manual_seed(0)
    width, length, rows = (32, 16, 2) if small else (768, 512, 16)
    model = nn.Sequential(*(Block(width) for _ in range(layers))).to(DEVICE)
    return model, torch.randn(rows, length, width, device=DEVICE)


# ---------------------------------------------------------------- what is tried


def try_precision(report, options):
    model, x = wide(options.small)
    result = tune.sweep_precision(model, x, loss_fn=mean_square, seconds=options.seconds)
    best = result.best

    def step_for(config):
        dtype = config["dtype"] if config["enabled"] else None
        return training_step(model, x, mean_square, dtype=dtype)

    plain = milliseconds(step_for({"dtype": None, "enabled": False}))
    known = milliseconds(step_for({"dtype": torch.bfloat16, "enabled": True}))
    torch.set_float32_matmul_precision("high" if best.get("tf32") else "highest")
    found = milliseconds(step_for(best))
    torch.set_float32_matmul_precision("highest")
    report.gain("precision", plain, known, found, result)


def try_channels_last(report, options):
    model, x = convolutions(options.small)
    model, x = model.bfloat16(), x.bfloat16()
    result = tune.sweep_channels_last(model, x, loss_fn=mean_square, seconds=options.seconds)
    plain = milliseconds(training_step(model, x, mean_square))
    model = model.to(memory_format=torch.channels_last)
    known = milliseconds(training_step(model, x.to(memory_format=torch.channels_last), mean_square))
    found = known if result.best["channels_last"] else plain
    report.gain("channels_last", plain, known, found, result)


def try_optimizer(report, options):
    torch.manual_seed(0)
    parts = [nn.Linear(256, 256) for _ in range(8 if options.small else 100)]
    model, x = nn.Sequential(*parts).to(DEVICE), torch.randn(8, 256, device=DEVICE)
    loop = torch.optim.AdamW(model.parameters(), 1e-4, foreach=False)
    result = tune.sweep_optimizer(
        model, x, optimizer=loop, loss_fn=mean_square, seconds=options.seconds
    )
    kinds = {None: {"foreach": False}, "loop": {"foreach": False}, "foreach": {"foreach": True}}
    kinds["fused"] = {"fused": True}

    def time_with(kind):
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4, **kinds[kind])
        return milliseconds(training_step(model, x, mean_square, optimizer))

    times = [time_with(kind) for kind in (None, "fused", result.best["optimizer"])]
    report.gain("optimizer", *times, result)


def try_compile(report, options):
    torch.manual_seed(0)
    width, rows = (64, 16) if options.small else (1024, 8192)
    model, x = Pointwise(width).to(DEVICE), torch.randn(rows, width, device=DEVICE)
    result = tune.sweep_compile(
        model, x, ["default", "reduce-overhead"], loss_fn=mean_square, seconds=options.seconds
    )
    plain = milliseconds(training_step(model, x, mean_square))
    known = milliseconds(training_step(torch.compile(model), x, mean_square))
    mode = result.best["compile"]
    found = plain if mode is None else known
    if mode not in (None, "default"):
        found = milliseconds(training_step(torch.compile(model, mode=mode), x, mean_square))
    report.gain("compile", plain, known, found, result)


def try_attention(report, options):
    """The fault is a backend that the program chose."""
    rows, length = (2, 16) if options.small else (8, 2048)
    model = Attention(64 if options.small else 1024, 8).to(DEVICE).bfloat16()
    x = torch.randn(rows, length, model.out.in_features, device=DEVICE, dtype=torch.bfloat16)
    backends = torch.nn.attention.SDPBackend
    kernel = torch.nn.attention.sdpa_kernel
    step = training_step(model, x, mean_square)
    with kernel(backends.MATH):
        result = tune.sweep_attention(model, x, loss_fn=mean_square, seconds=options.seconds)
        plain = milliseconds(step)
    with kernel(backends.FLASH_ATTENTION):
        known = milliseconds(step)
    name = result.best["attention"]
    chosen = {"cudnn": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION", "math": "MATH"}
    chosen["efficient"], chosen[None] = "EFFICIENT_ATTENTION", "MATH"
    with kernel(getattr(backends, chosen[name])):
        found = milliseconds(step)
    report.gain("attention", plain, known, found, result)


def try_checkpointing(report, options):
    model, x = transformer(options.small)
    result = tune.sweep_checkpointing(model, x, loss_fn=mean_square, seconds=options.seconds)
    print(result)
    if not IS_GPU:
        return
    everything = next(row for row in result if row["label"] == "all blocks")
    plain = peak_of(training_step(model, x, mean_square))
    for block in model:
        inner = block.forward
        block.forward = lambda y, inner=inner: torch.utils.checkpoint.checkpoint(
            inner, y, use_reentrant=False
        )
    saved = plain - peak_of(training_step(model, x, mean_square))
    told = everything["bytes_saved"]
    report.say("checkpointing", f"saves {saved / 1e6:.1f} MB, told {told / 1e6:.1f} MB")
    report.check("checkpointing", abs(told - saved) <= 0.05 * saved, "not what torch counts")


def peak_of(step):
    step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def try_largest_batch(report, options):
    model, x = transformer(options.small, layers=2)
    if not IS_GPU:
        report.say("largest batch", str(tune.largest_batch(model, x, bytes_max=20_000_000).best))
        return
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, 8e9 / total))
    try:
        began = time.perf_counter()
        result = tune.largest_batch(model, x, loss_fn=mean_square)
        size = result.best["batch_size"]
        fits = [fits_by_hand(model, x, n) for n in (size, int(size * 1.1) + 1)]
        spent = time.perf_counter() - began
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    tried = len(result)
    report.say("largest batch", f"{size} of {tried} sizes in {spent:.1f} s; by hand {fits}")
    report.check("largest batch", fits == [True, False], "by hand another size fits")


def fits_by_hand(model, x, size):
    """In a loop as programs have it, whose output lives until there is another one."""
    torch.cuda.empty_cache()
    try:
        batch = x[:1].expand(size, -1, -1).contiguous()
        for _ in range(3):
            model.zero_grad(set_to_none=True)
            output = model(batch)
            mean_square(output).backward()
        return True
    except torch.cuda.OutOfMemoryError:
        return False
    finally:
        model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()


def try_plan(report, options):
    model, x = transformer(options.small)
    adam = torch.optim.AdamW(model.parameters(), 1e-4, foreach=False)
    what = ["precision", "optimizer", "compile"]
    result = tune.tune_model(
        model, x, loss_fn=mean_square, optimizer=adam, what=what, seconds=3 * options.seconds
    )
    print(result)
    print("\n".join(result.code))
    plain = milliseconds(training_step(model, x, mean_square, adam))
    fused = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    made = torch.compile(model)
    known = milliseconds(training_step(made, x, mean_square, fused, torch.bfloat16))
    changes = result.setting
    kinds = {None: {"foreach": False}, "loop": {"foreach": False}, "foreach": {"foreach": True}}
    kinds["fused"] = {"fused": True}
    chosen = torch.optim.AdamW(model.parameters(), 1e-4, **kinds[changes.optimizer])
    mode = changes.compile if changes.compile != "default" else None
    made = model if changes.compile is None else torch.compile(model, mode=mode)
    with changes.around_steps():
        found = milliseconds(training_step(made, x, mean_square, chosen, changes.half))
    report.gain("plan", plain, known, found, result)
    print(f"{'':14} {result.improvements}")


def try_overflow(report, options):
    class Large(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(64, 64)

        def forward(self, x):
            return self.inner(x * 1e6) / 1e6

    model = Large().to(DEVICE).eval()
    configs = [{"dtype": torch.float32, "enabled": False}]
    configs.append({"dtype": torch.float16, "enabled": True})
    result = tune.sweep_precision(model, torch.randn(64, 64, device=DEVICE), configs, seconds=1)
    report.say("overflow", str(result.rows[1]["reason"]))
    report.check("overflow", result.rows[1]["verdict"] == "rejected", "it is not rejected")


def try_same(report, options):
    a = torch.randn(64 if options.small else 2048, 2048, device=DEVICE)
    verdicts = [tune.compare(lambda: a @ a.T, lambda: a @ a.T, seconds=3) for _ in range(5)]
    report.say("same function", ", ".join(told.text for told in verdicts))
    differences = [told for told in verdicts if told.verdict in ("faster", "slower")]
    report.check("same function", not differences, "a function differs from itself")


TRIALS = (
    try_precision,
    try_channels_last,
    try_optimizer,
    try_compile,
    try_attention,
    try_checkpointing,
    try_largest_batch,
    try_plan,
    try_overflow,
    try_same,
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="WORD")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    if not IS_GPU and not options.small:
        print("no GPU")
        return 0
    report, began = Report(), time.perf_counter()
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name() if IS_GPU else 'CPU'}")
    for trial in TRIALS:
        if options.only not in trial.__name__:
            continue
        try:
            trial(report, options)
        except Exception:
            traceback.print_exc()
            report.failures.append(f"{trial.__name__}: raised")
        print(f"{'':14} ({time.perf_counter() - began:.0f} s so far)", flush=True)
    print(f"{len(report.failures)} failures: {'; '.join(report.failures)}")
    return 1 if report.failures and IS_GPU else 0


if __name__ == "__main__":
    sys.exit(main())
