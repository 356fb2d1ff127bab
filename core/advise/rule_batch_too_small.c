/* Rule batch.too_small: kernels are too short and too few to keep the GPU busy, which a larger
 * batch would change at no cost.
 *
 * Claim: for at least half of the step the GPU idles while the host launches, as launch.bound
 * counts it, kernels (collectives apart) last less than 8 us on average, and fill less than 0.85 of
 * the multiprocessors while they run. A kernel for twice the batch then takes hardly longer, and as
 * many launches.
 *
 * Evidence: idle time by cause (docs/analyses/idle.md), duration and launch shapes of kernels
 * (docs/analyses/devices.md).
 *
 * Saving, per step of today's batch, after the repair of what other rules explain: replays of the
 * recorded steps in which launching takes half the time, as twice the batch shares the launches
 * (low), and none, as for a batch as large as memory allows (high). It is the same time that
 * launch.bound would save, and not added to that.
 *
 * Silent when: gpu_step.c sees an obstacle, or launch shapes were not recorded.
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"
#include "measure/sum.h"

enum { KERNEL_NS_MAX = 8 * 1000, LAUNCHES_MIN = 20, TIMES_MIN = 2, TIMES_MAX = 64 };

static const double idle_share_min = 0.5;
/* Recorded steps of small networks filled 0.2 to 0.84, with work enough 0.9 to 1. */
static const double fill_max = 0.85;

struct kernels {
    int64_t mean_ns;
    double fill; /* of the multiprocessors, while some device works; NaN unknown */
};

static struct kernels look_at(const struct ks_facts *facts)
{
    int64_t total_ns = 0;
    int64_t calls = 0;
    for (size_t i = 0; i < facts->kernel_count; i++) {
        const struct ks_kernel_fact *kernel = &facts->kernels[i];
        if (kernel->category == KS_CATEGORY_KERNEL && !kernel->is_communication) {
            total_ns = ks_sum_add(total_ns, kernel->total_ns);
            calls = ks_sum_add(calls, kernel->calls);
        }
    }
    return (struct kernels){.mean_ns = calls > 0 ? total_ns / calls : 0,
                            .fill = ks_gpu_step_fill(facts)};
}

/* Batches of so many times the size keep the GPU busy as long as the host takes to launch. */
static int64_t times_wanted(const struct ks_mean_step *mean)
{
    int64_t times = mean->busy_ns > 0 ? mean->step_ns / mean->busy_ns : TIMES_MAX;
    return times < TIMES_MIN ? TIMES_MIN : times > TIMES_MAX ? TIMES_MAX : times;
}

static enum ks_status report(const struct kernels *kernels, const struct ks_facts *facts,
                             struct ks_findings *out, struct ks_check *check, struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_batch_too_small);
    const struct ks_replay_change before = ks_gpu_step_repaired(facts);
    struct ks_replay_change sure = before;
    sure.launch_factor = before.launch_factor / 2;
    struct ks_replay_change most = before;
    most.launch_factor = 0;
    KS_TRY(ks_gpu_step_what_if(facts, &before, &sure, &most, &finding, err));
    if (!ks_gpu_step_is_gain(&finding, check)) {
        return KS_OK;
    }
    finding.group = ks_rule_launch_bound.id;
    finding.fix_text = ks_findings_text(
        out,
        "Give the GPU more to do with each launch: its %.0f kernels a step last %.1f us on average "
        "and fill %.0f %% of it, so that a larger batch costs next to nothing, as long as it "
        "trains as well (raise the learning rate with it) and fits into memory.",
        mean->launches, (double)kernels->mean_ns / 1e3, 100 * kernels->fill);
    finding.fix_code =
        ks_findings_text(out, "DataLoader(dataset, ..., batch_size=%lld * batch_size)",
                         (long long)times_wanted(mean));
    const struct ks_evidence evidence[] = {
        {"kernel_mean", (double)kernels->mean_ns, "ns"},
        {"filled", kernels->fill, "share"},
        {"launches_per_step", mean->launches, "count"},
        {"idle_launching", (double)ks_gpu_step_launching_ns(facts), "ns"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    if (!ks_gpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    struct kernels kernels = look_at(facts);
    if (!(kernels.fill >= 0)) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = "launch shapes of kernels were not recorded";
        return KS_OK;
    }
    int64_t idle_ns = ks_gpu_step_launching_ns(facts);
    if (mean->launches >= LAUNCHES_MIN && kernels.mean_ns < KERNEL_NS_MAX &&
        kernels.fill < fill_max && ks_gpu_step_is_share(mean, idle_ns, idle_share_min)) {
        return report(&kernels, facts, out, check, err);
    }
    check->reason = ks_findings_text(
        out,
        "kernels last %.1f us on average and fill %.0f %% of the GPU, which idles %.0f %% of "
        "the step for launches",
        (double)kernels.mean_ns / 1e3, 100 * kernels.fill,
        100 * (double)idle_ns / (double)(mean->step_ns > 0 ? mean->step_ns : 1));
    return KS_OK;
}

const struct ks_rule ks_rule_batch_too_small = {
    .id = "batch.too_small",
    .title = "The batch is too small to fill the GPU",
    .impact = KS_IMPACT_TIME,
    .is_consequence = true,
    .check = check,
};
