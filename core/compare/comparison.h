/* Two runs beside each other: A, the one before, and B, the one after. Made from facts and findings
 * of both, and on its own from then on: all texts are copies in `arena`, so that the reports may be
 * closed.
 *
 * Numbers of parts, operators and kernels are of a mean complete step of one rank, so that windows
 * of different lengths compare; docs/diff.md has the definitions. Unknown is NaN (doubles),
 * KS_UNKNOWN (integers) or a NULL text.
 */
#ifndef KS_COMPARE_COMPARISON_H
#define KS_COMPARE_COMPARISON_H

#include "advise/findings.h"
#include "measure/bootstrap.h"

enum { KS_COMPARE_A, KS_COMPARE_B, KS_COMPARE_SIDES };

/* What a comparison is made from. */
struct ks_compare_input {
    const struct ks_trace *trace;
    const struct ks_facts *facts;
    const struct ks_findings *findings;
    const char *const *paths;
    size_t path_count;
};

/* Why the step times say what they say. */
enum ks_compare_reason {
    KS_COMPARE_SURE,      /* the interval holds only times of one sign, and enough of them */
    KS_COMPARE_SMALL,     /* the same, but less than SMALL_SHARE of a step */
    KS_COMPARE_ALIKE,     /* the interval holds 0, and no more than ALIKE_SHARE either way */
    KS_COMPARE_NOISY,     /* it holds 0, and more than that */
    KS_COMPARE_FEW_STEPS, /* fewer than KS_COMPARE_STEPS_MIN complete ones on a side */
    KS_COMPARE_NO_STEPS,  /* a recording is one step as a whole, or holds none */
};

enum { KS_COMPARE_STEPS_MIN = 3 };
/* Differences below it are no news: two recordings of one program differ by as much (1 %). */
#define KS_COMPARE_SMALL_SHARE 0.01
/* Findings below this share of a step weigh "low" (5 %). */
#define KS_COMPARE_ALIKE_SHARE 0.05

/* Step times of a side. A step of several ranks is one value: the mean of the ranks. */
struct ks_compare_times {
    int64_t count;     /* steps that count */
    int64_t cut_count; /* steps that do not: the recording cut them */
    bool is_complete;  /* false: no step is complete, so that cut ones count */
    struct ks_estimate mean;
    int64_t median_ns;
    int64_t min_ns;
    int64_t max_ns;
    double std_ns;
    int64_t unprofiled_ns;                                     /* measured without the profiler */
    int64_t predicted_ns, predicted_low_ns, predicted_high_ns; /* the same by replays */
    double *list; /* the values, by cycle and number of the step */
    int64_t *numbers;
};

struct ks_compare_run {
    struct ks_str path; /* as the user gave it, the first of several */
    int64_t path_count;
    int64_t events;
    int64_t ranks;
    struct ks_str torch;
    struct ks_str device; /* "NVIDIA H100 80GB HBM3", "CPU" */
    struct ks_compare_times times;
};

/* What is not the same about the recordings, and what follows from it. */
struct ks_compare_setup {
    const char *what; /* static text, as `note` */
    struct ks_str a;
    struct ks_str b;
    const char *note;
};

enum ks_compare_group { KS_COMPARE_BREAKDOWN, KS_COMPARE_IDLE, KS_COMPARE_PHASES };

/* What a mean step was spent on, as far as one of the runs spent time on it. The parts of the
 * breakdown, and of the phases, add up to the step. */
struct ks_compare_part {
    enum ks_compare_group group;
    const char *name; /* static text */
    double a_ns, b_ns, change_ns;
};

enum ks_compare_state { KS_COMPARE_BOTH, KS_COMPARE_NEW, KS_COMPARE_GONE };

/* Numbers of an operator or kernel in a mean step; NaN: the side does not have it. */
struct ks_compare_use {
    double calls;
    double host_ns;   /* operators: self_cpu_ns */
    double device_ns; /* operators: self_device_ns; kernels: all of it */
};

struct ks_compare_operator {
    struct ks_str name;
    struct ks_str shapes; /* NULL: not grouped by shape */
    enum ks_operator_kind kind;
    enum ks_compare_state state;
    struct ks_compare_use a, b;
    double host_change_ns; /* what one side does not have counts 0 there */
    double device_change_ns;
};

struct ks_compare_kernel {
    struct ks_str name;
    enum ks_category category;
    int64_t device; /* KS_UNKNOWN: the runs used different ones, all together */
    enum ks_compare_state state;
    struct ks_compare_use a, b;
    double change_ns;
};

struct ks_compare_memory {
    int64_t rank;   /* KS_UNKNOWN */
    int64_t device; /* -1: the host */
    bool is_in_a, is_in_b;
    enum ks_compare_state state;
    int64_t a_allocated, b_allocated; /* bytes at the peak; KS_UNKNOWN */
    int64_t a_reserved, b_reserved;
    int64_t a_growth, b_growth; /* from step to step */
    int64_t allocated_change;
    int64_t reserved_change;
};

/* A finding of one side or both. `id` and `title` are copies. */
struct ks_compare_finding {
    struct ks_str id;
    struct ks_str title;
    struct ks_str operator_name; /* NULL unknown, as `file` */
    struct ks_str file;
    int64_t line;
    enum ks_compare_state state; /* BOTH: still there */
    struct ks_saving a, b;       /* KS_UNKNOWN: not there, or saves no time */
    double a_share, b_share;     /* of the step; NaN unknown */
};

struct ks_comparison {
    struct ks_arena arena;
    struct ks_compare_run runs[KS_COMPARE_SIDES];
    enum ks_step_verdict verdict;
    enum ks_compare_reason reason;
    struct ks_difference step; /* of the step times */
    bool is_by_shape;
    struct ks_compare_setup *setups;
    size_t setup_count;
    struct ks_compare_part *parts; /* breakdown, idle causes, phases */
    size_t part_count;
    struct ks_compare_operator *operators; /* by how much changed, descending, then name */
    size_t operator_count;
    struct ks_compare_kernel *kernels; /* the same */
    size_t kernel_count;
    struct ks_compare_memory *memory; /* by rank and device */
    size_t memory_count;
    struct ks_compare_finding *findings; /* gone, new, still there; each by weight */
    size_t finding_count;
};

/* `out` is to be released after an error, too. */
enum ks_status ks_comparison_compute(const struct ks_compare_input sides[KS_COMPARE_SIDES],
                                     struct ks_comparison *out, struct ks_err *err) KS_MUST_CHECK;
void ks_comparison_release(struct ks_comparison *comparison);

#endif
