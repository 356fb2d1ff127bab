/* Steps of a recording without GPU work: how long no operator runs at all, because the program does
 * something else (docs/analyses/cpu_steps.md). The rows of all threads pass once. */
#include "analyze/lane_sweep.h"
#include "analyze/registry.h"
#include "base/err.h"
#include "measure/quantile.h"
#include "measure/sum.h"

enum { QUIET_NS_MIN = 200 * 1000 };

struct quiet {
    struct ks_analyzer *analyzer;
    size_t begin;
    size_t step; /* first step that the next stretch may touch */
    size_t end;
    int64_t *step_quiet_ns; /* by index in the facts */
    int64_t from_ns;        /* nothing began since, and all work had ended */
    int64_t short_ns;       /* shorter stretches, from the first step to the end of the last */
};

static bool is_work(const struct quiet *quiet, const struct ks_sweep_row *row)
{
    unsigned flags = ks_row_names_get(&quiet->analyzer->names, row->name);
    switch (row->category) {
    case KS_CATEGORY_RUNTIME:
    case KS_CATEGORY_DRIVER:
    case KS_CATEGORY_OVERHEAD: return true;
    case KS_CATEGORY_CPU_OP: return !(flags & (KS_NAME_STEP | KS_NAME_OPTIMIZER));
    case KS_CATEGORY_USER_ANNOTATION: return flags & (KS_NAME_LOADER | KS_NAME_HOST_COMM);
    default: return false;
    }
}

/* Shares a stretch among the steps. Stretches come in order of time. */
static void add_stretch(struct quiet *quiet, int64_t from_ns, int64_t until_ns)
{
    const struct ks_step *steps = quiet->analyzer->facts->steps;
    for (; quiet->step < quiet->end; quiet->step++) {
        const struct ks_step *step = &steps[quiet->step];
        int64_t step_end_ns = ks_sum_add(step->start_ns, step->dur_ns);
        int64_t begin_ns = from_ns > step->start_ns ? from_ns : step->start_ns;
        int64_t end_ns = until_ns < step_end_ns ? until_ns : step_end_ns;
        if (end_ns - begin_ns >= QUIET_NS_MIN) {
            quiet->step_quiet_ns[quiet->step] += end_ns - begin_ns;
        }
        if (step_end_ns > until_ns) {
            break;
        }
    }
}

static bool is_in_steps(const struct quiet *quiet, int64_t ns)
{
    const struct ks_step *steps = quiet->analyzer->facts->steps;
    const struct ks_step *last = &steps[quiet->end - 1];
    return ns > steps[quiet->begin].start_ns && ns <= ks_sum_add(last->start_ns, last->dur_ns);
}

static void note_row(struct quiet *quiet, const struct ks_sweep_row *row)
{
    if (row->category == KS_CATEGORY_PYTHON) {
        return;
    }
    bool has_begun = quiet->from_ns != INT64_MIN;
    if (has_begun && row->start_ns - quiet->from_ns >= QUIET_NS_MIN) {
        add_stretch(quiet, quiet->from_ns, row->start_ns);
    } else if (has_begun && row->start_ns > quiet->from_ns && is_in_steps(quiet, row->start_ns)) {
        quiet->short_ns += row->start_ns - quiet->from_ns;
    }
    int64_t from_ns = is_work(quiet, row) ? row->end_ns : row->start_ns;
    quiet->from_ns = from_ns > quiet->from_ns ? from_ns : quiet->from_ns;
}

static enum ks_status pass_rows(struct quiet *quiet, uint32_t source, struct ks_err *err)
{
    struct ks_analyzer *analyzer = quiet->analyzer;
    struct ks_lane_sweep sweep;
    struct ks_sweep_row row;
    KS_TRY(ks_lane_sweep_open(&sweep, analyzer->trace, source, KS_SWEEP_THREADS, &analyzer->scratch,
                              err));
    enum ks_status status;
    while ((status = ks_lane_sweep_next(&sweep, &row, err)) == KS_OK) {
        note_row(quiet, &row);
    }
    ks_lane_sweep_close(&sweep);
    if (status == KS_END && quiet->step < quiet->end) {
        const struct ks_step *last = &analyzer->facts->steps[quiet->end - 1];
        add_stretch(quiet, quiet->from_ns, ks_sum_add(last->start_ns, last->dur_ns));
    }
    return status == KS_END ? KS_OK : status;
}

static void sum_up(struct quiet *quiet, struct ks_step_range range, struct ks_cpu_fact *fact)
{
    const struct ks_step *steps = quiet->analyzer->facts->steps;
    int64_t *complete = quiet->step_quiet_ns + range.begin;
    for (size_t i = range.begin; i < range.end; i++) {
        if (steps[i].is_complete) {
            fact->step_ns_total = ks_sum_add(fact->step_ns_total, steps[i].dur_ns);
            fact->quiet_ns_total = ks_sum_add(fact->quiet_ns_total, quiet->step_quiet_ns[i]);
            fact->data_ns_total = ks_sum_add(fact->data_ns_total, steps[i].input_wait_ns);
            complete[fact->step_count++] = quiet->step_quiet_ns[i];
        }
    }
    if (fact->step_count > 0) {
        fact->quiet_ns_median = ks_quantile_median(complete, fact->step_count);
    }
}

enum ks_status ks_cpu_steps_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    uint32_t source_count = ks_trace_source_count(analyzer->trace);
    if (facts->has_gpu || facts->step_count == 0) {
        return KS_OK;
    }
    int64_t *quiet_ns = ks_new(&analyzer->scratch, int64_t, facts->step_count);
    facts->cpus = ks_new(&facts->arena, struct ks_cpu_fact, source_count);
    if (!quiet_ns || !facts->cpus) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot look at steps: count=%zu",
                       facts->step_count);
    }
    for (uint32_t i = 0; i < source_count; i++) {
        struct ks_step_range range = facts->step_ranges[i];
        struct quiet quiet = {analyzer, range.begin, range.begin, range.end, quiet_ns, INT64_MIN,
                              0};
        facts->cpus[i] = (struct ks_cpu_fact){.source = i};
        if (range.begin < range.end) {
            KS_TRY(pass_rows(&quiet, i, err));
            sum_up(&quiet, range, &facts->cpus[i]);
            facts->cpus[i].short_ns_total = quiet.short_ns;
        }
    }
    facts->cpu_count = source_count;
    return KS_OK;
}
