#include "analyze/kernel_layout.h"

#include "analyze/replay.h"

static bool contains_any(struct ks_str name, const char *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (ks_str_contains(name, ks_str_from(parts[i]))) {
            return true;
        }
    }
    return false;
}

/* cuDNN's own names; torch converts by copies that say nothing of layouts. */
unsigned ks_kernel_layout_marks(struct ks_str name)
{
    static const char *const conversions[] = {"nchwToNhwc",       "nhwcToNchw", "nchwToFoldedNhwc",
                                              "foldedNhwcToNchw", "NCHWToNHWC", "NHWCToNCHW"};
    static const char *const faster[] = {"batch_norm_", "bn_fw_tr_1C11", "bn_bw_1C11",
                                         "max_pool_forward_nchw", "max_pool_backward_nchw"};
    static const char *const nhwc[] = {"channels_last", "nhwc", "NHWC"};
    if (contains_any(name, conversions, KS_COUNT_OF(conversions))) {
        return KS_REPLAY_CONVERSION;
    }
    return contains_any(name, faster, KS_COUNT_OF(faster)) &&
                   !contains_any(name, nhwc, KS_COUNT_OF(nhwc))
               ? (unsigned)KS_REPLAY_NCHW
               : 0u;
}
