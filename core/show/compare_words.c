#include "show/compare_words.h"

#include <math.h>

#include "show/units.h"

static struct ks_unit_text time_of(double ns)
{
    return ks_units_time((int64_t)llround(ns));
}

static void append_signed(struct ks_text *text, double ns)
{
    ks_text_printf(text, "%s%s", llround(ns) > 0 ? "+" : "", time_of(ns).text);
}

void ks_compare_words_change(struct ks_text *text, const struct ks_estimate *change)
{
    if (isnan(change->value)) {
        ks_text_printf(text, "unknown");
        return;
    }
    append_signed(text, change->value);
    if (!isnan(change->low)) {
        ks_text_printf(text, " (");
        append_signed(text, change->low);
        ks_text_printf(text, " to ");
        append_signed(text, change->high);
        ks_text_printf(text, ")");
    }
}

void ks_compare_words_time(struct ks_text *text, const struct ks_estimate *time)
{
    if (isnan(time->value)) {
        ks_text_printf(text, "unknown");
        return;
    }
    ks_text_printf(text, "%s", time_of(time->value).text);
    if (!isnan(time->low)) {
        /* Fewer steps than it takes can put the low end below nothing. */
        ks_text_printf(text, " (%s to %s)", time_of(fmax(time->low, 0)).text,
                       time_of(time->high).text);
    }
}

void ks_compare_words_reason(struct ks_text *text, const struct ks_comparison *comparison)
{
    const struct ks_compare_times *a = &comparison->runs[KS_COMPARE_A].times;
    const struct ks_compare_times *b = &comparison->runs[KS_COMPARE_B].times;
    long long a_complete = a->is_complete ? a->count : 0;
    long long b_complete = b->is_complete ? b->count : 0;
    switch (comparison->reason) {
    case KS_COMPARE_SURE:
        ks_text_printf(text, "%s in the whole interval of 97 %% confidence",
                       comparison->step.change.value > 0 ? "longer" : "shorter");
        return;
    case KS_COMPARE_SMALL:
        ks_text_printf(text, "steps differ by less than 1 %%, as two recordings of one program do");
        return;
    case KS_COMPARE_ALIKE:
        ks_text_printf(text, "at 97 %% confidence steps differ by 5 %% at most, or not at all");
        return;
    case KS_COMPARE_NOISY:
        ks_text_printf(text, "steps vary so much that they may be shorter, longer or alike");
        return;
    case KS_COMPARE_FEW_STEPS:
        ks_text_printf(text, "A has %lld complete steps and B %lld, and it takes %d of each",
                       a_complete, b_complete, KS_COMPARE_STEPS_MIN);
        return;
    case KS_COMPARE_NO_STEPS:
        ks_text_printf(text, "a recording in which no steps are marked or found has no step time");
        return;
    }
}

void ks_compare_words_verdict(struct ks_text *text, const struct ks_comparison *comparison)
{
    const struct ks_compare_times *a = &comparison->runs[KS_COMPARE_A].times;
    const struct ks_compare_times *b = &comparison->runs[KS_COMPARE_B].times;
    switch (comparison->verdict) {
    case KS_STEP_VERDICT_FASTER:
    case KS_STEP_VERDICT_SLOWER:
        ks_text_printf(text, "B is %s: a step takes %s instead of %s, ",
                       comparison->verdict == KS_STEP_VERDICT_FASTER ? "faster" : "slower",
                       time_of(b->mean.value).text, time_of(a->mean.value).text);
        ks_compare_words_change(text, &comparison->step.change);
        return;
    case KS_STEP_VERDICT_NO_DIFFERENCE:
        ks_text_printf(text, "No difference: a step takes %s in A and %s in B, ",
                       time_of(a->mean.value).text, time_of(b->mean.value).text);
        ks_compare_words_change(text, &comparison->step.change);
        return;
    case KS_STEP_VERDICT_CANNOT_TELL:
        ks_text_printf(text, "Cannot tell which is faster: ");
        ks_compare_words_reason(text, comparison);
        return;
    }
}
