"""Operators of a run made just now are equal to what torch itself prints of it.

Without stacks: with them torch 2.13 also counts each Python frame as an operator.
"""

import json
import os
import pathlib
import subprocess
from collections import Counter, defaultdict

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402
from torch.profiler import ProfilerActivity, profile, record_function  # noqa: E402

pytestmark = pytest.mark.torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))
TIMES = {"self_cpu_time_total": "self_cpu_ns", "cpu_time_total": "cpu_ns"}
EXACT = {
    "count": "calls",
    "cpu_memory_usage": "cpu_bytes",
    "self_cpu_memory_usage": "self_cpu_bytes",
    "flops": "flops",
}
# Torch adds floating microseconds; its sums are off in the last digits.
SUM_ERROR_US = 1e-3


def train(model, data, steps=2):
    optimizer = torch.optim.AdamW(model.parameters())

    def body(step_done):
        for _ in range(steps):
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()
            step_done()

    return body


def conv_net():
    """All arguments that the formula of conv2d takes, and one that torch counts as 0."""
    model = nn.Sequential(
        nn.Conv2d(4, 8, 3, padding=1),
        nn.Conv2d(8, 8, 3, stride=2, groups=2),
        nn.ReLU(),
        nn.Conv2d(8, 8, (1, 3), dilation=2, padding=(0, 2)),
        nn.Conv2d(8, 4, 3, padding="same"),
        nn.BatchNorm2d(4),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 3),
    )
    return train(model, torch.randn(2, 4, 12, 12))


def attention():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return train(layer, torch.randn(2, 5, 16))


def recurrent():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(20, 8)
            self.rnn = nn.LSTM(8, 12, 2, batch_first=True)

        def forward(self, tokens):
            return self.rnn(self.embedding(tokens))[0][:, -1]

    return train(Last(), torch.randint(0, 20, (3, 6)))


def nested_names():
    """Spans of one name inside one another, alone and with siblings; one named as an operator."""

    def body(step_done):
        x = torch.randn(6, 6)
        with record_function("outer"), record_function("outer"), record_function("outer"):
            x = x @ x
        with record_function("outer"):
            for _ in range(2):
                with record_function("outer"):
                    x = x.add(1)
        with record_function("aten::mm"):
            torch.mm(x, x)
        step_done()

    return body


def formulas():
    def body(step_done):
        a, b = torch.randn(3, 4), torch.randn(4, 5)
        torch.mm(a, b)
        torch.addmm(torch.zeros(5), a, b)
        torch.bmm(torch.randn(2, 3, 4), torch.randn(2, 4, 5))
        torch.baddbmm(torch.zeros(2, 3, 5), torch.randn(2, 3, 4), torch.randn(2, 4, 5))
        torch.tensor(2.0) * torch.tensor(3.0)
        torch.add(a, 1)
        a * torch.randn(4)
        2 * a
        torch.cat([a, a]).add_(1)
        torch.zeros(0, 4) @ b
        torch.einsum("bij,bjk->bik", torch.randn(2, 3, 4), torch.randn(2, 4, 5))
        F.conv2d(torch.randn(4, 8, 8), torch.randn(2, 4, 3, 3))
        step_done()

    return body


def memory():
    """Allocations inside operators, between them, and freed elsewhere."""

    def body(step_done):
        kept = []
        for i in range(5):
            kept.append(torch.empty(1000 * (i + 1)))
            with record_function("grow"):
                kept.append(torch.zeros(100, 100) + 1)
            if i % 2:
                kept.pop(0)
        del kept
        step_done()

    return body


def loader():
    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            return torch.full((4,), float(index)), index

    def body(step_done):
        for x, _ in torch.utils.data.DataLoader(Samples(), batch_size=2):
            (x * 2).sum()
            step_done()

    return body


CASES = {
    c.__name__: c for c in (conv_net, attention, recurrent, nested_names, formulas, memory, loader)
}


@pytest.fixture(scope="module", params=sorted(CASES))
def recorded(request, tmp_path_factory):
    """The profile of a case, and the trace it wrote."""
    torch.manual_seed(0)
    body = CASES[request.param]()
    with profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        profile_memory=True,
        with_flops=True,
    ) as prof:
        body(prof.step)
    path = tmp_path_factory.mktemp("fresh") / "trace.json"
    prof.export_chrome_trace(str(path))
    return prof, path


def report(*arguments):
    result = subprocess.run(
        [PROGRAM, "report", "--json", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr.decode(errors="replace")[-500:]
    return json.loads(result.stdout)


def pooled_torch(rows, by_shape):
    out = defaultdict(Counter)
    for row in rows:
        if row.key in ("[memory]", "[OutOfMemory]"):
            continue  # events outside of any operator, which are no operators
        key = (row.key, str(row.input_shapes)) if by_shape else row.key
        for column in TIMES | EXACT:
            out[key][column] += getattr(row, column) or 0
    return out


def pooled_ours(rows, by_shape):
    out = defaultdict(Counter)
    for row in rows:
        key = (row["name"], row["input_shapes"] or "[]") if by_shape else row["name"]
        for column in [*TIMES.values(), *EXACT.values()]:
            out[key][column] += row[column] or 0
    return out


def compare(theirs, ours):
    wrong = [f"missing: {key}" for key in theirs.keys() - ours.keys()]
    wrong += [f"not torch's: {key}" for key in ours.keys() - theirs.keys()]
    for key in theirs.keys() & ours.keys():
        for column, mine in TIMES.items():
            if abs(theirs[key][column] - ours[key][mine] / 1000) > SUM_ERROR_US:
                wrong.append(f"{key} {column}: {theirs[key][column]}, ours {ours[key][mine]} ns")
        for column, mine in EXACT.items():
            if theirs[key][column] != ours[key][mine]:
                wrong.append(f"{key} {column}: {theirs[key][column]}, ours {ours[key][mine]}")
    assert not wrong, "\n".join(wrong[:30])


def test_by_name(recorded):
    prof, path = recorded
    compare(pooled_torch(prof.key_averages(), False), pooled_ours(report(path)["operators"], False))


def test_by_shape(recorded):
    prof, path = recorded
    rows = report("--group-by", "shape", path)["operators"]
    compare(
        pooled_torch(prof.key_averages(group_by_input_shape=True), True), pooled_ours(rows, True)
    )


def test_the_cases_hold_what_they_are_for(recorded):
    """FLOPs, memory and times are there, or the comparison would prove nothing."""
    prof, _ = recorded
    rows = prof.key_averages()
    assert any(row.cpu_memory_usage for row in rows)
    assert any(row.self_cpu_time_total for row in rows)
    if any(row.key in ("aten::mm", "aten::addmm", "aten::add") for row in rows):
        assert any(row.flops for row in rows)
