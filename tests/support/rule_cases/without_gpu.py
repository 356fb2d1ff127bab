"""Rules that judge programs without a GPU, too, by other evidence: their cases there."""

from dataclasses import replace

from rule_cases.case import Finding, three
from rule_cases.recording import ENGINE, HALF, MAIN, Recording


def on_cpu(cases):
    """Beside the cases of the same rule with a GPU."""
    return [replace(case, kind=f"cpu_{case.kind}") for case in cases]


def steps(body, dur, count=5):
    """Steps of `dur` us: `body(recording, number)`, then an operator until their end."""
    recording = Recording(has_gpu=False)
    for number in range(1, count + 1):
        recording.start()
        body(recording, number)
        recording.op("aten::addmm", recording.begin + dur - recording.now)
        recording.end(number)
    return recording


# ---------------------------------------------------------------- optimizer.unfused


ADAMW = "Optimizer.step#AdamW.step"


def adamw(us, fused=False):
    def body(r, number):
        with r.within(ADAMW, cat="user_annotation"):
            for _ in range(1 if fused else 20):
                r.op("aten::_fused_adamw_" if fused else "aten::mul_", us)

    return steps(body, 10_000)


def optimizer_unfused():
    cases = three(
        "optimizer.unfused",
        adamw,
        fires=(100, "CPU steps of 10 ms; 20 operators of AdamW.step take 100 us each."),
        found=[Finding("optimizer.unfused", 0.45 * (2000 - 20 * 2), 0.91 * 2000, op=ADAMW)],
        hand="A fused step leaves 0.55 of 2 ms less 20 x 2 us of recording (low), or 0.09 of 2 ms.",
        near=(36, "720 us: the middle of 0.45 x 680 and 0.91 x 720 us is 481 us, 4.8 %."),
        silent=(None, "One operator updates all tensors."),
        without=lambda: adamw(2000, fused=True),
    )
    return on_cpu(cases)


# ---------------------------------------------------------------- kv.disabled


def prefix(grows):
    """So many steps see a token more than the one before."""

    def body(r, number):
        tokens = 1000 + min(number - 1, grows)
        dims = [[50, 16], [2, tokens], [], [], []]
        r.op("aten::embedding", 10, dims=dims, types=HALF)
        attention = "aten::scaled_dot_product_attention"
        r.op(attention, 10, dims=[[2, 1, tokens, 16]] * 3, types=HALF)
        dims = [[2 * tokens, 16], [16, 16]]
        r.op("aten::mm", r.begin + 1990 - r.now, dims=dims, types=HALF)

    return steps(body, 2000)


def kv_disabled():
    read = 2 * 16 * 16 + 2 * 2 * 2 * 16 * 1002
    sure = 0.998 * (1966 - 10) * (1 - 1 / 1004) - read / 2000
    most = 0.998 * (1966 - 3 + 3 * 7) * (1 - 1 / 1004) - read / 20_000
    cases = three(
        "kv.disabled",
        prefix,
        fires=(4, "CPU steps of 2 ms: 1966 us of a product and three operators of 10 us a text."),
        found=[Finding("kv.disabled", sure, most, op="aten::embedding")],
        hand="0.998 of the step, beyond 10 (low) or 3 us a call, but for 1 / 1004 of it, and "
        "128768 bytes at 2 or 20 GB/s.",
        near=(2, "The text grows twice."),
        asks="a text that grows three times in a row",
        silent=(0, "The text does not grow."),
    )
    return on_cpu(cases)


# ---------------------------------------------------------------- inference.unbatched


def alone(calls, together=32):
    def body(r, number):
        r.op("aten::slice", 10, dims=[[together, 7], [], [], [], []], types=["long", ""])
        for _ in range(calls):
            r.op("aten::empty", 3)
        dims = [[50, 16], [32 // together, 7], [], [], []]
        r.op("aten::embedding", 10, dims=dims, types=["float", "long"])

    return steps(body, 1000)


def inference_unbatched():
    calls = 4 + 3 + 20 * 3 + 3 + 3
    cases = three(
        "inference.unbatched",
        alone,
        fires=(20, "CPU steps of 1 ms: a text of 32 that lie in a tensor, 25 calls of operators."),
        found=[Finding("inference.unbatched", calls * 7 / 8, 1000 * 31 / 32, op="aten::embedding")],
        hand="High: 31 of 32 steps go. Low: 7 of 8 times what the calls take, 4 + 23 x 3 us.",
        near=(14, "7 of 8 times 4 + 17 x 3 us are 48 us, 4.8 %."),
        silent=(None, "All texts go together."),
        without=lambda: alone(20, together=1),
    )
    return on_cpu(cases)


# ---------------------------------------------------------------- comm.redundant_sync


def accumulate(us, every=True):
    """Four micro-batches before an optimizer's step, whose thread waits for each collective."""

    def body(r, number):
        for batch in range(4):
            with r.within("DistributedDataParallel.forward", cat="user_annotation"):
                r.op("aten::mm", 100)
            if every or batch == 3:
                r.op("c10d::allreduce_", 10, dims=[[]])
                r.note("gloo:all_reduce", r.now, us, ENGINE)
                r.pause(us)
        r.note("Optimizer.step#SGD.step", r.now, 1, MAIN)

    return steps(body, 10_000)


def comm_redundant_sync():
    cases = three(
        "comm.redundant_sync",
        accumulate,
        fires=(1000, "CPU steps of 10 ms: after each of 4 micro-batches 1 ms of summing up."),
        found=[Finding("comm.redundant_sync", 0.5 * 3000, 3000)],
        hand="High: 3 of 4 ms go. Low: half of that, since nothing else runs meanwhile.",
        near=(130, "390 us go at most, and 195: the middle is 2.9 %."),
        asks="at least 3 % of the step",
        silent=(None, "Only the last micro-batch sums up."),
        without=lambda: accumulate(1000, every=False),
    )
    return on_cpu(cases)


RULES = (optimizer_unfused, kv_disabled, inference_unbatched, comm_redundant_sync)
