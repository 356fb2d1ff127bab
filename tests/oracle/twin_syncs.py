"""Waits and copies a second time: docs/analyses/syncs.md."""

import re

from twin_intervals import intersect, length, union
from twin_read import WORK

SYNC = re.compile(r"Synchronize|QueueFinish|EventWait")


def is_sync(name):
    is_copy = "emcpy" in name and "Async" not in name and "Node" not in name
    return is_copy or bool(SYNC.search(name))


def calls_of(source):
    """[(cause, call)]: the outermost aten operator open when the call starts, or else."""
    threads = {}
    for event in source.of("op", "runtime", "driver"):
        threads.setdefault((event.pid, event.tid), []).append(event)
    out = []
    for rows in threads.values():
        open_rows = []
        for row in sorted(rows, key=lambda e: (e.start, -e.end, e.order)):
            open_rows = [e for e in open_rows if e.end > row.start]
            if row.kind == "op":
                open_rows.append(row)
                continue
            aten = [e for e in open_rows if e.name.startswith("aten::")]
            out.append(((aten[:1] or open_rows[-1:] or [row])[0], row))
    return out


def syncs(sources):
    out = {}
    seen = set()
    for source in sources:
        busy = union((e.start, e.end) for e in source.of(*WORK))
        for operator, call in calls_of(source):
            if not is_sync(call.name):
                continue
            row = out.setdefault(
                (source.rank, operator.name, call.name),
                {"count": 0, "wait_ns": 0, "total_ns": 0, "operator_ns": 0},
            )
            near = [b for b in busy if b[1] > call.start and b[0] < call.end]
            row["count"] += 1
            if (key := (source.rank, operator.name, call.name, id(operator))) not in seen:
                seen.add(key)
                row["operator_ns"] += operator.dur
            row["wait_ns"] += length(intersect([(call.start, call.end)], near))
            row["total_ns"] += call.dur
    return out


def copy_sites(sources):
    out = {}
    seen = set()
    for source in sources:
        copies = {}
        for event in source.of("memcpy"):
            copies.setdefault(event.args.get("correlation"), []).append(event)
        for operator, call in calls_of(source):
            if not re.search("emcpy|GraphLaunch", call.name):
                continue
            for copy in copies.get(call.args.get("correlation", "none"), []):
                kind = copy.name.removeprefix("Memcpy ")
                row = out.setdefault(
                    (source.rank, operator.name, call.name, kind),
                    {"count": 0, "bytes": 0, "device_ns": 0, "total_ns": 0, "operator_ns": 0},
                )
                row["count"] += 1
                key = (source.rank, operator.name, call.name, kind, id(operator))
                if key not in seen:
                    seen.add(key)
                    row["operator_ns"] += operator.dur
                row["bytes"] += int(copy.args.get("bytes", 0))
                row["device_ns"] += copy.dur
                row["total_ns"] += call.dur
    return out
