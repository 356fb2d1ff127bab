"""Why devices, streams and steps are idle: a second reading of docs/analyses/idle.md.

For each thread one list of (start, end, what it did) over all time is cut out of plain intervals;
what an idle interval is made of is then read off the list of the thread that launched next.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict

from twin_intervals import intersect, length, subtract, union
from twin_read import WORK, as_number

CAUSES = (
    "data",
    "sync",
    "host_code",
    "launch",
    "allocator",
    "collective",
    "kernel_to_kernel",
    "profiler",
    "unknown",
)
STATES = ("allocator", "sync", "data", "collective", "launch")  # by priority
CALLS = ("runtime", "driver")
COUNTED = ("op", "annotation", *CALLS)
SYNC_CALL = re.compile(r".*(Synchronize|QueueFinish|EventWait)")
COPY_CALL = re.compile(r"(?!.*Node)(.*Memcpy)")
MEMORY_CALL = re.compile(
    r".*(Malloc|Free|HostAlloc|HostRegister|HostUnregister|MemAlloc|DeviceAlloc|SharedAlloc)"
    r"|cuMem(?!cpy|set)"
)
SYNC_OPS = ("aten::item", "aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero")
LOADER = re.compile(r"enumerate\(DataLoader\)#.*\.__next__$|enumerate\(DataPipe\)#")
COLLECTIVE = re.compile(
    r"gloo:|mpi:|(_?c10d_functional::wait_tensor|c10d::barrier|c10d::monitored_barrier_)$"
)
NO_OPERATOR = re.compile(r"ProfilerStep#\d+$|Optimizer\.step#")
BACKWARD = "autograd::engine::evaluate_function"
NEVER, ALWAYS = -(1 << 62), 1 << 62


def row_cost(source):
    """Tenth percentile of the distances between rows, docs/analyses/recorder_cost.md."""
    starts = defaultdict(list)
    for event in source.of("op", "annotation"):
        starts[event.pid, event.tid].append(event.start)
    distances = []
    for mine in starts.values():
        mine.sort()
        distances += [b - a for a, b in zip(mine, mine[1:], strict=False)]
    if len(distances) < 200:
        return 2000
    tenth = sorted(distances)[len(distances) // 100 * 10]
    return min(max(min(tenth // 50, 511) * 50 + 25, 500), 5000)


def is_blocking_copy(name):
    return COPY_CALL.match(name) and "Async" not in name


def state_of(event):
    if event.kind in CALLS:
        if SYNC_CALL.match(event.name) or is_blocking_copy(event.name):
            return "sync"
        is_memory = not COPY_CALL.match(event.name) and MEMORY_CALL.match(event.name)
        return "allocator" if is_memory else "launch"
    if event.kind not in ("op", "annotation"):
        return None
    if LOADER.match(event.name):
        return "data"
    if COLLECTIVE.match(event.name):
        return "collective"
    is_work = event.kind == "op" and not NO_OPERATOR.match(event.name)
    return "launch" if is_work else None


class Thread:
    """Rows of one thread, in order."""

    def __init__(self, rows, stops):
        self.rows = sorted(rows, key=lambda e: (e.start, -e.end, e.order))
        self.stops = stops
        self.spans = defaultdict(list)  # by state
        self.top, self.nested = [], []  # starts of counted rows between and inside operators
        backward = [e.start for e in self.rows if e.name.startswith(BACKWARD)]
        self.backs_from = min(backward, default=None)
        self.alive = (self.rows[0].start, max(e.end for e in self.rows))
        self.follow()

    def still_open(self, end, moment):
        return end is not None and length(subtract([(moment, end)], self.stops)) > 0

    def follow(self):
        ends, wait_end = {}, None
        for row in self.rows:
            if row.kind in COUNTED:
                states = [s for s in STATES if self.still_open(ends.get(s), row.start)]
                if not states:
                    self.top.append(row.start)
                elif states[0] == "launch":
                    self.nested.append(row.start)
            state = state_of(row)
            waits = row.kind in CALLS and (SYNC_CALL.match(row.name) or COPY_CALL.match(row.name))
            new = [(state, row.end)] if state else []
            if waits and self.still_open(wait_end, row.start):
                new.append(("sync", wait_end))
            for name, end in new:
                self.spans[name].append((row.start, end))
                ends[name] = max(end, ends.get(name, end))
            if row.kind == "op" and row.name in SYNC_OPS:
                wait_end = max(row.end, wait_end if wait_end is not None else row.end)


class Host:
    """All threads of a source."""

    def __init__(self, source):
        gpu = (*WORK, "gpu_annotation", "gpu_sync")
        rows = defaultdict(list)
        for event in source.rows:
            if event.kind not in (*gpu, "memory", "instant"):
                rows[event.pid, event.tid].append(event)
        self.stops = union((e.start, e.end) for e in source.of("overhead"))
        self.threads = {key: Thread(events, self.stops) for key, events in rows.items()}
        self.main = None
        self.lines = {}

    def backers(self):
        """[(thread, from when on)]"""
        out = []
        for key, thread in self.threads.items():
            if key == self.main:
                out.append((thread, NEVER))
            elif thread.backs_from is not None:
                out.append((thread, thread.backs_from))
        return out

    def line(self, key):
        """[(start, end, what)] of a thread over all time."""
        if key not in self.lines:
            self.lines[key] = self.draw_line(self.threads[key])
        return self.lines[key]

    def draw_line(self, thread):
        left, out = [(NEVER, ALWAYS)], []

        def take(what, spans):
            nonlocal left
            out.extend((start, end, what) for start, end in intersect(left, spans))
            left = subtract(left, spans)

        take("profiler", self.stops)
        for state in STATES:
            take(state, thread.spans[state])
        backers = self.backers()
        for state in STATES:
            take(
                state,
                [s for t, begin in backers for s in intersect(t.spans[state], [(begin, ALWAYS)])],
            )
        alive = [thread.alive]
        for backer, begin in backers:
            alive += intersect([backer.alive], [(begin, ALWAYS)])
        take("host_code", alive)
        take("unknown", [(NEVER, ALWAYS)])
        return sorted(out)

    def read(self, key, start, end, row_ns, is_device=False):
        """Counter of causes in [start, end)."""
        out = Counter()
        line = self.line(key)
        at = max(bisect_right(line, (start, ALWAYS, "")) - 1, 0)
        while at < len(line) and line[at][0] < end:
            begin, finish, what = line[at]
            out[what] += max(min(finish, end) - max(begin, start), 0)
            at += 1
        thread = self.threads[key]
        for starts, what in ((thread.top, "host_code"), (thread.nested, "launch")):
            rows = bisect_left(starts, end) - bisect_left(starts, start)
            cost = min(rows * row_ns, out[what])
            out[what] -= cost
            if not (is_device and what == "launch"):
                out["profiler"] += cost
        if is_device:
            for what in ("allocator", "sync", "collective", "launch"):
                del out[what]
        return out


class IdleTwin:
    """Causes of one source."""

    def __init__(self, source):
        self.source = source
        self.host = Host(source)
        self.row_cost = row_cost(source)
        calls = [e for e in source.of(*CALLS) if e.args.get("correlation") is not None]
        self.calls = {e.args["correlation"]: e for e in calls}
        order = {}
        for event in source.of(*WORK, "gpu_annotation", "gpu_sync"):
            order.setdefault(device_of(event), len(order))
        self.order = order
        self.lanes = defaultdict(list)
        for event in source.of(*WORK):
            self.lanes[device_of(event)].append(event)
        for lane in self.lanes.values():
            lane.sort(key=lambda e: (e.start, -e.end, e.order))
        self.least_delay = self.find_least_delay()

    def find_least_delay(self):
        first = {}
        for event in self.source.of(*WORK):
            call = self.launch_of(event)
            if call is not None:
                first[id(call)] = min(event.start - call.start, first.get(id(call), ALWAYS))
        return min((delay for delay in first.values() if delay >= 0), default=0)

    def launch_of(self, event):
        return self.calls.get(event.args.get("correlation"))

    def gaps(self, rows, with_first=False):
        """[(start, host until, end, thread, cause of the rest, next row)] of rows in order."""
        out, last = [], None
        for row in rows:
            end = last.end if last else NEVER
            if row.start > end and (last or with_first):
                out.append(self.gap(end, row))
            if last is None or row.end >= last.end:
                last = row
        return out, last

    def gap(self, start, row):
        call = self.launch_of(row)
        if call is None:
            return start, start, row.start, None, "unknown", row
        thread = (call.pid, call.tid)
        if call.start > start:
            return start, min(call.start, row.start), row.start, thread, "launch", row
        is_fresh = start - call.start < self.least_delay
        return start, start, row.start, thread, "launch" if is_fresh else "kernel_to_kernel", row

    def causes(self, gaps, window=None):
        out = Counter({cause: 0 for cause in CAUSES})
        for start, until, end, thread, rest, _ in gaps:
            low, high = (max(start, window[0]), min(end, window[1])) if window else (start, end)
            if low >= high:
                continue
            middle = min(max(until, low), high)
            out[rest] += high - middle
            if low < middle:
                out.update(self.host.read(thread, low, middle, self.row_cost))
        return dict(out)

    def devices(self):
        return {d: self.causes(self.gaps(lane)[0]) for d, lane in self.lanes.items()}

    def streams(self):
        out = {}
        for device, lane in self.lanes.items():
            place = {id(row): i for i, row in enumerate(lane)}
            streams = defaultdict(list)
            for row in lane:
                streams[stream_of(row)].append(row)
            for stream, rows in streams.items():
                gaps, _ = self.gaps(rows)
                causes = self.causes(gaps)
                for _, until, end, _, rest, row in gaps:
                    waits = self.collective_wait(lane[: place[id(row)]], until, end, rest)
                    causes[rest] -= waits
                    causes["collective"] += waits
                out[device, stream] = causes
        return out

    @staticmethod
    def collective_wait(before, start, end, rest):
        """Time in which a launched row waits for the last collectives before it."""
        spans = [(e.start, e.end) for e in before if is_collective(e)]
        # Unions leave out empty ones, which may still end one.
        if rest == "unknown" or not spans or max(e for _, e in spans) > end:
            return 0
        merged = union(spans)
        return length(intersect(merged[-1:], [(start, end)]))

    def steps(self, spans, main):
        """Causes of each (start, end, thread) of `spans`."""
        self.host.main = main
        self.host.lines = {}
        if not self.lanes:
            return [self.thread_step(*span) for span in spans]
        rows = [e for d in sorted(self.lanes, key=self.order.get) for e in self.lanes[d]]
        rows.sort(key=lambda e: e.start)
        gaps, last = self.gaps(rows, with_first=True)
        tail = ALWAYS if main else last.end
        gaps.append((last.end, tail, ALWAYS, main, "unknown", None))
        return [self.causes(gaps, span[:2]) for span in spans]

    def thread_step(self, start, end, thread):
        key = thread if thread in self.host.threads else self.host.main
        causes = Counter({cause: 0 for cause in CAUSES})
        if key is None:
            causes["unknown"] = end - start
        else:
            causes.update(self.host.read(key, start, end, self.row_cost, is_device=True))
        return dict(causes)


def is_collective(event):
    return event.kind == "kernel" and re.match(r"(nccl|rccl|hccl)", event.name, re.IGNORECASE)


def device_of(event):
    return as_number(event.args.get("device", event.pid))


def stream_of(event):
    return as_number(event.args.get("stream", event.tid))
