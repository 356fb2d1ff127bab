/* What kind of event a row is: the categories of Kineto, old names folded into today's. */
#ifndef KS_STORE_CATEGORY_H
#define KS_STORE_CATEGORY_H

#include "base/str.h"

enum ks_category {
    KS_CATEGORY_NONE = 0, /* no cat: legacy autograd export, hand-made files */
    KS_CATEGORY_CPU_OP,
    KS_CATEGORY_USER_ANNOTATION,
    KS_CATEGORY_RUNTIME,    /* cuda_runtime, xpu_runtime, mtia_runtime, glow_runtime, ... */
    KS_CATEGORY_DRIVER,     /* cuda_driver, xpu_driver, ... */
    KS_CATEGORY_PYTHON,     /* python_function */
    KS_CATEGORY_OVERHEAD,   /* the profiler itself */
    KS_CATEGORY_TRACE,      /* span of the recording, in no sum */
    KS_CATEGORY_REGION,     /* a region of the program, as our recorder saw it */
    KS_CATEGORY_OTHER_HOST, /* anything else on a host thread */
    KS_CATEGORY_KERNEL,     /* first of the GPU side */
    KS_CATEGORY_MEMCPY,
    KS_CATEGORY_MEMSET, /* last of what counts as GPU work */
    KS_CATEGORY_GPU_ANNOTATION,
    KS_CATEGORY_GPU_SYNC,  /* cuda_sync, cuda_event */
    KS_CATEGORY_GPU_OTHER, /* cuda_profiler_range, collective_comm, ... */
    KS_CATEGORY_COUNT,
};

/* Category by the text of cat; case does not count; unknown text gives KS_CATEGORY_OTHER_HOST. */
enum ks_category ks_category_find(struct ks_str text);
/* Today's name of the category. */
const char *ks_category_name(enum ks_category category);

static inline bool ks_category_is_gpu(enum ks_category category)
{
    return category >= KS_CATEGORY_KERNEL;
}

/* Kernel, memcpy and memset keep a device busy; annotations and syncs do not. */
static inline bool ks_category_is_work(enum ks_category category)
{
    return category >= KS_CATEGORY_KERNEL && category <= KS_CATEGORY_MEMSET;
}

enum {
    KS_SLICE_UNFINISHED = 1, /* no end known: shown, adds no time (dur_ns is 0) */
    KS_SLICE_ASYNC = 2,      /* b/e pair: overlaps freely, no self time */
    KS_SLICE_HIDDEN = 4, /* torch leaves it out of its tables (profiler::_record_function_enter) */
};

enum {
    KS_GPU_COMMUNICATION = 1, /* collective kernel (NCCL, RCCL, HCCL) */
};

enum { KS_MEMORY_OUT_OF_MEMORY = 1 };
enum { KS_MARK_COUNTER = 1 };
enum {
    KS_SAMPLE_RUNNING = 1,   /* the thread used the CPU since the look before */
    KS_SAMPLE_HOLDS_GIL = 2, /* where the interpreter tells */
};

enum ks_link_kind {
    KS_LINK_OTHER = 0, /* a call that is not meant to launch work (synchronise, malloc) */
    KS_LINK_KERNEL,
    KS_LINK_GRAPH,
    KS_LINK_MEMCPY,
    KS_LINK_MEMSET,
};

/* What a runtime or driver call of this name launches. */
enum ks_link_kind ks_link_kind_of(struct ks_str call_name);
/* Is a kernel of this name a collective: nccl*, ncclKernel, ncclDevKernel, rccl, hccl. */
bool ks_kernel_is_communication(struct ks_str kernel_name);

#endif
