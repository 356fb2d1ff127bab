/* Rule cpu.numa: the thread that gives the GPU its work runs on another node of the machine than
 * the one that the GPU is attached to.
 *
 * Claim: at both ends of the window the thread of the steps ran on a node from which the GPU's is
 * farther than itself, and the GPU idles for the host so long that a nearer thread may make the
 * step 5% shorter.
 *
 * Evidence: what `kscope run` noted of the machine: the distance of both nodes, as the kernel and
 * the firmware tell it (10: the same node; 20: memory there answers in twice the time). Idle time
 * by cause (docs/analyses/idle.md).
 *
 * Saving, per step: low is nothing, since nobody can tell from outside what waits for memory. High
 * takes 0.3 of the host's part of the idle time for waiting, which is what programs that follow
 * pointers do, and from the near node it takes 10 / distance of that.
 *
 * Silent when: the trace does not come from `kscope run`, no GPU was used, the machine has one node
 * or does not say where the GPU is, or gpu_step.c sees an obstacle.
 */
#include "advise/cpu_step.h"
#include "advise/gpu_step.h"
#include "advise/registry.h"

enum { DISTANCE_SAME = 10 };

static const double share_min = 0.05;
static const double waiting_part = 0.3;

static int64_t most_saved_ns(const struct ks_facts *facts, int64_t distance)
{
    double nearer = 1 - (double)DISTANCE_SAME / (double)distance;
    return ks_gpu_step_part(ks_gpu_step_host_idle_ns(&facts->mean_step), waiting_part * nearer);
}

static enum ks_status report(const struct ks_facts *facts, uint32_t source, struct ks_findings *out,
                             struct ks_err *err)
{
    const struct ks_process_use *use = &ks_trace_source(facts->trace, source)->process;
    struct ks_finding finding = ks_cpu_step_finding(&ks_rule_cpu_numa, facts, source);
    long long node = (long long)use->numa_node;
    finding.saving = (struct ks_saving){0, most_saved_ns(facts, use->numa_distance)};
    finding.saving_in_trace = finding.saving;
    finding.fix_text = ks_findings_text(
        out,
        "Keep the program and its memory on node %lld, where its GPU is: the thread of the steps "
        "runs on another one, from which memory and the GPU answer later (distance %lld, and 10 "
        "to its own).",
        node, (long long)use->numa_distance);
    finding.fix_code = ks_findings_text(
        out,
        "# numactl --cpunodebind=%lld --membind=%lld python train.py; or, before torch is "
        "imported:\n"
        "os.sched_setaffinity(0, cores)  # those of node%lld/cpulist in /sys/devices/system/node",
        node, node, node); /* of several ranks each needs its own */
    finding.verify = "kscope run train.py  # under numactl: the finding must be gone";
    const struct ks_evidence evidence[] = {
        {"distance", (double)use->numa_distance, "count"},
        {"idle_of_host", (double)ks_gpu_step_host_idle_ns(&facts->mean_step), "ns"},
        {"step", (double)facts->mean_step.step_ns, "ns"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    return ks_findings_add(out, facts, &finding, err);
}

/* The rank whose thread is farthest from its GPU; UINT32_MAX: no distance is known. */
static uint32_t farthest(const struct ks_facts *facts)
{
    uint32_t found = UINT32_MAX;
    int64_t most = 0;
    for (uint32_t i = 0; i < ks_trace_source_count(facts->trace); i++) {
        int64_t distance = ks_trace_source(facts->trace, i)->process.numa_distance;
        if (distance > most) {
            found = i;
            most = distance;
        }
    }
    return found;
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const char *why_not = ks_cpu_step_obstacle(facts);
    uint32_t source = farthest(facts);
    why_not = why_not                ? why_not
              : !facts->has_gpu      ? "no GPU was used"
              : source == UINT32_MAX ? "the recording does not tell on which node the GPU is"
                                     : NULL;
    if (why_not) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = why_not;
        return KS_OK;
    }
    int64_t distance = ks_trace_source(facts->trace, source)->process.numa_distance;
    if (distance <= DISTANCE_SAME) {
        check->reason = "the thread of the steps runs on the node of its GPU";
        return KS_OK;
    }
    if (ks_gpu_step_is_share(&facts->mean_step, most_saved_ns(facts, distance), share_min)) {
        return report(facts, source, out, err);
    }
    check->reason = ks_findings_text(
        out, "the GPU is on another node, but idles for the host %.2f of %.2f ms a step only",
        (double)ks_gpu_step_host_idle_ns(&facts->mean_step) / 1e6,
        (double)facts->mean_step.step_ns / 1e6);
    return KS_OK;
}

const struct ks_rule ks_rule_cpu_numa = {
    .id = "cpu.numa",
    .title = "The program runs on another node than its GPU",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
