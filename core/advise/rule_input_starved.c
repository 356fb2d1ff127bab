/* Rule input.starved: the compute device sits idle because the next batch is not ready.
 *
 * Claim: at least 5% of step time goes by in the data loader's __next__ while no device of the
 * rank works. On a CPU run the training thread is the device, so all of the wait counts.
 *
 * Evidence: the loader's spans on the step's thread, cut at the true steps, less GPU work.
 *
 * Saving, per step, without the profiler: high is the idle wait. Low assumes that
 * - what recording the loader's own rows costs is no real wait (row_cost_ns each),
 * - two workers are all that the machine can feed, so a loader that takes W for a batch beside R
 *   of other work still needs max(R, W / 2): of W at most W / 2 + R goes; when workers exist
 *   already, their number is doubled,
 * - handing a batch over from a worker takes HANDOVER_NS,
 * - on a CPU run operators inside the loader go on competing for the same cores,
 * - of a loader in the training process, the step in the middle counts, when that is less than the
 *   mean: one pause among many short waits is not what workers cure.
 * Where the step was timed without the profiler, of a rank with a GPU, low is no more than that
 * time less the recorded rest, and high no less than that, but no more than the time less the work
 * of the GPU.
 * On a CPU run more than the wait can go, and adds to high: of the cause worker_start what the step
 * that waits for the workers takes longer than the others besides, since it forks them and ends the
 * ones before; of the cause ipc what the training thread waits for a core, as far as workers use
 * the CPU meanwhile, since their packing goes as well.
 * `saving_in_trace` is the same without the first correction. Where workers use most of the cores
 * already, more of them help nobody, and low is nothing.
 *
 * Cause: in the training process, operators fill half of the wait (decode), or a third of it with
 * joining samples (collate), or its thread runs without them (decode), or it waits (storage). With
 * workers, the first wait is most of all (worker_start), the training thread runs while it waits
 * (ipc), the workers run for half of the time or use the cores (decode), or less than a quarter
 * (storage).
 *
 * Silent when: fewer than 2 complete steps, the whole recording is one step, no loader span, GPU
 * work is recorded in less than half of the steps, or a loader in the training process takes less
 * than BATCH_NS in the middle step: handing a batch over would cost about as much.
 */
#include <math.h>
#include <string.h>

#include "advise/cpu_step.h"
#include "advise/gpu_step.h"
#include "advise/registry.h"
#include "base/err.h"
#include "measure/quantile.h"
#include "measure/sum.h"

enum {
    STEPS_MIN = 2,
    WAIT_PERCENT_MIN = 5,
    WORKERS_MIN = 2,
    WORKERS_MAX = 16,
    WORKERS_SANE_MAX = 512, /* of one process */
    HANDOVER_NS =
        200 * 1000, /* seen: 75 to 99 us on an H100 host, up to 200 us with large batches */
    BATCH_NS = 5 * HANDOVER_NS,
    COLLATE_PART = 3, /* a third of the wait or more */
};

static const double workers_cores_part = 0.6; /* the training thread needs some, too */

/* Means over the complete steps of a rank. */
struct per_step {
    int64_t step_ns;
    int64_t wait_ns;
    int64_t idle_ns;
    int64_t sure_ns;       /* of idle_ns, what comes in the middle step as well */
    int64_t rest_ns;       /* what the step does besides waiting */
    int64_t loader_cpu_ns; /* operators inside the wait */
    int64_t collate_ns;
    int64_t loader_cost_ns; /* of recording the loader's rows */
    int64_t rest_cost_ns;   /* of recording the other rows */
    int64_t device_busy_ns;
    int64_t first_wait_ns; /* of the first complete step alone */
    bool has_gpu;
    bool is_full; /* the workers use all cores: more of them help nobody */
};

static int64_t at_least_zero(int64_t value)
{
    return value < 0 ? 0 : value;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Idle wait of the step in the middle of the complete ones. */
static enum ks_status middle_wait(const struct ks_facts *facts, const struct ks_input_fact *input,
                                  struct ks_findings *out, int64_t *ns, struct ks_err *err)
{
    struct ks_step_range range = facts->step_ranges[input->source];
    struct ks_arena_mark mark = ks_arena_mark(&out->arena);
    int64_t *waits = ks_new(&out->arena, int64_t, range.end - range.begin);
    if (!waits) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot judge steps: count=%zu",
                       (size_t)(range.end - range.begin));
    }
    size_t count = 0;
    for (size_t i = range.begin; i < range.end; i++) {
        if (facts->steps[i].is_complete) {
            waits[count++] = facts->steps[i].input_idle_ns;
        }
    }
    *ns = ks_quantile_median(waits, count);
    ks_arena_rewind(&out->arena, mark);
    return KS_OK;
}

static struct per_step divide(const struct ks_facts *facts, const struct ks_input_fact *input,
                              int64_t middle_ns)
{
    int64_t steps = (int64_t)input->step_count;
    struct per_step mean = {
        .step_ns = input->step_ns_total / steps,
        .wait_ns = input->wait_ns_total / steps,
        .idle_ns = input->idle_wait_ns_total / steps,
        .loader_cpu_ns = input->loader_cpu_ns / steps,
        .collate_ns = input->collate_ns / steps,
        .loader_cost_ns = ks_sum_scale((int64_t)input->loader_rows, facts->row_cost_ns) / steps,
        .rest_cost_ns = ks_sum_scale((int64_t)input->thread_rows, facts->row_cost_ns) / steps,
        .device_busy_ns = input->device_busy_ns / steps,
        .has_gpu = input->device_busy_ns > 0,
    };
    mean.rest_ns = at_least_zero(mean.step_ns - mean.wait_ns);
    /* Workers deliver in bursts: their waits are uneven without being accidents. */
    mean.sure_ns = input->is_single_process ? smaller(mean.idle_ns, middle_ns) : mean.idle_ns;
    struct ks_step_range range = facts->step_ranges[input->source];
    for (size_t i = range.begin; i < range.end; i++) {
        if (facts->steps[i].is_complete) {
            mean.first_wait_ns = facts->steps[i].input_idle_ns;
            break;
        }
    }
    return mean;
}

/* What goes at least when two workers (or twice as many) load. `wait_ns` and `rest_ns` with or
 * without the profiler's cost. */
static int64_t surely_saved(const struct per_step *mean, bool is_single_process, int64_t wait_ns,
                            int64_t rest_ns, int64_t cpu_ns)
{
    rest_ns = rest_ns < mean->device_busy_ns ? mean->device_busy_ns : rest_ns;
    int64_t loader_ns = is_single_process ? wait_ns : ks_sum_add(wait_ns, rest_ns);
    int64_t limit_ns = loader_ns / 2 > rest_ns ? loader_ns / 2 : rest_ns;
    int64_t saved_ns = smaller(wait_ns, ks_sum_sub(ks_sum_add(wait_ns, rest_ns), limit_ns));
    if (!mean->has_gpu) {
        saved_ns -= cpu_ns;
    }
    return at_least_zero(saved_ns - HANDOVER_NS);
}

static struct ks_saving estimate(const struct per_step *mean, bool is_single_process)
{
    int64_t wait_ns = at_least_zero(mean->sure_ns - mean->loader_cost_ns);
    int64_t rest_ns = at_least_zero(mean->rest_ns - mean->rest_cost_ns);
    int64_t cpu_ns = at_least_zero(mean->loader_cpu_ns - mean->loader_cost_ns);
    return (struct ks_saving){surely_saved(mean, is_single_process, wait_ns, rest_ns, cpu_ns),
                              mean->idle_ns};
}

/* Where the step was timed without the profiler: what loading leaves of it is no more than the
 * recorded rest, and no less than the work of the device. */
static void fit_to_unprofiled(const struct per_step *mean, int64_t step_ns,
                              struct ks_saving *saving)
{
    int64_t least_ns = at_least_zero(step_ns - mean->rest_ns);
    int64_t most_ns = at_least_zero(step_ns - mean->device_busy_ns);
    saving->low_ns = smaller(saving->low_ns, least_ns);
    saving->high_ns = smaller(saving->high_ns > least_ns ? saving->high_ns : least_ns, most_ns);
}

static struct ks_saving estimate_in_trace(const struct per_step *mean, bool is_single_process)
{
    return (struct ks_saving){
        surely_saved(mean, is_single_process, mean->sure_ns, mean->rest_ns, mean->loader_cpu_ns),
        mean->idle_ns};
}

static bool is_half(double part, double whole)
{
    return whole > 0 && part >= whole / 2;
}

/* Part of the loader's time in which its thread ran or waited for a core, 0-1: the rest it waited
 * for something else. Below 0: not known. */
static double running_part(const struct ks_process_use *use)
{
    if (use->loader_ns == 0) {
        return -1;
    }
    double ran = (double)use->loader_cpu_ns / (double)use->loader_ns;
    double waits =
        use->thread_run_ns > 0 ? (double)use->thread_wait_ns / (double)use->thread_run_ns : 0;
    return ran * (1 + waits);
}

static const char *find_cause_of_one(const struct per_step *mean, const struct ks_process_use *use)
{
    bool is_collate = mean->collate_ns > mean->loader_cpu_ns / 2;
    if (is_half((double)mean->loader_cpu_ns, (double)mean->wait_ns)) {
        return is_collate ? "collate" : "decode";
    }
    if (is_collate && mean->collate_ns > mean->wait_ns / COLLATE_PART) {
        return "collate"; /* Python between its operators is a part of it */
    }
    return running_part(use) >= 0.5 ? "decode" : "storage";
}

/* Do the workers have the cores to themselves, and need them? */
static bool fill_cores(const struct ks_process_use *use)
{
    double used = use->wall_ns > 0 ? (double)use->worker_cpu_ns / (double)use->wall_ns : 0;
    return use->cores > 0 && used >= workers_cores_part * (double)ks_cpu_step_cores(use);
}

/* Of worker processes the trace shows nothing but that they were late; `kscope run` notes what they
 * used of the CPU. */
static const char *find_cause_of_workers(const struct per_step *mean,
                                         const struct ks_input_fact *input,
                                         const struct ks_process_use *use)
{
    int64_t waits_ns = ks_sum_scale(mean->idle_ns, (int64_t)input->step_count);
    if (input->step_count > STEPS_MIN && mean->first_wait_ns > waits_ns / 2) {
        return "worker_start";
    }
    if (is_half((double)mean->loader_cpu_ns, (double)mean->wait_ns) || running_part(use) >= 0.5) {
        return "ipc";
    }
    if (use->workers == 0 || use->wall_ns == 0) {
        return NULL;
    }
    double busy = ((double)use->worker_cpu_ns + (double)use->worker_wait_ns) /
                  (double)use->workers / (double)use->wall_ns;
    return busy >= 0.5 || fill_cores(use) ? "decode" : busy < 0.25 ? "storage" : NULL;
}

static const char *find_cause(const struct ks_facts *facts, const struct per_step *mean,
                              const struct ks_input_fact *input)
{
    const struct ks_process_use *use = &ks_trace_source(facts->trace, input->source)->process;
    return input->is_single_process ? find_cause_of_one(mean, use)
                                    : find_cause_of_workers(mean, input, use);
}

static int64_t workers_wanted(const struct per_step *mean)
{
    int64_t rest_ns = mean->rest_ns > 0 ? mean->rest_ns : 1;
    int64_t workers = mean->wait_ns / rest_ns + (mean->wait_ns % rest_ns != 0) + 1;
    workers = workers < WORKERS_MIN ? WORKERS_MIN : workers;
    return workers > WORKERS_MAX ? WORKERS_MAX : workers;
}

static bool is_cause(const char *cause, const char *name)
{
    return cause && strcmp(cause, name) == 0;
}

/* By which the workers are too few. */
static double factor_wanted(const struct per_step *mean)
{
    double factor = mean->rest_ns > 0 ? (double)mean->step_ns / (double)mean->rest_ns : 2.0;
    return factor > WORKERS_MAX ? (double)WORKERS_MAX : factor;
}

static const char *worker_advice(struct ks_findings *out, const struct per_step *mean,
                                 const char *cause)
{
    if (is_cause(cause, "worker_start")) {
        return "Keep the worker processes from one epoch to the next: the first batch of the "
               "recording waits for them to start.";
    }
    if (is_cause(cause, "ipc")) {
        return "The training process spends the wait receiving batches: hand over few large "
               "tensors instead of many objects, and pin them in the loader.";
    }
    if (mean->is_full) {
        return "The workers already use all cores: make what they do for a sample cheaper, do it "
               "once and keep the result, or use fewer threads in the training process.";
    }
    if (is_cause(cause, "storage")) {
        return ks_findings_text(out,
                                "The workers wait for storage: use about %.1f times as many, or "
                                "keep the data on a nearer disk, in fewer and larger files.",
                                factor_wanted(mean));
    }
    return ks_findings_text(out,
                            "The workers deliver too slowly: use about %.1f times as many, or make "
                            "what they do for a sample cheaper.",
                            factor_wanted(mean));
}

/* Cores that the workers of one rank may use; 0 unknown. */
static int64_t cores_of_rank(const struct ks_process_use *use)
{
    int64_t cores = ks_cpu_step_cores(use);
    int64_t ranks = use->local_ranks > 1 ? use->local_ranks : 1;
    return cores == 0 || cores > ranks ? cores / ranks : 1;
}

static void write_fix_of_one(struct ks_findings *out, const struct per_step *mean,
                             const struct ks_process_use *use, struct ks_finding *finding)
{
    int64_t wanted = workers_wanted(mean);
    int64_t cores = cores_of_rank(use);
    bool is_limited = cores > 0 && wanted > cores && !is_cause(finding->cause, "storage");
    const char *limit = cores == 0 ? ", if the machine has as many cores" : "";
    if (is_limited) {
        limit = ks_findings_text(out, ", but there are %lld cores for them only", (long long)cores);
    }
    const char *number =
        cores == 0 ? ks_findings_text(out, "min(%lld, os.cpu_count())", (long long)wanted)
                   : ks_findings_text(out, "%lld", (long long)(is_limited ? cores : wanted));
    if (!limit || !number) {
        return;
    }
    finding->fix_text = ks_findings_text(
        out,
        "Load batches in worker processes while the step runs: a batch takes %.1f ms to load "
        "and the rest of the step %.1f ms, so %lld workers keep up%s.",
        (double)mean->wait_ns / 1e6, (double)mean->rest_ns / 1e6, (long long)wanted, limit);
    finding->fix_code =
        ks_findings_text(out, "DataLoader(dataset, ..., num_workers=%s, persistent_workers=True%s)",
                         number, mean->has_gpu ? ", pin_memory=True" : "");
}

/* So many times the workers, but no more than cores when they compute. */
static int64_t more_workers(const struct per_step *mean, const char *cause,
                            const struct ks_process_use *use)
{
    int64_t most = is_cause(cause, "storage") ? 0 : cores_of_rank(use);
    double wanted = ceil(factor_wanted(mean) * (double)use->workers);
    most = most > 0 && most < WORKERS_SANE_MAX ? most : WORKERS_SANE_MAX;
    return wanted < (double)most ? (int64_t)wanted : most;
}

/* NULL: nothing about the loader's arguments helps. */
static const char *worker_code(struct ks_findings *out, const struct per_step *mean,
                               const char *cause, const struct ks_process_use *use)
{
    int64_t workers = more_workers(mean, cause, use);
    const char *pin = mean->has_gpu ? ", pin_memory=True" : "";
    if (is_cause(cause, "worker_start")) {
        return "DataLoader(dataset, ..., num_workers=num_workers, persistent_workers=True)";
    }
    if (is_cause(cause, "ipc")) {
        return "sample = torch.tensor(numbers)  # in the dataset: one tensor, not many objects";
    }
    if (use->workers == 0) {
        return ks_findings_text(out,
                                "DataLoader(dataset, ..., num_workers=min(%.0f * num_workers, "
                                "os.cpu_count()), persistent_workers=True%s, prefetch_factor=4)",
                                ceil(factor_wanted(mean)), pin);
    }
    return workers > use->workers
               ? ks_findings_text(out,
                                  "DataLoader(dataset, ..., num_workers=%lld, "
                                  "persistent_workers=True%s, prefetch_factor=4)",
                                  (long long)workers, pin)
               : NULL;
}

static void write_fix(struct ks_findings *out, const struct per_step *mean,
                      const struct ks_input_fact *input, const struct ks_process_use *use,
                      struct ks_finding *finding)
{
    if (input->is_single_process) {
        write_fix_of_one(out, mean, use, finding);
        return;
    }
    finding->fix_text = worker_advice(out, mean, finding->cause);
    finding->fix_code = mean->is_full ? NULL : worker_code(out, mean, finding->cause, use);
}

static void write_evidence(const struct ks_facts *facts, const struct per_step *mean,
                           const struct ks_input_fact *input, struct ks_finding *finding)
{
    const struct ks_evidence all[] = {
        {"input_wait", (double)mean->wait_ns, "ns"},
        {"input_idle_wait", (double)mean->idle_ns, "ns"},
        {"step", (double)mean->step_ns, "ns"},
        {"operators_in_loader", (double)mean->loader_cpu_ns, "ns"},
        {"collate", (double)mean->collate_ns, "ns"},
        {"recorder_cost_in_loader", (double)mean->loader_cost_ns, "ns"},
        {"recorder_cost_per_row", (double)facts->row_cost_ns, "ns"},
        {"steps", (double)input->step_count, "count"},
        {"batches", (double)input->batches, "count"},
    };
    ks_finding_show(finding, all, KS_COUNT_OF(all));
}

/* Why the steps of a rank cannot be judged, or NULL. */
static const char *obstacle(const struct ks_facts *facts, const struct ks_input_fact *input)
{
    struct ks_step_range range = facts->step_ranges[input->source];
    if (input->step_count < STEPS_MIN) {
        return "fewer than two complete steps were recorded";
    }
    if (facts->steps[range.begin].found_by == KS_STEPS_WINDOW) {
        return "no steps were found in the recording";
    }
    if (!input->has_loader) {
        return "no data loader was seen on the thread of the steps";
    }
    size_t with_work = 0;
    for (size_t i = range.begin; i < range.end; i++) {
        with_work += facts->steps[i].gpu_start_ns != KS_UNKNOWN;
    }
    if (facts->has_gpu && with_work < (range.end - range.begin + 1) / 2) {
        return "GPU work is recorded in less than half of the steps";
    }
    return NULL;
}

static bool is_starved(const struct ks_input_fact *input, int64_t middle_ns)
{
    return input->idle_wait_ns_total > 0 &&
           input->idle_wait_ns_total / WAIT_PERCENT_MIN >= input->step_ns_total / 100 &&
           (!input->is_single_process || middle_ns >= BATCH_NS);
}

static void note_rank(const struct ks_facts *facts, const struct ks_input_fact *input,
                      struct ks_finding *finding)
{
    int64_t rank = ks_trace_source(facts->trace, input->source)->rank;
    if (rank >= 0 && finding->rank_count < KS_FINDING_RANKS_MAX) {
        finding->ranks[finding->rank_count++] = rank;
    }
}

/* What the first complete step takes longer than the others besides waiting, a step on average. */
static int64_t starting_ns(const struct ks_facts *facts, const struct ks_input_fact *input)
{
    struct ks_step_range range = facts->step_ranges[input->source];
    int64_t first_ns = -1;
    int64_t others_ns = 0;
    int64_t others = 0;
    for (size_t i = range.begin; i < range.end; i++) {
        const struct ks_step *step = &facts->steps[i];
        int64_t rest_ns = step->dur_ns - step->input_wait_ns;
        if (!step->is_complete) {
            continue;
        }
        if (first_ns < 0) {
            first_ns = rest_ns;
        } else {
            others_ns = ks_sum_add(others_ns, rest_ns);
            others++;
        }
    }
    return others > 0 ? at_least_zero(first_ns - others_ns / others) / (others + 1) : 0;
}

/* What the training thread of a mean step waits for a core while workers use the CPU. */
static int64_t crowding_ns(const struct per_step *mean, const struct ks_process_use *use)
{
    int64_t ns = smaller(use->thread_wait_ns, use->worker_cpu_ns);
    double part = use->wall_ns > 0 ? (double)ns / (double)use->wall_ns : 0;
    return llround((part < 1 ? part : 1) * (double)mean->step_ns);
}

/* What a CPU run saves at most besides the wait. */
static int64_t besides_wait_ns(const struct ks_facts *facts, const struct ks_input_fact *input,
                               const struct per_step *mean, const char *cause)
{
    const struct ks_process_use *use = &ks_trace_source(facts->trace, input->source)->process;
    if (facts->has_gpu || input->is_single_process) {
        return 0;
    }
    return is_cause(cause, "worker_start") ? starting_ns(facts, input)
           : is_cause(cause, "ipc")        ? crowding_ns(mean, use)
                                           : 0;
}

static enum ks_status report(const struct ks_facts *facts, const struct ks_input_fact *input,
                             int64_t middle_ns, struct ks_finding *finding, struct ks_findings *out,
                             struct ks_err *err)
{
    const struct ks_process_use *use = &ks_trace_source(facts->trace, input->source)->process;
    struct per_step mean = divide(facts, input, middle_ns);
    finding->saving = estimate(&mean, input->is_single_process);
    finding->saving_in_trace = estimate_in_trace(&mean, input->is_single_process);
    int64_t unprofiled_ns = facts->sources[input->source].unprofiled_most_ns;
    if (mean.has_gpu && unprofiled_ns > 0) {
        fit_to_unprofiled(&mean, unprofiled_ns, &finding->saving);
    }
    mean.is_full = !input->is_single_process && fill_cores(use);
    if (mean.is_full) {
        finding->saving.low_ns = finding->saving_in_trace.low_ns = 0;
    }
    finding->cause = find_cause(facts, &mean, input);
    int64_t besides_ns = besides_wait_ns(facts, input, &mean, finding->cause);
    finding->saving.high_ns = ks_sum_add(finding->saving.high_ns, besides_ns);
    finding->saving_in_trace.high_ns = ks_sum_add(finding->saving_in_trace.high_ns, besides_ns);
    finding->title = mean.has_gpu ? "The GPU waits for the data loader"
                                  : "The training thread waits for the data loader";
    write_fix(out, &mean, input, use, finding);
    write_evidence(facts, &mean, input, finding);
    ks_findings_set_source(&finding->where, facts, input->source);
    ks_findings_set_time_place(&finding->where, facts, input->source, KS_TIME_DATA);
    finding->where.op = input->name;
    finding->verify = "kscope run train.py  # with the fix: input.starved must be gone";
    return ks_findings_add(out, facts, finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_input_fact *worst = NULL;
    const struct ks_input_fact *calm = NULL;
    int64_t worst_middle_ns = 0;
    const char *why_not = "no input was recorded";
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_input_starved);
    for (size_t i = 0; i < facts->input_count; i++) {
        const struct ks_input_fact *input = &facts->inputs[i];
        const char *here = obstacle(facts, input);
        if (here) {
            why_not = here;
            continue;
        }
        calm = input;
        int64_t middle_ns = 0;
        KS_TRY(middle_wait(facts, input, out, &middle_ns, err));
        if (!is_starved(input, middle_ns)) {
            continue;
        }
        note_rank(facts, input, &finding);
        bool is_worse = !worst || input->idle_wait_ns_total / (int64_t)input->step_count >
                                      worst->idle_wait_ns_total / (int64_t)worst->step_count;
        worst = is_worse ? input : worst;
        worst_middle_ns = is_worse ? middle_ns : worst_middle_ns;
    }
    if (worst) {
        return report(facts, worst, worst_middle_ns, &finding, out, err);
    }
    if (!calm) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = why_not;
        return KS_OK;
    }
    check->reason =
        ks_findings_text(out, "steps wait %.2f of %.2f ms for the next batch",
                         (double)calm->idle_wait_ns_total / (double)calm->step_count / 1e6,
                         (double)calm->step_ns_total / (double)calm->step_count / 1e6);
    return KS_OK;
}

const struct ks_rule ks_rule_input_starved = {
    .id = "input.starved",
    .title = "The compute device waits for the data loader",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
