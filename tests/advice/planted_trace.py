"""Draws traces of a training loop in which some faults are planted, each as strong as chance wants.

    planted_trace.draw(random.Random(seed), {"sync.host", "copy.pageable"}) -> {"top", "events"}

The events are those of the JSON format with times in integer ns (tests/oracle/trace_text.py writes
them). A fault of next to no strength is drawn as often as a strong one: what it must be called is
for the report to say. FAULTS are the ids that can be planted; most stand for themselves, and some
bring others with them.
"""

US = 1000
MS = 1000 * US
STEPS = 9
MIB = 1 << 20
DEVICE = {"id": 0, "name": "GPU", "totalGlobalMem": 16 << 30, "computeMajor": 9, "numSms": 132}
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
HALF = ["c10::BFloat16", "c10::BFloat16"]
FAULTS = {}


def fault(id):
    def keep(function):
        FAULTS[id] = function
        return function

    return keep


class Recording:
    """One rank: a thread of the host, the autograd thread, a device with two streams."""

    def __init__(self, rng, rank, has_gpu):
        self.rng = rng
        self.rank = rank
        self.has_gpu = has_gpu
        self.events = []
        self.now = 0
        self.free = {7: 0, 17: 0}
        self.corr = 1
        self.seq = 100
        self.addr = 1

    def x(self, cat, name, start, dur, tid=1, **args):
        event = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid}
        self.events.append(event | {"ts": start, "dur": dur, "args": args})

    def work(self, name, start, dur, corr, cat="kernel", stream=7, **args):
        if not self.has_gpu:
            return
        begin = max(start, self.free[stream])
        self.free[stream] = begin + dur
        args |= {"device": 0, "stream": stream, "correlation": corr, "External id": corr}
        event = {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream}
        self.events.append(event | {"ts": begin, "dur": dur, "args": args})

    def call(self, name, dur, tid=1, at=None):
        """A call into the runtime; gives its number."""
        self.corr += 1
        start = self.now if at is None else at
        if self.has_gpu:
            args = {"correlation": self.corr, "External id": self.corr}
            self.x("cuda_runtime", name, start, dur, tid, **args)
        return self.corr

    def op(self, name, dur, *kernels, tid=1, dims=None, types=None, seq=None):
        """An operator that launches these kernels, (name, ns)."""
        dur = max(dur, 4 * US * (len(kernels) + 1))
        args = {"Input Dims": dims, "Input type": types, "Sequence number": seq}
        if seq is not None and tid == 1:
            args["Fwd thread id"] = 0
        given = {key: value for key, value in args.items() if value is not None}
        self.x("cpu_op", name, self.now, dur, tid, **given)
        for i, (kernel, ns) in enumerate(kernels):
            at = self.now + 2 * US + i * 4 * US
            corr = self.call("cudaLaunchKernel", 2 * US, tid, at)
            self.work(kernel, at + 4 * US, ns, corr, **{"blocks per SM": 0.5})
        self.now += dur + US

    def copy(self, op, kind, count_bytes, ns, waits=True):
        start = self.now
        corr = self.call("cudaMemcpyAsync", 3 * US, at=start + US)
        cat = "gpu_memcpy"
        self.work(f"Memcpy {kind}", start + 5 * US, ns, corr, cat, bytes=count_bytes)
        self.now = start + 5 * US
        if waits:
            self.sync()
        self.x("cpu_op", op, start, self.now + US - start)
        self.now += 2 * US

    def sync(self):
        end = max([self.now + 2 * US, *self.free.values()])
        self.call("cudaStreamSynchronize", end - self.now)
        self.now = end

    def memory(self, count_bytes, addr):
        self.events.append(
            {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1}
            | {"ts": self.now, "s": "t"}
            | {"args": {"Bytes": count_bytes, "Addr": addr, "Device Id": 0, "Device Type": 1}}
        )


class Plan:
    """What all ranks and steps have in common."""

    def __init__(self, rng, faults):
        self.faults = faults
        self.strength = {id: 10 ** rng.uniform(-2.5, 0.0) for id in sorted(faults)}
        self.layers = rng.randint(2, 12)
        self.op_ns = rng.randint(8, 40) * US
        self.kernel_ns = rng.choice((3, 10, 60, 300)) * US
        self.ends_in_sync = rng.random() < 0.5
        self.period = rng.randint(2, 3)
        self.is_inference = "inference.grad_enabled" in faults

    def part(self, id, most):
        """Of `most`, what the fault takes; 0 when it is not planted."""
        return int(self.strength.get(id, 0) * most)


# ---------------------------------------------------------------- what a step does wrong


@fault("input.starved")
def wait_for_data(r, plan, number):
    ns = plan.part("input.starved", 60 * MS)
    r.x("user_annotation", LOADER, r.now, ns)
    r.now += ns + US


@fault("host.python_gap")
def pause(r, plan, number):
    r.now += plan.part("host.python_gap", 40 * MS)


@fault("host.periodic_stall")
def stall(r, plan, number):
    if number % plan.period == 0:
        r.now += plan.part("host.periodic_stall", 200 * MS)


@fault("sync.host")
def read_values(r, plan, number):
    for _ in range(1 + plan.part("sync.host", 80)):
        r.copy("aten::item", "DtoH (Device -> Pageable)", 4, 2 * US)


@fault("copy.pageable")
def copy_pageable(r, plan, number):
    ns = plan.part("copy.pageable", 20 * MS) + US
    r.copy("aten::to", "HtoD (Pageable -> Device)", ns * 6, ns)


@fault("copy.many_small")
def copy_small(r, plan, number):
    for _ in range(1 + plan.part("copy.many_small", 300)):
        r.copy("aten::copy_", "HtoD (Pageable -> Device)", 4, 2 * US)


@fault("device.round_trip")
def go_to_the_host_and_back(r, plan, number):
    dims, back = [[64, 100], [], []], [[64, 5], [], []]
    r.copy("aten::to", "DtoH (Device -> Pageable)", 25600, 20 * US)
    r.events[-1]["args"]["Input Dims"] = dims
    r.op("aten::topk", plan.part("device.round_trip", 10 * MS), dims=dims)
    r.copy("aten::to", "HtoD (Pageable -> Device)", 2560, 5 * US, waits=False)
    r.events[-1]["args"]["Input Dims"] = back


@fault("launch.bound")
def launch_tiny_kernels(r, plan, number):
    for _ in range(1 + plan.part("launch.bound", 600)):
        r.op("aten::mul", 12 * US, ("mul", 2 * US))


@fault("precision.fp32_matmul")
def multiply_in_fp32(r, plan, number):
    kernel = "cutlass_80_simt_sgemm_128x64"
    r.op("aten::mm", plan.op_ns, (kernel, plan.part("precision.fp32_matmul", 30 * MS) + US))


@fault("layout.transposes")
def convert_layouts(r, plan, number):
    ns = plan.part("layout.transposes", 10 * MS) + US
    kernels = ("void cudnn::nchwToNhwcKernel<__half>", "bn_fw_tr_1C11_kernel_NCHW<float>")
    for kernel in (*kernels, "sm90_xmma_fprop_nhwc"):
        r.op("aten::conv2d", plan.op_ns, (kernel, ns))


@fault("matmul.misaligned")
def multiply_odd_sizes(r, plan, number):
    ns = plan.part("matmul.misaligned", 10 * MS) + US
    aligned, odd = [[1024, 1024], [1024, 1024]], [[1024, 1024], [1024, 1025]]
    r.op("aten::mm", plan.op_ns, ("nvjet", 30 * US), dims=aligned, types=HALF)
    r.op("aten::mm", plan.op_ns, ("align1", 30 * US + ns), dims=odd, types=HALF)


def attend(r, plan, id, around=None):
    """Products with a softmax between them; as much inside of another operator, when given."""
    ns = plan.part(id, 3 * MS) + US
    begin = r.now
    scores = [[8, 4, 64, 64], [], []]
    r.op("aten::bmm", 15 * US, ("bmm", US), dims=[[32, 64, 16], [32, 16, 64]], types=HALF)
    r.op("aten::_softmax", 15 * US, ("softmax", ns), dims=scores, types=HALF)
    r.op("aten::bmm", 15 * US, ("bmm", US), dims=[[32, 64, 64], [32, 64, 16]], types=HALF)
    if around:
        r.x("cpu_op", around, begin - US, r.now - begin + US)
        r.now += 2 * US


@fault("attention.materialized")
def attend_by_hand(r, plan, number):
    attend(r, plan, "attention.materialized")


@fault("attention.backend")
def attend_slowly(r, plan, number):
    """Both slow kinds: the fallback to single operators, and the memory-efficient kernel."""
    r.now += US
    attend(r, plan, "attention.backend", "aten::_scaled_dot_product_attention_math")
    dims = [[8, 4, 128, 64]] * 3 + [[]] * 5
    ns = plan.part("attention.backend", 10 * MS) + US
    name = "aten::_scaled_dot_product_efficient_attention"
    r.op(name, 20 * US, ("fmha", ns), dims=dims, types=HALF)


@fault("cudnn.retuning")
def try_algorithms(r, plan, number):
    for tries in (16 + plan.part("cudnn.retuning", 100), 1):
        start = r.now
        for _ in range(tries):
            r.work("conv", r.now + 4 * US, 20 * US, r.call("cudaLaunchKernel", 2 * US))
            r.now += 6 * US
        for _ in range(3 if tries > 1 else 0):
            r.call("cudaEventSynchronize", 3 * US)
            r.now += 4 * US
        dims = [[32, 3, 64, 64], [64, 3, 3, 3]]
        r.x("cpu_op", "aten::cudnn_convolution", start, r.now - start, **{"Input Dims": dims})
        r.now += US


@fault("memory.growth")
def keep_memory(r, plan, number):
    for bytes_kept, addr in ((8 * MIB, 1), (plan.part("memory.growth", 64 * MIB) + 512, 0)):
        r.addr += 1
        r.memory(bytes_kept, addr or r.addr + 1)
        r.now += US
    r.memory(-8 * MIB, 1)
    r.now += US


@fault("memory.allocator_churn")
def ask_the_driver(r, plan, number):
    ns = plan.part("memory.allocator_churn", 3 * MS) + US
    for name in ("cudaFree", "cudaMalloc"):
        r.call(name, ns)
        r.now += ns + US


@fault("compile.recompiles")
def compile_again(r, plan, number):
    ns = plan.part("compile.recompiles", 400 * MS) + US
    mark = f"dynamo_data: compile_id=0/{number + 2}"
    r.x("user_annotation", mark, r.now, 10 * US)
    name = "_compile.compile_inner (dynamo_timed)"
    r.x("cpu_op", name, r.now + 20 * US, ns)
    r.now += ns + 30 * US
    dims = [[512, 512], [120 + 8 * number, 512]]
    r.op("CompiledFunction", plan.op_ns, ("triton", plan.kernel_ns), dims=dims)


@fault("optimizer.unfused")
def update_one_by_one(r, plan, number):
    begin = r.now
    for _ in range(8 + plan.part("optimizer.unfused", 200)):
        r.op("aten::addcdiv_", 9 * US, ("elementwise", 3 * US))
    r.x("user_annotation", "Optimizer.step#AdamW.step", begin - US // 2, r.now - begin)


BEFORE_BACKWARD = [id for id in FAULTS if id != "optimizer.unfused"]


@fault("inference.grad_enabled")
def record_a_graph(r, plan, number):
    """The graph is that of the layers: `add_step` leaves the backward pass out."""


# ---------------------------------------------------------------- several ranks, and the process

OF_RANKS = (
    "ranks.straggler",
    "ranks.imbalance",
    "comm.exposed",
    "comm.small_buckets",
    "comm.redundant_sync",
    "comm.fp32_payload",
)
OF_PROCESS = ("cpu.throttled", "cpu.oversubscribed")
IDS = (*FAULTS, *OF_RANKS, *OF_PROCESS)


def sum_up_gradients(r, plan, late_ns):
    """Collectives of the engine; those of rank 0 begin earlier when rank 1 is late."""
    small = plan.part("comm.small_buckets", 120)
    big_ns = plan.part("comm.exposed", 20 * MS) + plan.part("comm.fp32_payload", 20 * MS) + 20 * US
    parts = [(MIB // 4, 8 * US)] * small + [(8 * MIB, big_ns)]
    for elements, ns in parts:
        corr = r.call("cudaLaunchKernelExC", 3 * US, tid=2, at=r.now + 5 * US)
        r.x("cpu_op", "c10d::allreduce_", r.now, 15 * US, tid=2)
        meta = {"Collective name": "allreduce", "dtype": "Float", "Group size": 2}
        meta |= {"In msg nelems": elements, "Out msg nelems": elements}
        meta |= {"Process Group Name": "0", "Process Group Ranks": "[0, 1]"}
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
        r.work(name, max(r.now + 10 * US, r.free[7]), ns + late_ns, corr, stream=17, **meta)
        late_ns = 0
        r.now += 16 * US


def run_backward(r, plan, first_seq):
    for i in reversed(range(plan.layers)):
        name = "autograd::engine::evaluate_function: AddmmBackward0"
        kernels = ("gemm_bf16_tensorop_s16816", plan.kernel_ns), ("sum", 2 * US)
        r.op(name, plan.op_ns, *kernels, tid=2, seq=first_seq + i)


def run_layers(r, plan, is_ddp):
    begin = r.now
    for _ in range(plan.layers):
        kernel = ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", plan.kernel_ns)
        r.op("aten::linear", plan.op_ns, kernel, seq=r.seq)
        r.seq += 1
    if is_ddp:
        r.x("user_annotation", "DistributedDataParallel.forward", begin, r.now - begin)
        r.now += US


def add_step(r, plan, number):
    begin = r.now
    late_ns = plan.part("ranks.straggler", 30 * MS)
    more_ns = plan.part("ranks.imbalance", 20 * MS)
    passes = 4 if "comm.redundant_sync" in plan.faults else 1
    r.now += US
    if r.rank == 1:
        r.now += late_ns
    for _ in range(passes):
        first_seq = r.seq
        run_layers(r, plan, r.rank is not None)
        for id in BEFORE_BACKWARD:
            if id in plan.faults:
                FAULTS[id](r, plan, number)
        if more_ns:
            r.op("aten::mm", plan.op_ns, ("gemm", more_ns * (1 + (r.rank or 0)) // 2 + US))
        if plan.is_inference:
            continue
        run_backward(r, plan, first_seq)
        if r.rank is not None:
            waits_ns = (late_ns + more_ns // 2) // passes if r.rank == 0 else 0
            sum_up_gradients(r, plan, waits_ns)
    if "optimizer.unfused" in plan.faults:
        update_one_by_one(r, plan, number)
    elif not plan.is_inference:
        r.x("user_annotation", "Optimizer.step#AdamW.step", r.now, 30 * US)
        r.op("aten::_fused_adamw_", 20 * US, ("fused", 20 * US))
        r.now += 15 * US
    if plan.ends_in_sync or r.rank is not None:
        r.sync()
    r.x("user_annotation", f"ProfilerStep#{number}", begin, r.now - begin)


def process_use(plan, wall_ns):
    """What `kscope run` notes of the process, when one of its faults is planted."""
    use = {"threads": 4, "cores": 4, "local_ranks": 1, "wall_ns": wall_ns, "cpu_ns": 3 * wall_ns}
    use |= {"thread_run_ns": wall_ns // 2}
    if "cpu.throttled" in plan.faults:
        lost_ns = plan.part("cpu.throttled", wall_ns)
        use |= {"quota_us": 150000, "period_us": 100000, "periods": 10 + wall_ns // (100 * MS)}
        use |= {"throttled": 5 + wall_ns // (200 * MS), "throttled_ns": lost_ns}
    if "cpu.oversubscribed" in plan.faults:
        waits_ns = plan.part("cpu.oversubscribed", wall_ns // 2)
        use |= {"threads": 16, "thread_wait_ns": waits_ns}
    return use


def record(rng, plan, rank, has_gpu):
    r = Recording(rng, rank, has_gpu)
    for number in range(1, STEPS + 1):
        add_step(r, plan, number)
    top = {"schemaVersion": 1, "record_shapes": 1, "profile_memory": 1, "with_stack": 0}
    top |= {"baseTimeNanoseconds": 1700000000000000000, "deviceProperties": [DEVICE] * has_gpu}
    if rank is not None:
        top["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 2}
    if plan.faults & set(OF_PROCESS):
        top["kinetoscope"] = {"process": process_use(plan, r.now)}
    if rng.random() < 0.3:
        around = int(r.now / STEPS * rng.uniform(0.3, 1.0))
        top.setdefault("kinetoscope", {})["unprofiled_step_ns"] = [around] * 5
    return {"top": top, "events": r.events}


def draw(rng, faults):
    """One trace, or two of a job when some of the faults are of ranks."""
    plan = Plan(rng, frozenset(faults))
    has_ranks = bool(plan.faults & set(OF_RANKS))
    only_cpu = {"input.starved", "host.python_gap", "host.periodic_stall", *OF_PROCESS}
    has_gpu = has_ranks or not plan.faults <= only_cpu or rng.random() < 0.5
    ranks = (0, 1) if has_ranks else (None,)
    return [record(rng, plan, rank, has_gpu) for rank in ranks]
