"""Goal: operators by stack are those of key_averages(group_by_stack_n=n), and stacks those of
export_stacks. Method: runs made just now. torch fills stacks with verbose=True alone; ours come
from the frames of the trace, which are there without. torch 2.13 takes frames for operators, and
what spans of the user hold of them from their own time: that of spans is not compared."""

import json
import os
import pathlib
import subprocess
from collections import Counter, defaultdict

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._C._profiler import _ExperimentalConfig  # noqa: E402
from torch.profiler import ProfilerActivity, profile, record_function  # noqa: E402

pytestmark = pytest.mark.torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))
ALL = 1024
SUM_ERROR_US = 1e-3  # torch adds floating microseconds


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        with record_function("inside"):
            x = self.second(self.first(x).relu())
        return twice(x)


def twice(x):
    return x.mul(2)


def blocks():
    model, data = nn.Sequential(Block(), Block()), torch.randn(4, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    return step


def transformer():
    layer, data = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), torch.randn(2, 5, 16)
    return lambda: layer(data).sum().backward()


def no_gradients():
    model, data = Block(), torch.randn(4, 8)

    @torch.no_grad()
    def step():
        for _ in range(2):
            twice(model(data))

    return step


@pytest.fixture(scope="module", params=[blocks, transformer, no_gradients])
def recorded(request, tmp_path_factory):
    step = request.param()
    step()  # what torch imports at the first one is no part of it
    path = tmp_path_factory.mktemp("stacks") / "trace.json"
    config = _ExperimentalConfig(verbose=True)
    with profile(
        activities=[ProfilerActivity.CPU], with_stack=True, experimental_config=config
    ) as prof:
        step()
        step()
    prof.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    spans = {e["name"] for e in events if e.get("cat") == "user_annotation"}
    names = {e["name"] for e in events if e.get("cat") == "cpu_op"} | spans
    return prof, path, names, spans


def report(path, *options):
    command = [PROGRAM, "report", "--json", *options, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout)


def pooled(rows):
    """{(name, stack): [calls, time, own time]}, in microseconds."""
    out = defaultdict(lambda: [0, 0.0, 0.0])
    for name, stack, *values in rows:
        for i, value in enumerate(values):
            out[name, stack][i] += value
    return out


@pytest.mark.parametrize("depth", [1, 2, 5, ALL])
def test_rows_are_those_of_key_averages(recorded, depth):
    prof, path, names, spans = recorded
    want = pooled(
        (r.key, ";".join(r.stack), r.count, r.cpu_time_total, r.self_cpu_time_total)
        for r in prof.key_averages(group_by_stack_n=depth)
        if r.key in names
    )
    rows = report(path, "--group-by", "stack", "--stack-depth", str(depth))["operators"]
    got = pooled(
        (r["name"], r["stack"], r["calls"], r["cpu_ns"] / 1e3, r["self_cpu_ns"] / 1e3) for r in rows
    )
    assert got.keys() == want.keys()
    for key, values in want.items():
        compared = 2 if key[0] in spans else 3
        assert got[key][:compared] == pytest.approx(values[:compared], abs=SUM_ERROR_US), key
    assert sum(1 for _, stack in want if stack) >= 8


def test_stacks_are_those_of_export_stacks(recorded):
    """torch writes a line for each event, whole microseconds, outermost first."""
    prof, path, names, spans = recorded
    want, calls = Counter(), Counter()
    of_spans = {";".join(event.stack) for event in prof.events() if event.name in spans}
    for event in prof.events():
        if event.stack and event.name in names:
            want[";".join(event.stack)] += event.self_cpu_time_total
            calls[";".join(event.stack)] += 1
    rows = json.loads(
        subprocess.run(
            [PROGRAM, "query", "--group-by", "stack", "--json", str(path)]
            + ["select stack, calls, self_cpu_ns from fact_stacks"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )["rows"]
    assert {stack: count for stack, count, _ in rows} == dict(calls)
    assert len(of_spans) < len(rows)
    for stack, _, self_ns in rows:
        assert stack in of_spans or self_ns / 1e3 == pytest.approx(want[stack], abs=SUM_ERROR_US), (
            stack
        )


def test_without_stacks_there_are_none(recorded):
    path = recorded[1]
    doc = report(path)
    assert doc["stacks"] == [] and "stack" not in doc["operators"][0]
    by_stack = report(path, "--group-by", "stack")
    assert sum(r["calls"] for r in by_stack["operators"]) == sum(
        r["calls"] for r in doc["operators"]
    )
    assert sum(r["calls"] for r in by_stack["stacks"]) <= sum(
        r["calls"] for r in by_stack["operators"]
    )
