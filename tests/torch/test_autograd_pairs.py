"""Goal: operators and the nodes that they make are paired as torch's own arrows pair them. Method:
traces made just now; each arrow "fwdbwd" leads from the operator that began last with a number to
the first node that ended with it."""

import json
import os
import pathlib
import subprocess
from collections import defaultdict
from decimal import Decimal

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402

pytestmark = pytest.mark.torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))
ENGINE = "autograd::engine::evaluate_function: "


def convolutions():
    layers = (nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    return nn.Sequential(*layers), torch.randn(2, 3, 8, 8)


def transformer():
    return nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), torch.randn(2, 5, 16)


def recurrent():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(8, 12, 2, batch_first=True)

        def forward(self, x):
            return self.rnn(x)[0][:, -1]

    return Last(), torch.randn(3, 6, 8)


@pytest.fixture(scope="module", params=[convolutions, transformer, recurrent])
def recorded(request, tmp_path_factory):
    model, data = request.param()
    path = tmp_path_factory.mktemp("pairs") / "trace.json"
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        for _ in range(2):
            model(data).square().mean().backward()
    prof.export_chrome_trace(str(path))
    return path


def rows_of(path, *options):
    command = [PROGRAM, "report", "--json", *options, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout)["autograd"]


def ns(event, key):
    return int(event[key] * 1000)


def arrows(path):
    """(operator, node) of each arrow."""
    events = json.loads(path.read_text(), parse_float=Decimal)["traceEvents"]
    at = defaultdict(list)
    for event in events:
        if event.get("cat") == "cpu_op":
            at[event["tid"], event["ts"]].append(event)
    ends = {}
    for event in events:
        if event.get("cat") == "fwdbwd":
            ends.setdefault(event["id"], {})[event["ph"]] = event
    for pair in ends.values():
        both = []
        for ph in "sf":
            arrow = pair[ph]
            numbered = [e for e in at[arrow["tid"], arrow["ts"]] if "Sequence number" in e["args"]]
            both.append(max(numbered, key=lambda e: e["dur"]))
        yield both


def test_pairs_are_torch_s_arrows(recorded):
    want = defaultdict(lambda: [0, 0])
    for forward, node in arrows(recorded):
        row = want[forward["name"], node["name"].removeprefix(ENGINE)]
        row[0] += 1
        row[1] += ns(forward, "dur")
    assert len(want) >= 5
    got = {
        (row["forward"], row["backward"]): [row["calls"], row["forward_ns"]]
        for row in rows_of(recorded)
        if row["forward"]
    }
    assert got == dict(want)


def test_backward_times_are_those_of_the_engine(recorded):
    """All that the engine ran is in some row, each once."""
    events = json.loads(recorded.read_text(), parse_float=Decimal)["traceEvents"]
    want = defaultdict(int)
    for event in events:
        if event.get("cat") == "cpu_op" and event["name"].startswith(ENGINE):
            want[event["name"].removeprefix(ENGINE)] += ns(event, "dur")
    got = defaultdict(int)
    for row in rows_of(recorded):
        got[row["backward"]] += row["backward_ns"]
    assert got == want
    no_maker = {row["backward"] for row in rows_of(recorded) if row["forward"] is None}
    assert no_maker <= {"torch::autograd::AccumulateGrad"}


def test_by_shape(recorded):
    by_name, by_shape = rows_of(recorded), rows_of(recorded, "--group-by", "shape")
    assert len(by_shape) >= len(by_name)
    for column in ("calls", "forward_calls", "forward_ns", "backward_ns"):
        assert sum(r[column] for r in by_shape) == sum(r[column] for r in by_name)
    assert all(r["input_shapes"] for r in by_shape if r["forward"])
