/* What a step would take if something were different: the recorded steps run again, with less of
 * the host's time or without some operators (docs/analyses/replay.md).
 *
 * A replay holds the first complete steps of one source: the moments of the host threads that drive
 * the GPU, and the GPU work that they launch. A run walks the moments in order of time. GPU work
 * starts when it is launched and when its stream is free, each with the delay that was recorded;
 * waiting calls end when the work they wait for ends. A run without changes gives the recorded
 * times. Memory: 32 bytes a row end, of at most KS_REPLAY_POINTS_MAX, and 96 bytes a piece of GPU
 * work, of at most a quarter as many.
 */
#ifndef KS_ANALYZE_REPLAY_H
#define KS_ANALYZE_REPLAY_H

#include "base/compiler.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum {
    KS_REPLAY_POINTS_MAX = 500 * 1000,
    KS_REPLAY_POINTS_ALL_MAX = 4 * KS_REPLAY_POINTS_MAX, /* of all sources together */
    KS_REPLAY_POINTS_ENOUGH = 150 * 1000, /* more steps than that takes say nothing new */
    KS_REPLAY_STEPS_MAX = 16,
    KS_REPLAY_SHORT_NS_MAX = 10 * 1000,
    KS_REPLAY_LEAST_WORK_NS = 2 * 1000, /* a kernel of a handful of values takes so long */
    KS_REPLAY_GAP_NS_MIN = 200 * 1000,  /* so long without a row is code of its own */
};

/* Operators that a run can leave out, by what they do; those that only prepare them are named
 * apart, since the trace cannot say that nothing else uses their results. */
enum {
    KS_REPLAY_READ = 1,           /* read a value from the GPU */
    KS_REPLAY_READ_PREPARED = 2,  /* come directly before them */
    KS_REPLAY_SMALL_COPY = 4,     /* copy at most KS_SMALL_COPY_BYTES_MAX bytes */
    KS_REPLAY_SMALL_PREPARED = 8, /* host operators directly before them */
    KS_REPLAY_ROUND_TRIP = 16,    /* bring a tensor to the host, work on it there, take it back */
    KS_REPLAY_BETWEEN = 32,       /* none: the time between two of these that follow each other */
    KS_REPLAY_MEMORY = 256,       /* none: calls that take memory of a device or give it back */
    KS_REPLAY_BEFORE_FREE = 512,  /* none: code of the program directly before it gives some back */
    KS_REPLAY_COLLECTIVE = 1024,  /* start collectives */
};

/* What a run can make smaller: stretches of a thread (struct ks_work_span) with the work that they
 * launch, and kernels by name. */
enum {
    KS_REPLAY_OPTIMIZER = 1,         /* the optimizer's step */
    KS_REPLAY_RETUNED = 2,           /* convolutions that tried algorithms */
    KS_REPLAY_ATTENTION = 4,         /* attention in single operators */
    KS_REPLAY_MATH = 8,              /* ... of scaled_dot_product_attention */
    KS_REPLAY_EFFICIENT = 16,        /* attention by torch's memory-efficient kernel */
    KS_REPLAY_MISALIGNED = 32,       /* products whose rows are not aligned */
    KS_REPLAY_CONVERSION = 64,       /* kernels that turn NCHW into NHWC and back */
    KS_REPLAY_NCHW = 128,            /* kernels that are faster in NHWC */
    KS_REPLAY_POINTWISE = 256,       /* chains of elementwise kernels */
    KS_REPLAY_LOGITS = 512,          /* operators over logits */
    KS_REPLAY_CAST = 1024,           /* casts of weights */
    KS_REPLAY_GRADIENT_CAST = 2048,  /* ... of their gradients */
    KS_REPLAY_ACCUMULATED = 4096,    /* ... adding these to those of the batches before */
    KS_REPLAY_PLANNED = 1 << 13,     /* attention that cuDNN makes plans for */
    KS_REPLAY_SLOW = 1 << 14,        /* an operator that takes the host long by itself */
    KS_REPLAY_EAGER = 1 << 15,       /* operators between the graphs of a compiled function */
    KS_REPLAY_GLUE = 1 << 16,        /* entering compiled code again */
    KS_REPLAY_SINGLE = 1 << 17,      /* compiled graphs that launch their kernels one by one */
    KS_REPLAY_CACHE = 1 << 18,       /* keys and values of all tokens, copied for a new one */
    KS_REPLAY_PREFIX = 1 << 19,      /* forward passes over tokens that one before has seen */
    KS_REPLAY_READING = 1 << 20,     /* the host of an engine reads results ... */
    KS_REPLAY_READ_GAP = 1 << 21,    /* ... and looks at them before the next iteration */
    KS_REPLAY_GATHER = 1 << 22,      /* gathers of sharded parameters */
    KS_REPLAY_SCATTER = 1 << 23,     /* sums of their gradients */
    KS_REPLAY_FP32 = 1 << 24,        /* products in fp32 without tensor cores ... */
    KS_REPLAY_NOT_FP32 = 1 << 25,    /* ... and all kernels but these and collectives */
    KS_REPLAY_FP32_ANYWAY = 1 << 26, /* kernels of an operator that computes in fp32 what it got in
                                      * 16 bits: none of these two */
    KS_REPLAY_SHRINKS_MAX = 9,
};

/* Of what has one of the marks, parts of the host's time and of the GPU's stay. Marks 0: nothing
 * has. Where a stretch or work has marks of several, the parts multiply. */
struct ks_replay_shrink {
    unsigned marks;
    double host_part;
    double work_part; /* 0: the work is not there */
    bool drops_waits; /* what repairs it does not wait for the GPU */
};

struct ks_replay_change {
    /* Part of the estimated cost of recording (replay_costs.c) that is taken out. 0: none. */
    double cost_factor;
    unsigned drop; /* KS_REPLAY_*: host time, waits and GPU work of these operators */
    /* Part of the host's time between rows that stays where it launches work: waits, the loader
     * and stretches of KS_REPLAY_GAP_NS_MIN and more apart. 1: all, 0: none. */
    double launch_factor;
    double gap_factor;    /* the same of longer stretches outside of operators */
    double short_factor;  /* part of GPU work of KS_REPLAY_SHORT_NS_MAX and less that stays */
    bool waits_for_ranks; /* collectives take as long as recorded; else as on the rank that
                           * arrived last, where nobody else is waited for */
    struct ks_replay_shrink shrinks[KS_REPLAY_SHRINKS_MAX];
    bool keeps_collectives;   /* collectives of operators that are left out run all the same */
    double collective_factor; /* part of the time of collectives that stays */
    /* Part of the GPU work that goes with tokens that are not computed: all but collectives and
     * what optimizers do, and no piece gets shorter than KS_REPLAY_LEAST_WORK_NS. 0: none. */
    double token_cut;
};

/* Nothing is different, but that no rank waits for another. */
#define KS_REPLAY_UNCHANGED                                                                        \
    ((struct ks_replay_change){                                                                    \
        .launch_factor = 1, .gap_factor = 1, .short_factor = 1, .collective_factor = 1})

struct ks_replay;

/* Mean time of a step under the change, ns. */
enum ks_status ks_replay_run(const struct ks_replay *replay, const struct ks_replay_change *change,
                             double *step_ns, struct ks_err *err) KS_MUST_CHECK;

#endif
