/* Results of all analyses of one trace: the only thing that rules and outputs look at besides the
 * trace itself. Arrays live in `arena`; strings are ids of the trace's pool. All times are ns,
 * relative to the trace's origin; durations and sums as said. A value that cannot be computed is
 * KS_UNKNOWN (integers) or NaN (doubles) and becomes null in outputs.
 *
 * Filled by ks_facts_compute in the order of analyze/registry.c; immutable afterwards.
 */
#ifndef KS_ANALYZE_FACTS_H
#define KS_ANALYZE_FACTS_H

#include "analyze/work_costs.h"
#include "store/trace.h"

#define KS_UNKNOWN INT64_MIN

/* What part of the trace counts. Zero value: everything. */
struct ks_scope {
    bool step_range_given; /* only steps with number in [step_first, step_last] */
    int64_t step_first;
    int64_t step_last;
    bool device_given;
    int64_t device;
    bool group_by_shape;
    int64_t group_by_stack; /* operators are told apart by so many frames of theirs; 0: not */
};

enum ks_step_source { /* how the steps were found (steps[].source) */
                      KS_STEPS_NONE,
                      KS_STEPS_PROFILER,  /* ProfilerStep#N */
                      KS_STEPS_MARK,      /* the user's own marks: kinetoscope.step */
                      KS_STEPS_ENGINE,    /* spans of an inference engine */
                      KS_STEPS_OPTIMIZER, /* Optimizer.step */
                      KS_STEPS_TOP_SPAN,  /* a repeated top-level annotation */
                      KS_STEPS_GRAPH,     /* graph launches */
                      KS_STEPS_PERIOD,    /* period of the launch sequence */
                      KS_STEPS_WINDOW,    /* the whole recording is one step */
};

enum ks_step_kind { KS_STEP_TRAIN, KS_STEP_PREFILL, KS_STEP_DECODE, KS_STEP_MIXED, KS_STEP_OTHER };

/* Roles of the step breakdown, by priority: where two overlap, the earlier one counts. */
enum ks_role {
    KS_ROLE_KERNEL,
    KS_ROLE_MEMCPY,
    KS_ROLE_MEMSET,
    KS_ROLE_COMMUNICATION,
    KS_ROLE_RUNTIME,
    KS_ROLE_DATALOADER,
    KS_ROLE_CPU,
    KS_ROLE_OTHER,
    KS_ROLE_COUNT,
};

/* Why a device idles (docs/analyses/idle.md). Each ns of an idle interval has one of them. */
enum ks_idle_cause {
    KS_IDLE_DATA,             /* the host waits for the next batch */
    KS_IDLE_SYNC,             /* the host is in a synchronising call, or the operator around it */
    KS_IDLE_HOST_CODE,        /* the host runs code between operators */
    KS_IDLE_LAUNCH,           /* the host prepares the next work, or it was just launched */
    KS_IDLE_ALLOCATOR,        /* the host asks the driver for memory */
    KS_IDLE_COLLECTIVE,       /* other ranks are waited for */
    KS_IDLE_KERNEL_TO_KERNEL, /* the next work was launched in time: what holds it is the device */
    KS_IDLE_PROFILER,         /* the recording itself */
    KS_IDLE_UNKNOWN,          /* the trace does not say */
    KS_IDLE_COUNT,
};

/* Phases of training (docs/analyses/phases.md). */
enum ks_phase {
    KS_PHASE_DATA,
    KS_PHASE_TRANSFER,
    KS_PHASE_FORWARD,
    KS_PHASE_LOSS,
    KS_PHASE_BACKWARD,
    KS_PHASE_OPTIMIZER,
    KS_PHASE_OTHER,
    KS_PHASE_COUNT,
};

struct ks_step {
    int64_t number; /* N of ProfilerStep#N; else counted from 0 */
    uint32_t index; /* 0-based within its rank */
    struct ks_strid name;
    uint32_t source; /* source (file) it comes from; the rank is that of the source */
    uint32_t thread; /* track of the thread it ran on, 0 none */
    enum ks_step_kind kind;
    enum ks_step_source found_by;
    bool is_complete;      /* false: cut by the end of the recording, or unfinished */
    int64_t host_start_ns; /* host span */
    int64_t host_ns;
    int64_t start_ns;     /* true step: max(end of the previous true step, host start) .. */
    int64_t dur_ns;       /* .. max(host end, end of the GPU work launched in it) */
    int64_t gpu_start_ns; /* span of the GPU work launched in it; KS_UNKNOWN: none */
    int64_t gpu_end_ns;
    int64_t tokens; /* KS_UNKNOWN unless an engine span says */
    int64_t samples;
    int64_t
        input_wait_ns; /* time its thread spends in the loader's __next__ inside the true step */
    int64_t input_idle_ns;               /* of that, time in which no device of the rank works */
    int64_t breakdown_ns[KS_ROLE_COUNT]; /* adds up to dur_ns */
    int64_t idle_ns; /* no device of the rank works; without GPU work: its thread does not */
    int64_t idle_by_cause_ns[KS_IDLE_COUNT]; /* adds up to idle_ns */
    int64_t phases_ns[KS_PHASE_COUNT];       /* adds up to dur_ns */
};

/* Host span of a step, whether the scope keeps the step or not. */
struct ks_step_span_fact {
    int64_t start_ns;
    int64_t end_ns;
};

struct ks_device_fact {
    uint32_t track; /* device track */
    uint32_t source;
    int64_t device;       /* ordinal */
    struct ks_strid name; /* of the GPU model, 0 unknown */
    int64_t span_ns;      /* first start to last end of GPU work */
    int64_t start_ns;
    int64_t busy_ns;                         /* union of GPU work */
    int64_t idle_ns;                         /* span - busy */
    int64_t idle_by_cause_ns[KS_IDLE_COUNT]; /* adds up to idle_ns */
    int64_t kernel_sum_ns;                   /* plain sum of kernels, collectives included */
    int64_t work_sum_ns;                     /* plain sum of kernels, copies and sets */
    int64_t compute_ns;                      /* union of kernels that are no collectives */
    int64_t comm_ns;                         /* union of collectives */
    int64_t exposed_comm_ns;                 /* comm not covered by compute */
    int64_t memcpy_ns;                       /* union of copies */
    uint64_t work_count;
    uint64_t kernel_count;
    double sm_efficiency; /* duration-weighted min(blocks per SM, 1) over the span; NaN unknown */
    double occupancy;     /* duration-weighted est. achieved occupancy, 0-1; NaN unknown */
    double tensor_core_share; /* kernel time of tensor-core kernels / kernel time without comm */
};

struct ks_stream_fact {
    uint32_t track; /* stream track */
    uint32_t source;
    int64_t device;
    int64_t stream;
    int64_t busy_ns;                         /* union of its work */
    int64_t gap_ns;                          /* its span - busy */
    int64_t idle_by_cause_ns[KS_IDLE_COUNT]; /* adds up to gap_ns */
    uint64_t work_count;
};

enum ks_operator_kind { KS_OPERATOR_OP, KS_OPERATOR_ANNOTATION, KS_OPERATOR_RUNTIME };

/* One row of torch's key_averages, host side. Show it by ks_operator_label. */
struct ks_operator_fact {
    struct ks_strid name;   /* of folded steps: that of one of them */
    bool is_folded_step;    /* all ProfilerStep#N, which torch shows as ProfilerStep* */
    struct ks_strid shapes; /* only when grouped by shape */
    struct ks_str stack;    /* only when grouped by stack: frames, innermost first, ';' between */
    uint32_t stack_group;   /* number of that stack, 0: no frame */
    enum ks_operator_kind kind;
    int64_t calls;
    int64_t cpu_ns;
    int64_t self_cpu_ns;       /* torch's rule */
    int64_t self_exclusive_ns; /* ours: minus the union of direct children, Python frames too */
    int64_t device_ns;
    int64_t self_device_ns;
    int64_t cpu_bytes; /* KS_UNKNOWN without profile_memory, as the next three */
    int64_t self_cpu_bytes;
    int64_t device_bytes;
    int64_t self_device_bytes;
    int64_t flops; /* 0: torch knows no formula; KS_UNKNOWN: no shapes recorded */
};

/* What is called from one stack of Python frames; only when operators are grouped by stack. */
struct ks_stack_fact {
    struct ks_str stack; /* frames, innermost first, ';' between */
    int64_t calls;
    int64_t self_cpu_ns; /* of operators, as all that follow */
    int64_t self_device_ns;
    int64_t self_cpu_bytes; /* KS_UNKNOWN without profile_memory */
    int64_t self_device_bytes;
};

struct ks_kernel_fact {
    struct ks_strid name;
    enum ks_category category; /* kernel, memcpy or memset */
    int64_t device;            /* ordinal */
    int64_t calls;
    int64_t total_ns;
    int64_t min_ns;
    int64_t max_ns;
    bool is_communication;
    bool is_tensor_core;
    double occupancy; /* mean over calls with a value, duration-weighted; NaN none */
};

/* A category and name of labelled regions. */
struct ks_region_fact {
    struct ks_strid name;
    struct ks_strid category; /* 0: none */
    int64_t calls;
    int64_t all_ns;   /* sum of all durations */
    int64_t total_ns; /* the same, where a region inside of its like counts nothing */
    int64_t self_ns;  /* without what its children cover */
    int64_t min_ns;
    int64_t max_ns;
};

/* A counter, or instants of one name and category, of a recording. */
struct ks_mark_fact {
    struct ks_strid name;
    struct ks_strid series; /* category; of the monitor's curves unit and number; 0 none */
    struct ks_strid unit;   /* 0: none was said */
    struct ks_strid values; /* of the last instant, a JSON object; 0 none */
    uint32_t source;
    bool is_counter;
    int64_t count;
    int64_t number_count; /* of these, values that are numbers */
    int64_t first_ns;
    int64_t last_ns;
    double sum; /* of numbers */
    double min; /* these three: NaN, no number */
    double max;
    double last;
};

/* What a step held of the regions of one category and name, on the thread that has the steps. */
struct ks_step_region {
    size_t step;   /* index into `steps` */
    size_t number; /* that all rows of this category and name have */
    struct ks_strid name;
    struct ks_strid category;
    int64_t calls; /* that began in the step */
    int64_t self_ns;
};

/* A module as called by one other (docs/analyses/modules.md). Times of a forward pass are those of
 * calls; a call inside of a backward pass computes anew, and counts in both. */
struct ks_module_fact {
    struct ks_str name; /* of the instance: "Linear_0"; by hooks its label */
    struct ks_str class_name;
    struct ks_str tree_name; /* name behind blanks, by depth */
    int64_t parent;          /* row of who called it; KS_UNKNOWN: no module did */
    int64_t depth;
    bool is_region; /* told by hooks, not by frames */
    int64_t calls;
    int64_t forward_ns;
    int64_t forward_self_ns; /* without the modules that it called */
    int64_t recompute_calls; /* of calls, inside of a backward pass */
    int64_t recompute_ns;
    int64_t backward_ns; /* KS_UNKNOWN: nodes of autograd do not tell their operators */
    int64_t backward_self_ns;
    int64_t forward_device_ns; /* KS_UNKNOWN, as all that follow: told by hooks */
    int64_t forward_self_device_ns;
    int64_t backward_device_ns;
    int64_t backward_self_device_ns;
    int64_t recompute_device_ns; /* that counts in both */
};

/* An operator and the node of autograd that it made (docs/analyses/autograd.md). Show the node by
 * ks_autograd_label. */
struct ks_autograd_fact {
    struct ks_strid forward; /* 0: the trace does not tell the operator */
    struct ks_strid shapes;  /* of its inputs, only when grouped by shape */
    struct ks_strid node;
    int64_t calls;         /* of nodes */
    int64_t forward_calls; /* of operators: a graph that is kept can run again */
    int64_t forward_ns;
    int64_t backward_ns;
    int64_t forward_device_ns;
    int64_t backward_device_ns;
};

enum { KS_SEQUENCE_MAX = 8, KS_SEQUENCE_ROWS_MAX = 1000 };

/* Kernels that follow each other again and again (docs/analyses/sequences.md). */
struct ks_sequence_fact {
    struct ks_strid kernels[KS_SEQUENCE_MAX];
    struct ks_str text; /* "a > b", long names cut */
    int64_t length;
    int64_t count;    /* occurrences that do not overlap */
    int64_t total_ns; /* of its kernels */
    int64_t gap_ns;   /* between them, nothing runs on the stream */
    bool is_fusible;  /* all of them do little but read and write memory */
};

/* A function by what its source says. */
struct ks_function_id {
    struct ks_strid name;
    struct ks_strid file; /* "~" for a C function */
    uint32_t first_line;  /* 0 for C functions */
};

/* What function profilers counted of a function, in all threads. */
struct ks_function_fact {
    struct ks_function_id id;
    int64_t calls;
    int64_t primitive_calls; /* of them, those not inside of another of it */
    int64_t open_calls;      /* of them, those that had not returned when the recording ended */
    int64_t self_ns;
    int64_t total_ns;  /* with what it called; a call inside of another of it counts nothing */
    size_t edge_first; /* who called it, in function_edges */
    size_t edge_count;
};

/* Calls of a function by one other. */
struct ks_function_edge {
    struct ks_function_id id; /* of the caller */
    size_t function;          /* number that the edges of one function share */
    int64_t calls;
    int64_t primitive_calls;
    int64_t self_ns;
    int64_t total_ns;
    bool is_untimed; /* some profile has no times, and no primitive calls, for it */
};

/* A function in the stacks of a thread. A look is one sample of the sampler. */
struct ks_sample_fact {
    uint32_t track; /* of the thread */
    struct ks_function_id id;
    int64_t self_looks;     /* it was the innermost one */
    int64_t total_looks;    /* it was in the stack */
    int64_t running_looks;  /* of self_looks, those in which the thread used the CPU */
    int64_t thread_looks;   /* all of the thread */
    int64_t thread_running; /* of them, those in which it used the CPU */
};

struct ks_copy_fact {
    struct ks_strid
        kind; /* "Memcpy HtoD (Pageable -> Device)"; ks_copy_label cuts the first word */
    int64_t calls;
    int64_t bytes; /* KS_UNKNOWN when no row says */
    int64_t total_ns;
    int64_t timed_bytes; /* bytes of the calls with a duration, for the rate */
    int64_t timed_ns;
    int64_t zero_duration_calls;
};

/* A line of a program (docs/analyses/places.md). */
struct ks_place {
    struct ks_str file; /* texts live as long as the facts */
    int64_t line;
    struct ks_str function;
    struct ks_str text; /* "file:line (function)", for people */
    bool is_exact;      /* the line of the call; else the first line of the function */
    bool is_library;    /* no frame of the user's code was open */
};

/* What a place is asked for. */
enum ks_place_kind { KS_PLACE_OPERATOR, KS_PLACE_SYNC, KS_PLACE_COPY, KS_PLACE_LAUNCH };

/* How often an operator, or calls of a kind inside of it, come from a place. */
struct ks_place_use {
    struct ks_strid op;
    enum ks_place_kind kind;
    uint32_t place; /* index */
    int64_t calls;
    int64_t total_ns;
    int64_t all_calls; /* of this operator and kind, from all places */
};

/* Time that is asked for its place. */
enum ks_time_kind {
    KS_TIME_DATA,  /* waiting for the next batch */
    KS_TIME_QUIET, /* no operator runs */
    KS_TIME_STEP,  /* all of the only step that is recorded with frames */
    KS_TIME_MODEL, /* calls of modules from outside of modules */
    KS_TIME_KINDS,
};

/* The innermost function of the user's code that holds half of that time (docs/analyses/places.md).
 */
struct ks_time_place {
    uint32_t source;
    enum ks_time_kind kind;
    struct ks_str file; /* lives as long as the facts */
    int64_t line;
    int64_t step; /* number of the first step with frames */
};

/* One waiting or copying call of a trace with frames. */
struct ks_place_call {
    uint32_t source;
    uint32_t step;  /* index, or UINT32_MAX: in none */
    uint32_t place; /* index or UINT32_MAX */
    struct ks_strid op, call;
};

/* The smallest rate of pageable copies seen, 6 GB/s, takes 11 us for 64 KiB, about what calling the
 * copy takes. */
enum { KS_SITE_STEPS_MAX = 16, KS_SMALL_COPY_BYTES_MAX = 64 * 1024 };

/* Calls of one kind that one operator makes at one place (docs/analyses/syncs.md). */
struct ks_call_site {
    uint32_t source;
    struct ks_strid op;               /* outermost aten operator around, else the call itself */
    struct ks_strid call;             /* name of the runtime or driver call */
    struct ks_strid copy_kind;        /* copies: name of the GPU row */
    const struct ks_place *place;     /* NULL unknown */
    int64_t device;                   /* KS_UNKNOWN: the rank has several */
    int64_t count;                    /* calls; copies: copies */
    int64_t complete_count;           /* of these, in complete steps */
    int64_t steps_with;               /* steps that hold some */
    int64_t steps[KS_SITE_STEPS_MAX]; /* numbers of the first of them */
    size_t step_count;
    int64_t last_step;            /* index + 1 of the step counted last */
    int64_t operator_ns;          /* duration of the operators around the calls, each once */
    int64_t complete_operator_ns; /* of these, in complete steps */
    int64_t total_ns;             /* duration of the calls */
    int64_t wait_ns;              /* syncs: of this, time in which a device of the rank works */
    int64_t device_ns;            /* copies: time on the device */
    int64_t bytes;                /* copies: KS_UNKNOWN when no row says */
    double per_step;              /* in a complete step; NaN without one */
    bool is_pageable;             /* copies: the host side is not pinned */
    bool is_small; /* copies: of KS_SMALL_COPY_BYTES_MAX at most; larger ones are another site */
};

/* Tensors of one shape that one operator brings to the host, where they are worked on, and that go
 * back to the device in the same step (docs/analyses/round_trips.md). */
struct ks_round_trip {
    uint32_t source;
    struct ks_strid op;               /* brings them to the host */
    struct ks_strid shapes;           /* of its inputs */
    const struct ks_call_site *site;  /* its copies; NULL: they have several places */
    struct ks_strid longest;          /* operator that took longest on the host ... */
    int64_t longest_ns;               /* ... in one trip */
    int64_t steps[KS_SITE_STEPS_MAX]; /* numbers of the first steps with some */
    size_t step_count;
    int64_t count;
    int64_t complete_count; /* of these, in complete steps; all that follows is of these */
    int64_t operators;      /* that worked on them on the host */
    int64_t work_ns;        /* how long these took */
    int64_t wait_ns;        /* the operators that brought them, which wait for the device */
    int64_t idle_ns; /* no device worked, from their arrival on the host until work went on */
    int64_t copy_ns; /* the copies both ways on the device */
    int64_t bytes_down;
    int64_t bytes_up;
};

struct ks_link_fact {
    int64_t launches; /* calls meant to launch work */
    int64_t kernel_launches, graph_launches, memcpy_launches, memset_launches;
    int64_t linked;            /* GPU work rows with a launching call */
    int64_t orphan_gpu_events; /* without */
    int64_t launches_without_work;
    int64_t delay_ns_min; /* launch start to first GPU start, once a launch; KS_UNKNOWN */
    int64_t delay_ns_median;
    int64_t delay_ns_max;
    int64_t gpu_before_launch; /* launches whose work starts before them: in no delay */
};

/* Waiting for the next batch, over all complete steps of a rank. */
struct ks_input_fact {
    uint32_t source;
    bool has_loader; /* some loader span was seen */
    uint64_t batches;
    uint64_t step_batches;  /* of these, asked for in complete steps */
    int64_t first_batch_ns; /* the first wait of the recording, whole */
    int64_t wait_ns_median; /* over complete steps; KS_UNKNOWN without one */
    int64_t wait_ns_p95;
    int64_t wait_ns_max;
    int64_t transfer_ns;   /* phase transfer in complete steps */
    int64_t wait_ns_total; /* step thread in the loader's __next__ */
    int64_t
        idle_wait_ns_total; /* of that, time in which the compute device was idle (GPU), or all */
    bool is_single_process; /* _SingleProcessDataLoaderIter: num_workers=0 */
    int64_t loader_cpu_ns;  /* operators inside __next__: work that moves to a worker */
    int64_t collate_ns;     /* of that, joining samples to a batch (aten::stack, aten::cat) */
    uint64_t loader_rows;   /* recorded host rows inside __next__ */
    uint64_t thread_rows;   /* recorded host rows of the step threads inside the same steps */
    uint64_t step_count;    /* complete steps looked at */
    int64_t step_ns_total;  /* sum of their dur_ns */
    int64_t device_busy_ns; /* union of GPU work inside them, all devices of the rank together */
    struct ks_strid name;   /* the loader span's name */
};

/* Complete steps of a rank that uses no GPU (docs/analyses/cpu_steps.md). */
struct ks_cpu_fact {
    uint32_t source;
    size_t step_count;
    int64_t step_ns_total;
    int64_t data_ns_total;   /* waiting for the next batch */
    int64_t quiet_ns_total;  /* stretches of 200 us and more in which no operator runs at all */
    int64_t quiet_ns_median; /* of a step */
    int64_t short_ns_total;  /* shorter stretches of this kind */
};

/* Cutting text into tokens on the thread of the steps, by Python frames, of a recording with
 * stacks: parts of its time, not times of a step (docs/analyses/tokenizing.md). */
struct ks_tokenize_fact {
    bool is_known;       /* there are frames */
    int64_t code_ns;     /* stretches of 200 us and more without operators, calls and loader ... */
    int64_t tokenize_ns; /* ... in them, functions that tokenize */
    int64_t calls;
    struct ks_str file; /* of the program, where most of it comes from; empty unknown */
    int64_t line;
    struct ks_str function;
};

/* What the allocator of a device holds from step to step (docs/analyses/memory_steps.md). */
struct ks_memory_fact {
    uint32_t source;
    int64_t device;               /* ordinal; -1: the host */
    int64_t total_bytes;          /* of the device; KS_UNKNOWN */
    int64_t peak_allocated_bytes; /* KS_UNKNOWN: no event says, as the next one */
    int64_t peak_reserved_bytes;
    int64_t step_count;      /* complete steps with events */
    int64_t growth_bytes;    /* from step to step; 0: it does not grow */
    int64_t rise_bytes;      /* most less least inside of a step, mean; KS_UNKNOWN without steps */
    int64_t largest_bytes;   /* of one allocation in a step */
    int64_t held_bytes;      /* growing: of one step's allocations, never freed ... */
    struct ks_strid held_op; /* ... and the operator that made most of it, 0 unknown */
    int64_t held_op_bytes;
};

/* What the driver is asked for in a complete step: memory of a device, which takes the host long
 * (docs/analyses/driver_memory.md). */
struct ks_driver_memory {
    double takes;         /* calls that take memory */
    double gives;         /* calls that give it back */
    double gives_outside; /* of these, outside of operators: the program asked for it */
    double steps_share;   /* steps with calls of both kinds, of all */
    int64_t calls_ns;     /* host time of all these calls */
    int64_t before_ns;    /* code of the program directly before it gives some back */
    struct ks_strid op;   /* outermost operator that takes most; 0 none */
};

/* The graph that a source records for a backward pass (docs/analyses/autograd_graph.md). */
struct ks_graph_fact {
    bool has_backward;  /* backward or optimizer rows, in a step or not */
    double nodes;       /* operators a complete step records in the graph */
    struct ks_strid op; /* that records most of them, 0 none */
};

/* Compiling inside of complete steps (docs/analyses/compiles.md); times are of a mean one. */
struct ks_compile_fact {
    double compiles;      /* of one function each */
    int64_t attempts_max; /* highest number of a compilation of its function; -1 unknown */
    int64_t sure_ns;      /* from the first to the last mark of the compiler */
    int64_t most_ns;      /* and in compiled code that holds marks */
    int64_t recording_ns; /* estimated cost of recording the rows of these steps */
    size_t steps_with;    /* steps that compile */
    int64_t steps[KS_SITE_STEPS_MAX]; /* numbers of the first of them */
    size_t step_count;
    struct ks_strid dims[2]; /* inputs of the compiled function in two steps, if they differ */
};

/* Collectives and waiting of one rank; times are of a mean complete step. */
struct ks_rank_fact {
    uint32_t source;
    int64_t rank; /* -1 unknown */
    double collectives;
    double matched;              /* of these, with partners on all ranks */
    int64_t comm_ns;             /* their sum */
    int64_t exposed_ns;          /* of it, no kernel runs meanwhile */
    int64_t exposed_transfer_ns; /* of this, at most: not waiting for a rank that comes later */
    int64_t wait_ns;             /* waiting for ranks that come later */
    int64_t compute_ns;          /* union of kernels that are no collectives */
    int64_t idle_by_cause_ns[KS_IDLE_COUNT];
};

/* Collectives that sum up gradients; counts and bytes are of a mean complete step of a rank. */
struct ks_gradient_fact {
    double count;
    double bytes;
    double small; /* of KS_SMALL_BUCKET_BYTES_MIN to KS_SMALL_BUCKET_BYTES_MAX bytes */
    double small_bytes;
    int64_t small_transfer_ns; /* on the rank where each is shortest */
    double fp32_bytes;         /* of the bytes */
    int64_t micro_batches;     /* forward passes between optimizer steps, most ... */
    size_t windows;            /* ... of these, with gradients summed up after each of them */
    size_t windows_spared;     /* only after the last of several */
};

enum { KS_SMALL_BUCKET_BYTES_MIN = 32 * 1024, KS_SMALL_BUCKET_BYTES_MAX = 4 * 1024 * 1024 };

/* Collectives of one kind of sharded parameters (FSDP); all but bytes_max is of a mean complete
 * step of a rank. */
struct ks_shard_cost {
    double count;
    double matched; /* of these, with partners on all ranks */
    double bytes;   /* brought together or summed up, as far as sizes are known */
    double fp32_bytes;
    int64_t bytes_max;       /* of one of them, 0 unknown */
    int64_t transfer_ns;     /* moving data, at most */
    int64_t exposed_ns;      /* of it, no kernel runs meanwhile */
    int64_t exposed_sure_ns; /* ... moving data for sure */
    int64_t first_ns;        /* exposed time of the first one of each step */
};

struct ks_shard_fact {
    struct ks_shard_cost gathers;  /* of parameters */
    struct ks_shard_cost scatters; /* sums of gradients */
};

/* Collectives of complete steps (docs/analyses/collectives.md). */
struct ks_comm_fact {
    struct ks_rank_fact *ranks; /* one for each source; NULL: no step has collectives */
    size_t rank_count;
    size_t steps_compared; /* on all ranks, all collectives matched; 0: the rest is unknown */
    size_t late;           /* index of the rank that others wait for most */
    size_t late_steps;     /* steps in which it comes last */
    int64_t late_ns;       /* how long half of the others wait for it, mean step */
    int64_t late_excess_ns[KS_IDLE_COUNT]; /* its idle time less the median of the others' */
    int64_t late_excess_compute_ns;        /* the same of compute */
    int64_t uneven_ns; /* most less mean compute where who computes most comes last; mean step */
    struct ks_gradient_fact gradients;
    struct ks_shard_fact shards;
};

/* What one file alone says of its launches and its recorder, so that the facts of a rank do not
 * depend on which others are read with it. */
/* What one kind of call costs in a complete step, all places together. */
struct ks_step_cost {
    double count;
    int64_t operator_ns;              /* host time of the operators around the calls */
    int64_t device_ns;                /* copies: time on the device */
    double bytes;                     /* copies */
    const struct ks_call_site *worst; /* the place with most operator time; NULL: none */
};

/* What round trips cost in a complete step. */
struct ks_trip_cost {
    double count;
    double operators;
    int64_t work_ns;
    int64_t idle_ns;
    int64_t copy_ns;
    double bytes_down;
    double bytes_up;
    const struct ks_round_trip *worst; /* with most idle time; NULL: none */
};

/* Means over the complete steps of all ranks (docs/analyses/mean_step.md). */
struct ks_mean_step {
    const char *obstacle; /* why nothing can be said of steps on a GPU; NULL: the rest is there */
    int64_t step_ns;      /* true step */
    int64_t idle_ns;      /* no device works */
    int64_t busy_ns;      /* step - idle */
    int64_t idle_by_cause_ns[KS_IDLE_COUNT];
    int64_t copying_ns;         /* of busy_ns, copies while no kernel computes */
    int64_t unprofiled_ns;      /* measured without the profiler; 0 unknown */
    int64_t unprofiled_most_ns; /* the same, or the mean with long steps, if that is more */
    int64_t predicted_ns;       /* the same from a replay of the recorded steps (replay.md) ... */
    int64_t predicted_low_ns, predicted_high_ns; /* ... and its bounds; 0 unknown */
    double cost_low, cost_high; /* part of the estimated cost of recording that is real */
    double launches;
    struct ks_step_cost reads;        /* values that the host reads from the device */
    struct ks_step_cost small_copies; /* between host and device, of 64 KiB at most */
    struct ks_step_cost pageable;     /* to the device from pageable memory, 64 KiB and more */
    struct ks_trip_cost trips;        /* of tensors to the host and back */
};

/* What curves of a recording say of the limit of CPU time while the steps of a source ran. A
 * window of 0: nothing, or the source says it itself. */
struct ks_throttle_fact {
    int64_t window_ns;
    int64_t cores;        /* of the machine; 0 unknown */
    double limit_cores;   /* that the control group may use */
    double periods_share; /* of the kernel's periods, those in which it was held back */
    double held_cores;    /* on so many cores, as a mean over the window */
};

/* What they say of threads that take the cores from each other: while the steps of a source ran, or
 * `is_alone`, in all of a recording where nothing has steps. A window of 0 as above. */
struct ks_crowd_fact {
    int64_t window_ns;
    bool is_alone;
    int64_t cores;        /* of the machine, or whole ones that the control group may use */
    double threads;       /* of the process */
    double used_cores;    /* by the process, and ... */
    double machine_cores; /* ... by all that runs on the machine */
    double preemptions_per_s;
    double waiting_share; /* of the time, some thread of the machine waited for a core */
};

struct ks_source_fact {
    int64_t delay_ns_min;       /* as in the links; KS_UNKNOWN */
    int64_t row_cost_ns;        /* as below */
    int64_t unprofiled_ns;      /* step time outside of the recording; 0 unknown */
    int64_t unprofiled_most_ns; /* the same, or the mean with long steps, if that is more */
    struct ks_throttle_fact throttle;
    struct ks_crowd_fact crowd;
};

/* Rows of `steps` that belong to a source. */
struct ks_step_range {
    size_t begin;
    size_t end;
};

/* Where a thread is on a round trip, from the operator that brings the tensor to the host to the
 * end of that which takes the result back. */
struct ks_trip_span {
    uint32_t lane;
    int64_t from_ns;
    int64_t until_ns;
};

struct ks_replay; /* replay.h */

struct ks_facts {
    struct ks_arena arena;
    const struct ks_trace *trace;
    struct ks_scope scope;

    enum ks_step_source step_source;
    struct ks_step *steps; /* by source, then time */
    size_t step_count;
    struct ks_step_range *step_ranges;    /* one for each source */
    struct ks_step_span_fact *step_spans; /* of all steps, by source, then time */
    size_t step_span_count;
    struct ks_step_range *step_span_ranges;
    int64_t step_ns_total; /* sum of dur_ns of the complete steps */
    size_t complete_step_count;

    struct ks_device_fact *devices;
    size_t device_count;
    struct ks_stream_fact *streams;
    size_t stream_count;
    struct ks_operator_fact *operators; /* by self_cpu_ns descending, then name */
    size_t operator_count;
    struct ks_stack_fact *stacks; /* by self_cpu_ns descending, then stack */
    size_t stack_count;
    struct ks_kernel_fact *kernels; /* by total_ns descending, then name */
    size_t kernel_count;
    struct ks_copy_fact *copies; /* by total_ns descending, then kind */
    size_t copy_count;
    struct ks_region_fact *regions; /* by total_ns descending, then category and name */
    size_t region_count;
    struct ks_strid region_category;     /* that takes most of the time of regions by itself ... */
    int64_t region_category_ns;          /* ... which is this much ... */
    int64_t region_self_ns;              /* ... of this */
    struct ks_step_region *step_regions; /* by step, then number */
    size_t step_region_count;
    struct ks_module_fact *modules; /* each before what it calls; most time first */
    size_t module_count;
    struct ks_autograd_fact *autograd; /* by backward_ns descending, then node and operator */
    size_t autograd_count;
    struct ks_sequence_fact *sequences; /* by total_ns + gap_ns descending; those with most */
    size_t sequence_count;
    struct ks_mark_fact *marks; /* instants first; by source, then name, then category */
    size_t mark_count;
    size_t instant_count;
    struct ks_function_fact *functions; /* by self_ns, then total_ns, descending, then name */
    size_t function_count;
    struct ks_function_edge *function_edges; /* by function, then total_ns descending */
    size_t function_edge_count;
    int64_t function_self_ns; /* of all functions */
    /* By thread (that ran most first), then self_looks, then total_looks, descending. */
    struct ks_sample_fact *samples;
    size_t sample_count;
    bool has_frames; /* places come from the trace's own Python frames */
    struct ks_place *places;
    size_t place_count;
    struct ks_place_use *place_uses; /* by operator, kind, calls descending */
    size_t place_use_count;
    struct ks_place_call *place_calls; /* by source, step, operator, name, time */
    size_t place_call_count;
    struct ks_time_place *time_places; /* by source and kind; NULL: no frames */
    size_t time_place_count;
    struct ks_call_site *syncs; /* those in steps first; by wait_ns, then total_ns, descending */
    size_t sync_count;
    struct ks_call_site *copy_sites; /* by device_ns descending */
    size_t copy_site_count;
    struct ks_round_trip *round_trips; /* by idle_ns descending; NULL: none */
    size_t round_trip_count;
    struct ks_trip_span *trip_spans; /* by thread and time */
    size_t trip_span_count;
    struct ks_work_costs work;     /* that a repair would make shorter */
    size_t running_count;          /* sources whose process was still at work */
    struct ks_memory_fact *memory; /* by source; NULL: no events */
    size_t memory_count;
    struct ks_driver_memory driver_memory;
    struct ks_comm_fact comm;
    struct ks_compile_fact compiles;
    struct ks_graph_fact *graphs; /* one for each source */
    struct ks_link_fact links;
    struct ks_input_fact *inputs; /* one for each source */
    size_t input_count;
    struct ks_tokenize_fact tokenizing;
    struct ks_cpu_fact *cpus; /* one for each source; NULL: some GPU works, or there are no steps */
    size_t cpu_count;
    struct ks_source_fact *sources; /* one for each source */
    size_t source_count;
    struct ks_replay **replays;       /* one for each source; NULL: nothing to replay */
    double replayed_ns;               /* mean step of the replays without a change; 0 unknown */
    struct ks_what_if_memo *what_ifs; /* runs of the replays, by their change */
    bool are_ranks; /* the sources are the ranks of one job, and all have replays */
    struct ks_mean_step mean_step;
    double step_noise;   /* part of a step by which one differs from another; 0: they are alike */
    int64_t overhead_ns; /* rows of the profiler itself: their union */
    int64_t row_cost_ns; /* estimated host time that recording one row takes */
    uint64_t parents_guessed; /* slices whose parent was not searched to the end */
    bool has_gpu;             /* some GPU work row exists */
    bool has_memory;          /* allocator events exist, or were recorded and are none */
    bool has_shapes;
};

/* Computes everything. `facts` must be zeroed; release it also after an error. */
enum ks_status ks_facts_compute(const struct ks_trace *trace, const struct ks_scope *scope,
                                struct ks_facts *facts, struct ks_err *err) KS_MUST_CHECK;

struct ks_facts_help {
    /* Facts of another recording of the same program that has Python frames: places come from it,
     * and are copied. NULL: none. */
    const struct ks_facts *framed;
    bool uses_two_threads; /* to the same facts; a small trace is done sooner by one */
};

/* The same, with help. */
enum ks_status ks_facts_compute_with(const struct ks_trace *trace, const struct ks_scope *scope,
                                     const struct ks_facts_help *help, struct ks_facts *facts,
                                     struct ks_err *err) KS_MUST_CHECK;
/* Operators and kernels of the steps of `facts` that count (ks_step_counts) and of nothing else:
 * what two recordings are compared by. All other facts in `out`, zeroed before, are of no use;
 * release it also after an error. */
enum ks_status ks_facts_count_work(const struct ks_facts *facts, bool group_by_shape,
                                   struct ks_facts *out, struct ks_err *err) KS_MUST_CHECK;
void ks_facts_release(struct ks_facts *facts);

/* Does the step count in means and shares? Cut ones do only when there is no other. */
bool ks_step_counts(const struct ks_facts *facts, const struct ks_step *step);

/* What torch calls the row: its name, or "ProfilerStep*". */
struct ks_str ks_operator_label(const struct ks_facts *facts, const struct ks_operator_fact *op);
/* "AddmmBackward0" for "autograd::engine::evaluate_function: AddmmBackward0". */
struct ks_str ks_autograd_label(const struct ks_facts *facts, const struct ks_autograd_fact *pair);
/* "HtoD (Pageable -> Device)" for "Memcpy HtoD (Pageable -> Device)". */
struct ks_str ks_copy_label(const struct ks_facts *facts, const struct ks_copy_fact *copy);

#endif
