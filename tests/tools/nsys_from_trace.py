#!/usr/bin/env python3
"""A trace of torch.profiler as the SQLite file that nsys export would have made of that run: its
kernels, copies, sets, synchronisations and calls, and annotations as NVTX ranges. Tables and
columns are those of the published schema; versions of the exporter differ in them (VARIANTS).

    nsys_from_trace.py TRACE.json[.gz|.xz]... OUT.sqlite    several traces: processes of one file
"""

import gzip
import json
import lzma
import pathlib
import re
import sqlite3
import sys
from decimal import Decimal

MEMORY_KINDS = [
    "Pageable",
    "Pinned",
    "Device",
    "Array",
    "Managed",
    "Device Static",
    "Managed Static",
]
DIRECTIONS = {"HtoD": 1, "DtoH": 2, "DtoD": 8, "HtoH": 9, "PtoP": 10}
SYNCS = {"Event Sync": 1, "Stream Wait Event": 2, "Stream Sync": 3, "Context Sync": 4}
PUSH_POP = 59

KERNEL = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER, "
    "greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
    "demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, "
    "launchType INTEGER, registersPerThread INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, "
    "blockX INTEGER, blockY INTEGER, blockZ INTEGER, staticSharedMemory INTEGER, "
    "dynamicSharedMemory INTEGER, graphNodeId INTEGER"
)
SCHEMA = {
    "StringIds": "id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL",
    "CUPTI_ACTIVITY_KIND_KERNEL": KERNEL,
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start INTEGER NOT NULL, end INTEGER NOT NULL, "
    "deviceId INTEGER NOT NULL, contextId INTEGER, streamId INTEGER NOT NULL, "
    "correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, "
    "deprecatedSrcId INTEGER, srcKind INTEGER, dstKind INTEGER, graphNodeId INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start INTEGER NOT NULL, end INTEGER NOT NULL, "
    "deviceId INTEGER NOT NULL, contextId INTEGER, streamId INTEGER NOT NULL, "
    "correlationId INTEGER, globalPid INTEGER, value INTEGER, bytes INTEGER NOT NULL, "
    "graphNodeId INTEGER, memKind INTEGER",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "start INTEGER NOT NULL, end INTEGER NOT NULL, "
    "deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, "
    "globalPid INTEGER, syncType INTEGER, eventId INTEGER",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER NOT NULL, end INTEGER NOT NULL, "
    "eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, "
    "returnValue INTEGER, callchainId INTEGER",
    "NVTX_EVENTS": "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, "
    "rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, "
    "endGlobalTid INTEGER, textId INTEGER, domainId INTEGER",
    "TARGET_INFO_GPU": "vmId INTEGER, id INTEGER, name TEXT, totalMemory INTEGER, "
    "smCount INTEGER, computeMajor INTEGER, computeMinor INTEGER",
    "TARGET_INFO_CUDA_DEVICE": "gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT, "
    "numMultiprocessors INTEGER",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs INTEGER, utcTime TEXT, localTime TEXT",
    "TARGET_INFO_SYSTEM_ENV": "globalVid INTEGER, devStateName TEXT, name TEXT, value TEXT",
    "PROCESSES": "globalPid INTEGER, pid INTEGER, name TEXT",
    "ThreadNames": "nameId INTEGER, priority INTEGER, globalTid INTEGER",
    "ENUM_CUDA_MEM_KIND": "id INTEGER, name TEXT, label TEXT",
    "OSRT_API": "start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER",
    "META_DATA_EXPORT": "name TEXT, value TEXT",
}

# What exporters of other ages wrote.
VARIANTS = {
    "new": {},
    # No process of kernels, no labels, no devices of processes, names without mangled ones.
    "old": {
        "without": {
            "CUPTI_ACTIVITY_KIND_KERNEL": {"globalPid", "mangledName", "greenContextId"},
            "CUPTI_ACTIVITY_KIND_MEMCPY": {"globalPid"},
            "CUPTI_ACTIVITY_KIND_MEMSET": {"globalPid"},
            "NVTX_EVENTS": {"textId", "endGlobalTid", "domainId"},
        },
        "missing": {"ENUM_CUDA_MEM_KIND", "TARGET_INFO_CUDA_DEVICE", "PROCESSES", "ThreadNames"},
    },
    "suffixed": {"suffix": {"NVTX_EVENTS": "_V2", "CUPTI_ACTIVITY_KIND_KERNEL": "_V3"}},
}


class Export:
    """An SQLite file that is filled row by row."""

    def __init__(self, path, variant="new"):
        self.variant = {"without": {}, "missing": set(), "suffix": {}, **VARIANTS[variant]}
        self.strings = {}
        pathlib.Path(path).unlink(missing_ok=True)
        self.db = sqlite3.connect(path)
        for table, columns in SCHEMA.items():
            if table not in self.variant["missing"]:
                kept = [c for c in columns.split(", ") if c.split()[0] not in self.without(table)]
                self.db.execute(f"CREATE TABLE {self.name(table)} ({', '.join(kept)})")

    def name(self, table):
        return table + self.variant["suffix"].get(table, "")

    def without(self, table):
        return self.variant["without"].get(table, set())

    def add(self, table, **values):
        if table in self.variant["missing"]:
            return
        kept = {key: value for key, value in values.items() if key not in self.without(table)}
        marks = ", ".join("?" * len(kept))
        self.db.execute(
            f"INSERT INTO {self.name(table)} ({', '.join(kept)}) VALUES ({marks})",
            list(kept.values()),
        )

    def string(self, text):
        if text not in self.strings:
            self.strings[text] = len(self.strings) + 1
            self.add("StringIds", id=self.strings[text], value=text)
        return self.strings[text]

    def close(self):
        self.db.commit()
        self.db.close()


def ns(microseconds):
    return int(Decimal(str(microseconds)) * 1000)


def global_id(pid, tid=0):
    return 0x01000000_00000000 | (pid & 0xFFFFFF) << 24 | tid & 0xFFFFFF


def load(path):
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(pathlib.Path(path).suffix, open)
    with opener(path, "rt") as file:
        return json.load(file, parse_float=Decimal)


def span(event):
    start = ns(event["ts"])
    return {"start": start, "end": start + ns(event.get("dur", 0))}


def place(event, pid):
    args = event["args"]
    return {
        "deviceId": args.get("device", 0),
        "streamId": args.get("stream", 0),
        "correlationId": args.get("correlation"),
        "globalPid": global_id(pid),
    }


def add_kernel(export, event, pid):
    args = event["args"]
    name = export.string(event["name"])
    grid = dict(zip(("gridX", "gridY", "gridZ"), args.get("grid", []), strict=False))
    block = dict(zip(("blockX", "blockY", "blockZ"), args.get("block", []), strict=False))
    export.add(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        **span(event),
        **place(event, pid),
        **grid,
        **block,
        demangledName=name,
        shortName=export.string(re.split(r"[<(]", event["name"])[0] or "kernel"),
        mangledName=None,
        registersPerThread=args.get("registers per thread"),
        staticSharedMemory=args.get("shared memory"),
        dynamicSharedMemory=0,
    )


def add_copy(export, event, pid):
    direction, source, target = re.match(r"Memcpy (\w+) \((.+) -> (.+)\)", event["name"]).groups()
    export.add(
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        **span(event),
        **place(event, pid),
        bytes=event["args"].get("bytes", 0),
        copyKind=DIRECTIONS[direction],
        srcKind=MEMORY_KINDS.index(source),
        dstKind=MEMORY_KINDS.index(target),
    )


def add_set(export, event, pid):
    kind = re.match(r"Memset \((.+)\)", event["name"])[1]
    export.add(
        "CUPTI_ACTIVITY_KIND_MEMSET",
        **span(event),
        **place(event, pid),
        value=0,
        bytes=event["args"].get("bytes", 0),
        memKind=MEMORY_KINDS.index(kind) if kind in MEMORY_KINDS else 99,
    )


def add_sync(export, event, pid):
    export.add(
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        **span(event),
        **place(event, pid),
        syncType=SYNCS.get(event["name"], 0),
    )


def add_call(export, event, pid):
    suffix = "_v7000" if event["name"].startswith("cuda") else ""
    export.add(
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        **span(event),
        eventClass=0,
        globalTid=global_id(event["pid"], event["tid"]),
        correlationId=event["args"].get("correlation"),
        nameId=export.string(event["name"] + suffix),
        returnValue=0,
    )


def add_range(export, event, pid):
    is_text = "textId" in export.without("NVTX_EVENTS")
    export.add(
        "NVTX_EVENTS",
        **span(event),
        eventType=PUSH_POP,
        text=event["name"] if is_text else None,
        textId=export.string(event["name"]),
        globalTid=global_id(event["pid"], event["tid"]),
    )


ADD = {
    "kernel": add_kernel,
    "gpu_memcpy": add_copy,
    "gpu_memset": add_set,
    "cuda_sync": add_sync,
    "cuda_runtime": add_call,
    "cuda_driver": add_call,
    "user_annotation": add_range,
}


def add_properties(export, trace, pid, is_first):
    if is_first:
        base = int(trace.get("baseTimeNanoseconds", 0))
        export.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=base)
        export.add("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value="3.20.0")
        for i, kind in enumerate(MEMORY_KINDS):
            export.add("ENUM_CUDA_MEM_KIND", id=i, name=kind.upper(), label=kind)
    export.add("PROCESSES", globalPid=global_id(pid), pid=pid, name="python3")
    export.add("ThreadNames", nameId=export.string("main"), globalTid=global_id(pid, pid))
    for gpu in trace.get("deviceProperties", []):
        if is_first:
            export.add(
                "TARGET_INFO_GPU",
                id=gpu["id"],
                name=gpu["name"],
                totalMemory=gpu["totalGlobalMem"],
                smCount=gpu["numSms"],
                computeMajor=gpu["computeMajor"],
                computeMinor=gpu["computeMinor"],
            )
        export.add("TARGET_INFO_CUDA_DEVICE", gpuId=gpu["id"], cudaId=gpu["id"], pid=pid)


def program_of(trace):
    """The process whose calls the trace has."""
    for event in trace["traceEvents"]:
        if event.get("cat") in ("cuda_runtime", "cuda_driver", "cpu_op"):
            return event["pid"]
    return 1


def add_trace(export, trace, is_first=True):
    pid = program_of(trace)
    add_properties(export, trace, pid, is_first)
    for event in trace["traceEvents"]:
        if event.get("ph") == "X" and event.get("cat") in ADD:
            ADD[event["cat"]](export, event, pid)


def convert(traces, path, variant="new"):
    export = Export(path, variant)
    for i, trace in enumerate(traces):
        add_trace(export, trace, is_first=i == 0)
    export.close()
    return path


def main():
    *traces, path = sys.argv[1:]
    convert([load(trace) for trace in traces], path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
