"""Rules that judge by curves of the monitor, in a recording beside the trace or alone."""

import gzip

from write_recording import START_UNIX_NS, Recording

from rule_cases.case import Case, Finding, three
from rule_cases.process import on_cpu

TRACE_BASE = 1764000000000000000 - START_UNIX_NS  # ticks of the recording at time 0 of the trace
MS = 1_000_000
CORES = 4


def monitored(looks_ms, pressure, used=3.6, machine=95.0, preemptions=400.0, threads=12.0):
    """A recording of a process on four cores, whose monitor always sees the same."""
    recording = Recording(pid=1)
    values = {
        ("pressure.cpu", "percent", -1): pressure,
        ("cpu.process", "percent", -1): 100.0 * used,
        ("cpu.machine", "percent", -1): machine,
        ("cpu.threads", "threads", -1): threads,
        ("cpu.preemptions", "1/s", -1): preemptions,
    } | {("cpu.core", "percent", core): machine for core in range(CORES)}
    for number, (name, unit, index) in enumerate(values, 1):
        recording.metric(number, name, unit, index)
    for ms in looks_ms:
        recording.metrics(TRACE_BASE + ms * MS, list(enumerate(values.values(), 1)))
    return gzip.compress(recording.bytes(), 9, mtime=0)


def beside(seen):
    looks = range(-10, 60, 10)
    return {"trace.json": on_cpu({}), "monitor.ksrec.gz": monitored(looks, **seen)}


def alone(name, seen, why, findings):
    file = {"monitor.ksrec.gz": monitored(range(0, 6000, 500), **seen)}
    return Case("cpu.oversubscribed", name, file, why, findings, inputs="monitor.ksrec.gz")


def cpu_oversubscribed():
    cases = three(
        "cpu.oversubscribed",
        beside,
        fires=(
            {"pressure": 50.0},
            "12 threads on 4 cores use 3.6 of them; half of the time some thread waits for one.",
        ),
        found=[Finding("cpu.oversubscribed", 0, 5000)],
        hand="Of 10 ms no more than the half in which some thread waits. Low: nothing is sure.",
        near=({"pressure": 24.0}, "Some thread waits 24 % of the time for a core."),
        asks="at least 25 % of the time",
        silent=(
            {"pressure": 50.0, "used": 2.6},
            "Others use 1.2 of the 3.8 cores that are busy: more than a fifth.",
        ),
    )
    for case in cases:
        case.kind = f"curves_{case.kind}"
    few = {"pressure": 50.0, "preemptions": 79.0}
    return [
        *cases,
        alone(
            "alone_fires",
            {"pressure": 50.0},
            "The same in 5.5 s without steps.\nA risk: there is no step to save of.\n",
            [Finding("cpu.oversubscribed")],
        ),
        alone(
            "alone_near_miss",
            few,
            "Threads are pushed off 79 times a second.\nThe rule asks for 20 on each core.\n",
            [],
        ),
    ]


RULES = (cpu_oversubscribed,)
