"""A real training loop with planted waits: phases hold them, and calls name the script's lines."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))
MS = 1_000_000
STEPS = 3

PHASES = """
import sys, time, torch
from torch import nn
from torch.profiler import profile, record_function, schedule
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self): return 100
    def __getitem__(self, i):
        time.sleep(0.01)
        return torch.ones(8), 1

class Pause(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.clone()
    @staticmethod
    def backward(ctx, g):
        time.sleep(0.03)
        return g

class Lazy(torch.optim.SGD):
    pass

model = nn.Linear(8, 4)
optimizer = Lazy(model.parameters(), lr=0.1)
optimizer.register_step_pre_hook(lambda *_: time.sleep(0.01))
def step(x, y):
    out = model(x)
    time.sleep(0.04)             # between two operators of the forward
    out = Pause.apply(out)
    with record_function("loss_computation"):
        time.sleep(0.02)
        loss = nn.functional.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    with record_function("optimizer_step"):
        time.sleep(0.01)
        optimizer.step()
    time.sleep(0.015)            # nothing of training

with profile(schedule=schedule(wait=0, warmup=1, active=3),
             on_trace_ready=lambda p: p.export_chrome_trace(sys.argv[1])) as p:
    for (x, y), _ in zip(DataLoader(Slow(), batch_size=1), range(4)):
        step(x, y)
        p.step()
"""

# The lines that the test looks for carry a mark.
PLACES = """
import sys, torch
from torch import nn
from torch.profiler import profile

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 4)

    def forward(self, x):  # forward
        return torch.tanh(self.inner(x))


def log(loss):  # log
    return loss.item()


def train(model, x):  # train
    loss = model(x).square().mean()
    loss.backward()
    return log(loss)


with profile(with_stack=True, record_shapes=True) as p:
    model = Net()
    for _ in range(3):
        train(model, torch.ones(4, 8))
p.export_chrome_trace(sys.argv[1])
"""


def record(script, folder):
    path = folder / "program.py"
    path.write_text(script)
    trace = folder / "trace.json"
    subprocess.run(
        [sys.executable, path, trace], check=True, timeout=300, capture_output=True, cwd=folder
    )
    return trace


def report(*arguments):
    out = subprocess.run(
        [PROGRAM, "report", "--json", *arguments], check=True, timeout=120, capture_output=True
    )
    return json.loads(out.stdout)


def test_planted_waits_are_in_their_phases(tmp_path):
    steps = report(record(PHASES, tmp_path))["steps"]
    assert len(steps) == STEPS
    planted = {"data": 10, "forward": 40, "loss": 20, "backward": 30, "optimizer": 20}
    for step in steps:
        parts = step["phases_ns"]
        assert sum(parts.values()) == step["dur_ns"]
        # A step ends where p.step() is called, before the loader is asked again.
        for phase, wanted in planted.items():
            assert parts[phase] >= wanted * MS, (phase, parts)
        assert parts["other"] >= 15 * MS
        assert parts["transfer"] == 0
    # The machine may be busy: the shortest step holds little beside what was planted.
    shortest = min(steps, key=lambda s: s["dur_ns"])["phases_ns"]
    for phase, wanted in planted.items():
        assert shortest[phase] <= (wanted + 15) * MS, (phase, shortest)


def mark(script, word):
    lines = script.splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(f"# {word}"))


def places_of(trace):
    """{operator: [(file, line, calls)]}"""
    out = {}
    for row in report(trace)["places"]:
        if row["kind"] == "operator":
            out.setdefault(row["operator"], []).append((row["file"], row["line"], row["calls"]))
    return out


def test_operators_name_the_lines_of_the_script(tmp_path):
    places = places_of(record(PLACES, tmp_path))

    def at(word, calls):
        return ("program.py", mark(PLACES, word), calls)

    assert places["aten::item"] == [at("log", 3)]
    assert places["aten::tanh"] == [at("forward", 3)]
    assert places["aten::linear"] == [at("forward", 3)]
    # Backward nodes stand where their forward operators were called.
    assert places["TanhBackward0"] == [at("forward", 3)]
    assert places["MeanBackward0"] == [at("train", 3)]
