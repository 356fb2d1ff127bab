"""A second, independent calculation of what `kscope report --json` says, to hold it against.

Only the standard library, integers and sorted lists; meant to be read next to the definitions in
docs/, not to be fast. `Twin(paths)` reads undamaged files; each method gives one part of the
report as plain rows. Times are ns; `start` of a step is on the Unix clock of its file's base.
"""

import re
from collections import Counter, defaultdict
from fractions import Fraction

import twin_operators
import twin_phases
import twin_syncs
from twin_idle import IdleTwin
from twin_intervals import intersect, length, subtract, union
from twin_read import WORK, as_number, read

ROLES = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu", "other")
STEP_NAME = re.compile(r"ProfilerStep#(\d+)$")
COMMUNICATION = re.compile(r"(nccl|rccl|hccl)|.*nccl(Dev)?Kernel")
LOADER = ("enumerate(DataLoader)#", "enumerate(DataPipe)#")
LAUNCH = re.compile(
    r"(?!.*Node).*(LaunchKernel|ModuleLaunch|LaunchCooperative|GraphLaunch|Memcpy|Memset)"
)
HOST_COMMUNICATION = ("gloo:", "mpi:")


def is_communication(event):
    return event.kind == "kernel" and COMMUNICATION.match(event.name) is not None


def spans(events):
    return [(e.start, e.end) for e in events]


def device_of(event):
    return as_number(event.args.get("device", event.pid))


def stream_of(event):
    return as_number(event.args.get("stream", event.tid))


def correlation_of(event):
    return event.args.get("correlation")


def grouped(events, key):
    groups = defaultdict(list)
    for event in events:
        groups[key(event)].append(event)
    return groups


class Twin:
    """All figures of some files."""

    def __init__(self, paths=(), sources=None):
        self.sources = sources if sources is not None else [read(p) for p in paths]

    # ---- devices

    def devices(self):
        """{(rank, device): row}"""
        out = {}
        for source in self.sources:
            for device, work in grouped(source.of(*WORK), device_of).items():
                out[source.rank, device] = self.device_row(work)
        return out

    @staticmethod
    def device_row(work):
        kernels = [e for e in work if e.kind == "kernel"]
        comm = spans(e for e in kernels if is_communication(e))
        compute = spans(e for e in kernels if not is_communication(e))
        span = max(e.end for e in work) - min(e.start for e in work)
        busy = length(spans(work))
        return {
            "span_ns": span,
            "busy_ns": busy,
            "idle_ns": span - busy,
            "kernel_sum_ns": sum(e.dur for e in kernels),
            "work_sum_ns": sum(e.dur for e in work),
            "compute_ns": length(compute),
            "comm_ns": length(comm),
            "exposed_comm_ns": length(subtract(comm, compute)),
        }

    def streams(self):
        """{(rank, device, stream): row}"""
        out = {}
        for source in self.sources:
            groups = grouped(source.of(*WORK), lambda e: (device_of(e), stream_of(e)))
            for (device, stream), work in groups.items():
                row = self.device_row(work)
                out[source.rank, device, stream] = {
                    "busy_ns": row["busy_ns"],
                    "gap_ns": row["idle_ns"],
                }
        return out

    # ---- kernels, copies, links

    def kernels(self):
        """{(kind, name, device): row}"""
        work = [e for source in self.sources for e in source.of(*WORK)]
        out = {}
        for key, events in grouped(work, lambda e: (e.kind, e.name, device_of(e))).items():
            durations = [e.dur for e in events]
            out[key] = {
                "calls": len(durations),
                "total_ns": sum(durations),
                "min_ns": min(durations),
                "max_ns": max(durations),
            }
        return out

    def copies(self):
        """{kind: row}; the rate leaves out copies of zero duration."""
        copies = [e for source in self.sources for e in source.of("memcpy")]
        out = {}
        for kind, events in grouped(copies, lambda e: e.name.removeprefix("Memcpy ")).items():
            timed = [e for e in events if e.dur and "bytes" in e.args]
            timed_ns = sum(e.dur for e in timed)
            size = sum(int(e.args["bytes"]) for e in timed)
            out[kind] = {
                "calls": len(events),
                "bytes": sum(int(e.args.get("bytes", 0)) for e in events),
                "total_ns": sum(e.dur for e in events),
                "bytes_per_s": Fraction(size * 10**9, timed_ns) if timed_ns else None,
            }
        return out

    def links(self):
        """Launches and the GPU work they lead to, over all sources.

        A call counts when it is meant to launch work, or did. `delays` are from its start to that
        of its first work; work that starts before its launch (two clocks) is only counted.
        """
        out = Counter()
        delays = []
        for source in self.sources:
            calls = source.of("runtime", "driver")
            known = {correlation_of(e) for e in calls} - {None}
            work = grouped(source.of(*WORK), correlation_of)
            linked = sum(len(events) for c, events in work.items() if c in known)
            out["linked"] += linked
            out["orphan_gpu_events"] += sum(map(len, work.values())) - linked
            for call in calls:
                mine = work[correlation_of(call)] if correlation_of(call) in known else []
                if not mine and not LAUNCH.match(call.name):
                    continue
                out["launches"] += 1
                out["launches_without_work"] += not mine
                delays += [min(e.start for e in mine) - call.start] if mine else []
        out["gpu_before_launch"] = sum(d < 0 for d in delays)
        return out, sorted(d for d in delays if d >= 0)

    # ---- steps

    def steps(self):
        """True steps of each rank, laid end to end."""
        out = []
        for source in self.sources:
            out += self.steps_of(source)
        return out

    def steps_of(self, source):
        marks = [e for e in source.of("annotation") if STEP_NAME.match(e.name)]
        marks.sort(key=lambda e: (e.start, -e.end, e.order))
        work, other = self.work_by_step(source, marks)
        out, free = [], self.first_start(marks, work, other) if marks else 0
        for index, mark in enumerate(marks):
            start = max(free, mark.start)
            free = self.true_end(mark, work[index], start)
            out.append(
                {
                    "rank": source.rank,
                    "index": index,
                    "number": int(STEP_NAME.match(mark.name)[1]),
                    "name": mark.name,
                    "start": source.base_ns + start,
                    "host_ns": mark.dur,
                    "dur_ns": free - start,
                    "breakdown_ns": self.breakdown(source, start, free),
                }
            )
        self.add_phases(source, marks, out)
        return out

    @staticmethod
    def add_phases(source, marks, rows):
        if not marks:
            return
        spans_of = []
        for mark, row in zip(marks, rows, strict=True):
            start = row["start"] - source.base_ns
            spans_of.append((mark.start, mark.end, start, start + row["dur_ns"]))
        main = (marks[0].pid, marks[0].tid)
        phases = twin_phases.phases_of(source, spans_of, main, is_communication)
        for row, parts in zip(rows, phases, strict=True):
            row["phases_ns"] = parts

    @staticmethod
    def work_by_step(source, marks):
        """GPU work launched inside the host span of each step, and that of no step."""
        launch_start = {}
        for call in source.of("runtime", "driver"):
            if correlation_of(call) is not None:
                launch_start[correlation_of(call)] = call.start
        mine, other = [[] for _ in marks], []
        for event in source.of(*WORK):
            at = launch_start.get(correlation_of(event))
            owners = [i for i, m in enumerate(marks) if at is not None and m.start <= at < m.end]
            (mine[owners[0]] if owners else other).append(event)
        return mine, other

    @staticmethod
    def true_end(mark, work, start):
        return max([mark.end, start, *(e.end for e in work)])

    def first_start(self, marks, work, other):
        """The first step waits for work from before the recording, as far as all steps together
        stay as long as the host took for them."""
        begin = marks[0].start
        if not work[0]:
            return begin
        first_work = min(e.start for e in work[0])
        before = max([begin, *(e.end for e in other if e.end <= first_work)])
        end = before
        for mark, mine in zip(marks, work, strict=True):
            end = self.true_end(mark, mine, max(end, mark.start))
        host = max(m.end for m in marks) - begin
        return max(begin, min(before, end - host))

    @staticmethod
    def role_spans(source):
        work = source.of(*WORK)
        host = [e for e in source.of("op", "annotation", "other") if not STEP_NAME.match(e.name)]
        return {
            "kernel": spans(e for e in work if e.kind == "kernel" and not is_communication(e)),
            "memcpy": spans(source.of("memcpy")),
            "memset": spans(source.of("memset")),
            "communication": spans(e for e in work if is_communication(e))
            + spans(e for e in host if e.name.startswith(HOST_COMMUNICATION)),
            "runtime": spans(source.of("runtime", "driver")),
            "dataloader": spans(e for e in host if e.name.startswith(LOADER)),
            "cpu": spans(host),
        }

    def breakdown(self, source, start, end):
        """What the time of [start, end) went to; the first role that runs takes the moment."""
        left = union([(start, end)])
        out = {}
        roles = self.role_spans(source)
        for role in ROLES[:-1]:
            covered = intersect(left, roles[role])
            out[role] = length(covered)
            left = subtract(left, covered)
        out["other"] = length(left)
        return out

    # ---- idle time

    def idle(self, source, steps):
        """Causes of the devices, streams and steps of a source: {key: causes}. `steps` are rows
        {start, dur_ns, thread}; the first one's thread is that of the source."""
        twin = IdleTwin(source)
        main = self.main_thread(twin, steps)
        spans = [
            (s["start"] - source.base_ns, s["start"] - source.base_ns + s["dur_ns"], s["thread"])
            for s in steps
        ]
        by_step = twin.steps(spans, main)
        return twin.devices(), twin.streams(), by_step

    @staticmethod
    def main_thread(twin, steps):
        threads = twin.host.threads
        if steps and steps[0]["thread"] in threads:
            return steps[0]["thread"]
        return max(threads, key=lambda key: len(threads[key].rows), default=None)

    @staticmethod
    def step_thread(source, row):
        """Thread of a step of the report, which does not say it."""
        begin = row["host_start"] - source.base_ns
        end = begin + row["host_ns"]
        rows = source.of("annotation", "op")
        if row["source"] == "optimizer":
            found = [e for e in rows if e.name == row["name"] and e.end == end]
        else:
            found = [e for e in rows if e.name == row["name"] and (e.start, e.end) == (begin, end)]
        return (found[0].pid, found[0].tid) if found else None

    # ---- waits and copies

    def syncs(self):
        """{(rank, operator, call): row}"""
        return twin_syncs.syncs(self.sources)

    def copy_sites(self):
        """{(rank, operator, call, kind): row}"""
        return twin_syncs.copy_sites(self.sources)

    # ---- operators

    def operators(self, by_shape=False):
        return twin_operators.operators(self.sources, by_shape)

    def total_events(self):
        return [source.events for source in self.sources]
