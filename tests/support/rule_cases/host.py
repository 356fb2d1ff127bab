"""Rules about the host: it waits, it launches too slowly, or it does something else."""

from rule_cases.case import Finding, three
from rule_cases.recording import ELEMENTWISE, LOADER, Recording, lead, steps

# ---------------------------------------------------------------- input.starved


def starved(wait):
    def body(r, number):
        r.note(LOADER, r.now, wait)
        r.now += wait

    return steps(body, 30_000)


def input_starved():
    return three(
        "input.starved",
        starved,
        fires=(1600, "Steps of 30 ms, 1.6 ms of them in the loader's __next__, in this process."),
        found=[Finding("input.starved", 1398, 1600, "storage", op=LOADER)],
        hand="High: 1600 us. Low: workers hide all but 200 us to hand over, and 2 us of recording.",
        near=(1450, "1.45 ms of 30 ms in the loader: 4.8 %."),
        silent=(100, "0.1 ms of 30 ms in the loader."),
    )


# ---------------------------------------------------------------- sync.host


def reads(item):
    def body(r, number):
        for _ in range(8):
            r.op("aten::mean", 30, "void at::native::reduce_kernel<512, 1>", 2)
            inside = "aten::_local_scalar_dense"
            r.copy("aten::item", item, "DtoH (Device -> Pageable)", 4, 1, inside=inside)

    return steps(body, 10_000)


def sync_host():
    return three(
        "sync.host",
        reads,
        fires=(40, "Steps of 10 ms with 8 times aten::mean (30 us) and aten::item (40 us)."),
        found=[Finding("sync.host", 8 * 40, 8 * (40 + 30), op="aten::item")],
        hand="Low: 8 x 40 us go. High: what computes the value goes as well, 8 x 70 us.",
        near=(36, "8 reads of 36 us in steps of 10 ms: 2.88 % of 3."),
        asks="at least 3 % of the step",
        silent=(None, "Nothing is read."),
        without=lambda: steps(lambda r, number: None, 10_000),
    )


# ---------------------------------------------------------------- launch.bound


def launches(dur):
    def body(r, number):
        for _ in range(24):
            r.op("aten::mul", dur, ELEMENTWISE, 2)

    return steps(body, 6000)


def launch_bound():
    # The product begins at 4 + 24 x 40 + 10 us, and ends at 5998.
    low = 6000 - (8 + 24 * (2 + 1.5) + 5024 + 2)
    high = 6000 - (8 + 24 * 0.3 + 23 * 0.225 + 1.5 + 5024 + 2)
    return three(
        "launch.bound",
        launches,
        fires=(40, "24 operators of 40 us with kernels of 2 us, a product of 5024 us; 6 ms."),
        found=[Finding("launch.bound", low, high)],
        hand="Low: 8 + 24 x (2 + 1.5) + 5024 + 2 us stay. High: 8 + 24 x 0.3 + 23 x 0.225 + 1.5 + "
        "5024 + 2.",
        near=(26, "Operators of 26 us: the GPU idles 24 x (26 - 2) + 10 = 586 us of 6 ms."),
        asks="at least 10 % of the step",
        silent=(10, "Operators of 10 us keep the GPU at work."),
    )


# ---------------------------------------------------------------- input.tokenize_inline


def tokenizing(encode):
    def body(r, number):
        begin = r.now
        r.frame("train.py(9): main", r.begin, 10_000, 1)
        if encode:
            r.frame("train.py(30): encode", begin, encode, 2, 1)
            r.frame("train.py(40): log", begin + encode, 4000 - encode, 3, 1)
            r.pause(4000)

    return steps(body, 10_000)


def input_tokenize_inline():
    return three(
        "input.tokenize_inline",
        tokenizing,
        fires=(3000, "Steps of 10 ms with 4 ms of code, 3 ms of it in encode(): P = 0.75."),
        found=[Finding("input.tokenize_inline", 2400, 3000, place=("train.py", 30))],
        hand="High: 0.75 x 4000 us. Low: P / (P + 2 (1 - P)) = 0.6 of 4000 us.",
        near=(1960, "49 % of the code tokenizes: it is host.python_gap, 4000 us."),
        near_found=[Finding("host.python_gap", 4000, 4000, place=("train.py", 40))],
        asks="at least half of the code between operators",
        silent=(0, "No code runs between operators."),
    )


# ---------------------------------------------------------------- host.python_gap


def gap(us):
    return steps(lambda r, number: r.pause(us), 10_000)


def host_python_gap():
    return three(
        "host.python_gap",
        gap,
        fires=(600, "Steps of 10 ms, 0.6 ms of them between operators, while the GPU idles."),
        found=[Finding("host.python_gap", 600, 600)],
        hand="Without these 600 us all else takes as long.",
        near=(480, "480 us of 10 ms between operators."),
        silent=(0, "Operators follow each other."),
    )


# ---------------------------------------------------------------- host.slow_operator


def slow(us):
    def body(r, number):
        r.op("mylib::sample", us)

    return steps(body, 20_000)


def host_slow_operator():
    return three(
        "host.slow_operator",
        slow,
        fires=(1400, "Steps of 20 ms; mylib::sample takes the host 1.4 ms, and launches nothing."),
        found=[Finding("host.slow_operator", 700, 1400, op="mylib::sample")],
        hand="High: all of it. Low: half. The middle, 1050 us, is 5.25 %.",
        near=(1300, "1.3 ms: the middle is 975 us, 4.9 % of 20 ms."),
        silent=(100, "The operator takes 100 us."),
    )


# ---------------------------------------------------------------- host.periodic_stall


def stalls(us):
    recording = Recording()
    for number in range(1, 11):
        recording.start()
        is_long = number % 3 == 0
        if is_long and us:
            recording.op("mylib::evaluate", us)
        recording.finish(number, 1000 + us * is_long)
    return recording


def host_periodic_stall():
    return three(
        "host.periodic_stall",
        stalls,
        fires=(600, "Ten steps of 1 ms; steps 3, 6 and 9 take 0.6 ms longer, in an operator."),
        found=[Finding("host.periodic_stall", 100, 200)],
        hand="High: 3 x 600 us over the 9 steps behind the first. Low: half of that.",
        near=(470, "They take 1.47 times as long as others, of 1.5."),
        asks="steps that take at least 1.5 times the median",
        silent=(0, "All steps take as long."),
    )


# ---------------------------------------------------------------- memory.allocator_churn


def churn(us):
    def body(r, number):
        lead(r)
        if us:
            r.call("cudaFree", r.now, us)
            r.now += us
            r.call("cudaMalloc", r.now + 2, us)
            r.op("aten::empty", us + 4)

    return steps(body, 10_000)


def memory_allocator_churn():
    return three(
        "memory.allocator_churn",
        churn,
        fires=(200, "Steps of 10 ms; cudaFree from the program and cudaMalloc take 200 us each."),
        found=[Finding("memory.allocator_churn", 400, 600, op="aten::empty")],
        hand="Low: 400 us of calls, with no code before. High: half of the calls on top.",
        near=(145, "The calls take 290 us of 10 ms: 2.9 %."),
        asks="at least 3 % of the step",
        silent=(0, "No memory is taken from the driver."),
    )


# ---------------------------------------------------------------- copies


def small_copies(dur):
    def body(r, number):
        lead(r)
        for _ in range(25):
            r.op("aten::empty", 5)
            r.copy("aten::copy_", dur, "HtoD (Pageable -> Device)", 4, 1)

    return steps(body, 10_000, count=3)


def copy_many_small():
    return three(
        "copy.many_small",
        small_copies,
        fires=(
            25,
            "Steps of 10 ms with 25 times aten::empty (5 us) and a copy of 4 bytes (25 us).",
        ),
        found=[Finding("copy.many_small", 25 * 25, 25 * 30, op="aten::copy_")],
        hand="Low: 25 x 25 us go. High: what makes the small tensor goes, too, 25 x 30 us.",
        near=(19, "25 copies of 19 us: 475 us of 10 ms."),
        silent=(None, "Nothing is copied."),
        without=lambda: steps(lambda r, number: lead(r), 10_000),
    )


def pageable(us, kind="Pageable"):
    def body(r, number):
        r.copy("aten::to", us + 20, f"HtoD ({kind} -> Device)", 5_000_000, us)

    return steps(body, 10_000)


def copy_pageable():
    return three(
        "copy.pageable",
        pageable,
        fires=(
            600,
            "Steps of 10 ms; 5 MB from pageable memory in 600 us; the GPU idles for 32 us.",
        ),
        found=[Finding("copy.pageable", 400, 782, bytes=5_000_000, op="aten::to")],
        hand="Low: 600 us less 5 MB / 25 GB/s. High: 1.25 x 600 + 32 us, since it need not block.",
        near=(480, "The copies take 480 us of 10 ms."),
        silent=(None, "The memory is pinned."),
        without=lambda: pageable(600, "Pinned"),
    )


def round_trip(us):
    def body(r, number):
        lead(r)
        scores, best = [[64, 100], [], []], [[64, 5], [], []]
        r.copy("aten::to", 40, "DtoH (Device -> Pageable)", 25_600, 2, dims=scores)
        r.op("aten::topk", us, dims=scores)
        r.copy("aten::to", 40, "HtoD (Pageable -> Device)", 2_560, 2, dims=best)

    return steps(body, 10_000)


def device_round_trip():
    return three(
        "device.round_trip",
        round_trip,
        fires=(400, "Steps of 10 ms: a copy to the host (40 us), topk there (400), one back (40)."),
        found=[Finding("device.round_trip", 380, 480, op="aten::to")],
        hand="High: 480 us go. Low: less a quarter of topk, which launches on the GPU then.",
        near=(215, "topk takes 215 us: the GPU idles 76 + 215 us between the copies, of 10 ms."),
        asks="at least 3 % of the step",
        silent=(None, "Nothing goes to the host."),
        without=lambda: steps(lambda r, number: lead(r), 10_000),
    )


# ---------------------------------------------------------------- optimizer.unfused


def single(dur):
    def body(r, number):
        begin = r.now
        for _ in range(10 if dur else 0):
            r.op("aten::addcdiv_", dur, ELEMENTWISE, 2)
        if not dur:
            r.op("aten::_fused_adamw_", 20, "multi_tensor_apply_kernel", 40)
        r.note("Optimizer.step#AdamW.step", begin, r.now - begin)

    return steps(body, 10_000)


def optimizer_unfused():
    return three(
        "optimizer.unfused",
        single,
        fires=(100, "Steps of 10 ms; AdamW runs 10 operators of 100 us for single tensors."),
        found=[Finding("optimizer.unfused", 880, 960, op="Optimizer.step#AdamW.step")],
        hand="Of 1000 us of the host a fused step keeps 0.12 (low) to 0.04 (high).",
        near=(52, "520 us of the host: the middle is 0.92 x 520 = 478 us, 4.8 % of 10 ms."),
        silent=(0, "The optimizer is fused."),
    )


RULES = (
    input_starved,
    sync_host,
    launch_bound,
    input_tokenize_inline,
    host_python_gap,
    host_slow_operator,
    host_periodic_stall,
    memory_allocator_churn,
    copy_many_small,
    copy_pageable,
    device_round_trip,
    optimizer_unfused,
)
