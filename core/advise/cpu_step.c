#include "advise/cpu_step.h"

#include <math.h>

#include "advise/gpu_step.h"
#include "measure/sum.h"

enum { STEPS_MIN = 2, GAP_PERCENT_MIN = 5, CORES_DEFAULT = 2 };

int64_t ks_cpu_step_cores(const struct ks_process_use *use)
{
    int64_t cores = use->cores;
    if (use->quota_us > 0 && use->period_us > 0) {
        int64_t quota = use->quota_us / use->period_us;
        quota = quota > 0 ? quota : 1;
        cores = cores == 0 || quota < cores ? quota : cores;
    }
    return cores;
}

int64_t ks_cpu_step_ns(const struct ks_facts *facts, uint32_t source)
{
    struct ks_step_range range = facts->step_ranges[source];
    int64_t total_ns = 0;
    int64_t count = 0;
    for (size_t i = range.begin; i < range.end; i++) {
        if (facts->steps[i].is_complete) {
            total_ns = ks_sum_add(total_ns, facts->steps[i].dur_ns);
            count++;
        }
    }
    return count < STEPS_MIN ? 0 : total_ns / count;
}

bool ks_cpu_step_can_judge(const struct ks_facts *facts, struct ks_check *check)
{
    const char *why_not =
        facts->has_gpu                           ? facts->mean_step.obstacle
        : facts->complete_step_count < STEPS_MIN ? "fewer than two complete steps were recorded"
        : facts->step_source == KS_STEPS_WINDOW  ? "no steps were found in the recording"
                                                 : NULL;
    if (why_not) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = why_not;
    }
    return !why_not;
}

bool ks_cpu_step_can_judge_shapes(const struct ks_facts *facts, struct ks_check *check)
{
    if (ks_cpu_step_can_judge(facts, check) && !facts->has_shapes) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = "input shapes of operators were not recorded";
    }
    return check->state != KS_CHECK_COULD_NOT;
}

uint32_t ks_cpu_step_first_source(const struct ks_facts *facts)
{
    for (uint32_t i = 0; i < ks_trace_source_count(facts->trace); i++) {
        if (ks_cpu_step_ns(facts, i) > 0) {
            return i;
        }
    }
    return 0;
}

bool ks_cpu_step_is_worth(const struct ks_facts *facts, const struct ks_finding *finding,
                          double share)
{
    int64_t middle_ns = finding->saving_in_trace.low_ns / 2 + finding->saving_in_trace.high_ns / 2;
    return middle_ns > 0 && (double)middle_ns >= share * ks_cpu_step_mean_ns(facts);
}

double ks_cpu_step_mean_ns(const struct ks_facts *facts)
{
    return (double)facts->step_ns_total / (double)facts->complete_step_count;
}

const char *ks_cpu_step_steps_obstacle(const struct ks_facts *facts)
{
    if (facts->complete_step_count < STEPS_MIN) {
        return "fewer than two complete steps were recorded";
    }
    if (facts->step_source == KS_STEPS_WINDOW) {
        return "no steps were found in the recording";
    }
    return facts->has_gpu ? facts->mean_step.obstacle : NULL;
}

const char *ks_cpu_step_obstacle(const struct ks_facts *facts)
{
    bool is_known = false;
    for (uint32_t i = 0; i < ks_trace_source_count(facts->trace); i++) {
        const struct ks_process_use *use = &ks_trace_source(facts->trace, i)->process;
        is_known = is_known || (use->wall_ns > 0 && use->cores > 0);
    }
    if (!is_known) {
        return "the recording does not tell of cores; `kscope run` notes them";
    }
    return ks_cpu_step_steps_obstacle(facts);
}

/* Own time of an operator beyond so much a call. */
static int64_t beyond_calls_ns(const struct ks_operator_fact *op, int64_t call_ns)
{
    int64_t calls_ns = ks_sum_scale(op->calls, call_ns);
    bool counts = op->kind == KS_OPERATOR_OP && op->self_exclusive_ns > calls_ns;
    return counts ? op->self_exclusive_ns - calls_ns : 0;
}

int64_t ks_cpu_step_scaling_ns(const struct ks_facts *facts, int64_t call_ns)
{
    int64_t ns = 0;
    for (size_t i = 0; i < facts->operator_count; i++) {
        ns = ks_sum_add(ns, beyond_calls_ns(&facts->operators[i], call_ns));
    }
    return facts->step_count > 0 ? ns / (int64_t)facts->step_count : 0;
}

int64_t ks_cpu_step_calls_ns(const struct ks_facts *facts, int64_t call_ns)
{
    return ks_cpu_step_scaling_ns(facts, 0) - ks_cpu_step_scaling_ns(facts, call_ns);
}

struct ks_finding ks_cpu_step_finding(const struct ks_rule *rule, const struct ks_facts *facts,
                                      uint32_t source)
{
    struct ks_finding finding = ks_gpu_step_finding(rule);
    ks_findings_set_source(&finding.where, facts, source);
    if (finding.where.rank != KS_UNKNOWN) {
        finding.ranks[finding.rank_count++] = finding.where.rank;
    }
    return finding;
}

static struct ks_saving part_of(int64_t step_ns, double low, double high, int64_t idle_ns)
{
    struct ks_saving saving = {llround(low * (double)step_ns), llround(high * (double)step_ns)};
    if (idle_ns != KS_UNKNOWN) {
        saving.low_ns = 0;
        saving.high_ns = saving.high_ns < idle_ns ? saving.high_ns : idle_ns;
    }
    return saving;
}

void ks_cpu_step_set_savings(struct ks_finding *finding, const struct ks_facts *facts,
                             uint32_t source, double low, double high)
{
    int64_t step_ns = ks_cpu_step_ns(facts, source);
    int64_t unprofiled_ns = facts->sources[source].unprofiled_ns;
    int64_t idle_ns = facts->has_gpu ? facts->mean_step.idle_ns : KS_UNKNOWN;
    bool is_shorter = unprofiled_ns > 0 && unprofiled_ns < step_ns;
    finding->saving_in_trace = part_of(step_ns, low, high, idle_ns);
    finding->saving = part_of(is_shorter ? unprofiled_ns : step_ns, low, high, idle_ns);
}

/* ------------------------------------------------------------ code between operators */

/* Compiling is another fault. */
static int64_t mean_gap_ns(const struct ks_facts *facts, const struct ks_cpu_fact *cpu)
{
    int64_t mean_ns = cpu->step_count > 0 ? cpu->quiet_ns_total / (int64_t)cpu->step_count : 0;
    return mean_ns > facts->compiles.sure_ns ? mean_ns - facts->compiles.sure_ns : 0;
}

/* Time of a step in which the thread waits for a core that others have, and that may look like a
 * gap: what hits it between two operators, as often as it is there while it runs; twice that, since
 * this is a guess. */
static int64_t waiting_in_gaps_ns(const struct ks_process_use *use, const struct ks_cpu_fact *cpu)
{
    double wait = (double)use->thread_wait_ns / (double)use->wall_ns;
    double run = (double)use->thread_run_ns / (double)use->wall_ns;
    double between = (double)cpu->short_ns_total / (double)cpu->step_ns_total;
    double part = run > 0 ? 2 * between / run : 1;
    part = part < 1 ? part : 1;
    wait = wait < 1 ? wait : 1;
    return llround(part * wait * (double)cpu->step_ns_total / (double)cpu->step_count);
}

/* A pause in few of the steps is another fault, too. */
static int64_t usual_gap_ns(const struct ks_facts *facts, const struct ks_cpu_fact *cpu)
{
    const struct ks_process_use *use = &ks_trace_source(facts->trace, cpu->source)->process;
    int64_t mean_ns = mean_gap_ns(facts, cpu);
    int64_t gap_ns = cpu->quiet_ns_median < mean_ns ? cpu->quiet_ns_median : mean_ns;
    if (use->wall_ns > 0 && cpu->step_ns_total > 0) {
        gap_ns -= waiting_in_gaps_ns(use, cpu);
    }
    return gap_ns > 0 ? gap_ns : 0;
}

static const struct ks_cpu_fact *find_worst(const struct ks_facts *facts)
{
    const struct ks_cpu_fact *worst = NULL;
    for (size_t i = 0; i < facts->cpu_count; i++) {
        const struct ks_cpu_fact *cpu = &facts->cpus[i];
        if (cpu->step_count >= STEPS_MIN &&
            (!worst || usual_gap_ns(facts, cpu) > usual_gap_ns(facts, worst))) {
            worst = cpu;
        }
    }
    return worst;
}

static struct ks_saving gap_saving(const struct ks_facts *facts, const struct ks_cpu_fact *cpu)
{
    int64_t cores = ks_cpu_step_cores(&ks_trace_source(facts->trace, cpu->source)->process);
    int64_t gap_ns = usual_gap_ns(facts, cpu);
    cores = cores > 0 ? cores : CORES_DEFAULT;
    return (struct ks_saving){gap_ns - gap_ns / cores, mean_gap_ns(facts, cpu)};
}

static bool is_gap_large(const struct ks_facts *facts, const struct ks_cpu_fact *cpu)
{
    int64_t gap_ns = usual_gap_ns(facts, cpu);
    int64_t step_ns = cpu->step_ns_total / (int64_t)cpu->step_count;
    return gap_ns > 0 && gap_ns >= step_ns / 100 * GAP_PERCENT_MIN;
}

bool ks_cpu_step_gap(const struct ks_facts *facts, struct ks_saving *saving, uint32_t *source)
{
    const struct ks_cpu_fact *worst = find_worst(facts);
    if (!worst || facts->step_source == KS_STEPS_WINDOW || !is_gap_large(facts, worst)) {
        return false;
    }
    *saving = gap_saving(facts, worst);
    *source = worst->source;
    return true;
}

static enum ks_status report_gap(const struct ks_rule *rule, const struct ks_facts *facts,
                                 const struct ks_cpu_fact *cpu, struct ks_findings *out,
                                 struct ks_err *err)
{
    struct ks_finding finding = ks_cpu_step_finding(rule, facts, cpu->source);
    int64_t steps = (int64_t)cpu->step_count;
    int64_t cores = ks_cpu_step_cores(&ks_trace_source(facts->trace, cpu->source)->process);
    cores = cores > 0 ? cores : CORES_DEFAULT;
    int64_t gap_ns = usual_gap_ns(facts, cpu);
    finding.saving = gap_saving(facts, cpu);
    finding.saving_in_trace = finding.saving;
    finding.title = "Code between operators holds the step up";
    ks_findings_set_time_place(&finding.where, facts, cpu->source, KS_TIME_QUIET);
    finding.fix_text = ks_findings_text(
        out,
        "Take what runs between operators out of the step: %.1f of %.1f ms a step no operator "
        "runs, because the training thread does something else. Leave it out, do it once in many "
        "steps, write it with tensors, or move it into the data loader's workers.",
        (double)gap_ns / 1e6, (double)(cpu->step_ns_total / steps) / 1e6);
    const struct ks_evidence evidence[] = {
        {"no_operator", (double)(cpu->quiet_ns_total / steps), "ns"},
        {"no_operator_median", (double)cpu->quiet_ns_median, "ns"},
        {"step", (double)(cpu->step_ns_total / steps), "ns"},
        {"cores", (double)cores, "count"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    return ks_findings_add(out, facts, &finding, err);
}

enum ks_status ks_cpu_step_find_gap(const struct ks_rule *rule, const struct ks_facts *facts,
                                    struct ks_findings *out, struct ks_check *check,
                                    struct ks_err *err)
{
    const struct ks_cpu_fact *worst = find_worst(facts);
    if (!worst || facts->step_source == KS_STEPS_WINDOW) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = worst ? "no steps were found in the recording"
                              : "fewer than two complete steps were recorded";
        return KS_OK;
    }
    int64_t gap_ns = usual_gap_ns(facts, worst);
    int64_t step_ns = worst->step_ns_total / (int64_t)worst->step_count;
    if (is_gap_large(facts, worst)) {
        return report_gap(rule, facts, worst, out, err);
    }
    check->reason = ks_findings_text(out, "no operator runs for %.2f of %.2f ms a step",
                                     (double)gap_ns / 1e6, (double)step_ns / 1e6);
    return KS_OK;
}
