"""The report agrees with HolisticTraceAnalysis 0.5.0, once its choice of rows is made.

What HTA said about each trace is recorded in hta_recorded.json (bench/hta_probe.py, which
`make bench` repeats). HTA leaves out GPU work whose launch is not in the file or comes after the
last step, and takes every row with a stream for GPU work: also the host markers of Triton kernels,
whose time then counts twice. The same choice is made here before kscope reads the trace. Its own
rounding to whole microseconds moves each end of a row by less than one: with the rounding off the
figures must be equal but for its floating point.
"""

import gzip
import json
import pathlib
import zlib

import pytest
import trace_text
from kscope_program import DATA, report
from twin import STEP_NAME

RECORDED = json.loads((pathlib.Path(__file__).parent / "hta_recorded.json").read_text())
TRACES = sorted(RECORDED["traces"])
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")
# A double of 4e12 us is good to half a nanosecond, at either end of a row.
DOUBLE_ERROR_US = 0.001


def correlation(event):
    return event.get("args", {}).get("correlation")


def as_hta_takes_it(event):
    """A host marker of a Triton kernel becomes a kernel, as HTA sees it."""
    args = event.get("args", {})
    if event.get("cat") != "cpu_op" or "stream" not in args:
        return event
    place = {"cat": "kernel", "pid": 0, "tid": args["stream"]}
    return event | place | {"args": {"device": 0, "stream": args["stream"]}}


def as_hta_filters(trace):
    """The rows that HTA looks at."""
    events = trace["events"]
    steps = [e for e in events if e.get("cat") == "user_annotation" and STEP_NAME.match(e["name"])]
    end = max(e["ts"] + e["dur"] for e in steps)
    known = {correlation(e) for e in events if e.get("cat") in CALLS and e["ts"] <= end}
    kept = [e for e in events if e.get("cat") not in WORK or correlation(e) in known]
    return trace | {"events": [as_hta_takes_it(e) for e in kept]}


def short(name):
    return name if len(name) <= 72 else f"{name[:60]}~{zlib.crc32(name.encode()):08x}"


@pytest.fixture(scope="module", params=TRACES)
def pair(request, tmp_path_factory):
    """What HTA recorded, and the report on the same rows."""
    data = gzip.decompress((DATA / request.param).read_bytes())
    trace = as_hta_filters(trace_text.from_json(data))
    path = tmp_path_factory.mktemp("hta") / "filtered.json"
    path.write_bytes(trace_text.render(trace, "two-line"))
    return RECORDED["traces"][request.param], report(path)


def temporal_of(device):
    span, idle, compute = (device[k] / 1000 for k in ("span_ns", "idle_ns", "compute_ns"))
    return {
        "kernel_time": span,
        "idle_time": idle,
        "compute_time": compute,
        "non_compute_time": span - idle - compute,
    }


def kernel_sums(doc):
    sums = {}
    for row in doc["kernels"]:
        name = short(row["name"])
        total, calls = sums.get(name, (0, 0))
        sums[name] = (total + row["total_ns"] / 1000, calls + row["calls"])
    return sums


def close(theirs, ours, tolerance):
    return {k: (theirs[k], ours[k]) for k in theirs if abs(theirs[k] - ours[k]) > tolerance}


@pytest.mark.parametrize(("mode", "error_us"), (("exact", DOUBLE_ERROR_US), ("rounded", 1)))
def test_temporal_breakdown(pair, mode, error_us):
    recorded, doc = pair
    (device,) = doc["devices"]
    theirs = recorded[mode]["temporal"]
    if "error" in theirs:
        # Its rounding makes rows of -1 us, and it stops when they outweigh the copies.
        assert (mode, theirs["error"]) == ("rounded", "AssertionError")
        return
    ours = temporal_of(device)
    tolerance = 2 * error_us * device["work_count"]
    assert not close(theirs, ours, tolerance)


@pytest.mark.parametrize(("mode", "error_us"), (("exact", DOUBLE_ERROR_US), ("rounded", 1)))
def test_kernel_times(pair, mode, error_us):
    recorded, doc = pair
    theirs, ours = recorded[mode]["kernels"], kernel_sums(doc)
    assert theirs.keys() == ours.keys()
    for name, (total, calls) in ours.items():
        assert abs(theirs[name] - total) <= 2 * error_us * calls, name


def test_overlap_of_communication_and_computing(pair):
    recorded, doc = pair
    (device,) = doc["devices"]
    theirs = recorded["exact"]["overlap"]
    if theirs is None:
        assert device["comm_ns"] == 0
        return
    hidden = device["comm_ns"] - device["exposed_comm_ns"]
    assert abs(theirs - 100 * hidden / device["comm_ns"]) <= 0.005  # it prints two decimals


def test_recorded_by_the_version_we_name():
    assert RECORDED["versions"]["HolisticTraceAnalysis"] == "0.5.0"
    assert len(TRACES) >= 10
