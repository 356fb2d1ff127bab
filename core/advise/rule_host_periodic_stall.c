/* Rule host.periodic_stall: every n-th step takes much longer, because of the host.
 *
 * Claim: at least OUTLIERS_MIN steps of a rank last at least 1.5 times the median and lie the same
 * number of steps apart (2 or more), the first recorded step apart, and steps that last less than
 * half as much more than the third longest; their idle time that is the
 * host's or the data's explains at least half of what they take more; and that is at least 3% of
 * the mean step.
 *
 * Fewer of them are enough where steps were timed behind the window, and at least two long ones lie
 * evenly among these: the one or two of the window say why, and theirs is the distance.
 *
 * Evidence: true steps, idle time by cause (docs/analyses/idle.md). Stalls that the recording makes
 * itself, when it writes a buffer, are idle time of the profiler and do not count.
 *
 * Saving, per step: what the outliers take more than the median, spread over all steps: half of it
 * (low), since the work must often be done some time, to all of it (high). Where steps were timed
 * behind the window, the long ones of these say what that is without the profiler, which makes an
 * evaluation longer, and a checkpoint not.
 *
 * Where a recording has the regions of the program, the one is named that takes at least half of
 * what the outliers take more: by itself, without the regions inside of it, compared with its mean
 * in the other steps.
 *
 * Without a GPU all time but waiting for data is the host's.
 *
 * Long steps all of which compile are compile.recompiles, when that is found.
 *
 * Silent when: gpu_step.c sees an obstacle (without a GPU: too few steps, no steps), or fewer than
 * STEPS_MIN complete steps were recorded.
 */
#include <stdlib.h>

#include "advise/cpu_step.h"
#include "advise/gpu_step.h"
#include "advise/registry.h"
#include "analyze/time_places.h"
#include "base/err.h"
#include "measure/quantile.h"
#include "measure/sum.h"

enum { STEPS_MIN = 8, OUTLIERS_MIN = 3, PERIOD_MIN = 2 };

static const double outlier_min = 1.5;
static const double explained_min = 0.5;
static const double share_min = 0.03;

struct stall {
    size_t steps;
    int64_t long_ns; /* from here on, a step is an outlier */
    size_t outliers;
    size_t first; /* index of the first outlier, and of the last one so far */
    size_t last;
    size_t period;
    bool is_even;
    bool is_timed;     /* the period is that of steps behind the window */
    int64_t excess_ns; /* all outliers together */
    int64_t host_ns;   /* idle time of theirs, less that of usual steps */
};

static int64_t idle_of_host(const struct ks_step *step, bool has_gpu)
{
    if (!has_gpu) {
        return step->dur_ns - step->input_wait_ns;
    }
    return step->idle_by_cause_ns[KS_IDLE_HOST_CODE] + step->idle_by_cause_ns[KS_IDLE_SYNC] +
           step->idle_by_cause_ns[KS_IDLE_LAUNCH] + step->idle_by_cause_ns[KS_IDLE_DATA] +
           step->idle_by_cause_ns[KS_IDLE_ALLOCATOR];
}

static void note_step(struct stall *stall, const struct ks_step *step, size_t index,
                      int64_t usual_ns, int64_t usual_idle_ns, bool has_gpu)
{
    if (step->dur_ns < stall->long_ns) {
        return;
    }
    size_t distance = index - stall->last;
    if (stall->outliers == 0) {
        stall->first = index;
        stall->is_even = true;
    } else if (stall->outliers == 1) {
        stall->period = distance;
    } else {
        stall->is_even = stall->is_even && distance == stall->period;
    }
    stall->last = index;
    stall->outliers++;
    stall->excess_ns = ks_sum_add(stall->excess_ns, step->dur_ns - usual_ns);
    int64_t idle_ns = idle_of_host(step, has_gpu);
    stall->host_ns =
        ks_sum_add(stall->host_ns, idle_ns > usual_idle_ns ? idle_ns - usual_idle_ns : 0);
}

/* The first step of a source may still warm up. `values`: room for each of its steps. */
static struct stall find_stall(const struct ks_facts *facts, struct ks_step_range range,
                               int64_t *values)
{
    struct stall stall = {0};
    size_t count = 0;
    for (size_t i = range.begin + 1; i < range.end; i++) {
        if (facts->steps[i].is_complete) {
            values[count++] = facts->steps[i].dur_ns;
        }
    }
    stall.steps = count;
    if (count + 1 < STEPS_MIN) {
        return stall;
    }
    int64_t usual_ns = ks_quantile_median(values, count);
    int64_t third_ns = ks_quantile_rank(values, count, count - OUTLIERS_MIN);
    int64_t long_ns = (int64_t)(outlier_min * (double)usual_ns);
    int64_t half_ns = usual_ns + (third_ns - usual_ns) / 2;
    stall.long_ns = half_ns > long_ns ? half_ns : long_ns;
    count = 0;
    for (size_t i = range.begin + 1; i < range.end; i++) {
        if (facts->steps[i].is_complete) {
            values[count++] = idle_of_host(&facts->steps[i], facts->has_gpu);
        }
    }
    int64_t usual_idle_ns = ks_quantile_median(values, count);
    for (size_t i = range.begin + 1; i < range.end; i++) {
        if (facts->steps[i].is_complete) {
            note_step(&stall, &facts->steps[i], i, usual_ns, usual_idle_ns, facts->has_gpu);
        }
    }
    return stall;
}

/* What steps behind the window say when it has one or two long ones. */
static void ask_timed_steps(const struct ks_source *source, struct stall *stall)
{
    size_t period = (size_t)source->unprofiled_period;
    bool fits = stall->outliers == 1 || (stall->outliers == 2 && stall->period == period);
    if (fits && period >= PERIOD_MIN) {
        stall->period = period;
        stall->is_timed = true;
    }
}

static int64_t excess_per_step(const struct stall *stall)
{
    size_t steps = stall->is_timed ? stall->outliers * stall->period : stall->steps;
    return stall->excess_ns / (int64_t)steps;
}

static bool is_periodic(const struct ks_facts *facts, const struct stall *stall)
{
    bool is_even = stall->outliers >= OUTLIERS_MIN && stall->is_even && stall->period >= PERIOD_MIN;
    return (is_even || stall->is_timed) &&
           (double)stall->host_ns >= explained_min * (double)stall->excess_ns &&
           (double)excess_per_step(stall) >= share_min * ks_cpu_step_mean_ns(facts);
}

/* The step with frames tells who is to blame when it is one of the long ones. */
static void write_place(const struct stall *stall, uint32_t source, const struct ks_facts *facts,
                        struct ks_where *where)
{
    const struct ks_time_place *place = ks_time_place_find(facts, source, KS_TIME_STEP);
    int64_t distance = place ? ks_sum_sub(place->step, facts->steps[stall->first].number) : -1;
    if (distance >= 0 && distance % (int64_t)stall->period == 0) {
        where->file = place->file;
        where->line = place->line;
    }
}

static bool is_outlier(const struct stall *stall, size_t step)
{
    return step >= stall->first && step <= stall->last &&
           (step - stall->first) % stall->period == 0;
}

/* Time of regions of one category and name, in the outliers and in the other steps. */
struct region_use {
    const struct ks_step_region *region;
    int64_t long_ns;
    int64_t other_ns;
};

/* How much more of it an outlier has than another step. */
static int64_t region_excess(const struct stall *stall, const struct region_use *use)
{
    int64_t others = (int64_t)(stall->steps - stall->outliers);
    return use->long_ns / (int64_t)stall->outliers - (others > 0 ? use->other_ns / others : 0);
}

static int compare_numbers(const void *left, const void *right)
{
    const struct ks_step_region *a = *(const struct ks_step_region *const *)left;
    const struct ks_step_region *b = *(const struct ks_step_region *const *)right;
    int order = (a->number > b->number) - (a->number < b->number);
    return order ? order : (a->step > b->step) - (a->step < b->step);
}

/* Rows of the steps that the stall was looked for in, those of one region together. */
static size_t list_regions(const struct ks_facts *facts, struct ks_step_range range,
                           const struct ks_step_region **list)
{
    size_t count = 0;
    for (size_t i = 0; i < facts->step_region_count; i++) {
        const struct ks_step_region *row = &facts->step_regions[i];
        if (row->step > range.begin && row->step < range.end &&
            facts->steps[row->step].is_complete) {
            list[count++] = row;
        }
    }
    if (count > 0) {
        qsort(list, count, sizeof(*list), compare_numbers);
    }
    return count;
}

/* The region that explains the outliers; `region` NULL: none does. */
static enum ks_status find_region(const struct ks_facts *facts, const struct stall *stall,
                                  struct ks_step_range range, struct ks_findings *out,
                                  struct region_use *most, struct ks_err *err)
{
    const struct ks_step_region **list =
        ks_new(&out->arena, const struct ks_step_region *, facts->step_region_count + 1);
    if (!list) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot compare steps: count=%zu",
                       facts->step_region_count);
    }
    struct region_use use = {0};
    int64_t most_ns = stall->excess_ns / (int64_t)stall->outliers / 2;
    size_t count = list_regions(facts, range, list);
    for (size_t i = 0; i < count; i++) {
        bool is_next = !use.region || use.region->number != list[i]->number;
        use = is_next ? (struct region_use){.region = list[i]} : use;
        int64_t *sum = is_outlier(stall, list[i]->step) ? &use.long_ns : &use.other_ns;
        *sum = ks_sum_add(*sum, list[i]->self_ns);
        bool is_last = i + 1 == count || list[i + 1]->number != list[i]->number;
        if (is_last && region_excess(stall, &use) >= most_ns) {
            most_ns = region_excess(stall, &use);
            *most = use;
        }
    }
    return KS_OK;
}

/* Bytes of a text that fit, without a character that is cut. */
static int fit(struct ks_str text, size_t most)
{
    size_t len = text.len < most ? text.len : most;
    while (len > 0 && len < text.len && ((unsigned char)text.ptr[len] & 0xC0) == 0x80) {
        len--;
    }
    return (int)len;
}

/* "what runs every 4 steps", or what the program calls it. */
static const char *name_cause(const struct stall *stall, const struct region_use *most,
                              const struct ks_facts *facts, struct ks_findings *out)
{
    if (!most->region) {
        return ks_findings_text(out, "what runs every %zu steps", stall->period);
    }
    struct ks_str name = ks_trace_str(facts->trace, most->region->name);
    struct ks_str category = ks_trace_str(facts->trace, most->region->category);
    return ks_findings_text(out, "the region \"%.*s\" (%.*s), which runs every %zu steps",
                            fit(name, 80), name.ptr, fit(category, 40), category.ptr,
                            stall->period);
}

static enum ks_status report(const struct stall *stall, uint32_t source,
                             const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_err *err)
{
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_host_periodic_stall);
    struct ks_where *where = &finding.where;
    int64_t excess_ns = excess_per_step(stall);
    int64_t timed_ns = ks_trace_source(facts->trace, source)->unprofiled_stall_ns;
    finding.saving_in_trace = (struct ks_saving){excess_ns / 2, excess_ns};
    excess_ns = timed_ns > 0 ? timed_ns / (int64_t)stall->period : excess_ns;
    finding.saving = (struct ks_saving){excess_ns / 2, excess_ns};
    struct region_use most = {0};
    KS_TRY(find_region(facts, stall, facts->step_ranges[source], out, &most, err));
    finding.fix_text = ks_findings_text(
        out,
        "Look at %s: these take %.1f ms longer than others, %.1f ms a step "
        "on average. A checkpoint can be written by a thread from a copy, evaluation and logging "
        "can come less often, and garbage collection can be frozen or run by hand.",
        name_cause(stall, &most, facts, out),
        (double)stall->excess_ns / (double)stall->outliers / 1e6,
        (double)finding.saving_in_trace.high_ns / 1e6);
    finding.fix_code = "gc.disable()                      # gc.collect() between epochs\n"
                       "from torch.distributed.checkpoint import async_save\n"
                       "async_save(state, checkpoint_id=path)";
    finding.verify = "kscope run --steps 1:1:32 train.py  # with the fix: steps are alike";
    struct ks_evidence evidence[] = {
        {"period", (double)stall->period, "count"},
        {"long_steps", (double)stall->outliers, "count"},
        {"longer_by", (double)(stall->excess_ns / (int64_t)stall->outliers), "ns"},
        {"idle_of_host", (double)(stall->host_ns / (int64_t)stall->outliers), "ns"},
        {"region_longer_by", most.region ? (double)region_excess(stall, &most) : 0.0, "ns"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence) - (most.region ? 0 : 1));
    ks_findings_set_rank(where, facts, source);
    write_place(stall, source, facts, where);
    for (size_t i = stall->first; i <= stall->last && where->step_count < KS_FINDING_STEPS_MAX;
         i += stall->period) {
        where->steps[where->step_count++] = facts->steps[i].number;
    }
    return ks_findings_add(out, facts, &finding, err);
}

static bool does_compile(const struct ks_facts *facts, int64_t number)
{
    for (size_t i = 0; i < facts->compiles.step_count; i++) {
        if (facts->compiles.steps[i] == number) {
            return true;
        }
    }
    return false;
}

/* Do all long steps compile, as far as steps that compile are listed? */
static bool is_compiling(const struct ks_facts *facts, const struct ks_findings *findings,
                         const struct stall *stall)
{
    size_t listed = 0;
    if (!ks_findings_has(findings, &ks_rule_compile_recompiles)) {
        return false;
    }
    for (size_t i = stall->first; i <= stall->last && listed < KS_SITE_STEPS_MAX;
         i += stall->period, listed++) {
        if (!does_compile(facts, facts->steps[i].number)) {
            return false;
        }
    }
    return true;
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    size_t most = 0;
    if (!ks_cpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    int64_t *values = ks_new(&out->arena, int64_t, facts->step_count);
    if (!values) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot compare steps: count=%zu",
                       facts->step_count);
    }
    for (uint32_t i = 0; i < ks_trace_source_count(facts->trace); i++) {
        struct stall stall = find_stall(facts, facts->step_ranges[i], values);
        ask_timed_steps(ks_trace_source(facts->trace, i), &stall);
        most = stall.steps > most ? stall.steps : most;
        if (is_periodic(facts, &stall) && is_compiling(facts, out, &stall)) {
            check->reason = "the long steps compile: compile.recompiles";
            return KS_OK;
        }
        if (is_periodic(facts, &stall)) {
            return report(&stall, i, facts, out, err);
        }
    }
    if (most + 1 < STEPS_MIN) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = "fewer than eight complete steps were recorded";
        return KS_OK;
    }
    check->reason = "no long steps come at equal distances for reasons of the host";
    return KS_OK;
}

const struct ks_rule ks_rule_host_periodic_stall = {
    .id = "host.periodic_stall",
    .title = "Every n-th step takes much longer",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
