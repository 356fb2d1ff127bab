"""Goal: the causes of idle time add up to it, to the ns, and none is negative. Method: every trace
of tests/data, and every one of the folder that KSCOPE_TEST_CORPUS names; and a report in which one
ns of a cause is missing, which must show."""

import json
import lzma
import os
import pathlib

import agreement
import pytest
import trace_random
import trace_text
from kscope_program import DATA, report
from twin import Twin

CORPUS = os.environ.get("KSCOPE_TEST_CORPUS")
FOLDERS = [DATA, *([pathlib.Path(CORPUS)] if CORPUS else [])]
TRACES = sorted(p for folder in FOLDERS for p in folder.glob("*.pt.trace.json*"))
SEEDS = range(400 if os.environ.get("KSCOPE_TEST_SLOW") else 40)
TOTALS = (("devices", "idle_ns"), ("streams", "gap_ns"), ("steps", "idle_ns"))


def unpacked(path, folder):
    if path.suffix != ".xz":
        return path
    out = folder / path.stem
    out.write_bytes(lzma.decompress(path.read_bytes()))
    return out


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_causes_add_up(path, tmp_path):
    doc = report(unpacked(path, tmp_path))
    wrong = agreement.holds_together(doc)
    assert not wrong, "\n".join(wrong[:20])
    assert any(row["idle_ns"] > 0 for row in doc["steps"]), "a trace without any idle time"


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_waits(seed, tmp_path):
    """Equal to the twin where the host waits for all kinds of things."""
    paths = []
    for index, trace in enumerate(trace_random.draw_waits(seed)):
        paths.append(tmp_path / f"{index}.json")
        whole_us = trace["plan"].unit_ns == 1000
        paths[-1].write_bytes(trace_text.render(trace, "compact", whole_us))
    doc = report(*paths)
    wrong = agreement.idle(doc, Twin(paths)) + agreement.holds_together(doc)
    assert not wrong, "\n".join(wrong[:20])


WAIT_US = 5000
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
# What is open on the thread while the device waits: (category, name) from the outside in.
OPEN = {
    "data": [("user_annotation", LOADER), ("cpu_op", "aten::stack")],
    "sync": [("cuda_runtime", "cudaStreamSynchronize")],
    "host_code": [("user_annotation", "forward")],
    "launch": [("cpu_op", "aten::unique")],
    "allocator": [("cpu_op", "aten::empty"), ("cuda_runtime", "cudaMalloc")],
    "collective": [("user_annotation", "gloo:all_reduce")],
    "kernel_to_kernel": [],
    "profiler": [("overhead", "Buffer Flush")],
    "unknown": [],
}


def waiting_step(cause, number, at):
    """A step whose device works for 1 ms, waits, works for 1 ms, and that ends with it."""

    def row(cat, name, start, dur, **args):
        event = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": start, "dur": dur}
        return event | {"args": args}

    def kernel(start, corr):
        args = {"device": 0, "stream": 7, "correlation": corr}
        return row("kernel", "gemm", start, 1000, **args) | {"pid": 0, "tid": 7}

    begin, end = at + 1010, at + 1010 + WAIT_US
    launched = at + 5 if cause == "kernel_to_kernel" else end - 3
    corr = 1 if cause == "unknown" else 2 * number + 1
    return [
        row("user_annotation", f"ProfilerStep#{number}", at, WAIT_US + 2010),
        row("cuda_runtime", "cudaLaunchKernel", at, 2, correlation=2 * number),
        kernel(at + 10, 2 * number),
        *[row(cat, name, begin + 5, WAIT_US - 10) for cat, name in OPEN[cause]],
        row("cuda_runtime", "cudaLaunchKernel", launched, 2, correlation=2 * number + 1),
        kernel(end, corr),
    ]


@pytest.mark.parametrize("cause", OPEN)
def test_planted_wait(cause, tmp_path):
    """A wait of 5 ms in each step is found as such, within 100 us."""
    steps = range(2, 5)
    rows = [row for n in steps for row in waiting_step(cause, n, n * (WAIT_US + 2010))]
    path = tmp_path / "planted.pt.trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": rows}))
    doc = report(path)
    assert len(doc["steps"]) == len(steps)
    for step in doc["steps"]:
        assert abs(step["idle_by_cause_ns"][cause] - WAIT_US * 1000) <= 100_000
        assert step["idle_ns"] == (WAIT_US + 10) * 1000
    for row, count in ((doc["devices"][0], len(steps)), (doc["streams"][0], len(steps))):
        assert abs(row["idle_by_cause_ns"][cause] - count * WAIT_US * 1000) <= count * 100_000


@pytest.mark.parametrize(("key", "total"), TOTALS)
def test_missing_nanosecond_shows(key, total):
    doc = report(DATA / "A.churn.bad.pt.trace.json.gz")
    assert not agreement.holds_together(doc)
    doc[key][0]["idle_by_cause_ns"]["launch"] -= 1
    assert agreement.holds_together(doc), total


def test_step_filter_changes_no_step():
    """What a step waited for does not depend on which others are shown."""
    path = DATA / "A.dataloader.bad.pt.trace.json.gz"
    whole, some = report(path), report("--step", "3..4", path)
    key = "idle_by_cause_ns"
    causes = {step["number"]: step[key] for step in whole["steps"]}
    assert len(some["steps"]) == 2
    for step in some["steps"]:
        assert step["idle_ns"] == sum(step[key].values())
        assert step[key]["data"] == causes[step["number"]]["data"]
    for row, total in (("devices", "idle_ns"), ("streams", "gap_ns")):
        assert all(sum(one[key].values()) == one[total] for one in some[row])


def test_other_device_filter():
    """A filter for a device that is not there leaves no device rows, and all of the step idle."""
    doc = report("--device", "7", DATA / "A.churn.bad.pt.trace.json.gz")
    assert doc["devices"] == [] and not agreement.holds_together(doc)
    assert all(step["idle_ns"] == step["dur_ns"] for step in doc["steps"])
