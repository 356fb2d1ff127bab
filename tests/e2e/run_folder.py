"""Folders of `kscope run` without torch: what the recorder would leave behind, made by hand.

The fake program below writes the same files as the recorder, by the same temporary names, at times
that a test chooses; so a test of the launcher takes no second longer than it must.
"""

import gzip
import json
import os
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KSCOPE = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))
TIMEOUT_S = 120
BASE_NS = 1_700_000_000_000_000_000


def environment(**more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KSCOPE_")}
    ours = {"KSCOPE_PYTHON": sys.executable, "KSCOPE_PYTHON_DIR": str(ROOT / "python")}
    return {**kept, **ours, **more}


def put_whole(path, data):
    """As the recorder does: nobody ever sees half a file."""
    temporary = f"{path}.tmp"
    with open(temporary, "wb") as file:
        file.write(data)
    os.replace(temporary, path)


def write_trace(
    folder, rank=0, pid=1, window=1, stacks=False, step_us=1000, before_ns=(), world=1, gpu_us=0
):
    """Six steps of `step_us`, with a kernel of `gpu_us` each that is waited for; windows of a
    process lie one second apart."""
    start = window * 1_000_000
    events = []
    for index in range(6):
        begin = start + index * step_us
        events.append(span(f"ProfilerStep#{index + 5}", "user_annotation", begin, step_us, pid))
        events.append(span("aten::mm", "cpu_op", begin + 10, step_us - 20, pid))
        if gpu_us:
            events += kernel(begin + 20, gpu_us, pid, index + 1)
            wait_us = step_us - 20 - 25
            events.append(span("cudaStreamSynchronize", "cuda_runtime", begin + 25, wait_us, pid))
    document = {
        "schemaVersion": 1,
        "baseTimeNanoseconds": BASE_NS,
        "distributedInfo": {"backend": "gloo", "rank": rank, "world_size": world},
        "kinetoscope": {
            "schema": "kinetoscope.window/1",
            "pid": pid,
            "rank": rank,
            "purpose": "stacks" if stacks else "times",
            "unprofiled_step_ns": list(before_ns),
        },
        "traceEvents": events,
    }
    name = f"rank{rank}.pid{pid}.window{window}{'.stacks' if stacks else ''}.pt.trace.json.gz"
    put_whole(os.path.join(folder, name), gzip.compress(json.dumps(document).encode()))
    return name


def span(name, category, ts, dur, pid):
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": pid, "ts": ts, "dur": dur}


def kernel(ts, dur, pid, number):
    call = span("cudaLaunchKernel", "cuda_runtime", ts, 5, pid)
    work = {**span("gemm", "kernel", ts + 10, dur, 0), "tid": 7}
    return [
        {**call, "args": {"correlation": number}},
        {**work, "args": {"device": 0, "stream": 7, "correlation": number}},
    ]


def write_status(folder, rank=0, pid=1, **members):
    document = {
        "schema": "kinetoscope.run/1",
        "pid": pid,
        "rank": rank,
        "state": "done",
        "explanation": None,
        "traces": [],
        "steps_seen": 12,
        **members,
    }
    lines = ",\n".join(f'"{name}": {json.dumps(value)}' for name, value in document.items())
    path = os.path.join(folder, f"kscope-run.rank{rank}.pid{pid}.status")
    put_whole(path, f"{{\n{lines}\n}}\n".encode())


def fake_program(folder, text, forever=False):
    """A program that plays the recorder: OUT is the run's folder, ME its own process id."""
    path = Path(folder) / "fake.py"
    head = f"""
        import os, signal, subprocess, sys, time
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from run_folder import write_status, write_trace
        OUT, ME = os.environ["KSCOPE_OUT"], os.getpid()
    """
    tail = "\nwhile True: time.sleep(0.05)\n" if forever else "\n"
    path.write_text(textwrap.dedent(head) + textwrap.dedent(text) + tail)
    return path
