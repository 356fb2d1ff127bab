"""What `kscope run` costs a program while it records nothing: start, import of torch, each step.

Every figure is the median with the hook minus the median without, of programs that alternate.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
STEP_PERCENT_MAX = 1.0  # of a step of 20 ms
STEP_NS = 20_000_000
IMPORT_MS_MAX = 50

KINDS = ("optimizer", "loader", "inference", "mark")

START = "pass"
IMPORT = """
import time
begin = time.perf_counter_ns()
import torch
print(time.perf_counter_ns() - begin)
"""
STEPS = """
import sys, time, torch
torch.set_num_threads(1)
kind = sys.argv[1]
leaf = torch.nn.Identity()
module = torch.nn.Sequential(*[torch.nn.Identity() for _ in range(100)])
if kind == "optimizer":
    act = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1).step
elif kind == "loader":
    batches = iter(torch.utils.data.DataLoader([0] * 10000, batch_size=None))
    act = lambda: next(batches)
elif kind == "inference":
    act = lambda: module(0)
elif kind == "mark":
    try:
        from kinetoscope import step as act
    except ImportError:
        act = lambda: None
times = []
for _ in range(int(sys.argv[2])):
    begin = time.perf_counter_ns()
    act()
    times.append(time.perf_counter_ns() - begin)
print(sorted(times)[len(times) // 2])
"""


def environments(folder):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KSCOPE_")}
    hook = {
        "PYTHONPATH": str(ROOT / "python" / "kinetoscope" / "inject"),
        "KSCOPE_RUN": "1",
        "KSCOPE_OUT": folder,
        "KSCOPE_STEPS": "1000000:1:1",
    }
    return {**kept, **hook}, kept


def run_ns(program, words, env):
    """What the program prints, or when it prints nothing how long it took."""
    import time

    begin = time.perf_counter_ns()
    done = subprocess.run(
        [sys.executable, "-c", program, *words], env=env, check=True, capture_output=True, text=True
    )
    took = time.perf_counter_ns() - begin
    return int(done.stdout) if done.stdout.strip() else took


def cost_ns(program, words, runs, folder):
    """Medians with the hook and without."""
    figures = ([], [])
    for _ in range(runs):
        for env, found in zip(environments(folder), figures, strict=True):
            found.append(run_ns(program, words, env))
    return tuple(statistics.median(found) for found in figures)


def main(arguments):
    parser = argparse.ArgumentParser(description="Times the hook of kscope run.")
    parser.add_argument("--runs", type=int, default=11)
    parser.add_argument("--tiny", action="store_true", help="one run, few steps, no limits")
    options = parser.parse_args(arguments)
    runs, steps = (1, "20") if options.tiny else (options.runs, "8000")
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        for name, program in (("start of Python", START), ("import torch", IMPORT)):
            ours, plain = cost_ns(program, (), runs, folder)
            print(f"{name:24} {(ours - plain) / 1e6:8.2f} ms  of {plain / 1e6:.1f} ms")
            if (ours - plain) / 1e6 > IMPORT_MS_MAX:
                wrong.append(f"{name}: more than {IMPORT_MS_MAX} ms")
        for kind in KINDS[:1] if options.tiny else KINDS:
            ours, plain = cost_ns(STEPS, (kind, steps), runs, folder)
            percent = 100 * (ours - plain) / STEP_NS
            print(f"step by {kind:16} {(ours - plain) / 1e3:8.2f} us  {percent:.3f} % of 20 ms")
            if percent > STEP_PERCENT_MAX:
                wrong.append(f"step by {kind}: more than {STEP_PERCENT_MAX} % of 20 ms")
    for sentence in [] if options.tiny else wrong:
        print(f"missed: {sentence}")
    return 1 if wrong and not options.tiny else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
