"""Operators and kernels are equal to what torch's own key_averages printed of the same profile."""

import gzip
import json
import re
from collections import Counter, defaultdict

import pytest
from kscope_program import DATA, report

AVERAGES = sorted(p.name.removesuffix(".averages.json.gz") for p in DATA.glob("*.averages.json.gz"))
HOST = {
    "count": ("calls", 1),
    "self_cpu": ("self_cpu_ns", 1000),
    "cpu": ("cpu_ns", 1000),
    "self_dev": ("self_device_ns", 1000),
    "dev": ("device_ns", 1000),
    "self_cpu_mem": ("self_cpu_bytes", 1),
    "self_dev_mem": ("self_device_bytes", 1),
    "flops": ("flops", 1),
}
GPU = {"count": ("calls", 1), "self_dev": ("total_ns", 1000)}
ONLY_WITH = {
    "self_cpu_mem": "profile_memory",
    "self_dev_mem": "profile_memory",
    "flops": "with_flops",
}
# Torch adds floating microseconds; its sums are off in the last digits.
SUM_ERROR = 1e-9
# Rows of the profiler itself: we count their time as overhead.
OVERHEAD = {
    "Activity Buffer Request",
    "Buffer Flush",
    "Command Buffer Full",
    "Driver Compiler",
    "Instrumentation",
    "Lazy Function Loading",
    "Overhead",
    "Resource",
    "Runtime Triggered Module Loading",
    "Unknown",
}


def load(name):
    with gzip.open(DATA / f"{name}.averages.json.gz", "rt", encoding="utf-8") as f:
        return json.load(f)


def switches(name):
    """Text around traceEvents, and whether the profiler wrote rows about itself."""
    with gzip.open(DATA / f"{name}.pt.trace.json.gz", "rt", encoding="utf-8") as f:
        text = f.read()
    return text.partition('"traceEvents"')[0], '"cat": "overhead"' in text


def pooled(rows, columns, with_shapes):
    """{(name[, shapes]): sums}"""
    out = defaultdict(Counter)
    for row in rows:
        key = (row["name"], row["input_shapes"] or "[]") if with_shapes else (row["name"],)
        for column, _ in columns.values():
            out[key][column] += row[column] or 0
    return out


def torch_rows(rows, is_gpu, with_shapes):
    """The rows that describe work, by the same key; several of one key are added up."""
    out = defaultdict(Counter)
    for row in rows:
        if row["dev_type"].endswith("CUDA") != is_gpu or (is_gpu and row["is_user"]):
            continue
        if not is_gpu and row["key"] in OVERHEAD:
            continue
        key = (row["key"], row["shapes"]) if with_shapes else (row["key"],)
        for column in GPU if is_gpu else HOST:
            out[key][column] += row[column]
    return out


def differing(theirs, ours, columns, head):
    """[(column, torch, ours)]"""
    out = []
    for column, (mine, unit) in columns.items():
        if column in ONLY_WITH and ONLY_WITH[column] not in head:
            continue
        value = ours[mine] / unit
        tolerance = SUM_ERROR * max(1, abs(theirs[column])) if unit == 1000 else 0
        if abs(value - theirs[column]) > tolerance:
            out.append((column, theirs[column], value))
    return out


def is_explained(bad, oracle):
    """Torch takes each overhead row for a child on the first thread, and hands some the kernels of
    an operator once more; so with such rows our own time may be larger and our GPU time smaller."""
    overhead = [r for r in oracle if r["key"] in OVERHEAD and r["dev_type"].endswith("CPU")]
    host_us, device_us = (sum(r[c] for r in overhead) for c in ("cpu", "self_dev"))
    room = {"self_cpu": (0, host_us), "dev": (-device_us, 0), "self_dev": (-device_us, 0)}
    return all(
        column in room and room[column][0] - 1e-3 <= ours - theirs <= room[column][1] + 1e-3
        for column, theirs, ours in bad
    )


def check(name, doc_rows, grouping, columns, is_gpu=False):
    oracle = load(name)[grouping]
    head, has_overhead = switches(name)
    with_shapes = grouping == "by_shape"
    ours = pooled(doc_rows, columns, with_shapes)
    theirs = torch_rows(oracle, is_gpu, with_shapes)
    assert theirs, "nothing to compare"
    wrong = [f"missing: {key}" for key in theirs if key not in ours]
    wrong += [f"not torch's: {key}" for key in ours if key not in theirs]
    for key in theirs.keys() & ours.keys():
        bad = differing(theirs[key], ours[key], columns, head)
        if bad and not (has_overhead and is_explained(bad, oracle)):
            wrong += [f"{key} {column}: torch {t}, ours {o}" for column, t, o in bad]
    assert not wrong, "\n".join(wrong[:20])


@pytest.mark.parametrize("name", AVERAGES)
def test_by_name(name):
    doc = report(DATA / f"{name}.pt.trace.json.gz")
    check(name, doc["operators"], "by_name", HOST)
    check(name, doc["kernels"], "by_name", GPU, is_gpu=True)


@pytest.mark.parametrize("name", AVERAGES)
def test_by_shape(name):
    doc = report("--group-by", "shape", DATA / f"{name}.pt.trace.json.gz")
    check(name, doc["operators"], "by_shape", HOST)


def test_rows_are_torchs_rows_not_ours():
    """The oracle holds rows with times, bytes and FLOPs, or the comparison would prove nothing."""
    rows = load("A.no_grad.bad")["by_name"]
    for column in ("cpu", "self_dev", "self_dev_mem", "flops"):
        assert any(row[column] for row in rows)
    assert any(re.match("aten::", row["key"]) for row in rows)
