"""The twin's operator table: what torch's key_averages says, from the trace text alone.

Torch builds one tree for each thread, merges a call with its only child of the same name, and
sums over the calls of a name. `self_exclusive_ns` is not torch's: it takes from each slice the
union of its direct children, Python frames too.
"""

import bisect
import re
from collections import defaultdict

from twin_intervals import length
from twin_read import WORK

HOST_KINDS = {"op": "op", "annotation": "annotation", "runtime": "runtime", "driver": "runtime"}
HIDDEN = {
    "profiler::_record_function_enter",
    "profiler::_record_function_enter_new",
    "profiler::_record_function_exit",
    "aten::is_leaf",
    "aten::output_nr",
    "aten::_version",
}
STEP = re.compile(r"ProfilerStep#\d+")
HOST_MEMORY = {0, 2, 5}  # c10::DeviceType: CPU, MKLDNN, IDEEP
DEVICE_MEMORY = {1, 6, 12, 20}  # CUDA, HIP, XPU, PrivateUse1


class Node:
    """One call in torch's tree."""

    def __init__(self, event):
        self.event = event
        self.name = (
            STEP.sub("ProfilerStep*", event.name) if event.kind == "annotation" else (event.name)
        )
        self.children = []
        self.parent = None
        self.kernel_ns = 0
        self.is_merged = False
        self.own_ns = 0  # that no direct child covers, Python frames too

    def device_ns(self):
        total, todo = 0, [self]
        while todo:
            node = todo.pop()
            total += node.kernel_ns
            todo += node.children
        return total


def outer_first(event):
    return (event.start, -event.end, event.order)


def threads_of(source, kinds):
    """Visible host slices of each thread, outer before inner."""
    threads = defaultdict(list)
    for event in source.of(*kinds):
        if event.name not in HIDDEN:
            threads[event.pid, event.tid].append(event)
    return [sorted(events, key=outer_first) for events in threads.values()]


def nest(events):
    """Torch's rule: who ends after the open slice closes it and belongs to an outer one."""
    nodes, stack = [], []
    for event in events:
        node = Node(event)
        while stack:
            top = stack[-1]
            if event.start >= top.event.end or event.end > top.event.end:
                stack.pop()
                continue
            top.children.append(node)
            node.parent = top
            break
        stack.append(node)
        nodes.append(node)
    return nodes


def attach_kernels(source, nodes):
    launched = defaultdict(int)
    for event in source.of(*WORK):
        ext = event.args.get("External id", event.args.get("external id"))
        if ext is not None:
            launched[ext] += event.dur
    for node in nodes:
        if node.event.kind in ("op", "annotation"):
            node.kernel_ns = launched.get(node.event.args.get("External id"), 0)


def merge_duplicates(nodes):
    """A parent whose single child has its own name takes over that child's children and kernels."""
    changed = True
    while changed:
        changed = False
        for node in nodes:
            up = node.parent
            if node.is_merged or up is None or up.name != node.name or len(up.children) != 1:
                continue
            up.children, up.kernel_ns = node.children, node.kernel_ns
            up.own_ns += node.own_ns
            for child in node.children:
                child.parent = up
            node.is_merged = changed = True
    return [n for n in nodes if not n.is_merged]


class MemoryCurve:
    """Sum of allocator bytes between two moments, both ends included."""

    def __init__(self, source, device_types):
        self.sums = {}
        by_pid = defaultdict(list)
        for event in source.of("memory"):
            if event.args.get("Device Type") in device_types:
                by_pid[event.pid].append((event.start, event.args["Bytes"]))
        for pid, points in by_pid.items():
            points.sort(key=lambda p: p[0])
            sums = [0]
            for _, size in points:
                sums.append(sums[-1] + size)
            self.sums[pid] = ([t for t, _ in points], sums)

    def between(self, event):
        if event.pid not in self.sums:
            return 0
        times, sums = self.sums[event.pid]
        last = bisect.bisect_right(times, event.end)
        return sums[last] - sums[bisect.bisect_left(times, event.start)]


def exclusive_times(source):
    """order -> ns of each host slice that no direct child covers.

    The parent is the smallest slice of the thread that contains it; of equal ones the inner one.
    """
    own = {}
    for events in threads_of(source, [*HOST_KINDS, "python"]):
        open_slices, children = [], defaultdict(list)
        for event in events:
            open_slices = [p for p in open_slices if p.end > event.start]
            around = [p for p in open_slices if p.end >= event.end]
            if around:
                # Of equal lengths the last one opened is the innermost.
                parent = min(reversed(around), key=lambda p: p.dur)
                children[parent.order].append((event.start, event.end))
            open_slices.append(event)
        for event in events:
            own[event.order] = event.dur - length(children[event.order])
    return own


def elements(dims):
    total = 1
    for d in dims:
        total *= d
    return total


def integers(text):
    return [int(x) for x in re.findall(r"-?\d+", text)]


def conv2d_flops(dims, concrete):
    image, weight = dims[0], dims[1]
    stride, padding, dilation = (integers(concrete[i]) for i in (3, 4, 5))
    groups = int(concrete[6])
    if len(image) != 4 or len(weight) != 4 or groups <= 0 or 0 in stride:
        return 0
    out = [
        (image[2 + i] + 2 * padding[i] - dilation[i] * (weight[2 + i] - 1) - 1) // stride[i] + 1
        for i in (0, 1)
    ]
    work = 2 * image[0] * out[0] * out[1] * weight[2] * weight[3] * image[1] * weight[0]
    return work // groups


def flops_of(event):
    """The seven names that torch has formulas for; 0 for the rest."""
    dims, types = event.args.get("Input Dims"), event.args.get("Input type", [])
    name = event.name.removeprefix("aten::")
    if not dims or name == event.name:
        return 0
    if name == "conv2d" and event.args.get("Concrete Inputs"):
        return conv2d_flops(dims, event.args["Concrete Inputs"])
    if name in ("mm", "bmm", "addmm", "baddbmm"):
        a, b = dims[1:3] if name in ("addmm", "baddbmm") else dims[0:2]
        return 2 * elements(a) * b[-1] if a and b else 0
    if name in ("add", "mul") and types and types[0] != "Scalar":
        return elements(dims[0])
    return 0


def shape_text(event):
    """Shapes as torch prints them: the sizes of tensors, [] for everything else."""
    flat = []
    for dims in event.args.get("Input Dims", []):
        is_list = any(isinstance(d, list) for d in dims)
        flat.append([] if is_list else dims)
    return str(flat)


def add_call(row, node, curves):
    event = node.event
    children = [c.event for c in node.children]
    row["calls"] += 1
    row["cpu_ns"] += event.dur
    row["self_cpu_ns"] += event.dur - sum(c.dur for c in children)
    row["self_exclusive_ns"] += node.own_ns
    row["device_ns"] += node.device_ns()
    row["self_device_ns"] += node.kernel_ns
    row["flops"] += flops_of(event) if event.kind == "op" else 0
    for column, curve in curves.items():
        row[column] += curve.between(event) - sum(curve.between(c) for c in children)


def operators(sources, by_shape=False):
    """{(kind, name[, shapes]): row} over all sources."""
    table = defaultdict(lambda: defaultdict(int))
    for source in sources:
        nodes = [n for events in threads_of(source, HOST_KINDS) for n in nest(events)]
        attach_kernels(source, nodes)
        curves = {}
        if source.top.get("profile_memory"):
            curves["self_cpu_bytes"] = MemoryCurve(source, HOST_MEMORY)
            curves["self_device_bytes"] = MemoryCurve(source, DEVICE_MEMORY)
        own = exclusive_times(source)
        for node in nodes:
            node.own_ns = own[node.event.order]
        for node in merge_duplicates(nodes):
            key = (HOST_KINDS[node.event.kind], node.name)
            key += (shape_text(node.event),) if by_shape else ()
            add_call(table[key], node, curves)
    return table
