#include "advise/crowded_cores.h"

#include "advise/cpu_step.h"

static const double waiting_share_min = 0.25;
static const double used_share_min = 0.60;
static const double own_share_min = 0.80; /* of what the machine does */
static const double preemptions_min = 20; /* a second, of each core */

bool ks_crowded_cores_are_known(const struct ks_facts *facts)
{
    for (uint32_t i = 0; i < facts->source_count; i++) {
        if (facts->sources[i].crowd.window_ns > 0) {
            return true;
        }
    }
    return false;
}

/* Other programs have so much of the machine that they may be what is waited for. */
static bool is_foreign(const struct ks_crowd_fact *crowd)
{
    double cores = (double)crowd->cores;
    return crowd->used_cores < used_share_min * cores ||
           crowd->used_cores < own_share_min * crowd->machine_cores;
}

static bool is_crowded(const struct ks_crowd_fact *crowd)
{
    double cores = (double)crowd->cores;
    return crowd->threads > cores && crowd->waiting_share >= waiting_share_min &&
           crowd->preemptions_per_s >= preemptions_min * cores;
}

static enum ks_status report(const struct ks_rule *rule, const struct ks_facts *facts,
                             uint32_t source, struct ks_findings *out, struct ks_err *err)
{
    const struct ks_crowd_fact *crowd = &facts->sources[source].crowd;
    struct ks_finding finding = ks_cpu_step_finding(rule, facts, source);
    finding.group = "cpu.cores";
    if (crowd->is_alone) {
        finding.impact = KS_IMPACT_RISK;
    } else {
        ks_cpu_step_set_savings(&finding, facts, source, 0, crowd->waiting_share);
    }
    finding.fix_text = ks_findings_text(
        out,
        "Use no more threads and workers than cores: some thread waits for one of %lld cores for "
        "%.0f%% of the time, while this program alone keeps %.1f of them busy and its threads "
        "push each other off %.0f times a second.",
        (long long)crowd->cores, 100.0 * crowd->waiting_share, crowd->used_cores,
        crowd->preemptions_per_s);
    finding.fix_code =
        ks_findings_text(out, "torch.set_num_threads(%lld)", (long long)crowd->cores);
    const struct ks_evidence evidence[] = {
        {"threads", crowd->threads, "count"},
        {"cores", (double)crowd->cores, "count"},
        {"cores_used", crowd->used_cores, "count"},
        {"cores_used_by_all", crowd->machine_cores, "count"},
        {"waiting_for_core", crowd->waiting_share, "share"},
        {"preemptions_per_s", crowd->preemptions_per_s, "count"},
        {"recorded", (double)crowd->window_ns, "ns"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    return ks_findings_add(out, facts, &finding, err);
}

static void explain(const struct ks_crowd_fact *crowd, struct ks_findings *out,
                    struct ks_check *check)
{
    check->reason = ks_findings_text(
        out, "some thread of the machine waits %.1f%% of the time for a core%s",
        100.0 * crowd->waiting_share,
        is_crowded(crowd) ? ", but other programs than this one have the cores" : "");
}

static bool can_judge(const struct ks_facts *facts, uint32_t source)
{
    const struct ks_crowd_fact *crowd = &facts->sources[source].crowd;
    return crowd->window_ns > 0 && (crowd->is_alone || ks_cpu_step_ns(facts, source) > 0);
}

enum ks_status ks_crowded_cores_check(const struct ks_rule *rule, const struct ks_facts *facts,
                                      struct ks_findings *out, struct ks_check *check,
                                      struct ks_err *err)
{
    const struct ks_crowd_fact *most = NULL;
    uint32_t most_source = 0;
    check->reason = facts->step_count > 0 ? ks_cpu_step_steps_obstacle(facts) : NULL;
    if (check->reason) {
        check->state = KS_CHECK_COULD_NOT;
        return KS_OK;
    }
    for (uint32_t i = 0; i < facts->source_count; i++) {
        const struct ks_crowd_fact *crowd = &facts->sources[i].crowd;
        if (can_judge(facts, i) && (!most || crowd->waiting_share > most->waiting_share)) {
            most = crowd;
            most_source = i;
        }
    }
    if (!most) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = "fewer than two complete steps were recorded";
    } else if (is_crowded(most) && !is_foreign(most)) {
        return report(rule, facts, most_source, out, err);
    } else {
        explain(most, out, check);
    }
    return KS_OK;
}
