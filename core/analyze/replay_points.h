/* The list of host moments while a replay is built: replay_points.c fills it from the rows, the
 * others add what they know of a row when it ends, or of all when they are in order. */
#ifndef KS_ANALYZE_REPLAY_POINTS_H
#define KS_ANALYZE_REPLAY_POINTS_H

#include "analyze/replay_model.h"

enum { KS_REPLAY_RECENT_MAX = 8 };

/* A row or call that has not ended. */
struct ks_replay_row {
    int64_t start_ns;
    int64_t end_ns;
    int64_t child_ns;     /* of the rows directly inside */
    uint32_t child_count; /* calls and loaders are none */
    uint32_t begin;       /* its points */
    uint32_t end;         /* known when it ended */
    uint32_t name;
    bool is_aten;
    bool is_comm; /* starts a collective */
};

/* An outermost operator of aten, after it ended. */
struct ks_replay_recent {
    uint32_t begin;
    uint32_t end;
    bool launches;
};

struct ks_replay_costs {
    int64_t *items; /* time of operators without the only other one that they call */
    size_t count;
    size_t capacity;
};

struct ks_replay_list {
    struct ks_replay_scope *scope;
    struct ks_replay *replay;
    struct ks_replay_point *items;
    size_t count;
    size_t capacity;
    struct ks_replay_call *calls;
    size_t call_count;
    size_t call_capacity;
    uint32_t row_count;

    /* The thread that is read. */
    uint32_t lane;
    uint16_t thread;
    struct ks_replay_row *open;
    size_t open_count;
    size_t open_capacity;
    size_t aten_depth; /* operators of aten that are open */
    size_t outermost;  /* the outermost of them */
    struct ks_replay_recent recent[KS_REPLAY_RECENT_MAX];
    size_t recent_count;
    bool launches;     /* the outermost operator that is open does */
    unsigned op_marks; /* what makes it one that can be left out */

    struct ks_replay_costs costs;
    struct ks_replay_costs view_costs;   /* of operators that only make a view */
    struct ks_replay_costs launch_costs; /* time of calls that launch kernels */
};

/* Which operators can be left out (replay_marks.c): what a call tells of the operator around it,
 * and the end of an outermost operator of aten. */
void ks_replay_mark_call(struct ks_replay_list *list, const struct ks_replay_call *call);
void ks_replay_mark_outermost(struct ks_replay_list *list, const struct ks_replay_row *row);

/* What recording rows took (replay_costs.c): notes an operator that ended, a call that launched
 * kernels; the estimates; what of them fits around each row, when points are in order. */
enum ks_status ks_replay_note_cost(struct ks_replay_list *list, const struct ks_replay_row *row,
                                   struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_replay_note_launch(struct ks_replay_list *list, int64_t dur_ns,
                                     struct ks_err *err) KS_MUST_CHECK;
int64_t ks_replay_operator_cost(struct ks_replay_list *list);
int64_t ks_replay_launch_cost(struct ks_replay_list *list);
enum ks_status ks_replay_set_costs(struct ks_replay_list *list, struct ks_err *err) KS_MUST_CHECK;

/* What calls wait for, when points are in order (replay_waits.c). */
enum ks_status ks_replay_set_waits(struct ks_replay_list *list, struct ks_err *err) KS_MUST_CHECK;

#endif
