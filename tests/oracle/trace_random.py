"""Small random traces that hold what real ones hold, drawn from a seed.

`draw(seed)` gives the traces of one run (one, or one for each of two ranks): several devices and
streams, overlapping streams, collectives, partly overlapping host slices, GPU annotations with
their padding, negative times, zero durations, lost launches and lost kernels, graph launches,
Python frames, allocator events, runs without steps and without a GPU.
"""

import random
from dataclasses import dataclass, field

OPERATORS = (
    "aten::mm",
    "aten::addmm",
    "aten::add",
    "aten::mul",
    "aten::bmm",
    "aten::copy_",
    "aten::to",
    "aten::conv2d",
    "aten::empty",
    "autograd::engine::evaluate_function: MmBackward0",
)
ANNOTATIONS = ("forward", "Optimizer.step#SGD.step", "record_param_comms: part")
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
KERNELS = ("gemm<128, 64>", "elementwise_kernel", "triton_poi_fused_0", "aten::mul")
COLLECTIVES = ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclKernel_AllGather_RING_LL_Sum_int8_t")
COPIES = (
    ("Memcpy HtoD (Pageable -> Device)", 4096),
    ("Memcpy DtoH (Device -> Pinned)", 64),
    ("Memcpy DtoD (Device -> Device)", 1 << 20),
)
SHAPES = {
    "aten::mm": ([[4, 8], [8, 16]], ["float", "float"], ["", ""]),
    "aten::addmm": ([[16], [4, 8], [8, 16], [], []], ["float"] * 3 + ["Scalar"] * 2, [""] * 5),
    "aten::add": ([[4, 1, 16], [4, 16], []], ["float", "float", "Scalar"], ["", "", "1"]),
    "aten::mul": ([[4, 16], []], ["float", "double"], ["", ""]),
    "aten::bmm": ([[3, 4, 8], [3, 8, 2]], ["float", "float"], ["", ""]),
    "aten::conv2d": (
        [[2, 4, 9, 9], [8, 2, 3, 3], [8], [], [], [], []],
        ["float", "float", "float", "ScalarList", "ScalarList", "ScalarList", "Scalar"],
        ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "2"],
    ),
    "aten::to": ([[[2, 3], [4]], []], ["TensorList", "Scalar"], ["", "6"]),
}


@dataclass
class Plan:
    """What a drawn trace has."""

    devices: int
    streams: int
    steps: int
    unit_ns: int
    has_text_tids: bool
    has_shapes: bool
    has_memory: bool
    has_stack: bool
    partial_share: float
    first_ns: int
    base_ns: int | None
    rank: int | None


@dataclass
class Drawing:
    """A trace that grows."""

    rng: random.Random
    plan: Plan
    events: list = field(default_factory=list)
    next_id: int = 1
    next_corr: int = 1
    gpu_free: dict = field(default_factory=dict)

    def time(self, low, high):
        """A moment in [low, high] on the clock of the file."""
        unit = self.plan.unit_ns
        return self.rng.randint(-(-low // unit), max(-(-low // unit), high // unit)) * unit

    def tid(self, number):
        return str(number) if self.plan.has_text_tids else number

    def slice(self, cat, name, tid, start, end, args=None, pid=100):
        event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid}
        event |= {"ts": start, "dur": end - start}
        if args:
            event["args"] = args
        self.events.append(event)
        return event


def draw_plan(rng, rank):
    whole_us = rng.random() < 0.2
    return Plan(
        devices=rng.choice((0, 1, 1, 2)),
        streams=rng.choice((1, 2, 3)),
        steps=rng.choice((0, 1, 2, 4)),
        unit_ns=1000 if whole_us else 1,
        has_text_tids=rng.random() < 0.2,
        has_shapes=rng.random() < 0.6,
        has_memory=rng.random() < 0.5,
        has_stack=rng.random() < 0.4,
        partial_share=rng.choice((0, 0, 0.1)),
        first_ns=rng.choice((0, -50_000, 4_458_676_524_648_000, 1_712_195_495_521_036_000)),
        base_ns=None if rank is None else 1_790_857_026_000_000_000 + rank * 500_000,
        rank=rank,
    )


def op_args(d, name):
    args = {"External id": d.next_id}
    d.next_id += 1
    if d.plan.has_shapes and name in SHAPES and d.rng.random() < 0.8:
        keys = ("Input Dims", "Input type", "Concrete Inputs")
        args |= dict(zip(keys, SHAPES[name], strict=True))
    return args


def draw_work(d, cat, name, corr, after, ext, extra=None):
    """One GPU row behind `after` on some stream; streams overlap, rows of one stream rarely do."""
    device = d.rng.randrange(d.plan.devices)
    stream = 7 + d.rng.randrange(d.plan.streams) * 13
    free = d.gpu_free.get((device, stream), after)
    earliest = after if d.rng.random() < 0.1 else max(after, free)
    is_early = ext is not None and d.rng.random() < 0.03  # two clocks that disagree
    start = after - d.plan.unit_ns if is_early else d.time(earliest, earliest + 2000)
    dur = 0 if d.rng.random() < 0.05 else d.time(1, 9000)
    d.gpu_free[device, stream] = max(free, start + dur)
    args = {"device": device, "stream": stream, "correlation": corr}
    args |= {"External id": ext} if ext is not None else {}
    tid = f"stream {stream}" if d.plan.has_text_tids else stream
    d.slice(cat, name, tid, start, start + dur, args | (extra or {}), pid=device)
    if d.rng.random() < 0.1:
        note = {"External id": ext} if ext is not None else None
        pad = d.plan.unit_ns
        d.slice("gpu_user_annotation", "forward", tid, start - pad, start + dur + pad, note, device)


def draw_launch(d, tid, start, end, ext):
    """A runtime or driver call and what it launches; now and then one of both is lost."""
    corr = d.next_corr
    d.next_corr += 1
    kind = d.rng.choice(("kernel", "kernel", "kernel", "graph", "memcpy", "memset", "sync"))
    call = {
        "kernel": d.rng.choice(("cudaLaunchKernel", "cuLaunchKernelEx", "cudaLaunchKernelExC")),
        "graph": "cudaGraphLaunch",
        "memcpy": "cudaMemcpyAsync",
        "memset": "cudaMemsetAsync",
        "sync": "cudaStreamSynchronize",
    }[kind]
    cat = "cuda_driver" if call.startswith("cuL") else "cuda_runtime"
    args = {"correlation": corr, "cbid": 1}
    args |= {"External id": ext} if ext is not None else {}
    if d.rng.random() < 0.95:
        d.slice(cat, call, tid, start, end, args)
    if kind == "sync" or d.rng.random() < 0.05:
        return
    if kind == "memset":
        draw_work(d, "gpu_memset", "Memset (Device)", corr, start, ext, {"bytes": 512})
    elif kind == "memcpy":
        name, size = d.rng.choice(COPIES)
        draw_work(d, "gpu_memcpy", name, corr, start, ext, {"bytes": size})
    for _ in range(d.rng.randint(2, 5) if kind == "graph" else kind == "kernel"):
        names = COLLECTIVES if d.rng.random() < 0.2 else KERNELS
        draw_work(d, "kernel", d.rng.choice(names), corr, start, ext)


def draw_memory(d, tid, moment):
    size = d.rng.choice((512, 4096, -512, -4096))
    args = {"Device Type": d.rng.choice((0, 1)), "Bytes": size, "Addr": 4096, "Device Id": 0}
    args |= {"Total Allocated": 1 << 20, "Total Reserved": 1 << 21}
    event = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 100}
    d.events.append(event | {"tid": tid, "ts": moment, "args": args})


def draw_inside(d, tid, start, end, depth, parent):
    """Host slices inside [start, end): operators within operators, calls, frames."""
    at = start
    while at < end and d.rng.random() < 0.85:
        begin = d.time(at, min(at + (end - at) // 3, end))
        finish = begin if d.rng.random() < 0.03 else d.time(begin, end)
        stretched = finish
        if d.rng.random() < d.plan.partial_share:
            stretched = finish + d.plan.unit_ns * d.rng.randint(1, 5000)
        draw_slice(d, tid, begin, (finish, stretched), depth, parent)
        at = finish + d.plan.unit_ns * d.rng.choice((0, 1, 37))


def draw_slice(d, tid, begin, ends, depth, parent):
    finish, stretched = ends
    roll = d.rng.random()
    name, ext = parent
    if roll < 0.25 and d.plan.devices:
        draw_launch(d, tid, begin, stretched, ext)
        return
    if roll < 0.35 and d.plan.has_stack:
        d.slice("python_function", "train.py(3): f", tid, begin, stretched, {"Python id": 1})
    elif roll < 0.42:
        name = d.rng.choice((*ANNOTATIONS, LOADER))
        args = op_args(d, name)
        d.slice("user_annotation", name, tid, begin, stretched, args)
    else:
        name = name if name in OPERATORS and d.rng.random() < 0.3 else d.rng.choice(OPERATORS)
        args = op_args(d, name)
        ext = args["External id"]
        d.slice("cpu_op", name, tid, begin, stretched, args)
    if d.plan.has_memory and d.rng.random() < 0.3:
        draw_memory(d, tid, d.rng.choice((begin, finish, d.time(begin, finish))))
    if depth < 5:
        draw_inside(d, tid, begin, finish, depth + 1, (name, ext))


def top_of(plan):
    top = {"schemaVersion": 1}
    if plan.has_shapes:
        top |= {"record_shapes": 1, "with_flops": 1}
    if plan.has_memory:
        top["profile_memory"] = 1
    if plan.rank is not None:
        top["distributedInfo"] = {"backend": "nccl", "rank": plan.rank, "world_size": 2}
    top |= {"displayTimeUnit": "ms", "traceName": "drawn.json"}
    if plan.base_ns is not None:
        top["baseTimeNanoseconds"] = plan.base_ns
    return top


def draw_trace(rng, rank):
    plan = draw_plan(rng, rank)
    if rank is not None:
        plan.first_ns = rng.choice((0, 4_458_676_524_648_000))
    d = Drawing(rng, plan)
    at, main = plan.first_ns, d.tid(7001)
    for index in range(max(plan.steps, 1)):
        begin = d.time(at, at + 2000)
        finish = d.time(begin + 5000, begin + 60_000)
        if plan.steps:
            name = f"ProfilerStep#{index + 3}"
            d.slice("user_annotation", name, main, begin, finish, op_args(d, name))
        draw_inside(d, main, begin, finish, 0, (None, None))
        draw_inside(d, d.tid(7002), begin, finish, 2, (None, None))
        at = finish
    if plan.devices:
        draw_work(d, "kernel", "before_the_window", 900_001, plan.first_ns - 3000, None)
    rng.shuffle(d.events)
    meta = {"ph": "M", "name": "process_name", "ts": plan.first_ns, "pid": 100, "tid": 0}
    d.events.append(meta | {"args": {"name": "python3"}})
    return {"top": top_of(plan), "events": d.events, "plan": plan}


WAITING_OPERATORS = ("aten::item", "aten::_local_scalar_dense", "aten::nonzero", "c10d::barrier")
WAITING_CALLS = ("cudaMalloc", "cudaFree", "cudaDeviceSynchronize", "cudaEventSynchronize")
OVERHEADS = ("Activity Buffer Request", "Command Buffer Full", "Buffer Flush")


def add_waits(rng, trace):
    """Renames rows of a drawn trace, and adds some: what the host may wait for."""
    for event in trace["events"]:
        cat, name = event.get("cat"), event["name"]
        if cat == "cpu_op" and rng.random() < 0.2:
            event["name"] = rng.choice(WAITING_OPERATORS)
        elif name == "cudaStreamSynchronize" and rng.random() < 0.6:
            event["name"] = rng.choice(WAITING_CALLS)
        elif name == "cudaMemcpyAsync" and rng.random() < 0.3:
            event["name"] = "cudaMemcpy"
        elif cat == "user_annotation" and name == "forward" and rng.random() < 0.5:
            event["name"] = "gloo:all_reduce"
    slices = [e for e in trace["events"] if e["ph"] == "X"]
    d = Drawing(rng, trace["plan"])
    for _ in range(rng.randrange(6)):
        near = rng.choice(slices)
        start = d.time(near["ts"], near["ts"] + 3000)
        where = rng.choice((near["tid"], 0))
        d.slice("overhead", rng.choice(OVERHEADS), where, start, start + d.time(0, 4000))
    trace["events"] += d.events
    rng.shuffle(trace["events"])


def draw_waits(seed):
    """As draw(), with rows that wait."""
    traces = draw(seed)
    for trace in traces:
        add_waits(random.Random(seed + 1), trace)
    return traces


def draw(seed):
    """Traces of one run."""
    rng = random.Random(seed)
    if rng.random() < 0.25:
        return [draw_trace(rng, 0), draw_trace(rng, 1)]
    return [draw_trace(rng, None)]
