#include "advise/step_means.h"

#include <math.h>

#include "measure/sum.h"

enum { STEPS_MIN = 2, SMALL_COPY_BYTES = 4096, SMALL_COPIES_MIN = 20, WORKING_CALLS_MAX = 3 };

/* Between 1.1 and 2.4 times as much host time goes by under the profiler as without, after the
 * estimated cost of its rows is taken out 1.0 to 2.0 times (36 training loops on an H100 host);
 * Python stacks make it 2.5 times. */
static const double scale_low_of_trace = 0.5;
static const double scale_low_with_stacks = 0.35;
/* Where `kscope run` timed steps without the profiler, they vary by this much. */
static const double scale_doubt = 0.15;

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

static void add_steps(const struct ks_facts *facts, struct ks_step_means *out)
{
    for (size_t i = 0; i < facts->step_count; i++) {
        const struct ks_step *step = &facts->steps[i];
        if (!step->is_complete) {
            continue;
        }
        out->step_count++;
        out->step_ns = ks_sum_add(out->step_ns, step->dur_ns);
        out->idle_ns = ks_sum_add(out->idle_ns, step->idle_ns);
        for (int cause = 0; cause < KS_IDLE_COUNT; cause++) {
            out->idle_by_cause_ns[cause] =
                ks_sum_add(out->idle_by_cause_ns[cause], step->idle_by_cause_ns[cause]);
        }
    }
    out->step_ns /= out->step_count;
    out->idle_ns /= out->step_count;
    out->busy_ns = out->step_ns - out->idle_ns;
    for (int cause = 0; cause < KS_IDLE_COUNT; cause++) {
        out->idle_by_cause_ns[cause] /= out->step_count;
    }
}

static bool add_sources(const struct ks_facts *facts, struct ks_step_means *out)
{
    bool has_stacks = false;
    int64_t known = 0;
    for (uint32_t i = 0; i < ks_trace_source_count(facts->trace); i++) {
        const struct ks_source *source = ks_trace_source(facts->trace, i);
        has_stacks = has_stacks || source->with_stack;
        known += source->unprofiled_step_ns > 0;
        out->unprofiled_step_ns = ks_sum_add(out->unprofiled_step_ns, source->unprofiled_step_ns);
    }
    out->unprofiled_step_ns /= known > 0 ? known : 1;
    return has_stacks;
}

static double between(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

/* With unprofiled steps the host's share follows from them: the device's part of a step is the same
 * with the profiler and without. */
static void find_scale(struct ks_step_means *out, bool has_stacks)
{
    int64_t host_ns =
        out->idle_by_cause_ns[KS_IDLE_LAUNCH] + out->idle_by_cause_ns[KS_IDLE_HOST_CODE];
    out->host_scale_low = has_stacks ? scale_low_with_stacks : scale_low_of_trace;
    out->host_scale_high = 1;
    if (out->unprofiled_step_ns <= 0 || host_ns <= 0) {
        return;
    }
    int64_t rest_ns = out->step_ns - host_ns - out->idle_by_cause_ns[KS_IDLE_PROFILER];
    double scale = (double)(out->unprofiled_step_ns - rest_ns) / (double)host_ns;
    out->host_scale_low = between(scale - scale_doubt, 0, 1);
    out->host_scale_high = between(scale + scale_doubt, scale_doubt, 1);
}

const char *ks_step_means_compute(const struct ks_facts *facts, struct ks_step_means *out)
{
    *out = (struct ks_step_means){0};
    const char *why_not = obstacle(facts);
    if (why_not) {
        return why_not;
    }
    add_steps(facts, out);
    find_scale(out, add_sources(facts, out));
    return NULL;
}

int64_t ks_step_means_operator_ns(const struct ks_facts *facts, struct ks_strid op,
                                  double calls_per_step)
{
    int64_t cpu_ns = 0;
    int64_t calls = 0;
    for (size_t i = 0; i < facts->operator_count; i++) {
        if (facts->operators[i].name.v == op.v) {
            cpu_ns = ks_sum_add(cpu_ns, facts->operators[i].cpu_ns);
            calls += facts->operators[i].calls;
        }
    }
    if (calls == 0 || !(calls_per_step > 0)) {
        return 0;
    }
    /* Around a call that works, torch often makes some of the same name that only look: they cost
     * next to nothing, so the others share all of the time. */
    double per_step = (double)calls / (double)facts->step_count;
    double share = calls_per_step * WORKING_CALLS_MAX / per_step;
    return ks_step_means_scale(cpu_ns / (int64_t)facts->step_count, share < 1 ? share : 1);
}

/* Operators by which a program reads a value, or the number of values, from the device. */
static bool reads_value(struct ks_str op)
{
    static const char *const names[] = {"aten::item",          "aten::_local_scalar_dense",
                                        "aten::is_nonzero",    "aten::nonzero",
                                        "aten::masked_select", "aten::equal",
                                        "aten::index",         "aten::_unique2"};
    for (size_t i = 0; i < KS_COUNT_OF(names); i++) {
        if (ks_str_equal(op, ks_str_from(names[i]))) {
            return true;
        }
    }
    return false;
}

int64_t ks_step_means_sync_ns(const struct ks_facts *facts, const struct ks_call_site **worst)
{
    int64_t sum_ns = 0;
    int64_t worst_ns = 0;
    *worst = NULL;
    for (size_t i = 0; i < facts->sync_count; i++) {
        const struct ks_call_site *site = &facts->syncs[i];
        if (!(site->per_step >= 1) || !reads_value(ks_trace_str(facts->trace, site->op))) {
            continue;
        }
        int64_t ns = ks_step_means_operator_ns(facts, site->op, site->per_step);
        sum_ns = ks_sum_add(sum_ns, ns);
        if (!*worst || ns > worst_ns) {
            worst_ns = ns;
            *worst = site;
        }
    }
    return sum_ns;
}

static bool is_small_copy(const struct ks_facts *facts, const struct ks_call_site *site)
{
    return site->per_step > 0 && site->bytes != KS_UNKNOWN && site->count > 0 &&
           site->bytes / site->count <= SMALL_COPY_BYTES &&
           !ks_str_contains(ks_trace_str(facts->trace, site->copy_kind), KS_STR("DtoD")) &&
           !reads_value(ks_trace_str(facts->trace, site->op));
}

int64_t ks_step_means_small_copy_ns(const struct ks_facts *facts, const struct ks_call_site **worst,
                                    double *copies_per_step)
{
    int64_t sum_ns = 0;
    *worst = NULL;
    *copies_per_step = 0;
    for (size_t i = 0; i < facts->copy_site_count; i++) {
        const struct ks_call_site *site = &facts->copy_sites[i];
        if (!is_small_copy(facts, site)) {
            continue;
        }
        *copies_per_step += site->per_step;
        sum_ns = ks_sum_add(sum_ns, ks_step_means_operator_ns(facts, site->op, site->per_step));
        *worst = *worst && (*worst)->per_step >= site->per_step ? *worst : site;
    }
    return *copies_per_step >= SMALL_COPIES_MIN ? sum_ns : 0;
}

int64_t ks_step_means_host_code_ns(const struct ks_step_means *means)
{
    int64_t code_ns = means->idle_by_cause_ns[KS_IDLE_HOST_CODE];
    return code_ns > means->idle_ns / 2 ? code_ns : 0;
}

double ks_step_means_share(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

int64_t ks_step_means_scale(int64_t ns, double factor)
{
    double scaled = (double)ns * factor;
    return scaled >= 9e18 ? INT64_MAX : scaled <= 0 ? 0 : (int64_t)llround(scaled);
}

struct ks_finding ks_step_means_finding(const struct ks_rule *rule)
{
    return (struct ks_finding){
        .rule = rule,
        .verify = "kscope run train.py  # with the fix: the finding must be gone",
        .bytes = KS_UNKNOWN,
        .steps_until_oom = KS_UNKNOWN,
        .where = {.rank = KS_UNKNOWN,
                  .device = KS_UNKNOWN,
                  .stream = KS_UNKNOWN,
                  .line = KS_UNKNOWN},
    };
}
