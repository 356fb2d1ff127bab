/* The inside of a replay: what replay_build.c makes and replay_run.c walks. */
#ifndef KS_ANALYZE_REPLAY_MODEL_H
#define KS_ANALYZE_REPLAY_MODEL_H

#include "analyze/lane_sweep.h"
#include "analyze/registry.h"
#include "analyze/replay.h"
#include "measure/sum.h"

enum { KS_REPLAY_NO_WORK = UINT32_MAX };

enum ks_replay_kind {
    KS_REPLAY_ROW_BEGIN, /* operator, annotation or Python frame */
    KS_REPLAY_ROW_END,
    KS_REPLAY_LOADER_BEGIN, /* the data loader's __next__ */
    KS_REPLAY_LOADER_END,
    KS_REPLAY_CALL_BEGIN, /* into the runtime or driver */
    KS_REPLAY_CALL_END,
    KS_REPLAY_STEP_END,
};

/* A moment of the host. */
struct ks_replay_point {
    int64_t at_ns;
    uint32_t row;    /* ordinal of the row it belongs to: calls, steps: index */
    int32_t cost_ns; /* what recording took: this end's half of the row, or the launch */
    uint32_t item;   /* call: index into calls; step: index; else 0 */
    uint16_t thread; /* index within the replay */
    uint8_t kind;    /* enum ks_replay_kind */
    uint16_t marks;  /* KS_REPLAY_*: an operator, or KS_REPLAY_BEFORE_FREE, that can be left out */
    bool is_empty;   /* the row takes no time */
    bool is_frame;   /* Python frame */
    bool is_op;      /* operator */
    bool joins_next; /* end of an operator that belongs to the next one of its thread */
};

struct ks_replay_call {
    uint32_t work_begin; /* GPU work that it launches */
    uint32_t work_end;
    uint32_t awaited; /* work whose end it waits for, KS_REPLAY_NO_WORK */
    unsigned flags;   /* KS_NAME_* */
    int64_t own_ns;   /* it takes at least that long */
    int64_t tail_ns;  /* from the end of the awaited work to its own */
    bool is_memory;   /* takes memory of a device or gives it back */
};

struct ks_replay_work {
    int64_t launch_ns;
    int64_t corr; /* of its launch */
    int64_t start_ns;
    int64_t dur_ns;
    int64_t alone_ns;        /* collectives: without waiting for other ranks; else dur_ns */
    int64_t launch_delay_ns; /* starts this long after its launch, at least */
    int64_t stream_delay_ns; /* ... after all work that was launched before it on its stream */
    int64_t other_delay_ns;  /* ... after the work `other` of another stream */
    uint32_t other;          /* KS_REPLAY_NO_WORK */
    uint32_t before;         /* on its stream, in order of launch; KS_REPLAY_NO_WORK */
    uint32_t stream;         /* index within the replay */
    uint32_t launch_lane;
    uint32_t step;         /* the number of steps: it makes none longer */
    uint8_t copy_mark;     /* KS_REPLAY_SMALL_COPY or 0 */
    uint32_t shrink_marks; /* KS_REPLAY_OPTIMIZER and so on */
    bool is_collective;
    bool is_first;    /* nothing was seen before it on its stream */
    bool is_launched; /* its call was found */
};

/* A stretch of a thread with marks begins or ends. */
struct ks_replay_edge {
    int64_t at_ns;
    uint32_t marks;
    bool is_begin;
};

struct ks_replay {
    struct ks_replay_point *points; /* by time */
    size_t point_count;
    struct ks_replay_edge *edges; /* by time, ends first */
    size_t edge_count;
    struct ks_replay_call *calls;
    size_t call_count;
    struct ks_replay_work *works; /* in order of launch */
    size_t work_count;
    int64_t *stream_free_ns; /* end of work from before the first step; KS_TIME_NONE: none */
    size_t stream_count;
    size_t thread_count;
    size_t step_count;
    int64_t start_ns;
    int64_t operator_cost_ns; /* estimated host time that recording an operator takes */
    int64_t launch_cost_ns;   /* ... a launch, where unprofiled steps do without */
};

/* What one replay may hold. */
struct ks_replay_limits {
    size_t steps;
    size_t points;
    size_t works;
};

/* The steps that are replayed and what of their source drives the GPU. */
struct ks_replay_scope {
    struct ks_analyzer *analyzer;
    uint32_t source;
    struct ks_replay_limits limits;
    const struct ks_step *steps;
    size_t step_count;
    int64_t start_ns; /* of the first step on the host */
    int64_t end_ns;   /* of the last step on the host */
    int64_t gpu_end_ns;
    struct ks_track_range tracks;
    uint16_t *thread_of; /* by track in them: index of the thread + 1, 0: it drives nothing */
    size_t thread_count;
};

/* `*made` NULL: the source has nothing to replay. Fewer steps are taken, never fewer than two, when
 * they do not fit. */
enum ks_status ks_replay_build(struct ks_analyzer *analyzer, uint32_t source,
                               const struct ks_replay_limits *limits, struct ks_replay **made,
                               struct ks_err *err) KS_MUST_CHECK;

/* Step that holds the host's moment, or step_count. */
uint32_t ks_replay_step_at(const struct ks_replay_scope *scope, int64_t ns);

/* Each fills its part of the replay, in this order; memory is the facts' arena. The first finds the
 * threads that launch work. `*fits` false: it is more than the limits allow. */
enum ks_status ks_replay_add_works(struct ks_replay_scope *scope, struct ks_replay *replay,
                                   bool *fits, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_replay_add_points(struct ks_replay_scope *scope, struct ks_replay *replay,
                                    bool *fits, struct ks_err *err) KS_MUST_CHECK;

/* Marks works by the stretches that launch them, and adds the edges of those; works are there. */
enum ks_status ks_replay_add_spans(const struct ks_replay_scope *scope, struct ks_replay *replay,
                                   struct ks_err *err) KS_MUST_CHECK;

/* What held each work; works are in order of launch and know their streams. `free_ns`, by stream:
 * end of the work from before the first step, KS_TIME_NONE: there was none. */
enum ks_status ks_replay_find_delays(struct ks_replay_work *works, size_t count,
                                     const int64_t *free_ns, size_t stream_count,
                                     struct ks_err *err) KS_MUST_CHECK;

static inline int64_t ks_replay_work_end(const struct ks_replay_work *work)
{
    return ks_sum_add(work->start_ns, work->dur_ns);
}

#endif
