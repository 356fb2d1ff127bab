/* A2: which phase of training each moment of a true step belongs to (docs/analyses/phases.md).
 *
 * While a device of the rank works, the moment belongs to the phase in which that work was
 * launched; while none does, to what the host does, or, when the host is through with the step, to
 * the work that the moment waits for. GPU rows pass once in order of start, and for each kind of
 * work and phase only the last end seen is kept, as in breakdown.c.
 */
#include "analyze/lane_sweep.h"
#include "analyze/phase_timeline.h"
#include "analyze/registry.h"
#include "base/err.h"

/* Kinds of device work: where they overlap, the earlier one counts. */
enum work_kind { WORK_COMPUTE, WORK_COMMUNICATION, WORK_COPY, WORK_COUNT };

struct shares {
    struct ks_step *steps; /* of one source, in time order, not overlapping */
    size_t count;
    size_t current; /* first step that ends after `now_ns` */
    const struct ks_phase_pieces *host;
    size_t piece; /* first piece that ends after `now_ns` */
    int64_t now_ns;
    int64_t end_ns[WORK_COUNT][KS_PHASE_COUNT];
};

/* Adds what the host does in a stretch of one step. */
static void credit_host(struct shares *shares, struct ks_step *step, int64_t from_ns, int64_t to_ns)
{
    const struct ks_phase_pieces *host = shares->host;
    while (shares->piece < host->count && host->items[shares->piece].end_ns <= from_ns) {
        shares->piece++;
    }
    for (size_t i = shares->piece; i < host->count && host->items[i].start_ns < to_ns; i++) {
        const struct ks_phase_piece *piece = &host->items[i];
        int64_t start_ns = piece->start_ns > from_ns ? piece->start_ns : from_ns;
        int64_t end_ns = piece->end_ns < to_ns ? piece->end_ns : to_ns;
        step->phases_ns[piece->code] += end_ns - start_ns;
    }
}

/* Adds a stretch of one step in which no device works; `next`: phase of the work that ends it. */
static void credit_idle(struct shares *shares, struct ks_step *step, int64_t from_ns, int64_t to_ns,
                        enum ks_phase next)
{
    int64_t host_end_ns = step->host_start_ns + step->host_ns;
    int64_t cut_ns = host_end_ns < from_ns ? from_ns : host_end_ns > to_ns ? to_ns : host_end_ns;
    if (cut_ns > from_ns) {
        credit_host(shares, step, from_ns, cut_ns);
    }
    step->phases_ns[next] += to_ns - cut_ns;
}

/* Adds [start, end) to the steps that it is in: to the phase, or, when `is_idle`, by what the host
 * does. */
static void credit(struct shares *shares, int64_t start_ns, int64_t end_ns, enum ks_phase phase,
                   bool is_idle)
{
    while (shares->current < shares->count) {
        struct ks_step *step = &shares->steps[shares->current];
        int64_t step_end_ns = step->start_ns + step->dur_ns;
        if (step->start_ns >= end_ns) {
            return;
        }
        int64_t from_ns = start_ns > step->start_ns ? start_ns : step->start_ns;
        int64_t to_ns = end_ns < step_end_ns ? end_ns : step_end_ns;
        if (to_ns > from_ns && is_idle) {
            credit_idle(shares, step, from_ns, to_ns, phase);
        } else if (to_ns > from_ns) {
            step->phases_ns[phase] += to_ns - from_ns;
        }
        if (end_ns < step_end_ns) {
            return;
        }
        shares->current++;
    }
}

/* Hands out the time up to `until_ns`, in which no work starts; then work of phase `next` does. */
static void hand_out(struct shares *shares, int64_t until_ns, enum ks_phase next)
{
    for (size_t kind = 0; kind < WORK_COUNT; kind++) {
        for (size_t phase = 0; phase < KS_PHASE_COUNT && shares->now_ns < until_ns; phase++) {
            int64_t end_ns = shares->end_ns[kind][phase];
            end_ns = end_ns < until_ns ? end_ns : until_ns;
            if (end_ns > shares->now_ns) {
                credit(shares, shares->now_ns, end_ns, (enum ks_phase)phase, false);
                shares->now_ns = end_ns;
            }
        }
    }
    if (until_ns > shares->now_ns) {
        credit(shares, shares->now_ns, until_ns, next, true);
        shares->now_ns = until_ns;
    }
}

static enum work_kind kind_of(const struct ks_sweep_row *row)
{
    if (row->category != KS_CATEGORY_KERNEL) {
        return WORK_COPY;
    }
    return row->flags & KS_GPU_COMMUNICATION ? WORK_COMMUNICATION : WORK_COMPUTE;
}

static enum ks_status share_work(struct ks_analyzer *analyzer, struct ks_lane_sweep *sweep,
                                 const struct ks_phase_timeline *timeline, struct shares *shares,
                                 struct ks_err *err)
{
    const struct ks_scope *scope = &analyzer->facts->scope;
    struct ks_sweep_row row;
    enum ks_status status;
    while ((status = ks_lane_sweep_next(sweep, &row, err)) == KS_OK) {
        if (!ks_category_is_work(row.category) || row.end_ns <= row.start_ns ||
            (scope->device_given &&
             ks_trace_track(analyzer->trace, row.lane)->number != scope->device)) {
            continue;
        }
        enum ks_phase phase = KS_PHASE_OTHER;
        if (row.launch_lane != 0) {
            phase = ks_phase_timeline_find(timeline, row.launch_lane, row.launch_ns);
        }
        hand_out(shares, row.start_ns, phase);
        int64_t *end_ns = &shares->end_ns[kind_of(&row)][phase];
        *end_ns = row.end_ns > *end_ns ? row.end_ns : *end_ns;
    }
    if (status != KS_END) {
        return status;
    }
    hand_out(shares, INT64_MAX, KS_PHASE_OTHER);
    return KS_OK;
}

static void fill_other(struct ks_step *step)
{
    int64_t left_ns = step->dur_ns;
    for (int phase = 0; phase < KS_PHASE_OTHER; phase++) {
        left_ns -= step->phases_ns[phase];
    }
    step->phases_ns[KS_PHASE_OTHER] = left_ns;
}

static enum ks_status share_source(struct ks_analyzer *analyzer, uint32_t source,
                                   const struct ks_phase_timeline *timeline, struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    struct ks_step_range range = facts->step_ranges[source];
    struct shares shares = {.steps = facts->steps + range.begin,
                            .count = range.end - range.begin,
                            .host = &timeline->host,
                            .now_ns = INT64_MIN};
    for (size_t kind = 0; kind < WORK_COUNT; kind++) {
        for (size_t phase = 0; phase < KS_PHASE_COUNT; phase++) {
            shares.end_ns[kind][phase] = INT64_MIN;
        }
    }
    struct ks_lane_sweep sweep;
    KS_TRY(ks_lane_sweep_open(&sweep, analyzer->trace, source, KS_SWEEP_DEVICES, &analyzer->scratch,
                              err));
    enum ks_status status = share_work(analyzer, &sweep, timeline, &shares, err);
    ks_lane_sweep_close(&sweep);
    for (size_t i = 0; i < shares.count; i++) {
        fill_other(&shares.steps[i]);
    }
    return status;
}

enum ks_status ks_phases_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    size_t name_count = (size_t)ks_trace_str_count(analyzer->trace) + 1;
    uint16_t *names = ks_new(&analyzer->scratch, uint16_t, name_count);
    if (!names) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep phases: names=%zu",
                       name_count);
    }
    for (uint32_t i = 0; i < ks_trace_source_count(analyzer->trace); i++) {
        struct ks_step_range range = analyzer->facts->step_ranges[i];
        if (range.begin == range.end) {
            continue;
        }
        struct ks_phase_timeline timeline = {0};
        enum ks_status status = ks_phase_timeline_build(analyzer, i, names, &timeline, err);
        if (status == KS_OK) {
            status = share_source(analyzer, i, &timeline, err);
        }
        ks_phase_timeline_release(&timeline);
        KS_TRY(status);
    }
    return KS_OK;
}
