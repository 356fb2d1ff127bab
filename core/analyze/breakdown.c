/* A2: what each true step was spent on (docs/analyses/breakdown.md).
 *
 * All rows of a source pass once in order of start. For each role only the last end seen is kept:
 * between two starts the role of highest priority that still runs owns the time, then the next one
 * for as long as it runs on, and so on. What nobody owns is "other", so the roles add up.
 */
#include "analyze/lane_sweep.h"
#include "analyze/registry.h"
#include "analyze/step_lookup.h"
#include "base/err.h"
#include "measure/sum.h"

struct shares {
    struct ks_step *steps; /* of one source, in time order, not overlapping */
    size_t count;
    size_t current; /* first step that ends after `now_ns` */
    int64_t now_ns;
    int64_t end_ns[KS_ROLE_COUNT];
};

static void credit(struct shares *shares, enum ks_role role, int64_t start_ns, int64_t end_ns)
{
    while (shares->current < shares->count) {
        struct ks_step *step = &shares->steps[shares->current];
        int64_t step_end_ns = step->start_ns + step->dur_ns;
        if (step->start_ns >= end_ns) {
            return;
        }
        int64_t from_ns = start_ns > step->start_ns ? start_ns : step->start_ns;
        int64_t to_ns = end_ns < step_end_ns ? end_ns : step_end_ns;
        if (to_ns > from_ns) {
            step->breakdown_ns[role] += to_ns - from_ns;
        }
        if (end_ns < step_end_ns) {
            return;
        }
        shares->current++;
    }
}

/* Hands out the time up to `until_ns`, in which no row starts. */
static void hand_out(struct shares *shares, int64_t until_ns)
{
    for (int role = 0; role < KS_ROLE_OTHER && shares->now_ns < until_ns; role++) {
        int64_t end_ns = shares->end_ns[role] < until_ns ? shares->end_ns[role] : until_ns;
        if (end_ns > shares->now_ns) {
            credit(shares, (enum ks_role)role, shares->now_ns, end_ns);
            shares->now_ns = end_ns;
        }
    }
    shares->now_ns = until_ns > shares->now_ns ? until_ns : shares->now_ns;
}

static enum ks_role role_of_gpu(const struct ks_sweep_row *row)
{
    if (row->category == KS_CATEGORY_KERNEL) {
        return row->flags & KS_GPU_COMMUNICATION ? KS_ROLE_COMMUNICATION : KS_ROLE_KERNEL;
    }
    if (row->category == KS_CATEGORY_MEMCPY) {
        return KS_ROLE_MEMCPY;
    }
    return row->category == KS_CATEGORY_MEMSET ? KS_ROLE_MEMSET : KS_ROLE_OTHER;
}

/* KS_ROLE_OTHER: the row takes no part. */
static enum ks_role role_of_host(const struct ks_sweep_row *row, unsigned name_flags)
{
    switch (row->category) {
    case KS_CATEGORY_RUNTIME:
    case KS_CATEGORY_DRIVER: return KS_ROLE_RUNTIME;
    case KS_CATEGORY_NONE:
    case KS_CATEGORY_CPU_OP:
    case KS_CATEGORY_USER_ANNOTATION:
    case KS_CATEGORY_OTHER_HOST:
        if (name_flags & KS_NAME_LOADER) {
            return KS_ROLE_DATALOADER;
        }
        if (name_flags & KS_NAME_HOST_COMM) {
            return KS_ROLE_COMMUNICATION;
        }
        return name_flags & KS_NAME_STEP ? KS_ROLE_OTHER : KS_ROLE_CPU;
    default: return KS_ROLE_OTHER;
    }
}

static void note_training(struct shares *shares, int64_t host_ns)
{
    size_t index = ks_step_lookup(shares->steps, shares->count, host_ns);
    if (index < shares->count && shares->steps[index].kind == KS_STEP_OTHER) {
        shares->steps[index].kind = KS_STEP_TRAIN;
    }
}

static enum ks_status share_source(struct ks_analyzer *analyzer, struct ks_lane_sweep *sweep,
                                   struct shares *shares, struct ks_err *err)
{
    const struct ks_scope *scope = &analyzer->facts->scope;
    struct ks_sweep_row row;
    enum ks_status status;
    while ((status = ks_lane_sweep_next(sweep, &row, err)) == KS_OK) {
        enum ks_role role = KS_ROLE_OTHER;
        if (ks_category_is_gpu(row.category)) {
            if (!scope->device_given ||
                ks_trace_track(analyzer->trace, row.lane)->number == scope->device) {
                role = role_of_gpu(&row);
            }
        } else {
            unsigned name_flags = ks_row_names_get(&analyzer->names, row.name);
            if (KS_UNLIKELY(name_flags & KS_NAME_TRAINING)) {
                note_training(shares, row.start_ns);
            }
            role = role_of_host(&row, name_flags);
        }
        if (role != KS_ROLE_OTHER && row.end_ns > shares->end_ns[role]) {
            hand_out(shares, row.start_ns);
            shares->end_ns[role] = row.end_ns;
        }
    }
    if (status != KS_END) {
        return status;
    }
    hand_out(shares, INT64_MAX);
    return KS_OK;
}

static void fill_other(struct ks_step *step)
{
    int64_t left_ns = step->dur_ns;
    for (int role = 0; role < KS_ROLE_OTHER; role++) {
        left_ns -= step->breakdown_ns[role];
    }
    step->breakdown_ns[KS_ROLE_OTHER] = left_ns;
}

static enum ks_status break_source(struct ks_analyzer *analyzer, uint32_t source,
                                   struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    struct ks_step_range range = facts->step_ranges[source];
    struct shares shares = {
        .steps = facts->steps + range.begin, .count = range.end - range.begin, .now_ns = INT64_MIN};
    for (int role = 0; role < KS_ROLE_COUNT; role++) {
        shares.end_ns[role] = INT64_MIN;
    }
    struct ks_lane_sweep sweep;
    KS_TRY(ks_lane_sweep_open(&sweep, analyzer->trace, source, KS_SWEEP_DEVICES | KS_SWEEP_THREADS,
                              &analyzer->scratch, err));
    enum ks_status status = share_source(analyzer, &sweep, &shares, err);
    ks_lane_sweep_close(&sweep);
    for (size_t i = 0; i < shares.count; i++) {
        fill_other(&shares.steps[i]);
    }
    return status;
}

enum ks_status ks_breakdown_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    for (uint32_t i = 0; i < ks_trace_source_count(analyzer->trace); i++) {
        struct ks_step_range range = analyzer->facts->step_ranges[i];
        if (range.begin < range.end) {
            KS_TRY(break_source(analyzer, i, err));
        }
    }
    return KS_OK;
}
