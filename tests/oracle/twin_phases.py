"""Phases of training a second time: what docs/analyses/phases.md defines, moment by moment."""

import re
from bisect import bisect_left, bisect_right

from twin_intervals import intersect, length, subtract, union
from twin_read import WORK, as_number

PHASES = ("data", "transfer", "forward", "loss", "backward", "optimizer", "other")
REGIONS = {
    "data": "data_loading data_preprocessing text_preprocessing tokenization data",
    "transfer": "memory_transfer transfer",
    "forward": "forward_pass forward model_inference",
    "loss": "loss_computation loss",
    "backward": "backward_pass backward",
    "optimizer": "optimizer_step optimizer zero_grad",
}
UPDATES = ("optimizer_step", "optimizer")
LOADER = re.compile(r"enumerate\(DataPipe\)#|enumerate\(DataLoader\)#.*__next__")
BACKWARD = re.compile(r"autograd::engine::evaluate_function|(?!.*::).*Backward\d*$", re.DOTALL)
LOSS = re.compile(r"aten::.*(loss|nll|cross_entropy|mse|kl_div)")
COPY = re.compile(r"aten::(to|_to_copy|copy_)$")
TO_DEVICE = re.compile(r"HtoD|HostToDevice|Host -> Device")


def region(name):
    """(phase or None, does it begin an update) of a row that gives its phase to all inside."""
    plain = re.sub(r"[ -]", "_", name.strip("# *=-").lower())
    for phase, names in REGIONS.items():
        if plain in names.split():
            return phase, plain in UPDATES
    if LOADER.match(name):
        return "data", False
    if name.startswith(("Optimizer.step#", "Optimizer.zero_grad#")):
        return "optimizer", name.startswith("Optimizer.step#")
    return ("backward", False) if BACKWARD.match(name) else (None, False)


class Thread:
    """The rows that decide the phase of one thread."""

    def __init__(self, rows, copies):
        self.labels = []  # (start, end, phase, is_update)
        self.operators = []  # [start, end, what]
        softmax = None
        for row in sorted(rows, key=lambda e: (e.start, -e.end, e.order)):
            phase, is_update = region(row.name)
            if row.end <= row.start or (phase is None and not self.is_free(row)):
                continue
            if phase is None:
                what = self.what(row, copies)
                self.operators.append([row.start, row.end, what])
            else:
                what = phase
                self.labels.append((row.start, row.end, phase, is_update))
            if softmax is not None and what == "loss":
                softmax[2] = "loss"
            softmax = self.operators[-1] if what == "softmax" else None

    def is_free(self, row):
        """Is the row an operator outside of every region and of every other operator?"""
        if row.kind not in ("op", "runtime", "driver"):
            return False
        if self.operators and self.operators[-1][1] > row.start:
            return False
        return not any(end > row.start for _, end, _, _ in self.labels[-64:])

    @staticmethod
    def what(row, copies):
        if LOSS.match(row.name):
            return "loss"
        if row.name in ("aten::log_softmax", "aten::_log_softmax"):
            return "softmax"
        is_copy = COPY.match(row.name) or ("emcpy" in row.name and "Node" not in row.name)
        at = bisect_left(copies, row.start)
        if is_copy and at < len(copies) and copies[at] < row.end:
            return "transfer"
        return "operator"

    def pieces(self, decide):
        """[(start, end, phase)]: the label that started last counts, below all the operator."""
        out = []
        rows = [(s, e, p) for s, e, p, _ in self.labels]
        rows += [(s, e, decide(s, w)) for s, e, w in self.operators]
        is_label = [True] * len(self.labels) + [False] * len(self.operators)
        order = sorted(range(len(rows)), key=lambda i: rows[i][0])
        times = sorted({t for s, e, _ in rows for t in (s, e)})
        open_rows, at = [], 0
        for begin, end in zip(times, times[1:], strict=False):
            while at < len(order) and rows[order[at]][0] <= begin:
                open_rows.append(order[at])
                at += 1
            open_rows = [i for i in open_rows if rows[i][1] > begin]
            if open_rows:
                best = max(open_rows, key=lambda i: (is_label[i], i))
                out.append((begin, end, rows[best][2]))
        return out


class Phases:
    """Host time line and launches of one source; `steps` are its host spans in order."""

    def __init__(self, source, steps, main):
        self.steps = steps
        self.starts = [s for s, _ in steps]
        self.launch = {}
        for call in source.of("runtime", "driver"):
            if call.args.get("correlation") is not None:
                self.launch[call.args["correlation"]] = ((call.pid, call.tid), call.start)
        rows = source.of("op", "annotation", "runtime", "driver")
        names = list(dict.fromkeys((e.pid, e.tid) for e in rows))
        copies = self.copies_to_device(source)
        self.threads = {
            name: Thread([e for e in rows if (e.pid, e.tid) == name], sorted(copies.get(name, ())))
            for name in names
        }
        self.events = sorted(
            (start, number, place, phase)
            for number, thread in enumerate(self.threads.values())
            for place, (start, _, phase, is_update) in enumerate(thread.labels)
            if phase == "backward" or is_update
        )
        self.lanes = {n: t.pieces(self.decide) for n, t in self.threads.items()}
        self.host = self.host_line(main)

    def copies_to_device(self, source):
        out = {}
        for copy in source.of("memcpy"):
            thread, start = self.launch.get(copy.args.get("correlation"), (None, None))
            if thread and TO_DEVICE.search(copy.name):
                out.setdefault(thread, []).append(start)
        return out

    def decide(self, start, what):
        """Phase of an operator."""
        if what in ("loss", "transfer"):
            return what
        at = bisect_right(self.starts, start) - 1
        if at < 0 or start >= self.steps[at][1]:
            return "other"
        begin, end = self.steps[at]
        inside = [e for e in self.events if begin <= e[0] < end]
        if not any(e[-1] == "backward" for e in inside):
            return "forward"
        later = [e[-1] for e in inside if e[0] >= start]
        return "forward" if later and later[0] == "backward" else "other"

    def host_line(self, main):
        """The main thread; where it does nothing, the backward of the others; gaps closed."""
        mine = self.lanes.get(main, [])
        others = [
            (start, end)
            for name, thread in self.threads.items()
            for start, end, phase, _ in thread.labels
            if name != main and phase == "backward"
        ]
        waits = subtract(others, [(s, e) for s, e, _ in mine])
        line = sorted(mine + [(s, e, "backward") for s, e in waits])
        out = []
        for start, end, phase in line:
            if out and out[-1][2] == phase and phase != "data":
                before = out[-1][1]
                if bisect_right(self.starts, before) == bisect_right(self.starts, start):
                    out[-1] = (out[-1][0], end, phase)
                    continue
            out.append((start, end, phase))
        return out

    def of_launch(self, event):
        """Phase in which GPU work was launched."""
        thread, start = self.launch.get(event.args.get("correlation"), (None, None))
        pieces = self.lanes.get(thread, [])
        at = bisect_right(pieces, start, key=lambda p: p[0]) - 1 if thread else -1
        if at < 0:
            return "other"
        is_inside = start < pieces[at][1]
        is_between = at + 1 < len(pieces) and pieces[at + 1][2] == pieces[at][2]
        return pieces[at][2] if is_inside or is_between else "other"


def kind_of(event, is_communication):
    if event.kind != "kernel":
        return 2
    return 1 if is_communication(event) else 0


def device_time(source, phases, is_communication):
    """[(phase, intervals)] in the order in which they count, and the starts of work."""
    work = [e for e in source.of(*WORK) if e.end > e.start]
    devices = list(dict.fromkeys(as_number(e.args.get("device", e.pid)) for e in source.of(*WORK)))
    phase_of = {id(e): phases.of_launch(e) for e in work}
    sets = []
    for kind in range(3):
        for phase in PHASES:
            rows = [e for e in work if kind_of(e, is_communication) == kind]
            sets.append((phase, union((e.start, e.end) for e in rows if phase_of[id(e)] == phase)))
    starts = sorted(
        (
            e.start,
            devices.index(as_number(e.args.get("device", e.pid))),
            -e.end,
            e.order,
            phase_of[id(e)],
        )
        for e in work
    )
    return sets, [(s[0], s[-1]) for s in starts]


def phases_of(source, steps, main, is_communication):
    """[{phase: ns}] of steps given as (host start, host end, true start, true end)."""
    phases = Phases(source, [(s[0], s[1]) for s in steps], main)
    sets, starts = device_time(source, phases, is_communication)
    return [one_step(step, phases.host, sets, starts) for step in steps]


def one_step(step, host, sets, starts):
    _, host_end, begin, end = step
    out = dict.fromkeys(PHASES, 0)
    left = union([(begin, end)])
    for phase, times in sets:
        taken = intersect(left, times)
        out[phase] += length(taken)
        left = subtract(left, taken)
    for phase in PHASES[:-1]:
        mine = intersect(left, [(s, e) for s, e, p in host if p == phase])
        out[phase] += length(intersect(mine, [(begin, max(begin, host_end))]))
    for start, stop in intersect(left, [(max(begin, host_end), end)]):
        at = bisect_left(starts, stop, key=lambda s: s[0])
        out[starts[at][1] if at < len(starts) else "other"] += stop - start
    out["other"] = end - begin - sum(out[p] for p in PHASES[:-1])
    return out
