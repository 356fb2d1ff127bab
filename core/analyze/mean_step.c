/* The mean step: what rules about the host and its GPU look at (docs/analyses/mean_step.md). */
#include "analyze/registry.h"
#include "measure/sum.h"

enum { STEPS_MIN = 2, LARGE_COPY_BYTES_MIN = 64 * 1024 };

/* The host's part of idle time without the profiler, measured on 25 recordings of an H100 that the
 * host limits: 0.41 to 1.00, in the middle 0.70; with Python stacks 0.41. */
static const double share_low_of_trace = 0.40;
static const double share_low_with_stacks = 0.35;
/* Where steps were timed without the profiler they still vary. */
static const double share_doubt = 0.15;

static const char *obstacle(const struct ks_facts *facts)
{
    size_t with_work = 0;
    for (size_t i = 0; i < facts->step_count; i++) {
        with_work += facts->steps[i].gpu_start_ns != KS_UNKNOWN;
    }
    if (facts->complete_step_count < STEPS_MIN) {
        return "fewer than two complete steps were recorded";
    }
    if (facts->step_source == KS_STEPS_WINDOW) {
        return "no steps were found in the recording";
    }
    if (!facts->has_gpu) {
        return "no GPU work was recorded";
    }
    return with_work < (facts->step_count + 1) / 2
               ? "GPU work is recorded in less than half of the steps"
               : NULL;
}

static void add_steps(const struct ks_facts *facts, struct ks_mean_step *mean)
{
    int64_t count = (int64_t)facts->complete_step_count;
    for (size_t i = 0; i < facts->step_count; i++) {
        const struct ks_step *step = &facts->steps[i];
        if (!step->is_complete) {
            continue;
        }
        mean->idle_ns = ks_sum_add(mean->idle_ns, step->idle_ns);
        for (int cause = 0; cause < KS_IDLE_COUNT; cause++) {
            mean->idle_by_cause_ns[cause] =
                ks_sum_add(mean->idle_by_cause_ns[cause], step->idle_by_cause_ns[cause]);
        }
    }
    mean->step_ns = facts->step_ns_total / count;
    mean->idle_ns /= count;
    mean->busy_ns = mean->step_ns - mean->idle_ns;
    for (int cause = 0; cause < KS_IDLE_COUNT; cause++) {
        mean->idle_by_cause_ns[cause] /= count;
    }
    mean->launches = (double)facts->links.launches / (double)facts->step_count;
}

/* ------------------------------------------------------------ without the profiler */

static bool add_sources(const struct ks_trace *trace, struct ks_mean_step *mean)
{
    bool has_stacks = false;
    int64_t known = 0;
    for (uint32_t i = 0; i < ks_trace_source_count(trace); i++) {
        const struct ks_source *source = ks_trace_source(trace, i);
        has_stacks = has_stacks || source->with_stack;
        known += source->unprofiled_step_ns > 0;
        mean->unprofiled_ns = ks_sum_add(mean->unprofiled_ns, source->unprofiled_step_ns);
    }
    mean->unprofiled_ns /= known > 0 ? known : 1;
    return has_stacks;
}

static double between(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

/* The device's part of a step is the same with the profiler and without, so the host's part follows
 * from the time of an unprofiled step. */
static void find_host_share(struct ks_mean_step *mean, bool has_stacks)
{
    const int64_t *idle_ns = mean->idle_by_cause_ns;
    int64_t host_ns = idle_ns[KS_IDLE_LAUNCH] + idle_ns[KS_IDLE_HOST_CODE];
    mean->host_share_low = has_stacks ? share_low_with_stacks : share_low_of_trace;
    mean->host_share_high = 1;
    if (mean->unprofiled_ns <= 0 || host_ns <= 0) {
        return;
    }
    int64_t rest_ns = mean->step_ns - host_ns - idle_ns[KS_IDLE_PROFILER];
    double share = (double)(mean->unprofiled_ns - rest_ns) / (double)host_ns;
    mean->host_share_low = between(share - share_doubt, 0, 1);
    mean->host_share_high = between(share + share_doubt, share_doubt, 1);
}

/* ------------------------------------------------------------ waits and copies */

static void add_cost(struct ks_step_cost *cost, const struct ks_call_site *site,
                     size_t complete_steps)
{
    double steps = (double)complete_steps;
    double part = (double)site->complete_count / (double)site->count / steps;
    cost->count += (double)site->complete_count / steps;
    cost->operator_ns =
        ks_sum_add(cost->operator_ns, site->complete_operator_ns / (int64_t)complete_steps);
    cost->device_ns = ks_sum_add(cost->device_ns, (int64_t)(part * (double)site->device_ns));
    cost->bytes += site->bytes == KS_UNKNOWN ? 0 : part * (double)site->bytes;
    if (!cost->worst || site->complete_operator_ns > cost->worst->complete_operator_ns) {
        cost->worst = site;
    }
}

/* Is it an operator by which a program reads a value, or the number of values, from the device? */
static bool reads_value(const struct ks_facts *facts, const struct ks_call_site *site)
{
    static const char *const names[] = {"aten::item",          "aten::_local_scalar_dense",
                                        "aten::is_nonzero",    "aten::nonzero",
                                        "aten::masked_select", "aten::equal",
                                        "aten::index",         "aten::_unique2"};
    struct ks_str op = ks_trace_str(facts->trace, site->op);
    for (size_t i = 0; i < KS_COUNT_OF(names); i++) {
        if (ks_str_equal(op, ks_str_from(names[i]))) {
            return true;
        }
    }
    return false;
}

static void add_copy(struct ks_facts *facts, const struct ks_call_site *site)
{
    struct ks_str kind = ks_trace_str(facts->trace, site->copy_kind);
    if (site->bytes == KS_UNKNOWN || ks_str_contains(kind, KS_STR("DtoD"))) {
        return;
    }
    if (site->is_small && !reads_value(facts, site)) {
        add_cost(&facts->mean_step.small_copies, site, facts->complete_step_count);
    }
    if (site->bytes / site->count >= LARGE_COPY_BYTES_MIN && site->is_pageable &&
        ks_str_contains(kind, KS_STR("HtoD"))) {
        add_cost(&facts->mean_step.pageable, site, facts->complete_step_count);
    }
}

static void add_trips(const struct ks_facts *facts, struct ks_trip_cost *trips)
{
    int64_t steps = (int64_t)facts->complete_step_count;
    for (size_t i = 0; i < facts->round_trip_count; i++) {
        const struct ks_round_trip *trip = &facts->round_trips[i];
        trips->count += (double)trip->complete_count / (double)steps;
        trips->operators += (double)trip->operators / (double)steps;
        trips->work_ns = ks_sum_add(trips->work_ns, trip->work_ns / steps);
        trips->idle_ns = ks_sum_add(trips->idle_ns, trip->idle_ns / steps);
        trips->copy_ns = ks_sum_add(trips->copy_ns, trip->copy_ns / steps);
        trips->bytes_down += (double)trip->bytes_down / (double)steps;
        trips->bytes_up += (double)trip->bytes_up / (double)steps;
    }
    trips->worst = facts->round_trip_count > 0 ? &facts->round_trips[0] : NULL;
}

enum ks_status ks_mean_step_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    (void)err;
    struct ks_facts *facts = analyzer->facts;
    struct ks_mean_step *mean = &facts->mean_step;
    mean->obstacle = obstacle(facts);
    if (mean->obstacle) {
        return KS_OK;
    }
    add_steps(facts, mean);
    find_host_share(mean, add_sources(facts->trace, mean));
    for (size_t i = 0; i < facts->sync_count; i++) {
        if (facts->syncs[i].complete_count > 0 && reads_value(facts, &facts->syncs[i])) {
            add_cost(&mean->reads, &facts->syncs[i], facts->complete_step_count);
        }
    }
    for (size_t i = 0; i < facts->copy_site_count; i++) {
        if (facts->copy_sites[i].complete_count > 0) {
            add_copy(facts, &facts->copy_sites[i]);
        }
    }
    add_trips(facts, &mean->trips);
    return KS_OK;
}
