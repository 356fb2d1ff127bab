"""Goal: times of modules in a report are those that hooks on the same modules measure in the same
run. Method: a deep model with a shared module, a module that calls itself, and checkpoints of both
kinds, whose leaves rest for known times; the trace's frames against the hooks, and the recording of
the hooks against what they say themselves."""

import json
import os
import pathlib
import subprocess
from collections import defaultdict

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

pytestmark = pytest.mark.torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))
STEPS = 2


class Nap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, naps, seconds):
        naps.take("forward", seconds)
        ctx.rest = naps, seconds
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        naps, seconds = ctx.rest
        _ = ctx.saved_tensors  # a checkpoint computes anew here
        naps.take("backward", 2 * seconds)
        return grad.clone(), None, None


class Leaf(nn.Module):
    def __init__(self, naps, seconds):
        super().__init__()
        self.naps, self.seconds = naps, seconds
        self.linear = nn.Linear(64, 64)

    def forward(self, x):
        return Nap.apply(self.linear(x), self.naps, self.seconds)


def named(base, name):
    """A class of its own for each module, so that frames tell modules apart by it."""
    return type(name, (base,), {})


class Block(nn.Module):
    def __init__(self, *parts):
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(self, x):
        inner = x
        for part in self.parts:
            inner = part(inner)
        return x + inner


class Recursive(nn.Module):
    def __init__(self, leaf):
        super().__init__()
        self.leaf = leaf

    def forward(self, x, left=2):
        x = self.leaf(x)
        return self(x, left - 1) if left else x


class Checkpointed(nn.Module):
    def __init__(self, block, is_reentrant):
        super().__init__()
        self.block, self.is_reentrant = block, is_reentrant

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=self.is_reentrant)


def make_model(naps):
    def leaf(number):
        return named(Leaf, f"Leaf{number}")(naps, 0.004 + 0.001 * number)

    shared = leaf(0)
    inner = named(Block, "Inner")(leaf(1), named(Block, "Deep")(leaf(2), shared))
    first = named(Block, "First")(inner, shared)
    again = named(Checkpointed, "Again")(named(Block, "AgainBlock")(leaf(3), leaf(4)), False)
    reentrant = named(Checkpointed, "Reentrant")(named(Block, "ReentrantBlock")(leaf(5)), True)
    itself = named(Recursive, "Itself")(leaf(6))
    return named(nn.Sequential, "Whole")(first, again, reentrant, itself)


def report(*paths):
    command = [PROGRAM, "report", "--json", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout)


def train(model, step_done=lambda: None):
    x = torch.randn(8, 64, requires_grad=True)
    for _ in range(STEPS):
        model.zero_grad()
        model(x).sum().backward()
        step_done()


def summed(rows, column):
    total = defaultdict(int)
    for row in rows:
        total[row["class"]] += row[column]
    return total


def is_near(ours_ns, seconds, calls):
    """Within 5 %, or what the profiler adds to the hooks themselves."""
    return abs(ours_ns / 1e9 - seconds) <= max(0.05 * seconds, 0.0003 * calls)


def forward_differences(doc, times):
    calls, forward = (summed(doc["modules"], c) for c in ("calls", "forward_ns"))
    return [
        (name, forward[name], by_way["forward"]["total"])
        for name, by_way in times.items()
        if not is_near(forward[name], by_way["forward"]["total"], calls[name])
    ]


def backward_differences(doc, times):
    """A reentrant checkpoint runs a backward pass inside of one node: hooks on what it holds see
    the pass of what was computed anew, and nothing of the node."""
    out = []
    for name, by_way in times.items():
        rows = [row for row in doc["modules"] if row["class"] == name]
        ours, hooks = sum(row["backward_ns"] for row in rows), by_way["backward"]
        if name != "Reentrant" and not is_near(ours, hooks["total"], hooks["count"]):
            out.append((name, ours, hooks["total"]))
    return out


@pytest.fixture(scope="module")
def measured(ks, tmp_path_factory):
    """Rows of the report, and the times of the hooks by class. A machine that others use stops a
    program between the clock of a hook and that of a frame, so it is tried three times."""
    folder = tmp_path_factory.mktemp("modules")
    for number in range(3):
        doc, times = measure(ks, folder / f"{number}.json")
        if not forward_differences(doc, times) + backward_differences(doc, times):
            break
    return doc, times


def measure(ks, path):
    from naps import Naps

    model = make_model(Naps())
    train(model)
    with ks.TorchProfilingHooks() as hooks:
        hooks.register_model_hooks(model)
        with profile(activities=[ProfilerActivity.CPU], with_stack=True) as prof:
            train(model)
    prof.export_chrome_trace(str(path))
    classes = {name or "Whole": type(module).__name__ for name, module in model.named_modules()}
    times = {classes[label]: times for label, times in hooks.get_times().items()}
    return report(path), {name: times[name] for name in times if name != "Linear"}


def test_forward_is_what_hooks_measure(measured):
    doc, times = measured
    calls = summed(doc["modules"], "calls")
    assert len(times) >= 16
    assert {name: calls[name] for name in times} == {
        name: by_way["forward"]["count"] for name, by_way in times.items()
    }
    assert not forward_differences(doc, times)


def test_backward_is_what_hooks_measure(measured):
    assert not backward_differences(*measured)


def test_a_module_that_calls_itself_is_a_row_for_each_depth(measured):
    doc, _ = measured
    rows = [row for row in doc["modules"] if row["class"] == "Itself"]
    assert [row["depth"] for row in rows] == [1, 2, 3]
    assert [row["calls"] for row in rows] == [STEPS] * 3
    assert rows[0]["backward_ns"] > rows[1]["backward_ns"] > rows[2]["backward_ns"]


def test_what_is_recomputed_stands_where_it_was_computed_first(measured):
    doc, _ = measured
    rows = {row["class"]: row for row in doc["modules"]}
    by_id = {row["id"]: row for row in doc["modules"]}
    for name in ("AgainBlock", "ReentrantBlock", "Leaf3", "Leaf4", "Leaf5"):
        assert rows[name]["calls"] == 2 * STEPS and rows[name]["recompute_calls"] == STEPS, name
        assert 0 < rows[name]["recompute_ns"] < rows[name]["forward_ns"]
    assert by_id[rows["AgainBlock"]["parent"]]["class"] == "Again"
    assert by_id[rows["ReentrantBlock"]["parent"]]["class"] == "Reentrant"
    assert rows["Leaf1"]["recompute_calls"] == 0
    # The nodes of what a reentrant checkpoint computes anew are its module's own.
    assert rows["Leaf5"]["backward_self_ns"] >= 2 * STEPS * 0.009e9


def test_a_tree_holds_together(measured):
    doc, _ = measured
    rows = doc["modules"]
    shared = [row for row in rows if row["class"] == "Leaf0"]
    assert len(shared) == 2 and {row["name"] for row in shared} == {"Leaf0_0"}
    for row in rows:
        children = [child for child in rows if child["parent"] == row["id"]]
        assert all(child["id"] > row["id"] for child in children)
        here = sum(child["forward_ns"] - child["recompute_ns"] for child in children)
        if row["recompute_calls"] > 0:
            here = sum(child["forward_ns"] for child in children)
        assert row["forward_self_ns"] == row["forward_ns"] - here
        inner = sum(child["backward_ns"] for child in children)
        assert row["backward_ns"] == row["backward_self_ns"] + inner


def test_a_recording_of_hooks_has_the_same_table(ks, tmp_path, naps):
    model = make_model(naps)
    ks.start_recording(tmp_path)
    with ks.TorchProfilingHooks() as hooks:
        hooks.register_model_hooks(model)
        train(model)
    path = ks.recording_path()
    ks.stop_recording()
    rows = report(path)["modules"]
    got = defaultdict(lambda: [0, 0, 0])
    for row in rows:
        assert row["source"] == "hooks" and row["forward_device_ns"] is None
        for i, column in enumerate(("calls", "forward_ns", "backward_ns")):
            got[row["name"]][i] += row[column]
    for label, by_way in hooks.get_times().items():
        calls, forward_ns, backward_ns = got[label]
        assert calls == by_way["forward"]["count"], label
        assert is_near(forward_ns, by_way["forward"]["total"], calls), label
        backward = by_way["backward"]
        assert is_near(backward_ns, backward["total"], max(backward["count"], 1)), label
    by_id = {row["id"]: row for row in rows}
    inner = next(row for row in rows if row["name"] == "0.parts.0")
    assert by_id[inner["parent"]]["name"] == "0"
