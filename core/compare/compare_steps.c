/* Step times of two runs, and whether B is faster. A step that several ranks share is one value,
 * the mean of the ranks: they wait for each other, so that counting each would make the interval
 * too narrow. Cycles of a run number their steps on their own. */
#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "compare/compare_impl.h"
#include "measure/quantile.h"

/* A step that counts. */
struct sample {
    int64_t cycle;
    int64_t number;
    int64_t dur_ns;
    size_t index; /* in the facts */
};

static int compare_samples(const void *left, const void *right)
{
    const struct sample *a = left;
    const struct sample *b = right;
    if (a->cycle != b->cycle) {
        return a->cycle < b->cycle ? -1 : 1;
    }
    if (a->number != b->number) {
        return a->number < b->number ? -1 : 1;
    }
    return a->index < b->index ? -1 : a->index > b->index;
}

/* The steps that count, sorted so that those of one number stand together. */
static enum ks_status collect(const struct ks_facts *facts, struct sample **samples, size_t *count,
                              struct ks_arena *arena, struct ks_err *err)
{
    *count = 0;
    *samples = ks_new(arena, struct sample, facts->step_count + 1);
    if (!*samples) {
        return ks_compare_no_memory(err);
    }
    for (size_t i = 0; i < facts->step_count; i++) {
        const struct ks_step *step = &facts->steps[i];
        if (ks_step_counts(facts, step)) {
            (*samples)[(*count)++] = (struct sample){
                ks_trace_source(facts->trace, step->source)->cycle, step->number, step->dur_ns, i};
        }
    }
    qsort(*samples, *count, sizeof(**samples), compare_samples);
    return KS_OK;
}

/* Behind the last sample of the same step. */
static size_t group_end(const struct sample *samples, size_t count, size_t begin)
{
    size_t end = begin + 1;
    while (end < count && samples[end].cycle == samples[begin].cycle &&
           samples[end].number == samples[begin].number) {
        end++;
    }
    return end;
}

static size_t count_groups(const struct sample *samples, size_t count)
{
    size_t groups = 0;
    for (size_t i = 0; i < count; i = group_end(samples, count, i)) {
        groups++;
    }
    return groups;
}

enum ks_status ks_compare_weights(const struct ks_facts *facts, double **weights,
                                  struct ks_arena *arena, struct ks_err *err)
{
    struct sample *samples = NULL;
    size_t count = 0;
    *weights = ks_new(arena, double, facts->step_count + 1);
    if (!*weights) {
        return ks_compare_no_memory(err);
    }
    KS_TRY(collect(facts, &samples, &count, arena, err));
    double groups = (double)count_groups(samples, count);
    for (size_t begin = 0; begin < count;) {
        size_t end = group_end(samples, count, begin);
        for (size_t i = begin; i < end; i++) {
            (*weights)[samples[i].index] = 1.0 / (double)(end - begin) / groups;
        }
        begin = end;
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ one side */

/* One value for each step; in ns, whole ones for the order statistics. */
static size_t take_values(const struct sample *samples, size_t count,
                          struct ks_compare_times *times, int64_t *whole_ns)
{
    size_t groups = 0;
    for (size_t begin = 0; begin < count; groups++) {
        size_t end = group_end(samples, count, begin);
        double mean = 0;
        for (size_t i = begin; i < end; i++) {
            mean += (double)samples[i].dur_ns / (double)(end - begin);
        }
        times->list[groups] = mean;
        times->numbers[groups] = samples[begin].number;
        whole_ns[groups] = (int64_t)llround(mean);
        begin = end;
    }
    return groups;
}

static void describe(struct ks_compare_times *times, size_t count, int64_t *whole_ns)
{
    times->count = (int64_t)count;
    times->mean = ks_bootstrap_mean(times->list, count);
    times->std_ns = (double)NAN;
    times->median_ns = times->min_ns = times->max_ns = KS_UNKNOWN;
    if (count == 0) {
        return;
    }
    double squares = 0;
    for (size_t i = 0; i < count; i++) {
        double off = times->list[i] - times->mean.value;
        squares += off * off;
    }
    times->std_ns = count > 1 ? sqrt(squares / (double)(count - 1)) : (double)NAN;
    times->min_ns = ks_quantile_rank(whole_ns, count, 0);
    times->max_ns = ks_quantile_rank(whole_ns, count, count - 1);
    times->median_ns = ks_quantile_median(whole_ns, count);
}

static int64_t or_unknown(int64_t ns)
{
    return ns > 0 ? ns : KS_UNKNOWN;
}

static enum ks_status look_at(const struct ks_facts *facts, struct ks_compare_times *times,
                              struct ks_arena *arena, struct ks_err *err)
{
    struct sample *samples = NULL;
    size_t count = 0;
    KS_TRY(collect(facts, &samples, &count, arena, err));
    times->list = ks_new(arena, double, count + 1);
    times->numbers = ks_new(arena, int64_t, count + 1);
    int64_t *whole_ns = ks_new(arena, int64_t, count + 1);
    if (!times->list || !times->numbers || !whole_ns) {
        return ks_compare_no_memory(err);
    }
    describe(times, take_values(samples, count, times, whole_ns), whole_ns);
    times->cut_count = (int64_t)(facts->step_count - count);
    times->is_complete = facts->complete_step_count > 0;
    const struct ks_mean_step *mean = &facts->mean_step;
    times->unprofiled_ns = or_unknown(mean->unprofiled_ns);
    times->predicted_ns = times->predicted_low_ns = times->predicted_high_ns = KS_UNKNOWN;
    if (!mean->obstacle && mean->predicted_ns > 0) {
        times->predicted_ns = mean->predicted_ns;
        times->predicted_low_ns = mean->predicted_low_ns;
        times->predicted_high_ns = mean->predicted_high_ns;
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ the verdict */

static bool has_real_steps(const struct ks_facts *facts)
{
    return facts->step_count > 0 && facts->step_source != KS_STEPS_NONE &&
           facts->step_source != KS_STEPS_WINDOW;
}

static bool has_enough(const struct ks_compare_times *times)
{
    return times->is_complete && times->count >= KS_COMPARE_STEPS_MIN;
}

static enum ks_compare_reason judge(const struct ks_compare_input sides[KS_COMPARE_SIDES],
                                    const struct ks_comparison *out)
{
    const struct ks_compare_times *a = &out->runs[KS_COMPARE_A].times;
    const struct ks_compare_times *b = &out->runs[KS_COMPARE_B].times;
    if (!has_real_steps(sides[KS_COMPARE_A].facts) || !has_real_steps(sides[KS_COMPARE_B].facts)) {
        return KS_COMPARE_NO_STEPS;
    }
    if (!has_enough(a) || !has_enough(b)) {
        return KS_COMPARE_FEW_STEPS;
    }
    const struct ks_estimate *change = &out->step.change;
    double small_ns = KS_COMPARE_SMALL_SHARE * a->mean.value;
    double alike_ns = KS_COMPARE_ALIKE_SHARE * a->mean.value;
    if (change->low > 0 || change->high < 0) {
        return fabs(change->value) < small_ns ? KS_COMPARE_SMALL : KS_COMPARE_SURE;
    }
    return change->low >= -alike_ns && change->high <= alike_ns ? KS_COMPARE_ALIKE
                                                                : KS_COMPARE_NOISY;
}

static enum ks_step_verdict verdict_of(const struct ks_comparison *out)
{
    switch (out->reason) {
    case KS_COMPARE_SURE:
        return out->step.change.value > 0 ? KS_STEP_VERDICT_SLOWER : KS_STEP_VERDICT_FASTER;
    case KS_COMPARE_SMALL:
    case KS_COMPARE_ALIKE: return KS_STEP_VERDICT_NO_DIFFERENCE;
    case KS_COMPARE_NOISY:
    case KS_COMPARE_FEW_STEPS:
    case KS_COMPARE_NO_STEPS: break;
    }
    return KS_STEP_VERDICT_CANNOT_TELL;
}

enum ks_status ks_compare_steps(const struct ks_compare_input sides[KS_COMPARE_SIDES],
                                struct ks_comparison *out, struct ks_err *err)
{
    for (size_t side = 0; side < KS_COMPARE_SIDES; side++) {
        KS_TRY(look_at(sides[side].facts, &out->runs[side].times, &out->arena, err));
    }
    const struct ks_compare_times *a = &out->runs[KS_COMPARE_A].times;
    const struct ks_compare_times *b = &out->runs[KS_COMPARE_B].times;
    out->step = ks_bootstrap_difference(a->list, (size_t)a->count, b->list, (size_t)b->count);
    out->reason = judge(sides, out);
    out->verdict = verdict_of(out);
    return KS_OK;
}
