"""Goal: the queries of docs/query.md run, and say what the report says. Method: each is run on real
traces and its rows are compared with the report's own numbers; a query without a check fails."""

import functools
import gzip
import json
from collections import defaultdict

import pytest
from query_program import TRACES, ready_queries, report, rows

QUERIES = ready_queries()
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
KINDS = {"kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset"}


@functools.cache
def report_of(trace):
    return report(TRACES[trace])


def ask(title, trace, change=lambda sql: sql):
    return rows(TRACES[trace], change(QUERIES[title]))


def without_limit(sql):
    assert "limit 20" in sql
    return sql.replace("limit 20", "")


def check_kernels(trace, title):
    expected = defaultdict(lambda: [0, 0, 0])
    for kernel in report_of(trace)["kernels"]:
        sums = expected[kernel["name"], kernel["kind"]]
        sums[0] += kernel["calls"]
        sums[1] += kernel["total_ns"]
        sums[2] = max(sums[2], kernel["max_ns"])
    found = ask(title, trace)
    assert {
        (row["name"], KINDS[row["category"]]): [row["calls"], row["total_ns"], row["max_ns"]]
        for row in found
    } == dict(expected)
    assert [row["total_ns"] for row in found] == sorted(
        (row["total_ns"] for row in found), reverse=True
    )


def check_gaps(trace, title):
    idle_ns = sum(device["idle_ns"] for device in report_of(trace)["devices"])
    found = ask(title, trace, without_limit)
    assert sum(row["gap_ns"] for row in found) == idle_ns
    assert ask(title, trace) == found[:20]


def check_launches(trace, title):
    launches = sum(row["launches"] for row in ask(title, trace))
    assert launches == report_of(trace)["links"]["launches_without_work"]


def check_steps(trace, title):
    steps = report_of(trace)["steps"]
    expected = [
        {
            "number": step["number"],
            "rank": step["rank"],
            "complete": step["complete"],
            "dur_ns": step["dur_ns"],
            "host_ns": step["host_ns"],
            "idle_ns": step["idle_ns"],
            **{
                f"breakdown_ns_{role}": step["breakdown_ns"][role]
                for role in ("kernel", "memcpy", "cpu", "dataloader")
            },
        }
        for step in steps
    ]
    assert ask(title, trace) == sorted(
        expected, key=lambda step: (-1 if step["rank"] is None else step["rank"], step["number"])
    )


def check_operators_in_steps(trace, title):
    """By hand: all operators are read once, and counted by the steps of the report."""
    operators = rows(TRACES[trace], "select ts_ns, dur_ns from slice where category = 'cpu_op'")
    for row in ask(title, trace):
        step = next(
            step
            for step in report_of(trace)["steps"]
            if (step["number"], step["rank"]) == (row["number"], row["rank"])
        )
        begin, end = step["host_start_ns"], step["host_start_ns"] + step["host_ns"]
        inside = [op["dur_ns"] for op in operators if begin <= op["ts_ns"] < end]
        assert (row["operators"], row["dur_ns"]) == (len(inside), sum(inside))


def check_delays(trace, title):
    (row,) = ask(title, trace)
    links = report_of(trace)["links"]
    too_early = links["gpu_before_launch"]
    assert row["launches"] == links["launches"] - links["launches_without_work"] - too_early
    assert (row["min_ns"], row["max_ns"]) == (links["delay_ns"]["min"], links["delay_ns"]["max"])


def check_copies(trace, title):
    expected = defaultdict(lambda: [0, 0])
    for kernel in report_of(trace)["kernels"]:
        if kernel["kind"] == "memcpy":
            expected[kernel["name"]][0] += kernel["calls"]
            expected[kernel["name"]][1] += kernel["total_ns"]
    found = ask(title, trace)
    assert {row["name"]: [row["calls"], row["total_ns"]] for row in found} == dict(expected)
    sizes = {copy["kind"]: copy["bytes"] for copy in report_of(trace)["copies"]}
    for row in found:
        assert sizes[row["name"].removeprefix("Memcpy ")] == row["bytes"]


def check_calls(trace, title):
    expected = {
        operator["name"]: (operator["calls"], operator["cpu_ns"])
        for operator in report_of(trace)["operators"]
        if operator["kind"] == "runtime"
    }
    found = {row["name"]: (row["calls"], row["total_ns"]) for row in ask(title, trace)}
    assert found == expected


def check_threads(trace, title):
    found = ask(title, trace)
    (total,) = rows(TRACES[trace], "select count(*) as n from slice")
    assert sum(row["events"] for row in found) == total["n"]
    assert all(row["kind"] in ("thread", "async", "process") for row in found)


def memory_of(path):
    """Peaks by device, from the text of the file."""
    peaks = {}
    for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]:
        args = event.get("args", {})
        if event.get("name") == "[memory]" and args["Device Id"] >= 0:
            peak = peaks.setdefault(args["Device Id"], [0, 0])
            peak[0] = max(peak[0], args["Total Allocated"])
            peak[1] = max(peak[1], args["Total Reserved"])
    return peaks


def check_memory(trace, title):
    (path, *_) = TRACES[trace]
    found = ask(title, trace)
    assert {
        row["device"]: [row["allocated_bytes"], row["reserved_bytes"]]
        for row in found
        if row["rank"] in (None, 0)
    } == memory_of(path)


def check_syncs(trace, title):
    expected = [
        (s["call"], s["count"], s["wait_ns"], s["where"]["operator"], s["where"]["file"])
        for s in report_of(trace)["syncs"]
    ]
    found = [tuple(row.values())[:5] for row in ask(title, trace)]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def check_findings(trace, title):
    expected = [
        (
            finding["id"],
            finding["title"],
            finding["saving_ns_per_step"]["low"],
            finding["saving_ns_per_step"]["high"],
            finding["confidence"],
            finding["fix"]["text"],
        )
        for finding in report_of(trace)["findings"]
    ]
    assert [tuple(row.values()) for row in ask(title, trace)] == expected


CHECKS = {
    "Time by kernel": check_kernels,
    "Largest gaps of a device": check_gaps,
    "Launches without work": check_launches,
    "Time of each step": check_steps,
    "Operators in each step": check_operators_in_steps,
    "From launch to start": check_delays,
    "Copies by kind": check_copies,
    "Calls of runtime and driver": check_calls,
    "Busy threads": check_threads,
    "Highest use of memory": check_memory,
    "What waits for the GPU, and where": check_syncs,
    "What was found": check_findings,
}


def test_each_query_has_a_check():
    assert set(CHECKS) == set(QUERIES)


@pytest.mark.parametrize("title", CHECKS)
def test_query(title):
    for trace in TRACES:
        CHECKS[title](trace, title)


@pytest.mark.parametrize("title", CHECKS)
def test_each_query_finds_something_somewhere(title):
    assert any(ask(title, trace) for trace in TRACES)
