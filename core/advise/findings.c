#include "advise/findings.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/places.h"
#include "analyze/time_places.h"
#include "base/err.h"
#include "measure/sum.h"

enum { STEPS_UNTIL_OOM_URGENT = 10000 };

static const double share_of_note = 0.05; /* from here on a time finding comes before risks */
static const double noise_max = 0.15;
static const double share_high = 0.20; /* a fifth of each step is worth a day's work */

static int64_t mean_step_ns(const struct ks_facts *facts)
{
    return facts->complete_step_count ? facts->step_ns_total / (int64_t)facts->complete_step_count
                                      : 0;
}

static int64_t middle(const struct ks_saving *saving)
{
    return saving->low_ns + ks_sum_sub(saving->high_ns, saving->low_ns) / 2;
}

static enum ks_confidence confidence_of(const struct ks_saving *saving)
{
    if (saving->high_ns <= ks_sum_add(saving->low_ns, saving->low_ns / 2)) {
        return KS_CONFIDENCE_HIGH;
    }
    return saving->high_ns <= ks_sum_scale(saving->low_ns < 0 ? 0 : saving->low_ns, 3)
               ? KS_CONFIDENCE_MEDIUM
               : KS_CONFIDENCE_LOW;
}

/* What is saved when nobody records is part of a step that nobody recorded. */
static int64_t unprofiled_step_ns(const struct ks_facts *facts, int64_t step_ns)
{
    int64_t most_ns = facts->mean_step.unprofiled_most_ns;
    return most_ns > 0 && most_ns < step_ns ? most_ns : step_ns;
}

/* No finding promises more than the whole step, or less than nothing. */
static void clamp_saving(struct ks_saving *saving, int64_t step_ns)
{
    saving->high_ns = saving->high_ns < 0 ? 0 : saving->high_ns;
    saving->high_ns = step_ns > 0 && saving->high_ns > step_ns ? step_ns : saving->high_ns;
    saving->low_ns = saving->low_ns < 0 ? 0 : saving->low_ns;
    saving->low_ns = saving->low_ns > saving->high_ns ? saving->high_ns : saving->low_ns;
}

/* What findings of the same urgency are ordered by. */
static int64_t order_of(const struct ks_finding *finding)
{
    return finding->order_ns > 0 ? finding->order_ns : middle(&finding->saving);
}

static void rate(struct ks_finding *finding, int64_t step_ns)
{
    finding->share = step_ns > 0 ? (double)middle(&finding->saving) / (double)step_ns : 0;
    finding->confidence = confidence_of(&finding->saving);
}

static enum ks_status reserve_one(struct ks_findings *findings, struct ks_err *err)
{
    if (findings->count < findings->capacity) {
        return KS_OK;
    }
    size_t capacity = findings->capacity ? 2 * findings->capacity : 8;
    struct ks_finding *list = ks_new(&findings->arena, struct ks_finding, capacity);
    if (!list) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep findings: count=%zu",
                       findings->count);
    }
    if (findings->count > 0) {
        memcpy(list, findings->list, findings->count * sizeof(*list));
    }
    findings->list = list;
    findings->capacity = capacity;
    return KS_OK;
}

enum ks_status ks_findings_add(struct ks_findings *findings, const struct ks_facts *facts,
                               const struct ks_finding *finding, struct ks_err *err)
{
    KS_ASSERT(finding->rule != NULL);
    KS_TRY(reserve_one(findings, err));
    struct ks_finding *added = &findings->list[findings->count++];
    int64_t step_ns = mean_step_ns(facts);
    *added = *finding;
    added->impact = finding->impact == KS_IMPACT_TIME ? finding->rule->impact : finding->impact;
    clamp_saving(&added->saving, unprofiled_step_ns(facts, step_ns));
    clamp_saving(&added->saving_in_trace, step_ns);
    added->saving_alone = added->saving;
    added->saving_alone_in_trace = added->saving_in_trace;
    rate(added, step_ns);
    added->title = finding->title ? finding->title : finding->rule->title;
    added->group = finding->group ? finding->group : finding->rule->id;
    return KS_OK;
}

void ks_finding_show(struct ks_finding *finding, const struct ks_evidence *list, size_t count)
{
    for (size_t i = 0; i < count && finding->evidence_count < KS_EVIDENCE_MAX; i++) {
        finding->evidence[finding->evidence_count++] = list[i];
    }
}

const char *ks_findings_text(struct ks_findings *findings, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = len >= 0 ? ks_new(&findings->arena, char, (size_t)len + 1) : NULL;
    if (text) {
        vsnprintf(text, (size_t)len + 1, format, again);
    }
    va_end(again);
    findings->is_text_missing = findings->is_text_missing || !text;
    return text;
}

static bool is_oom_near(const struct ks_finding *finding)
{
    return finding->steps_until_oom != KS_UNKNOWN &&
           finding->steps_until_oom < STEPS_UNTIL_OOM_URGENT;
}

enum ks_severity ks_finding_severity(const struct ks_finding *finding)
{
    if (finding->rule->has_severity) {
        return finding->rule->severity;
    }
    if (finding->impact != KS_IMPACT_TIME) {
        return is_oom_near(finding) ? KS_FINDING_HIGH : KS_FINDING_MEDIUM;
    }
    return finding->share >= share_high      ? KS_FINDING_HIGH
           : finding->share >= share_of_note ? KS_FINDING_MEDIUM
                                             : KS_FINDING_LOW;
}

/* Running out of memory soon comes first, then time worth having, then other risks, then the rest
 * of the time findings; what is a consequence of others comes last. */
static int urgency(const struct ks_finding *finding)
{
    if (finding->rule->is_consequence) {
        return 4;
    }
    if (finding->impact != KS_IMPACT_TIME) {
        return is_oom_near(finding) ? 0 : 2;
    }
    return finding->share >= share_of_note ? 1 : 3;
}

static int compare_findings(const void *left, const void *right)
{
    const struct ks_finding *a = left;
    const struct ks_finding *b = right;
    if (urgency(a) != urgency(b)) {
        return urgency(a) < urgency(b) ? -1 : 1;
    }
    if (order_of(a) != order_of(b)) {
        return order_of(a) > order_of(b) ? -1 : 1;
    }
    int order = strcmp(a->rule->id, b->rule->id);
    return order ? order : (a->where.rank > b->where.rank) - (a->where.rank < b->where.rank);
}

static void move_behind(struct ks_finding *list, size_t from, size_t to)
{
    const struct ks_finding moved = list[from];
    memmove(&list[from], &list[from + 1], (to - from) * sizeof(*list));
    list[to] = moved;
}

/* Moves findings whose repair is a graph behind those that hinder it: of the same urgency. */
static void put_graphs_last(struct ks_findings *findings)
{
    struct ks_finding *list = findings->list;
    for (size_t i = findings->count; i-- > 0;) {
        for (size_t from = i; list[i].rule->hinders_graphs && from-- > 0;) {
            if (list[from].rule->wants_graphs && urgency(&list[from]) == urgency(&list[i])) {
                move_behind(list, from, i); /* what hinders is looked at again, one place before */
            }
        }
    }
}

/* The first finding of a group stands for it; savings of the others are not added to it. */
static bool is_first_of_group(const struct ks_findings *findings, size_t count,
                              const struct ks_finding *finding)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(findings->list[i].group, finding->group) == 0) {
            return false;
        }
    }
    return true;
}

/* Bounds a saving by what the findings before it left of the step, and takes it from that. */
static void take_from(int64_t *left_ns, struct ks_saving *saving)
{
    saving->high_ns = saving->high_ns > *left_ns ? *left_ns : saving->high_ns;
    saving->low_ns = saving->low_ns > saving->high_ns ? saving->high_ns : saving->low_ns;
    *left_ns -= saving->high_ns;
}

/* Savings that are added up fit into the step together, also if all are as high as can be.
 * Findings keep the order of what each would save alone. */
static void cut_overlaps(struct ks_findings *findings, int64_t step_ns)
{
    int64_t left_ns = step_ns;
    int64_t left_in_trace_ns = step_ns;
    size_t kept = 0;
    for (size_t i = 0; i < findings->count; i++) {
        struct ks_finding finding = findings->list[i];
        finding.is_primary = is_first_of_group(findings, kept, &finding);
        if (finding.impact == KS_IMPACT_TIME && finding.is_primary && step_ns > 0) {
            take_from(&left_ns, &finding.saving);
            if (finding.saving.high_ns == 0) {
                continue;
            }
            take_from(&left_in_trace_ns, &finding.saving_in_trace);
            rate(&finding, step_ns);
        }
        findings->list[kept++] = finding;
    }
    findings->count = kept;
}

/* A saving is told by two step times, and each differs from run to run: by as much as steps of one
 * run differ, or those that were recorded from the others, and by 0.15 at most, as the step times
 * of a program in other company did in the median (docs/faults.md). */
static double noise_ns(const struct ks_finding *finding, double step_ns, double noise)
{
    double left_ns = step_ns - (double)middle(&finding->saving);
    return (noise < noise_max ? noise : noise_max) * hypot(step_ns, left_ns > 0 ? left_ns : 0);
}

/* Opens the savings by that, as far as those that are added up still fit into the step. What a
 * finding is worth, its share, stays what was estimated. */
static void open_to_noise(struct ks_findings *findings, const struct ks_facts *facts)
{
    int64_t step_ns = unprofiled_step_ns(facts, mean_step_ns(facts));
    int64_t left_ns = mean_step_ns(facts);
    for (size_t i = 0; i < findings->count; i++) {
        const struct ks_finding *finding = &findings->list[i];
        bool counts = finding->impact == KS_IMPACT_TIME && finding->is_primary;
        left_ns -= counts ? finding->saving.high_ns : 0;
    }
    for (size_t i = 0; i < findings->count; i++) {
        struct ks_finding *finding = &findings->list[i];
        if (finding->impact != KS_IMPACT_TIME || finding->saving.high_ns == 0) {
            continue;
        }
        int64_t open_ns = llround(noise_ns(finding, (double)step_ns, facts->step_noise));
        int64_t more_ns = finding->is_primary && open_ns > left_ns ? left_ns : open_ns;
        more_ns = more_ns > 0 ? more_ns : 0;
        int64_t high_ns = finding->saving.high_ns;
        finding->saving.low_ns -= open_ns;
        finding->saving.high_ns = ks_sum_add(high_ns, more_ns);
        clamp_saving(&finding->saving, step_ns > high_ns ? step_ns : high_ns);
        left_ns -= finding->is_primary ? finding->saving.high_ns - high_ns : 0;
        finding->confidence = confidence_of(&finding->saving);
    }
}

bool ks_findings_has(const struct ks_findings *findings, const struct ks_rule *rule)
{
    for (size_t i = 0; i < findings->count; i++) {
        if (findings->list[i].rule == rule) {
            return true;
        }
    }
    return false;
}

void ks_findings_settle(struct ks_findings *findings, const struct ks_facts *facts)
{
    for (size_t i = 0; i < findings->count; i++) {
        struct ks_finding *finding = &findings->list[i];
        finding->saving = finding->saving_alone;
        finding->saving_in_trace = finding->saving_alone_in_trace;
        rate(finding, mean_step_ns(facts));
    }
    if (findings->count > 1) {
        qsort(findings->list, findings->count, sizeof(*findings->list), compare_findings);
    }
    put_graphs_last(findings);
    cut_overlaps(findings, mean_step_ns(facts));
    open_to_noise(findings, facts);
    for (size_t i = 0; i < findings->check_count; i++) {
        struct ks_check *check = &findings->checks[i];
        if (check->state == KS_CHECK_FOUND && !ks_findings_has(findings, check->rule)) {
            check->state = KS_CHECK_FINE;
            check->reason = "other findings already account for the time that it could save";
        }
    }
}

static enum ks_status run_rules(const struct ks_facts *facts, struct ks_findings *findings,
                                struct ks_err *err)
{
    size_t count = 0;
    while (ks_rule_at(count)) {
        count++;
    }
    findings->checks = ks_new(&findings->arena, struct ks_check, count + 1);
    if (!findings->checks) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot run rules: count=%zu", count);
    }
    for (size_t i = 0; i < count; i++) {
        struct ks_check *check = &findings->checks[findings->check_count++];
        size_t before = findings->count;
        *check = (struct ks_check){.rule = ks_rule_at(i), .state = KS_CHECK_FINE};
        KS_TRY(check->rule->check(facts, findings, check, err));
        if (findings->count > before) {
            check->state = KS_CHECK_FOUND;
        }
        check->reason = check->reason ? check->reason : "";
    }
    return KS_OK;
}

enum ks_status ks_findings_compute(const struct ks_facts *facts, struct ks_findings *findings,
                                   struct ks_err *err)
{
    ks_arena_init(&findings->arena);
    KS_TRY(run_rules(facts, findings, err));
    if (findings->is_text_missing) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write findings");
    }
    ks_findings_settle(findings, facts);
    return KS_OK;
}

enum ks_status ks_findings_extend(const struct ks_findings *from, size_t more_checks,
                                  struct ks_findings *out, struct ks_err *err)
{
    ks_arena_init(&out->arena);
    size_t checks = from->check_count + more_checks;
    out->list = ks_new(&out->arena, struct ks_finding, from->count + 1);
    out->checks = ks_new(&out->arena, struct ks_check, checks + 1);
    if (!out->list || !out->checks) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep findings: count=%zu",
                       from->count);
    }
    for (size_t i = 0; i < from->count; i++) {
        out->list[i] = from->list[i];
    }
    for (size_t i = 0; i < from->check_count; i++) {
        out->checks[i] = from->checks[i];
    }
    out->count = from->count;
    out->capacity = from->count + 1;
    out->check_count = from->check_count;
    return KS_OK;
}

void ks_findings_release(struct ks_findings *findings)
{
    ks_arena_release(&findings->arena);
    *findings = (struct ks_findings){0};
}

void ks_findings_set_place(struct ks_where *where, const struct ks_facts *facts, struct ks_strid op,
                           enum ks_place_kind kind)
{
    struct ks_place_match match;
    if (ks_places_find(facts, op, kind, &match) && 2 * match.share >= 1) {
        where->file = match.place->file;
        where->line = match.place->line;
    }
}

void ks_findings_set_time_place(struct ks_where *where, const struct ks_facts *facts,
                                uint32_t source, enum ks_time_kind kind)
{
    const struct ks_time_place *place = ks_time_place_find(facts, source, kind);
    if (place) {
        where->file = place->file;
        where->line = place->line;
    }
}

void ks_findings_set_rank(struct ks_where *where, const struct ks_facts *facts, uint32_t source)
{
    int64_t rank = ks_trace_source(facts->trace, source)->rank;
    where->rank = rank < 0 ? KS_UNKNOWN : rank;
}

void ks_findings_set_steps(struct ks_where *where, const int64_t *steps, size_t count)
{
    where->step_count = count < KS_FINDING_STEPS_MAX ? count : KS_FINDING_STEPS_MAX;
    memcpy(where->steps, steps, where->step_count * sizeof(*steps));
}

void ks_findings_set_source(struct ks_where *where, const struct ks_facts *facts, uint32_t source)
{
    struct ks_step_range range = facts->step_ranges[source];
    ks_findings_set_rank(where, facts, source);
    where->step_count = 0;
    for (size_t i = range.begin; i < range.end && where->step_count < KS_FINDING_STEPS_MAX; i++) {
        if (facts->steps[i].is_complete) {
            where->steps[where->step_count++] = facts->steps[i].number;
        }
    }
}
