#include "analyze/kernel_precision.h"

bool ks_kernel_is_fp32_product(struct ks_str name)
{
    bool is_product =
        ks_str_contains(name, KS_STR("gemm")) || ks_str_contains(name, KS_STR("conv"));
    bool is_plain = ks_str_contains(name, KS_STR("simt")) ||
                    ks_str_contains(name, KS_STR("ffma")) || ks_str_contains(name, KS_STR("sgemm"));
    return is_product && is_plain;
}
