/* What the name of a row means, looked up once per name and kept as flags by string id, so
 * that loops over rows never look at text. Not thread-safe: flags are found at first use. */
#ifndef KS_ANALYZE_ROW_NAMES_H
#define KS_ANALYZE_ROW_NAMES_H

#include "store/trace.h"

enum {
    KS_NAME_KNOWN = 1,           /* the flags were looked up */
    KS_NAME_PROFILER_STEP = 2,   /* ProfilerStep#N */
    KS_NAME_STEP = 4,            /* defines the steps of this trace: no work of its own */
    KS_NAME_LOADER = 8,          /* the data loader's __next__ */
    KS_NAME_LOADER_SINGLE = 16,  /* ... in the training process */
    KS_NAME_DROPPED = 32,        /* torch keeps it out of its tables */
    KS_NAME_TRAINING = 64,       /* backward or optimizer: the step trains */
    KS_NAME_OPTIMIZER = 128,     /* Optimizer.step#... */
    KS_NAME_ENGINE = 256,        /* span of an inference engine's iteration */
    KS_NAME_MARK = 512,          /* kinetoscope.step */
    KS_NAME_HOST_COMM = 1024,    /* collective that runs on the host (gloo, mpi) */
    KS_NAME_COLLATE = 2048,      /* joins samples to a batch */
    KS_NAME_FLOPS = 4096,        /* torch has a FLOPs formula for it */
    KS_NAME_KERNEL_KNOWN = 8192, /* the next one was looked up (names of kernels only) */
    KS_NAME_TENSOR_CORE = 16384,
    KS_NAME_SYNC = 1 << 15,         /* waits for the device: a call, or an operator that may */
    KS_NAME_ALLOCATOR = 1 << 16,    /* call that asks the driver for memory, or gives it back */
    KS_NAME_COPY = 1 << 17,         /* call that copies or sets up a copy */
    KS_NAME_COMM_WAIT = 1 << 18,    /* operator that waits for a collective */
    KS_NAME_BACKWARD = 1 << 19,     /* run by a thread of the autograd engine */
    KS_NAME_LAUNCH = 1 << 20,       /* call meant to launch kernels or a graph */
    KS_NAME_GRAPH = 1 << 21,        /* ... a graph */
    KS_NAME_ATEN = 1 << 22,         /* operator of the aten library */
    KS_NAME_RUN_BACKWARD = 1 << 23, /* Python frame that calls the autograd engine */
    KS_NAME_MEMSET = 1 << 24,       /* call meant to set memory */
    KS_NAME_MOVE = 1 << 25,         /* operator that may copy a whole tensor between devices */
    KS_NAME_VIEW = 1 << 26,         /* operator that computes nothing from its input's values */
    KS_NAME_RESIZE = 1 << 27,       /* ... or not: its result may have a size that no input has */
    KS_NAME_OUTSIDE = 1 << 28,      /* operator that takes data from outside, or, a view, gives */
    KS_NAME_READS = 1 << 29,        /* operator that reads a value, or how many, from a device */
    KS_NAME_PASSES = 1 << 30,       /* operator that does nothing but call another one */
};

/* What a call does with memory of a device. Stream-ordered calls and memory of the host are none:
 * they wait for nothing. */
enum ks_memory_call { KS_MEMORY_CALL_NONE, KS_MEMORY_CALL_TAKES, KS_MEMORY_CALL_GIVES };

struct ks_row_names {
    const struct ks_trace *trace;
    uint32_t *flags; /* by string id */
};

/* Flags of one text. */
unsigned ks_row_names_classify(struct ks_str name);

enum ks_status ks_row_names_init(struct ks_row_names *names, const struct ks_trace *trace,
                                 struct ks_err *err) KS_MUST_CHECK;
void ks_row_names_release(struct ks_row_names *names);
unsigned ks_row_names_find(struct ks_row_names *names, uint32_t name);

static inline unsigned ks_row_names_get(struct ks_row_names *names, uint32_t name)
{
    unsigned flags = names->flags[name];
    return flags & KS_NAME_KNOWN ? flags : ks_row_names_find(names, name);
}

/* Looks at the text of names with KS_NAME_ALLOCATOR. */
enum ks_memory_call ks_row_names_memory_call(struct ks_row_names *names, uint32_t name);

/* Does the kernel of this name use tensor cores? */
bool ks_row_names_is_tensor_core(struct ks_row_names *names, uint32_t kernel_name);

#endif
