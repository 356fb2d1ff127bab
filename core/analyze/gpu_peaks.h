/* What GPUs can do at most, by the vendors' tables (docs/opportunities.md): dense rates, without
 * sparsity. 0: the vendor gives no such rate, or the GPU has no such unit. */
#ifndef KS_ANALYZE_GPU_PEAKS_H
#define KS_ANALYZE_GPU_PEAKS_H

#include "store/trace.h"

/* Kinds of numbers that products are made of. */
enum ks_number_kind {
    KS_NUMBER_HALF, /* bf16 and fp16 */
    KS_NUMBER_TF32, /* fp32 on tensor cores */
    KS_NUMBER_FP32,
    KS_NUMBER_FP8,
    KS_NUMBER_KINDS,
};

struct ks_gpu_peaks {
    const char *name;
    double tflops[KS_NUMBER_KINDS];
    double gb_per_s; /* of its memory; 10^9 bytes */
};

/* By the name that a trace gives, "NVIDIA H100 80GB HBM3"; NULL: not in the table. */
const struct ks_gpu_peaks *ks_gpu_peaks_find(struct ks_str name);
/* Of the first GPU that a source names, when all sources name one of the same kind; else NULL. */
const struct ks_gpu_peaks *ks_gpu_peaks_of(const struct ks_trace *trace);

#endif
