/* Findings of two runs: gone, new, or still there. A finding is the same when its rule is, and its
 * place; of what is left of a rule, the heaviest of A is the heaviest of B at another place. */
#include <math.h>

#include "base/err.h"
#include "compare/compare_impl.h"

struct list {
    const struct ks_compare_input *side;
    size_t *other; /* by finding: 1 + index on the other side, 0 none */
};

static bool is_same_rule(const struct ks_finding *a, const struct ks_finding *b)
{
    return ks_str_equal(ks_str_from(a->rule->id), ks_str_from(b->rule->id));
}

static struct ks_str name_of(const struct list *list, struct ks_strid id)
{
    return ks_trace_str(list->side->trace, id);
}

static bool is_same_place(const struct list *a_list, const struct ks_where *a,
                          const struct list *b_list, const struct ks_where *b)
{
    return ks_str_equal(name_of(a_list, a->op), name_of(b_list, b->op)) &&
           ks_str_equal(name_of(a_list, a->module), name_of(b_list, b->module)) &&
           ks_str_equal(a->file, b->file) && a->line == b->line;
}

static void match(struct list *a, struct list *b, bool at_place)
{
    const struct ks_findings *of_a = a->side->findings;
    const struct ks_findings *of_b = b->side->findings;
    for (size_t i = 0; i < of_a->count; i++) {
        for (size_t k = 0; k < of_b->count && a->other[i] == 0; k++) {
            if (b->other[k] == 0 && is_same_rule(&of_a->list[i], &of_b->list[k]) &&
                (!at_place || is_same_place(a, &of_a->list[i].where, b, &of_b->list[k].where))) {
                a->other[i] = k + 1;
                b->other[k] = i + 1;
            }
        }
    }
}

static struct ks_saving saving_of(const struct ks_finding *finding)
{
    bool saves = finding && finding->impact == KS_IMPACT_TIME;
    return saves ? finding->saving : (struct ks_saving){KS_UNKNOWN, KS_UNKNOWN};
}

/* Texts are those of B, where the finding is still there. */
static enum ks_status take(struct ks_comparison *out, const struct list *list,
                           const struct ks_finding *a, const struct ks_finding *b,
                           struct ks_err *err)
{
    const struct ks_finding *shown = b ? b : a;
    struct ks_compare_finding *row = &out->findings[out->finding_count++];
    row->state = !b ? KS_COMPARE_GONE : !a ? KS_COMPARE_NEW : KS_COMPARE_BOTH;
    row->a = saving_of(a);
    row->b = saving_of(b);
    row->a_share = a ? a->share : (double)NAN;
    row->b_share = b ? b->share : (double)NAN;
    row->line = shown->where.line;
    KS_TRY(ks_compare_copy(out, ks_str_from(shown->rule->id), &row->id, err));
    const char *title = shown->title ? shown->title : shown->rule->title;
    KS_TRY(ks_compare_copy(out, ks_str_from(title), &row->title, err));
    if (shown->where.file.len > 0) {
        KS_TRY(ks_compare_copy(out, shown->where.file, &row->file, err));
    }
    return ks_compare_copy_id(out, list->side->trace, shown->where.op, &row->operator_name, err);
}

/* Gone and new ones are the news, and come before those that are still there. */
static enum ks_status take_all(struct ks_comparison *out, const struct list *a,
                               const struct list *b, struct ks_err *err)
{
    const struct ks_findings *of_a = a->side->findings;
    const struct ks_findings *of_b = b->side->findings;
    for (size_t i = 0; i < of_a->count; i++) {
        if (a->other[i] == 0) {
            KS_TRY(take(out, a, &of_a->list[i], NULL, err));
        }
    }
    for (size_t i = 0; i < of_b->count; i++) {
        if (b->other[i] == 0) {
            KS_TRY(take(out, b, NULL, &of_b->list[i], err));
        }
    }
    for (size_t i = 0; i < of_b->count; i++) {
        if (b->other[i] != 0) {
            KS_TRY(take(out, b, &of_a->list[b->other[i] - 1], &of_b->list[i], err));
        }
    }
    return KS_OK;
}

enum ks_status ks_compare_findings(const struct ks_compare_input sides[KS_COMPARE_SIDES],
                                   struct ks_comparison *out, struct ks_err *err)
{
    size_t a_count = sides[KS_COMPARE_A].findings->count;
    size_t b_count = sides[KS_COMPARE_B].findings->count;
    struct list a = {&sides[KS_COMPARE_A], ks_new(&out->arena, size_t, a_count + 1)};
    struct list b = {&sides[KS_COMPARE_B], ks_new(&out->arena, size_t, b_count + 1)};
    out->findings = ks_new(&out->arena, struct ks_compare_finding, a_count + b_count + 1);
    if (!a.other || !b.other || !out->findings) {
        return ks_compare_no_memory(err);
    }
    match(&a, &b, true);
    match(&a, &b, false);
    return take_all(out, &a, &b, err);
}
