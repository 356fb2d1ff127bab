"""Rules about ranks and their collectives."""

from rule_cases.case import Finding, three
from rule_cases.recording import ELEMENTWISE, ENGINE, LAUNCH_US, PRODUCT, Recording

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
MIB_OF_FP32 = (1 << 20) // 4


def collective(r, us, elements, dur=20, name="allreduce", kernel=ALL_REDUCE, stream=17, op=True):
    """One that the autograd engine starts, and that comes behind the compute launched so far."""
    begin = r.now
    if op:
        r.row("cpu_op", "c10d::allreduce_", begin, dur, ENGINE)
    corr = r.call("cudaLaunchKernelExC", begin + 2, 2, ENGINE)
    args = {"Collective name": name, "dtype": "Float", "Group size": 2}
    args |= {"In msg nelems": elements, "Out msg nelems": elements}
    args |= {"Process Group Name": "0", "Process Group Ranks": "[0, 1]"}
    r.free[stream] = max(r.free.get(stream, 0), begin + 2 + LAUNCH_US)
    r.work(kernel, us, begin + 2, corr, stream, **args)
    r.now += dur


def behind(r, stream=17):
    """Collectives wait for the kernels before."""
    r.free[stream] = max(r.free.values(), default=0)


def of_ranks(draw, count=2):
    """What draws the files of a run by a value: `draw(recording, value)` draws a rank."""

    def draw_all(value):
        files = {}
        for rank in range(count):
            recording = files[f"rank{rank}.json"] = Recording(rank=rank, ranks=count)
            draw(recording, value)
        return files

    return draw_all


# ---------------------------------------------------------------- ranks


def uneven(r, code, more_work, us=100):
    """Steps of 10 ms. The other rank comes later, for its code or its work, to a collective that
    moves data for `us`."""
    for number in range(1, 5):
        r.start()
        late = code if r.rank == 1 else 0
        r.pause(late)
        more = more_work if r.rank == 1 else 0
        r.product(10_000 - 16 - us - code - more_work + more)
        behind(r)
        collective(r, us + code + more_work - late - more, 16 * MIB_OF_FP32)
        r.sync()
        r.end(number)


def ranks_straggler():
    return three(
        "ranks.straggler",
        of_ranks(lambda r, code: uneven(r, code, 0)),
        fires=(600, "Steps of 10 ms; rank 1 runs 600 us of code in each, for which rank 0 waits."),
        found=[Finding("ranks.straggler", 540, 600, "host_code", rank=1)],
        hand="High: alone, rank 1 takes 600 us longer than rank 0. Low: a tenth less.",
        near=(480, "480 us of code: 4.8 % of 10 ms."),
        silent=(0, "Both ranks are alike."),
    )


def ranks_imbalance():
    return three(
        "ranks.imbalance",
        of_ranks(lambda r, more: uneven(r, 0, more)),
        fires=(1200, "Steps of 10 ms; rank 1 computes 1200 us more than rank 0, which waits."),
        found=[Finding("ranks.imbalance", 300, 600, rank=1)],
        hand="High: rank 1 has 600 us more than the mean of both. Low: half of that.",
        near=(970, "970 us more: 485 us above the mean, 4.85 % of 10 ms."),
        silent=(0, "Both ranks are alike."),
    )


# ---------------------------------------------------------------- comm


def exposed(r, us, kernel):
    """Steps of 10 ms that end in a collective, and nothing beside it."""
    for number in range(1, 5):
        r.start()
        r.op("aten::mm", 10, kernel, 10_000 - 16 - us)
        behind(r)
        if us:
            collective(r, us, 16 * MIB_OF_FP32)
        r.sync()
        r.end(number)


def comm_exposed():
    return three(
        "comm.exposed",
        of_ranks(lambda r, us: exposed(r, us, ELEMENTWISE)),
        fires=(600, "Steps of 10 ms, the last 600 us of which sum up gradients in fp32."),
        found=[Finding("comm.exposed", 300, 600)],
        hand="High: without collectives. Low: half of them, as bf16 leaves half of the bytes.",
        near=(485, "485 us of 10 ms."),
        silent=(20, "20 us of 10 ms."),
    )


def comm_fp32_payload():
    return three(
        "comm.fp32_payload",
        of_ranks(lambda r, us: exposed(r, us, PRODUCT)),
        fires=(700, "Steps of 10 ms on tensor cores, the last 700 us sum up gradients in fp32."),
        found=[Finding("comm.exposed", 350, 700), Finding("comm.fp32_payload", 175, 350)],
        hand="High: half of 700 us, in 16 bits. Low: half of that. comm.exposed: 350 to 700 us.",
        near=(580, "Half of 580 us is 2.9 % of 10 ms, of 3; comm.exposed says 290 to 580 us."),
        near_found=[Finding("comm.exposed", 290, 580)],
        asks="at least 3 % of the step",
        silent=(20, "20 us of 10 ms."),
    )


def small(r, dur, elements=MIB_OF_FP32):
    """Steps of 10.25 ms with 17 collectives that take the host `dur` each, before a product."""
    for number in range(1, 5):
        r.start()
        for _ in range(17):
            collective(r, 5, elements, dur)
        r.finish(number, 10_250)


def comm_small_buckets():
    return three(
        "comm.small_buckets",
        of_ranks(lambda r, dur: small(r, dur or 20, MIB_OF_FP32 if dur else 1024), count=1),
        fires=(20, "17 collectives of 1 MiB, 20 us of the host each, where 2 would do; 10.25 ms."),
        found=[Finding("comm.small_buckets", 15 * 20, 1.5 * 15 * 20)],
        hand="Low: 15 of 17 go, 300 us. High: and half as much again.",
        near=(16, "16 us each: the middle is 1.25 x 15 x 16 = 300 us, 2.9 % of 10.25 ms, of 3."),
        asks="at least 3 % of the step",
        silent=(0, "They carry 4 KiB, as statistics of layers do."),
    )


def accumulate(r, dur, every=True):
    """Four micro-batches before an optimizer's step; gradients are summed up after each or the
    last."""
    for number in range(1, 5):
        r.start()
        for batch in range(4):
            with r.within("DistributedDataParallel.forward", cat="user_annotation"):
                r.product(5)
            for _ in range(4 if every or batch == 3 else 0):
                collective(r, 10, 16 * MIB_OF_FP32)
        r.op("aten::empty", 20)  # so that nothing looks as if it waited for the collectives
        r.product_until(dur)
        r.sync()
        r.note("Optimizer.step#SGD.step", r.now - 1, 1)
        r.end(number)


def comm_redundant_sync():
    return three(
        "comm.redundant_sync",
        of_ranks(lambda r, dur: accumulate(r, dur or 6000, dur > 0), count=1),
        fires=(6000, "Steps of 6 ms with 4 micro-batches, each sums up in 4 collectives of 20 us."),
        found=[Finding("comm.redundant_sync", 240, 240)],
        hand="12 of 16 collectives go: 12 x 20 us of the host, beside which they run.",
        near=(8250, "Steps of 8.25 ms: 240 us are 2.9 %, of 3."),
        asks="at least 3 % of the step",
        silent=(0, "Only the last micro-batch sums up."),
    )


def gathers(r, us, is_fsdp=True):
    """Steps of 10 ms: five blocks are gathered, each computes when it is there."""
    for number in range(1, 5):
        r.start()
        for _ in range(5):
            name = "FSDP::all_gather (block)" if is_fsdp else "gather"
            behind(r, 19)
            r.note(name, r.now, 10)
            corr = r.call("cudaLaunchKernelExC", r.now + 2, 2)
            args = {"Collective name": "_allgather_base", "dtype": "Float", "Group size": 2}
            args |= {"In msg nelems": 8 * MIB_OF_FP32, "Out msg nelems": 16 * MIB_OF_FP32}
            args |= {"Process Group Name": "0", "Process Group Ranks": "[0, 1]"}
            r.work("ncclDevKernel_AllGather_RING_LL", us, r.now + 2, corr, 19, **args)
            r.now += 10
            behind(r, 7)
            r.product(500)
        r.finish(number, 10_000)


def fsdp_exposed_gather():
    return three(
        "fsdp.exposed_gather",
        of_ranks(lambda r, us: gathers(r, us or 150, us > 0)),
        fires=(
            150,
            "Steps of 10 ms; compute waits for five gathers of 150 us, one for each block.",
        ),
        found=[
            Finding("fsdp.exposed_gather", 0.75 * 600, 740),
            Finding("comm.exposed", 0.25 * 750, 740),
        ],
        hand="High: 750 us but for the 10 until the first block is launched. Low: 3/4 of all but "
        "the first gather. comm.exposed: a quarter of 750 us, to 740.",
        near=(123, "123 us each: the middle of 0.75 x 492 and 605 us is 487 us, 4.9 % of 10 ms."),
        near_found=[Finding("comm.exposed", 0.25 * 615, 605)],
        silent=(0, "The gathers are not FSDP's: comm.exposed alone, 187.5 to 740 us."),
        silent_found=[Finding("comm.exposed", 0.25 * 750, 740)],
    )


RULES = (
    ranks_straggler,
    ranks_imbalance,
    comm_exposed,
    comm_fp32_payload,
    comm_small_buckets,
    comm_redundant_sync,
    fsdp_exposed_gather,
)
