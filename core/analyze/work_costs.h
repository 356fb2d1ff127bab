/* What the analysis "op work" finds (docs/analyses/op_work.md): what parts of a step cost that a
 * repair would make shorter, and where they lie. All of it is of complete steps. */
#ifndef KS_ANALYZE_WORK_COSTS_H
#define KS_ANALYZE_WORK_COSTS_H

#include "store/strpool.h"

enum { KS_COST_STEPS_MAX = 16 };

/* A stretch of a thread, with the work that it launches; marks are KS_REPLAY_OPTIMIZER and so on
 * (replay.h). */
struct ks_work_span {
    uint32_t lane;
    unsigned marks;
    int64_t from_ns;
    int64_t until_ns;
};

/* What rows of one kind cost, a complete step on average. */
struct ks_work_cost {
    double count;                     /* rows */
    double launches;                  /* inside of them */
    int64_t host_ns;                  /* on their threads */
    int64_t device_ns;                /* of what they launched */
    int64_t steps[KS_COST_STEPS_MAX]; /* numbers of the first steps with some */
    size_t step_count;
};

enum ks_optimizer_kind {
    KS_OPTIMIZER_NONE,    /* no step of an optimizer launched work */
    KS_OPTIMIZER_FUSED,   /* one kernel does all of it, for many tensors */
    KS_OPTIMIZER_FOREACH, /* one kernel does one operation, for many tensors */
    KS_OPTIMIZER_SINGLE,  /* each tensor has kernels of its own */
};

struct ks_optimizer_cost {
    enum ks_optimizer_kind kind; /* of the step that takes longest */
    struct ks_work_cost cost;
    double tensors;       /* KS_OPTIMIZER_SINGLE: with kernels of their own, a step */
    struct ks_strid name; /* "Optimizer.step#AdamW.step" */
};

/* Convolutions that tried algorithms. */
struct ks_retuning_cost {
    struct ks_work_cost cost;
    int64_t usual_host_ns; /* of as many that did not */
    int64_t usual_device_ns;
    size_t shapes;      /* different ones, 0 unknown */
    struct ks_strid op; /* that took longest */
};

enum ks_attention_kind {
    KS_ATTENTION_MANUAL,    /* products and a softmax, by operators of the program */
    KS_ATTENTION_MATH,      /* the same inside of scaled_dot_product_attention */
    KS_ATTENTION_EFFICIENT, /* its memory-efficient kernel, where a flash kernel can work */
    KS_ATTENTION_KINDS,
};

/* Attention that faster kernels can do. */
struct ks_attention_cost {
    struct ks_work_cost cost; /* forward and backward */
    int64_t product_host_ns;  /* products of matrices in it */
    int64_t product_device_ns;
    double scores_bytes; /* of the scores, each once */
    int64_t batch;       /* of the one that took longest: batch times heads, */
    int64_t rows;        /* rows and columns of its scores */
    int64_t columns;
    int64_t head_dim;
    bool is_half;       /* bf16 or fp16 */
    struct ks_strid op; /* its softmax, or torch's operator */
};

/* Products in bf16 or fp16 of tensors whose rows do not begin at multiples of 16 bytes. */
struct ks_product_cost {
    struct ks_work_cost cost;
    int64_t aligned_device_ns; /* at the rate of the others */
    struct ks_strid op;        /* of the one that took longest */
    struct ks_strid dims;
    int64_t sizes[3]; /* rows, inner, columns */
};

enum { KS_CHAIN_OPS_MAX = 8 };

/* Chains of kernels that do little but read and write memory, of which a compiler makes one. */
struct ks_pointwise_cost {
    struct ks_work_cost cost; /* count: chains */
    int64_t kept_ns[2];       /* of the device's time, when each is one kernel: at least, at most */
    double kept_launches;
    double bytes;                          /* read and written */
    double kept_bytes[2];                  /* by one kernel for each */
    double length;                         /* kernels of the chain that loses most ... */
    struct ks_strid ops[KS_CHAIN_OPS_MAX]; /* ... its first operators ... */
    size_t op_count;
    struct ks_strid op; /* ... and the one that takes longest */
};

enum { KS_VOCABULARY_MIN = 32768 };

/* What operators do with logits of a large vocabulary, from the cast to their gradient. */
struct ks_logits_cost {
    struct ks_work_cost cost; /* all operators over tensors with this last dimension */
    int64_t kept_ns[2];       /* of the device's time, by a fused loss: at least, at most */
    double bytes;             /* read and written, a step */
    double kept_bytes;        /* by a fused loss */
    double losses;            /* a step */
    double written_bytes;     /* forward, for one loss */
    bool is_training;
    int64_t rows;
    int64_t columns;
    struct ks_strid op; /* that takes longest */
};

/* Weights in fp32 that autocast turns into half precision. */
struct ks_cast_cost {
    struct ks_work_cost cost;        /* in the forward pass */
    struct ks_work_cost gradients;   /* nodes that cast their gradients back */
    struct ks_work_cost accumulated; /* nodes that add these to those of the passes before */
    double passes;                   /* forward passes with casts, for each step of an optimizer */
    bool is_training;
    struct ks_strid op; /* of the longest cast */
    struct ks_strid dims;
};

struct ks_work_costs {
    struct ks_work_span *spans; /* by thread and time */
    size_t span_count;
    struct ks_optimizer_cost optimizer;
    struct ks_retuning_cost retuning;
    struct ks_attention_cost attention[KS_ATTENTION_KINDS];
    struct ks_product_cost products;
    struct ks_pointwise_cost pointwise;
    struct ks_logits_cost logits;
    struct ks_cast_cost casts;
};

#endif
