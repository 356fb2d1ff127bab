"""Rules about the GPU's own work. A product before the fault keeps it the limit of the step."""

from rule_cases.case import Finding, three
from rule_cases.recording import ELEMENTWISE, ENGINE, HALF, Recording, steps

SINGLE = ["float", "float"]


def queue(body, dur, **options):
    """Steps whose work queues behind a product of 500 us."""

    def all_of_it(r, number):
        r.product(500)
        body(r)

    return steps(all_of_it, dur, **options)


def plain(dur=2000):
    return queue(lambda r: None, dur)


# ---------------------------------------------------------------- products


def fp32(us):
    return steps(lambda r, number: r.op("aten::mm", 10, "ampere_sgemm_128x64_tn", us), 10_000)


def precision_fp32_matmul():
    rest = 10_000 - 16 - 1500
    return three(
        "precision.fp32_matmul",
        fp32,
        fires=(1500, "Steps of 10 ms, 1.5 ms in fp32 products, 8484 us in others, 16 us idle."),
        found=[
            Finding(
                "precision.fp32_matmul",
                0.75 * 1500,
                0.95 * 1500 + rest / 2,
                op="ampere_sgemm_128x64_tn",
            )
        ],
        hand="Low: 3/4 of 1500 us. High: 19/20 of them, and half of the other 8484 us.",
        near=(970, "970 us of 10 ms in fp32 products."),
        asks="at least 10 % of the step",
        silent=(None, "All products are on tensor cores."),
        without=lambda: steps(lambda r, number: None, 10_000),
    )


def misaligned(us):
    def body(r):
        aligned, odd = [[1024, 1024], [1024, 1024]], [[1024, 1024], [1024, 1025]]
        r.op("aten::mm", 10, "nvjet_aligned", 20, dims=aligned, types=HALF)
        if us:
            r.op("aten::mm", 10, "cutlass_align1", us, dims=odd, types=HALF)

    return queue(body, 2000)


def matmul_misaligned():
    aligned = 20.019  # 20 us * 1025 / 1024
    return three(
        "matmul.misaligned",
        misaligned,
        fires=(160, "1024 x 1024 x 1024 takes 20 us, 1024 x 1024 x 1025 takes 160; steps of 2 ms."),
        found=[Finding("matmul.misaligned", 160 - 1.6 * aligned, 160 - aligned, op="aten::mm")],
        hand="High: 160 us less 20 x 1025 / 1024. Low: less 1.6 times that.",
        near=(122, "122 us: the middle is 122 - 26 = 96 us, 4.8 % of 2 ms."),
        silent=(0, "All sizes are multiples of 8."),
    )


def casts(us):
    def body(r):
        with r.within("aten::linear", dims=[[64, 1024], [1024, 1024], []], types=SINGLE):
            if us:
                dims = [[1024, 1024], [], [], [], [], []]
                r.op("aten::to", 10, ELEMENTWISE, us, dims=dims, types=["float", ""])
            r.op("aten::addmm", 10, "nvjet_addmm", 20)

    return queue(body, 2000)


def precision_cast_churn():
    return three(
        "precision.cast_churn",
        casts,
        fires=(120, "Steps of 2 ms of inference, in which autocast casts a weight in 120 us."),
        found=[Finding("precision.cast_churn", 120, 120, op="aten::to")],
        hand="Cast once for all, before the first step, the GPU is 120 us faster.",
        near=(97, "The cast takes 97 us of 2 ms."),
        silent=(0, "The weight is in half precision."),
    )


# ---------------------------------------------------------------- attention


def efficient(us):
    def body(r):
        name = "aten::_scaled_dot_product_efficient_attention"
        dims = [[8, 4, 128, 64]] * 3 + [[]] * 5
        if us:
            r.op(name, 10, "fmha_cutlassF_bf16_aligned_64x64_rf_sm80", us, dims=dims, types=HALF)

    return queue(body, 2000)


def attention_backend():
    return three(
        "attention.backend",
        efficient,
        fires=(
            400,
            "Steps of 2 ms, 400 us in the memory-efficient kernel in bf16, without a mask.",
        ),
        found=[
            Finding(
                "attention.backend",
                400 * 0.10,
                400 * 0.73,
                "efficient",
                op="aten::_scaled_dot_product_efficient_attention",
            )
        ],
        hand="A faster kernel takes 0.90 (low) to 0.27 (high) of 400 us.",
        near=(232, "232 us: the middle is 0.415 x 232 = 96 us, 4.8 % of 2 ms."),
        silent=(0, "No attention is computed."),
    )


def materialized(us):
    def body(r):
        first, second = [[32, 64, 16], [32, 16, 64]], [[32, 64, 64], [32, 64, 16]]
        r.op("aten::bmm", 10, "nvjet_bmm", 10, dims=first, types=HALF)
        if us:
            softmax = "void (anonymous namespace)::softmax_warp_forward"
            r.op("aten::_softmax", 10, softmax, us, dims=[[8, 4, 64, 64], [], []], types=HALF)
        r.op("aten::bmm", 10, "nvjet_bmm", 10, dims=second, types=HALF)

    return queue(body, 2000)


def attention_materialized():
    return three(
        "attention.materialized",
        materialized,
        fires=(130, "bmm (10 us), softmax (130 us) and bmm (10 us) in bf16; steps of 2 ms."),
        found=[
            Finding(
                "attention.materialized",
                150 - 1.05 * 20,
                150 - 0.46 * 20,
                bytes=32 * 64 * 64 * 2,
                op="aten::_softmax",
            )
        ],
        hand="Of 150 us a fused kernel takes 1.05 (low) to 0.46 (high) times the products' 20 us.",
        near=(92, "112 us in all: the middle is 112 - 0.755 x 20 = 97 us, 4.8 % of 2 ms."),
        silent=(0, "No softmax lies between the products."),
    )


# ---------------------------------------------------------------- kernels that move memory

CONVERTING = "void cudnn::ops::nchwToNhwcKernel<__half, __half, float>"


def converting(us):
    def body(r):
        if us:
            r.op("aten::cudnn_convolution", 10, CONVERTING, us)
        r.op("aten::cudnn_convolution", 10, "sm90_xmma_fprop_implicit_gemm_bf16_nhwc", 50)
        r.op("aten::native_batch_norm", 10, "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>", 60)

    return queue(body, 2000)


def layout_transposes():
    return three(
        "layout.transposes",
        converting,
        fires=(80, "Steps of 2 ms, 80 us of them turn NCHW into NHWC, 60 us normalise in NCHW."),
        found=[
            Finding("layout.transposes", 80 + 0.32 * 60, 80 + 0.76 * 60, op=CONVERTING),
        ],
        hand="80 us go; normalising takes 0.68 (low) to 0.24 (high) of its 60 us in NHWC.",
        near=(64, "64 us, 3.2 % of 2 ms: the middle is 64 + 0.54 x 60 = 96 us, 4.8 %."),
        silent=(0, "Nothing is converted."),
    )


SIDE = 1024
SIZE = SIDE * SIDE * 4


def chain(dur, is_there=True):
    def body(r):
        square = [SIDE, SIDE]
        if is_there:
            r.op("aten::pow", 10, ELEMENTWISE, 100, dims=[square, []], types=["float", "Scalar"])
            r.op("aten::mean", 10, "reduce_kernel", 50, dims=[square, []], types=["float", ""])
            r.op("aten::mul", 10, ELEMENTWISE, 100, dims=[square, [SIDE, 1]], types=SINGLE)
            r.op("aten::mul", 10, ELEMENTWISE, 100, dims=[square, [SIDE]], types=SINGLE)

    return queue(body, dur)


def fusion_pointwise():
    row = 4 * SIDE
    least = 100  # two tensors and a row, as the fastest of them, mul, moves in 100 us
    most = (3 * SIZE + 2 * row) / (0.75 * (7 * SIZE + 2 * row) / 350)
    return three(
        "fusion.pointwise",
        chain,
        fires=(
            1800,
            "pow, mean, mul, mul of 4 MiB: 350 us for 7 x 4 MiB + 8 KiB; steps of 1.8 ms.",
        ),
        found=[Finding("fusion.pointwise", 350 - most, 350 - least, op="aten::pow")],
        hand="Fused: 8 MiB + 4 KiB in 100 us, as mul, to 12 MiB + 8 KiB at 0.75 of the mean rate.",
        near=(2060, "Steps of 2.06 ms: the middle, 200 us, is 9.7 %."),
        asks="at least 10 % of the step",
        silent=(None, "No kernels follow each other that only move memory."),
        without=lambda: chain(1800, is_there=False),
    )


COLUMNS = 32768
LOGITS = 512 * COLUMNS * 2
NODE = "autograd::engine::evaluate_function: "
BACK = "aten::_log_softmax_backward_data"


def logits(dur, is_there=True):
    def body(r):
        shape = [512, COLUMNS]
        if not is_there:
            return
        cast = ["float", "c10::BFloat16"]
        r.op("aten::copy_", 10, ELEMENTWISE, 32, dims=[shape, shape], types=cast)
        r.op(
            "aten::_log_softmax", 10, "cunn_SoftMaxForward", 64, dims=[shape, [], []], types=SINGLE
        )
        loss = [shape, [512], [], [], []]
        r.op(
            "aten::nll_loss_forward", 10, "nll_loss_forward", 5, dims=loss, types=["float", "long"]
        )
        with r.within(NODE + "NllLossBackward0", thread=ENGINE):
            types = ["float", "Scalar"]
            r.op("aten::fill_", 10, ELEMENTWISE, 32, ENGINE, dims=[shape, []], types=types)
        with r.within(NODE + "LogSoftmaxBackward0", thread=ENGINE):
            dims = [shape, shape, [], []]
            r.op(BACK, 10, "cunn_SoftMaxBackward", 96, ENGINE, dims=dims, types=SINGLE)
        with r.within(NODE + "ToCopyBackward0", thread=ENGINE):
            types = cast[::-1]
            r.op("aten::copy_", 10, ELEMENTWISE, 32, ENGINE, dims=[shape, shape], types=types)

    return queue(body, dur)


def loss_logits():
    most = 66.923  # 3 / (0.65 * 18 / 261), in whole ns
    return three(
        "loss.logits",
        logits,
        fires=(2500, "L = 32 MiB of logits in bf16: six operators move 18 L in 261 us; 2.5 ms."),
        found=[Finding("loss.logits", 261 - most, 261 - 32, bytes=4 * LOGITS, op=BACK)],
        hand="Fused: 3 L in 32 us as the fastest, to 3 L at 0.65 x 18 L / 261 us: 66.9 us.",
        near=(4400, "Steps of 4.4 ms: the middle, 211.5 us, is 4.8 %."),
        silent=(None, "No loss is computed."),
        without=lambda: logits(2500, is_there=False),
    )


# ---------------------------------------------------------------- batch.too_small


def small_kernels(last, blocks=0.5):
    recording = Recording()
    for number in range(1, 5):
        recording.start()
        for _ in range(24):
            recording.op("aten::mul", 50, ELEMENTWISE, 5, **{"blocks per SM": blocks})
        recording.finish(number, 1216 + last, **{"blocks per SM": blocks})
    return recording


def batch_too_small():
    # But for the last kernel a step takes 1216 us.
    bound = Finding("launch.bound", 1216 - 166, 1216 - (11.5 + 24 * 0.75 + 23 * 0.225))
    return three(
        "batch.too_small",
        small_kernels,
        fires=(
            50,
            "24 operators of 50 us, kernels of 5 us on half of the GPU, one of 50; 1266 us.",
        ),
        found=[bound, Finding("batch.too_small", 1216 - 613, 1216 - 166)],
        hand="Low: launching in half the time leaves 613 of 1216 us. High: none, 8 + 24 x 6.5 + 2. "
        "launch.bound: as much, to 1216 - 34.7.",
        near=(84, "The last kernel takes 84 us: they last 204 / 25 = 8.16 us on average, of 8."),
        near_found=[bound],
        asks="kernels of less than 8 us on average",
        silent=(None, "The same kernels fill the GPU."),
        silent_found=[bound],
        without=lambda: small_kernels(50, blocks=4),
    )


RULES = (
    precision_fp32_matmul,
    matmul_misaligned,
    precision_cast_churn,
    attention_backend,
    attention_materialized,
    layout_transposes,
    fusion_pointwise,
    loss_logits,
    batch_too_small,
)
