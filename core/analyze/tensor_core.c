#include "analyze/tensor_core.h"

/* Parts of names that only kernels of a library's tensor-core path carry. Volta to Ampere: the
 * shapes of the MMA instruction (h884, s1688, 16816, ...) and cuDNN's families. Hopper and newer:
 * warp-group MMA (wgmma, gmma), cuBLAS's nvjet, CUTLASS 3 names with the type of the MMA,
 * Blackwell's umma and tcgen05. Attention: flash, cutlass and cuDNN kernels. */
static const char *const parts[] = {
    "h884",
    "s884",
    "h1688",
    "s1688",
    "c1688",
    "d884",
    "hmma",
    "imma",
    "dmma",
    "qmma",
    "i8816",
    "i16832",
    "16816",
    "16832",
    "1688gemm",
    "bmma",
    "wmma",
    "wgmma",
    "gmma",
    "umma",
    "tcgen05",
    "utcmma",
    "nvjet",
    "tensorop",
    "tensor_op",
    "TensorOp",
    "xmma_implicit_gemm",
    "xmma_sparse_conv",
    "xmma_warp_specialized_implicit_gemm",
    "xmma_sparse_gemm",
    "dgrad_1x1_stride_2x2",
    "first_layer_wgrad_kernel",
    "conv1x1",
    "conv2d_c1_k1",
    "direct_group",
    "flash_fwd",
    "flash_bwd",
    "FlashAttn",
    "flash_attn",
    "fmha_cutlass",
    "fmha_v2",
    "fmha_fprop",
    "fmha_bprop",
    "cudnn_generated_fort_native_sdpa",
    "deep_gemm",
    "marlin",
    "machete",
};

/* Parts that say the opposite: kernels on the plain FP32 or FP64 units, also when a family name
 * (xmma_gemm, flash) matches. */
static const char *const vetoes[] = {
    "ffma",
    "sgemm",
    "dgemm",
    "f32f32_f32f32_f32_simt",
    "_simt_",
    "simt_sgemm",
    "simt_dgemm",
    "flash_bwd_dot_do_o",
    "flash_bwd_convert",
    "flash_fwd_splitkv_combine",
};

/* Types whose xmma_gemm kernels are tensor-core ones; f32f32_f32f32 without tf32 is not. */
static const char *const gemm_types[] = {"f16", "bf16", "tf32", "i8", "e4m3", "e5m2", "fp8"};

static bool has_any(struct ks_str name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (ks_str_contains(name, ks_str_from(list[i]))) {
            return true;
        }
    }
    return false;
}

bool ks_tensor_core_is_used(struct ks_str name)
{
    if (has_any(name, vetoes, KS_COUNT_OF(vetoes))) {
        return false;
    }
    if (has_any(name, parts, KS_COUNT_OF(parts))) {
        return true;
    }
    /* cuBLAS before Hopper: sm80_xmma_gemm_bf16bf16_..., ampere_fp16_s16816gemm_... */
    if (ks_str_contains(name, KS_STR("xmma_gemm"))) {
        return has_any(name, gemm_types, KS_COUNT_OF(gemm_types));
    }
    /* xformers' fmha: fmha_cutlassF_bf16_aligned_64x64_rf_sm80; f32 there is tf32 or simt. */
    bool is_half = ks_str_contains(name, KS_STR("f16")) || ks_str_contains(name, KS_STR("half"));
    return ks_str_contains(name, KS_STR("fmha")) && is_half;
}
