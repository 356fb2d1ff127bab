"""Rules about what happens from step to step: tuning, compiling, memory, and text that grows."""

from rule_cases.case import Finding, three
from rule_cases.device import NODE
from rule_cases.recording import ELEMENTWISE, ENGINE, HALF, Recording, steps

# ---------------------------------------------------------------- cudnn.retuning


def convolution(r, pieces, us):
    """One that knows its algorithm has one piece; one that tries has 16, and waits three times."""
    dims = [[32, 3, 64, 64], [64, 3, 3, 3], [], [], [], [], []]
    with r.within("aten::cudnn_convolution", dims=dims):
        for _ in range(pieces):
            r.work("conv", 6, r.now + 2, r.call("cudaLaunchKernel", r.now + 2, 2))
            r.pause(us)
        for _ in range(3 if pieces > 1 else 0):
            r.call("cudaEventSynchronize", r.now, us)
            r.pause(us)


def tries(us):
    def body(r, number):
        convolution(r, 1, 50)
        if us:
            convolution(r, 16, us)

    return steps(body, 20_000)


def cudnn_retuning():
    return three(
        "cudnn.retuning",
        tries,
        fires=(80, "Steps of 20 ms; a convolution takes 50 us, another tries: 19 x 80 = 1520 us."),
        found=[
            Finding("cudnn.retuning", 0.92 * (1520 - 150), 1520 - 50, op="aten::cudnn_convolution")
        ],
        hand="High: 1520 - 50 us. Low: 0.92 of 1520 - 3 x 50 us.",
        near=(58, "19 x 58 = 1102 us: the middle is 964 us, 4.8 % of 20 ms."),
        silent=(0, "No convolution tries."),
    )


# ---------------------------------------------------------------- memory

MIB = 1 << 20


def growth(size):
    recording = Recording()
    for number in range(1, 5):
        recording.start()
        recording.memory(8 * MIB, 1)
        if size:
            with recording.within("aten::relu"):
                recording.pause(2)
                recording.memory(size, 100 + number)
                recording.pause(2)
        recording.memory(-8 * MIB, 1)
        recording.finish(number, 2000)
    return recording


def memory_growth():
    free = (80 << 30) - 8 * MIB - 4 * MIB
    return three(
        "memory.growth",
        growth,
        fires=(MIB, "Each of four steps allocates 1 MiB in aten::relu, and nobody frees it."),
        found=[Finding("memory.growth", bytes=MIB, until_oom=free // MIB, op="aten::relu")],
        hand="80 GiB less a peak of 8 + 4 MiB, by 1 MiB a step: full in 81908 steps.",
        near=(800 << 10, "80 GiB less 8 MiB + 4 x 800 KiB, by 800 KiB: 104843 steps, of 100000."),
        asks="memory that is full within 100,000 steps",
        silent=(0, "What a step allocates it frees."),
    )


def nodes(count):
    recording = Recording()
    seq = 100
    for number in range(1, 5):
        recording.start()
        for _ in range(count or 7):
            recording.op("aten::linear", 10, ELEMENTWISE, 2, seq=seq)
            seq += 1 if count else 0
        recording.finish(number, 2000)
    return recording


def inference_grad_enabled():
    return three(
        "inference.grad_enabled",
        nodes,
        fires=(7, "Four steps of 7 operators with growing sequence numbers, no backward pass."),
        found=[Finding("inference.grad_enabled", op="aten::linear")],
        hand="The first number is no node: 27 nodes in 4 steps, 6.75 a step, and 6 are asked for.",
        near=(6, "6 operators a step: 23 nodes in 4 steps, 5.75 a step, of 6."),
        asks="at least 6 nodes a step",
        silent=(0, "All operators have the same number: nothing needs gradients."),
    )


# ---------------------------------------------------------------- compiling


def compiles(us):
    recording = Recording()
    for number in range(1, 5):
        recording.start()
        if us:
            mark = f"dynamo_data: compile_id=0/{number + 2}"
            recording.note(mark, recording.now, 10)
            recording.pause(10)
            recording.op("_compile.compile_inner (dynamo_timed)", us - 10)
        recording.op("CompiledFunction", 20, "triton_poi_fused_mul_0", 2)
        recording.finish(number, 20_000)
    return recording


def compile_recompiles():
    return three(
        "compile.recompiles",
        compiles,
        fires=(1200, "Steps of 20 ms, each compiles for 1.2 ms, the function's 4th time and more."),
        found=[Finding("compile.recompiles", 1200 - 9 * 2 * 1.85, 1200)],
        hand="High: 1200 us. Low: less what recording the step's 9 rows took, 2 us by 1.85 each.",
        near=(970, "970 us of 20 ms: 4.85 %."),
        silent=(0, "Nothing is compiled."),
    )


GRAPH = "## Call CompiledFxGraph fabc ##"
LOOKUP = "TorchDynamo Cache Lookup"


def graph(r):
    with r.within(GRAPH, cat="user_annotation"):
        r.op("triton_poi_fused_mul_0", 20, "triton_poi_fused_mul_0", 2)


def breaks(us):
    def body(r, number):
        r.op(LOOKUP, 20)
        with r.within("Torch-Compiled Region: 0/0"):
            graph(r)
            if us:
                r.op("aten::mul", us, ELEMENTWISE, 2, seq=100 + number)
                r.op(LOOKUP, 40)
                with r.within("Torch-Compiled Region: 1/0"):
                    r.pause(110)
                    graph(r)
        if us:
            r.op(NODE + "MulBackward0", us, ELEMENTWISE, 2, ENGINE, seq=100 + number)
        r.op("aten::empty", 10)  # so that the product finds the GPU idle in any case

    return steps(body, 5000)


def compile_graph_breaks():
    return three(
        "compile.graph_breaks",
        breaks,
        fires=(100, "A break: aten::mul and its node take 100 us each, entering again 150; 5 ms."),
        found=[Finding("compile.graph_breaks", 150 + 0.3 * 200, 150 + 200, op="aten::mul")],
        hand="High: 200 + 150 us. Low: 150 us and 0.3 of 200 us.",
        near=(70, "70 us each: the middle is 150 + 0.65 x 140 = 241 us, 4.8 % of 5 ms."),
        silent=(0, "The function is compiled as a whole."),
    )


def singly(kernels, replays=True):
    def body(r, number):
        with r.within("Torch-Compiled Region: 0/0"):
            with r.within("CompiledFunction"):
                with r.within(GRAPH, cat="user_annotation"):
                    for _ in range(kernels):
                        corr = r.call("cuLaunchKernel", r.now + 2, 2)
                        r.work("triton_poi_fused_0", 2, r.now + 2, corr)
                        r.pause(38)
        with r.within("CompiledFunctionBackward", thread=ENGINE):
            name = "cudaGraphLaunch" if replays else "cuLaunchKernel"
            r.work("triton_poi_fused_1", 10, r.now + 2, r.call(name, r.now + 2, 2, ENGINE))
            r.pause(60)

    return steps(body, 6000)


def compile_graphs_skipped():
    return three(
        "compile.graphs_skipped",
        singly,
        fires=(10, "Forward, 10 kernels in 380 us of the host; backward, a replay in 60 us; 6 ms."),
        found=[Finding("compile.graphs_skipped", 320, 320)],
        hand="Replayed, the forward pass takes 60 us like the other: 380 - 60 us go.",
        near=(9, "9 kernels in 342 us: 342 - 60 = 282 us are 4.7 % of 6 ms."),
        silent=(None, "No graph is replayed: nothing says that any was to be."),
        without=lambda: singly(10, replays=False),
    )


# ---------------------------------------------------------------- text that grows


def concat(us, grows=1):
    recording = Recording()
    for number in range(4):
        length = 100 + number * grows
        recording.start()
        recording.product(500)
        for _ in range(2):
            name = "void at::native::CatArrayBatchedCopy"
            recording.op("aten::cat", 10, name, us, dims=[[], []], types=["TensorList", "Scalar"])
        dims = [[2, 4, 1, 16], [2, 4, length, 16], [2, 4, length, 16]]
        attention = "aten::scaled_dot_product_attention"
        recording.op(attention, 10, "fmha", 5, dims=dims, types=HALF)
        recording.finish(number + 1, 2000)
    return recording


def kv_concat():
    new = 200 * 4 / (100 + 101 + 102 + 103)
    return three(
        "kv.concat",
        concat,
        fires=(100, "Steps of 2 ms, one token each: two aten::cat of 100 us join 100 to 103 keys."),
        found=[Finding("kv.concat", 200 - new - 2 * 5, 200 - new - 2 * 2, op="aten::cat")],
        hand="In place: 200 x 4 / 406 = 1.97 us for new tokens, and 5 (low) or 2 us a write.",
        near=(52, "104 us: the middle is 104 - 1.02 - 7 = 96 us, 4.8 % of 2 ms."),
        silent=(None, "The keys do not grow."),
        without=lambda: concat(100, grows=0),
    )


def prefix(before, grows=1):
    """`before`: us of work before the embedding, which is none of the pass."""
    recording = Recording()
    for number in range(5):
        tokens = 1000 + number * grows
        recording.start()
        recording.product(before)
        dims = [[50, 16], [2, tokens], [], [], []]
        recording.op("aten::embedding", 10, "indexSelectSmallIndex", 10, dims=dims, types=HALF)
        dims = [[2 * tokens, 16], [16, 16]]
        recording.op("aten::mm", 10, "nvjet_mm", 10, dims=dims, types=HALF)
        attention = "aten::scaled_dot_product_attention"
        recording.op(attention, 10, "fmha", 10, dims=[[2, 1, tokens, 16]] * 3, types=HALF)
        recording.finish(number + 1, 2000)
    return recording


def kv_disabled():
    # A step launches 5 times and works from 14 to 1998 us; weights and keys are read once.
    read = 2 * 16 * 16 + 2 * 2 * 2 * 16 * 1002
    kept = (5 * 5 + read / 1e6 + 1984 / 1004, 5 * 2 + read / 3.35e6 + 1984 / 1004)
    bounds = [(1984 - 500) * (1 - part / 1984) for part in kept]
    return three(
        "kv.disabled",
        prefix,
        fires=(
            500,
            "5 steps of 2 ms, 5 launches and 1984 us of work, 1484 of it over 1000 to 1004 tokens.",
        ),
        found=[Finding("kv.disabled", bounds[0] - 0.9, bounds[1], op="aten::embedding")],
        hand="A token takes 5 x 5 + 1984 / 1004 + 0.1 of 1984 us (low), or 5 x 2 us + as much, "
        "and 6 us to the first launch are 0.9 longer (low).",
        near=(1886, "98 us of 2 ms are over the prefix."),
        silent=(None, "The prefix does not grow."),
        without=lambda: prefix(500, grows=0),
    )


def alone(us, together=32):
    def body(r, number):
        r.op("aten::slice", 10, dims=[[together, 7], [], [], [], []], types=["long", ""])
        for _ in range(20):
            r.op("aten::empty", us)
        dims = [[50, 16], [32 // together, 7], [], [], []]
        r.op("aten::embedding", 10, "indexSelectSmallIndex", 20, dims=dims, types=["float", "long"])

    return steps(body, 2000)


def inference_unbatched():
    busy = 1998 - (4 + 10 + 20 * 60 + 10)
    return three(
        "inference.unbatched",
        alone,
        fires=(60, "Steps of 2 ms, in each one text of 32 that lie in a tensor; 774 us of work."),
        found=[Finding("inference.unbatched", 2000 - busy, 2000 - 2000 / 32, op="aten::embedding")],
        hand="High: 31 of 32 steps go. Low: all but the work, which is more than 2000 / 8.",
        near=(47, "The GPU idles for 26 + 20 x 47 = 966 us of 2 ms: 48 %, of 50."),
        asks="a GPU that idles for at least half of the step",
        silent=(None, "All texts go together."),
        without=lambda: alone(60, together=1),
    )


def engine(us, tokens=1):
    recording = Recording()
    for number in range(1, 5):
        recording.start()
        dims = [[50, 16], [4, tokens], [], [], []]
        recording.op("aten::embedding", 10, "indexSelectSmallIndex", 20, dims=dims, types=HALF)
        recording.product_until(2000 - us - 40)
        work = recording.free[7] - recording.now
        recording.copy("aten::to", work + 42, "DtoH (Device -> Pageable)", 8, 2, dims=[[4], []])
        recording.pause(recording.begin + 2000 - recording.now)
        recording.end(number)
    return recording


def serve_host_gap():
    # A step works for 20 + 1724 + 2 us, up to 1760, and the copy is noticed 40 us later.
    low = (2 * 204 + 4) / 3
    high = 2000 - (3 * 1746 + 40 + 200) / 3
    return three(
        "serve.host_gap",
        engine,
        fires=(
            200,
            "4 steps of 2 ms, 1746 us of work: a token is read at 1800, then 204 us of code.",
        ),
        found=[Finding("serve.host_gap", low, high, op="aten::to")],
        hand="Low: the code goes, 412 us of steps 2 to 4. High: they take 3 x 1746 + 240 us, in a "
        "row on the GPU, but for the last one, after which nothing follows.",
        near=(125, "3 of 4 steps have 129 us of code: 97 us a step, of 100."),
        silent=(None, "The same with whole texts of 9 tokens: it is host.python_gap."),
        silent_found=[Finding("host.python_gap", 200, 200)],
        without=lambda: engine(200, tokens=9),
    )


RULES = (
    cudnn_retuning,
    memory_growth,
    inference_grad_enabled,
    compile_recompiles,
    compile_graph_breaks,
    compile_graphs_skipped,
    kv_concat,
    kv_disabled,
    inference_unbatched,
    serve_host_gap,
)
