/* What the analysis "op work" finds (docs/analyses/op_work.md): what parts of a step cost that a
 * repair would make shorter, and where they lie. All of it is of complete steps. */
#ifndef KS_ANALYZE_WORK_COSTS_H
#define KS_ANALYZE_WORK_COSTS_H

#include "analyze/gpu_peaks.h"
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
    KS_OPTIMIZER_NONE,    /* no step of an optimizer launched work, or ran operators */
    KS_OPTIMIZER_FUSED,   /* one kernel does all of it, for many tensors */
    KS_OPTIMIZER_FOREACH, /* one kernel does one operation, for many tensors */
    KS_OPTIMIZER_SINGLE,  /* each tensor has kernels of its own */
};

struct ks_optimizer_cost {
    enum ks_optimizer_kind kind; /* of the step that takes longest */
    struct ks_work_cost cost;
    double operators;     /* outermost ones that work, in one of its steps */
    double tensors;       /* KS_OPTIMIZER_SINGLE: with kernels of their own, a step */
    struct ks_strid name; /* "Optimizer.step#AdamW.step" */
};

/* Convolutions that tried algorithms, or attention that cuDNN made plans for. */
struct ks_retuning_cost {
    struct ks_work_cost cost;
    int64_t usual_host_ns; /* of as many that did not */
    int64_t usual_device_ns;
    size_t shapes;         /* different ones, 0 unknown */
    struct ks_strid op;    /* that took longest */
    struct ks_strid outer; /* the program's operator around it, or itself */
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

/* The operator whose own time on the host is longest, of calls of KS_SLOW_NS_MIN and more. */
struct ks_slow_cost {
    struct ks_work_cost cost;
    int64_t own_ns;        /* of its calls, without the operators and calls inside */
    int64_t usual_ns;      /* of as many of its shorter calls, 0: it has none */
    size_t steps_with;     /* steps that hold some */
    int64_t other_ns;      /* own time of such calls of other operators */
    size_t shapes;         /* different ones among the slow calls, 0 unknown */
    struct ks_strid op;    /* 0: no operator has such calls */
    struct ks_strid outer; /* the program's operator around it, or itself */
    struct ks_strid dims;  /* of the longest call */
};

/* Compiled functions: what of them runs as single operators, or launches kernel by kernel. */
struct ks_compiled_cost {
    double regions;              /* calls of compiled functions by code that is not */
    double breaks;               /* calls of compiled code from inside of compiled functions */
    struct ks_work_cost eager;   /* operators in them that no graph holds, and their nodes */
    struct ks_work_cost glue;    /* entering compiled code again, up to its first graph */
    struct ks_strid eager_op;    /* of these operators the one that takes longest */
    struct ks_work_cost single;  /* calls of graphs that launch kernel by kernel ... */
    struct ks_work_cost replays; /* ... that replay a CUDA graph */
    int64_t replay_ns_min;       /* of these on the host */
    bool is_mixed;               /* forward and backward differ in that */
    bool has_trees;              /* Python frames of torch's keeper of CUDA graphs were seen */
    double skipped;              /* calls of compiled functions that ran nothing compiled */
    double skipped_share;        /* of all launches, in them and in their backward ... */
    double skipped_host_share;   /* ... of the host time of all operators and nodes */
    struct ks_strid skipped_op;  /* of the operators in them the one that takes longest */
};

enum { KS_SLOW_NS_MIN = 1000 * 1000 };

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

/* Keys and values of all tokens so far, copied with those of a new one behind them. */
struct ks_cache_cost {
    struct ks_work_cost cost;
    double new_elements; /* of the new tokens, a step */
    double new_part;     /* of all that is copied */
    int64_t length;      /* of the last text, in tokens */
    struct ks_strid op;
};

/* Forward passes over all tokens so far, each of one more than the one before. */
struct ks_prefix_cost {
    double passes; /* a step */
    int64_t length;
    double weight_bytes; /* of the factors of the products of one pass */
    double cache_bytes;  /* of the keys and values of one pass */
    struct ks_strid op;  /* that tells the length */
    int64_t steps[KS_COST_STEPS_MAX];
    size_t step_count;
};

/* Calls of a model with a batch of one that could be one call. */
struct ks_single_cost {
    double calls;       /* a step */
    int64_t together;   /* that could be one; 0: none */
    bool are_taken;     /* their inputs come out of a tensor that holds several */
    struct ks_strid op; /* that gets the input */
    int64_t steps[KS_COST_STEPS_MAX];
    size_t step_count;
};

/* Results that the host of an engine reads between iterations, each of which decodes. */
struct ks_reading_cost {
    struct ks_work_cost cost; /* of the operators that read */
    int64_t gap_ns;           /* until the device gets work again; a complete step */
    struct ks_strid op;
};

/* Work of one kind in a mean complete step: what it computes and moves, and how long it takes. */
struct ks_rate {
    double flops;
    double bytes; /* at least */
    int64_t device_ns;
};

/* How fast a step works (docs/opportunities.md). What is not known has no part in it. */
struct ks_rate_costs {
    struct ks_rate products[KS_NUMBER_KINDS]; /* with attention */
    enum ks_number_kind fp32_kind;            /* how products in fp32 are computed */
    struct ks_rate thin;                      /* products and attention that the memory limits */
    struct ks_rate convolutions;              /* FLOPs: those of the operators */
    struct ks_rate moves;                     /* other operators of known sizes */
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
    struct ks_retuning_cost plans;
    struct ks_attention_cost attention[KS_ATTENTION_KINDS];
    struct ks_product_cost products;
    struct ks_slow_cost slow;
    struct ks_compiled_cost compiled;
    struct ks_pointwise_cost pointwise;
    struct ks_logits_cost logits;
    struct ks_cache_cost caches;
    struct ks_prefix_cost prefixes;
    struct ks_single_cost singles;
    struct ks_reading_cost readings;
    struct ks_work_span *passes; /* over prefixes; by thread and time */
    size_t pass_count;
    struct ks_rate_costs rates;
    struct ks_cast_cost casts;
};

/* Marks of the stretches of the thread that hold the moment. */
unsigned ks_work_costs_marks(const struct ks_work_costs *work, uint32_t lane, int64_t ns);

#endif
