/* The mean step: what rules about the host and its GPU look at (docs/analyses/mean_step.md). */
#include "analyze/registry.h"
#include "analyze/what_if.h"
#include "measure/sum.h"

enum { STEPS_MIN = 2, LARGE_COPY_BYTES_MIN = 64 * 1024 };

/* Part of the estimated cost of recording that unprofiled steps lack (replay.md): 30 recordings of
 * an H100 that the host limits. Rows cost more than their own time, since what lies between them
 * gets slower, too. */
static const double cost_low = 0.90;
static const double cost_middle = 1.50;
static const double cost_high = 1.85;
static const double cost_max = 3.0;
static const double cost_doubt = 0.20;
/* A step that the device limits takes as long whatever recording costs the host: the measured time
 * tells that cost only where it makes at least this part of the recorded step. */
static const double cost_share_min = 0.05;
enum { HALVINGS = 10 }; /* to 0.003 */
static const double ahead_of_device = 0.9;

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
    if (with_work < (facts->step_count + 1) / 2) {
        return "GPU work is recorded in less than half of the steps";
    }
    return ks_what_if_is_known(facts) ? NULL : "no two complete steps follow each other";
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
        mean->copying_ns = ks_sum_add(mean->copying_ns, step->breakdown_ns[KS_ROLE_MEMCPY]);
        for (int cause = 0; cause < KS_IDLE_COUNT; cause++) {
            mean->idle_by_cause_ns[cause] =
                ks_sum_add(mean->idle_by_cause_ns[cause], step->idle_by_cause_ns[cause]);
        }
    }
    mean->step_ns = facts->step_ns_total / count;
    mean->idle_ns /= count;
    mean->copying_ns /= count;
    mean->busy_ns = mean->step_ns - mean->idle_ns;
    for (int cause = 0; cause < KS_IDLE_COUNT; cause++) {
        mean->idle_by_cause_ns[cause] /= count;
    }
    mean->launches = (double)facts->links.launches / (double)facts->step_count;
}

/* ------------------------------------------------------------ without the profiler */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* How long the devices of a source work in one of its steps. */
static int64_t busy_of(const struct ks_facts *facts, uint32_t source)
{
    struct ks_step_range range = facts->step_ranges[source];
    int64_t busy_ns = 0;
    int64_t count = 0;
    for (size_t i = range.begin; i < range.end; i++) {
        const struct ks_step *step = &facts->steps[i];
        if (step->is_complete && step->gpu_start_ns != KS_UNKNOWN) {
            busy_ns = ks_sum_add(busy_ns, step->dur_ns - step->idle_ns);
            count++;
        }
    }
    return busy_ns / (count > 0 ? count : 1);
}

/* Steps are timed on the host, which may run ahead of the device until its queue is full: what is
 * shorter than the device's work is no step time. */
static void add_unprofiled(struct ks_facts *facts)
{
    struct ks_mean_step *mean = &facts->mean_step;
    int64_t known = 0;
    for (uint32_t i = 0; i < ks_trace_source_count(facts->trace); i++) {
        const struct ks_source *source = ks_trace_source(facts->trace, i);
        int64_t step_ns = source->unprofiled_step_ns;
        bool is_ahead = (double)step_ns < ahead_of_device * (double)busy_of(facts, i);
        struct ks_source_fact *fact = &facts->sources[i];
        fact->unprofiled_ns = is_ahead ? 0 : step_ns;
        fact->unprofiled_most_ns = is_ahead ? 0 : later(step_ns, source->unprofiled_mean_ns);
        known += fact->unprofiled_ns > 0;
        mean->unprofiled_ns = ks_sum_add(mean->unprofiled_ns, fact->unprofiled_ns);
        mean->unprofiled_most_ns = ks_sum_add(mean->unprofiled_most_ns, fact->unprofiled_most_ns);
    }
    mean->unprofiled_ns /= known > 0 ? known : 1;
    mean->unprofiled_most_ns /= known > 0 ? known : 1;
}

/* How much longer a source's steps were when nobody recorded. Recording makes none shorter, so what
 * the program or its machine did changed by that much within one run. */
static int64_t change_of(const struct ks_facts *facts, uint32_t source)
{
    struct ks_step_range range = facts->step_ranges[source];
    int64_t sum_ns = 0;
    int64_t count = 0;
    for (size_t i = range.begin; i < range.end; i++) {
        if (facts->steps[i].is_complete) {
            sum_ns = ks_sum_add(sum_ns, facts->steps[i].dur_ns);
            count++;
        }
    }
    int64_t step_ns = facts->sources[source].unprofiled_ns;
    return count > 0 && step_ns > sum_ns / count ? step_ns - sum_ns / count : 0;
}

/* The mean of the sources whose steps were timed behind the window. Those in it differ by what
 * recording them costs, too. */
static void find_noise(struct ks_facts *facts)
{
    double sum = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < ks_trace_source_count(facts->trace); i++) {
        const struct ks_source *source = ks_trace_source(facts->trace, i);
        if (source->unprofiled_spread_ns > 0 && source->unprofiled_step_ns > 0) {
            int64_t differ_ns = later(source->unprofiled_spread_ns, change_of(facts, i));
            sum += (double)differ_ns / (double)source->unprofiled_step_ns;
            count++;
        }
    }
    facts->step_noise = count > 0 ? sum / count : 0;
}

static double between(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

static enum ks_status predict(const struct ks_facts *facts, double cost_factor, double *step_ns,
                              struct ks_err *err)
{
    struct ks_replay_change change = KS_REPLAY_UNCHANGED;
    change.cost_factor = cost_factor;
    return ks_what_if_step(facts, &change, step_ns, err);
}

/* The factor by which the replay gives the measured time. */
static enum ks_status fit_cost(const struct ks_facts *facts, double wanted_ns, double *factor,
                               struct ks_err *err)
{
    double low = 0;
    double high = cost_max;
    for (int i = 0; i < HALVINGS; i++) {
        double step_ns = 0;
        *factor = (low + high) / 2;
        KS_TRY(predict(facts, *factor, &step_ns, err));
        if (step_ns > wanted_ns) {
            low = *factor;
        } else {
            high = *factor;
        }
    }
    return KS_OK;
}

static enum ks_status tells_cost(const struct ks_facts *facts, bool *is_told, struct ks_err *err)
{
    double recorded_ns = 0;
    double least_ns = 0;
    KS_TRY(predict(facts, 0, &recorded_ns, err));
    KS_TRY(predict(facts, cost_high, &least_ns, err));
    *is_told = recorded_ns - least_ns >= cost_share_min * recorded_ns;
    return KS_OK;
}

static enum ks_status find_cost(const struct ks_facts *facts, struct ks_mean_step *mean,
                                struct ks_err *err)
{
    double times_ns[3];
    const double factors[] = {cost_high, cost_middle, cost_low};
    for (size_t i = 0; i < KS_COUNT_OF(factors); i++) {
        KS_TRY(predict(facts, factors[i], &times_ns[i], err));
    }
    mean->predicted_low_ns = (int64_t)times_ns[0];
    mean->predicted_ns = later(mean->predicted_low_ns, (int64_t)times_ns[1]);
    mean->predicted_high_ns = later(mean->predicted_ns, (int64_t)times_ns[2]);
    mean->cost_low = cost_low;
    mean->cost_high = cost_high;
    bool is_told = false;
    KS_TRY(tells_cost(facts, &is_told, err));
    if (mean->unprofiled_ns > 0 && is_told) {
        double factor = 0;
        KS_TRY(fit_cost(facts, (double)mean->unprofiled_ns, &factor, err));
        mean->cost_low = between(factor - cost_doubt, 0, cost_max);
        mean->cost_high = between(factor + cost_doubt, cost_doubt, cost_max);
    }
    return KS_OK;
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

static bool reads_value(struct ks_analyzer *analyzer, const struct ks_call_site *site)
{
    return ks_row_names_get(&analyzer->names, site->op.v) & KS_NAME_READS;
}

static void add_copy(struct ks_analyzer *analyzer, const struct ks_call_site *site)
{
    struct ks_facts *facts = analyzer->facts;
    struct ks_str kind = ks_trace_str(facts->trace, site->copy_kind);
    if (site->bytes == KS_UNKNOWN || ks_str_contains(kind, KS_STR("DtoD"))) {
        return;
    }
    if (site->is_small && !reads_value(analyzer, site)) {
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
    struct ks_facts *facts = analyzer->facts;
    struct ks_mean_step *mean = &facts->mean_step;
    add_unprofiled(facts);
    find_noise(facts);
    mean->obstacle = obstacle(facts);
    if (mean->obstacle) {
        return KS_OK;
    }
    add_steps(facts, mean);
    KS_TRY(find_cost(facts, mean, err));
    for (size_t i = 0; i < facts->sync_count; i++) {
        if (facts->syncs[i].complete_count > 0 && reads_value(analyzer, &facts->syncs[i])) {
            add_cost(&mean->reads, &facts->syncs[i], facts->complete_step_count);
        }
    }
    for (size_t i = 0; i < facts->copy_site_count; i++) {
        if (facts->copy_sites[i].complete_count > 0) {
            add_copy(analyzer, &facts->copy_sites[i]);
        }
    }
    add_trips(facts, &mean->trips);
    return KS_OK;
}
