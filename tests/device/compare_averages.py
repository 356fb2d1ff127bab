#!/usr/bin/env python3
"""Holds a report's operators and kernels against torch's own key_averages of the same profile.

    compare_averages.py KSCOPE DIR

For each DIR/X.averages.json.gz (record_averages.py) reports on DIR/X.pt.trace.json.gz, by name and
by input shape. Torch's host rows are `operators[]`, its GPU rows `kernels[]`; rows of one key are
added up. Counts, bytes and FLOPs are equal, times within a nanosecond and the rounding of torch's
floating sums. Not compared: GPU rows of annotations, which are spans and not work, and rows of the
profiler itself. Torch takes each of the latter for a child of what ran on the first thread, and
hands some the kernels of an operator once more: where a trace holds such rows our self time may be
larger, and our GPU time smaller, by up to their sum; such rows count as explained. With Python
stacks, torch 2.13 (not 2.11) counts Python functions as rows and as children: they are no operators
of ours, so in such a profile they are left out, and the self columns of the other rows too.

The last line is `rows_equal N/M explained E`; the exit status is 0 when N + E = M > 0.
"""

import gzip
import json
import pathlib
import re
import subprocess
import sys
from collections import Counter, defaultdict

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
OF_PROFILER = {
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
STEP = re.compile(r"ProfilerStep#\d+$")
WORST_SHOWN = 5


def load(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def report(kscope, trace, *options):
    command = [kscope, "report", "--json", "--all-rows", *options, trace]
    result = subprocess.run(command, capture_output=True, timeout=120, check=False)
    if result.returncode:
        text = result.stderr.decode(errors="replace").strip()[-300:]
        raise RuntimeError(f"exit {result.returncode}: {text}")
    return json.loads(result.stdout)


def torch_rows(oracle, is_gpu, columns, with_shapes):
    out = defaultdict(Counter)
    for row in oracle:
        is_work = not row["is_user"] if is_gpu else row["key"] not in OF_PROFILER
        if row["dev_type"].endswith("CUDA") == is_gpu and is_work:
            key = (row["key"], row["shapes"]) if with_shapes else (row["key"],)
            for column in columns:
                out[key][column] += row[column]
    return out


def our_rows(rows, columns, with_shapes):
    out = defaultdict(Counter)
    for row in rows:
        name = "ProfilerStep*" if STEP.match(row["name"]) else row["name"]
        key = (name, row.get("input_shapes") or "[]") if with_shapes else (name,)
        for column, (mine, _) in columns.items():
            out[key][column] += row.get(mine) or 0
    return out


def differences(torch_row, our_row, columns):
    """[(column, torch, ours)]"""
    out = []
    for column, (_, unit) in columns.items():
        theirs, ours = torch_row[column], our_row[column] / unit
        tolerance = 1e-3 + 1e-9 * abs(theirs) if unit == 1000 else 0
        if abs(ours - theirs) > tolerance:
            out.append((column, theirs, ours))
    return out


def is_explained(bad, oracle):
    own = [r for r in oracle if r["key"] in OF_PROFILER and r["dev_type"].endswith("CPU")]
    host_us, device_us = (sum(row[column] for row in own) for column in ("cpu", "self_dev"))
    room = {"self_cpu": (0, host_us), "dev": (-device_us, 0), "self_dev": (-device_us, 0)}
    return all(
        column in room and room[column][0] - 1e-3 <= ours - theirs <= room[column][1] + 1e-3
        for column, theirs, ours in bad
    )


def python_functions(trace):
    events = load(trace)["traceEvents"]
    return {event["name"] for event in events if event.get("cat") == "python_function"}


def compare_side(oracle, doc_rows, is_gpu, with_shapes, wrong):
    columns = GPU if is_gpu else HOST
    if any(row["is_python"] for row in oracle):
        columns = {c: mine for c, mine in columns.items() if is_gpu or not c.startswith("self_")}
        oracle = [row for row in oracle if not row["is_python"]]
    theirs = torch_rows(oracle, is_gpu, columns, with_shapes)
    ours = our_rows(doc_rows, columns, with_shapes)
    count = Counter(all=len(theirs))
    for key, row in theirs.items():
        bad = differences(row, ours[key], columns) if key in ours else [("row", 1, 0)]
        if not bad:
            count["equal"] += 1
        elif is_explained(bad, oracle):
            count["explained"] += 1
        else:
            wrong += [f"{' '.join(key)[:90]}: {c}: torch {t}, ours {o}" for c, t, o in bad]
    extra = [key for key in ours if key not in theirs]
    count["all"] += len(extra)  # rows that torch does not have are as wrong as missing ones
    wrong += [f"{' '.join(key)[:90]}: torch has no such row" for key in extra]
    return count


def compare_trace(kscope, base):
    """Counts of rows, and a sentence for each that differs."""
    averages = load(f"{base}.averages.json.gz")
    trace = f"{base}.pt.trace.json.gz"
    python_names = python_functions(trace)
    for row in averages["by_name"] + averages["by_shape"]:
        row["is_python"] = row["key"] in python_names and row["dev_type"].endswith("CPU")
    wrong = []
    by_name = report(kscope, trace)
    by_shape = report(kscope, trace, "--group-by", "shape")
    count = compare_side(averages["by_name"], by_name["operators"], False, False, wrong)
    count += compare_side(averages["by_name"], by_name["kernels"], True, False, wrong)
    count += compare_side(averages["by_shape"], by_shape["operators"], False, True, wrong)
    return count, wrong


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: compare_averages.py KSCOPE DIR")
    kscope, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    total = Counter()
    has_failed = False
    for path in sorted(folder.glob("*.averages.json.gz")):
        name = path.name.removesuffix(".averages.json.gz")
        try:
            count, wrong = compare_trace(kscope, str(folder / name))
        except (RuntimeError, ValueError, OSError, subprocess.TimeoutExpired) as failure:
            print(f"{name}: {failure}")
            has_failed = True
            continue
        total += count
        print(f"{name}: rows {count['all']} equal {count['equal']} explained {count['explained']}")
        for line in wrong[:WORST_SHOWN]:
            print(f"    {line}")
        if len(wrong) > WORST_SHOWN:
            print(f"    and {len(wrong) - WORST_SHOWN} more")
    print(f"rows_equal {total['equal']}/{total['all']} explained {total['explained']}")
    good = total["equal"] + total["explained"]
    return 1 if has_failed or not total["all"] or good != total["all"] else 0


if __name__ == "__main__":
    sys.exit(main())
