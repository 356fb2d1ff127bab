/* Copies by a device whose launch is known, collected once for the analyses that ask for them. */
#ifndef KS_ANALYZE_GPU_COPIES_H
#define KS_ANALYZE_GPU_COPIES_H

#include "base/compiler.h"

#include <stddef.h>
#include <stdint.h>

enum ks_copy_way { KS_COPY_OTHER, KS_COPY_TO_HOST, KS_COPY_TO_DEVICE };

struct ks_gpu_copy {
    uint32_t launch_lane;
    uint32_t kind;   /* name of the GPU row */
    uint32_t device; /* track */
    enum ks_copy_way way;
    bool is_pinned; /* some side of it */
    int64_t launch_ns;
    int64_t corr; /* of its launch: two calls may begin at one moment */
    int64_t start_ns;
    int64_t dur_ns;
    int64_t bytes; /* -1 unknown */
};

struct ks_gpu_copies {
    struct ks_gpu_copy *items; /* ks_alloc; by launching thread, launch, correlation and end */
    size_t count;
    size_t capacity;
};

#endif
