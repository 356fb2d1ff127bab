/* Rule gpu.throttled: heat or a shortage of power holds the clock of a GPU down.
 *
 * Claim: heat, the machine's supply, or a limit of power below that of the board holds the clock of
 * a working GPU back, so that kernels at the highest clock would make the step at least 5% shorter.
 *
 * Evidence: what the driver (NVML) told the monitor of `kscope run`, about once a second while the
 * GPU worked: its clock, the highest one, and what holds it back. LOOKS_MIN of them at least: fewer
 * may all be of one moment. The board's own limit of power counts for nothing: products on tensor
 * cores reach it in healthy programs, and nobody can raise it.
 *
 * Saving, per step: high is a replay of the recorded steps in which kernels take less of their time
 * by the mean of 1 - clock / highest clock, 0 where nothing held it back; where the host limits the
 * steps, that gains nothing. Low is nothing: kernels that wait for memory gain nothing by a higher
 * clock, and at a higher clock something else may hold it back. Of several ranks the one that loses
 * most counts, as the others wait for it.
 *
 * Silent when: gpu_step.c sees an obstacle, the trace does not come from `kscope run`, the monitor
 * could not ask the driver, or did so too seldom. */
#include "advise/gpu_step.h"
#include "advise/registry.h"

enum { LOOKS_MIN = 5 };

static const double share_min = 0.05;

static bool is_limit_lowered(const struct ks_clock_use *use)
{
    return use->power_limit_mw > 0 && use->power_limit_mw < use->power_default_mw;
}

static bool counts(const struct ks_clock_use *use, int hold)
{
    return hold != KS_CLOCK_POWER_CAP || is_limit_lowered(use);
}

/* Part of the clock that is lost, 0-1. */
static double lost_share(const struct ks_clock_use *use)
{
    double ppm = 0;
    for (int hold = 0; hold < KS_CLOCK_HOLDS; hold++) {
        ppm += counts(use, hold) ? (double)use->lost_ppm[hold] : 0;
    }
    return ppm < 1e6 ? ppm / 1e6 : 1;
}

static enum ks_clock_hold worst_hold(const struct ks_clock_use *use)
{
    int worst = KS_CLOCK_HEAT;
    for (int hold = 0; hold < KS_CLOCK_HOLDS; hold++) {
        worst = counts(use, hold) && use->lost_ppm[hold] > use->lost_ppm[worst] ? hold : worst;
    }
    return (enum ks_clock_hold)worst;
}

static void explain(const struct ks_clock_use *use, struct ks_findings *out,
                    struct ks_finding *finding)
{
    enum ks_clock_hold hold = worst_hold(use);
    double share = 100.0 * (double)use->held[hold] / (double)use->looks;
    long long mhz = (long long)use->mhz;
    long long mhz_max = (long long)use->mhz_max;
    if (hold == KS_CLOCK_HEAT) {
        finding->cause = "heat";
        finding->fix_text = ks_findings_text(
            out,
            "Cool the GPU: in %.0f%% of %lld looks heat (%lld C at most) holds its clock down, to "
            "%lld of %lld MHz on average. Look at fans, filters, the air that comes in, and at "
            "what "
            "works beside it.",
            share, (long long)use->looks, (long long)use->temperature_c_max, mhz, mhz_max);
        finding->fix_code = "import os\nos.system(\"nvidia-smi -q -d TEMPERATURE,PERFORMANCE\")";
    } else if (hold == KS_CLOCK_POWER_CAP) {
        finding->cause = "power_limit";
        finding->fix_text =
            ks_findings_text(out,
                             "Raise the limit of power: it is %.0f W where the board has %.0f W, "
                             "and in %.0f%% of %lld "
                             "looks it holds the clock down, to %lld of %lld MHz on average.",
                             (double)use->power_limit_mw / 1e3, (double)use->power_default_mw / 1e3,
                             share, (long long)use->looks, mhz, mhz_max);
        finding->fix_code = ks_findings_text(out,
                                             "import os\nos.system(\"nvidia-smi -q -d POWER\")  # "
                                             "sudo nvidia-smi -pl %.0f raises it",
                                             (double)use->power_default_mw / 1e3);
    } else {
        finding->cause = hold == KS_CLOCK_BRAKE ? "power_brake" : "hardware";
        finding->fix_text = ks_findings_text(out,
                                             "Look after the machine's supply of power: in %.0f%% "
                                             "of %lld looks the hardware slows the "
                                             "GPU down by itself, to %lld of %lld MHz on average, "
                                             "as it does when supplies or cables "
                                             "give less than they should, or when it gets too hot.",
                                             share, (long long)use->looks, mhz, mhz_max);
        finding->fix_code =
            "import os\nos.system(\"nvidia-smi -q -d POWER,TEMPERATURE,PERFORMANCE\")";
    }
}

/* Of a higher clock; nothing is sure. */
static enum ks_status set_savings(const struct ks_facts *facts, const struct ks_clock_use *use,
                                  struct ks_finding *finding, struct ks_err *err)
{
    struct ks_replay_change after = KS_REPLAY_UNCHANGED;
    after.shrinks[0] = (struct ks_replay_shrink){.marks = KS_REPLAY_FP32 | KS_REPLAY_NOT_FP32 |
                                                          KS_REPLAY_FP32_ANYWAY,
                                                 .host_part = 1,
                                                 .work_part = 1 - lost_share(use)};
    KS_TRY(ks_gpu_step_what_if_device(facts, &after, &after, finding, err));
    finding->saving.low_ns = finding->saving_in_trace.low_ns = 0;
    return KS_OK;
}

static enum ks_status report(const struct ks_facts *facts, uint32_t source, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_clock_use *use = &ks_trace_source(facts->trace, source)->clocks;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_gpu_throttled);
    KS_TRY(set_savings(facts, use, &finding, err));
    if (!ks_gpu_step_is_share(&facts->mean_step, finding.saving.high_ns, share_min)) {
        check->reason = "the clock is held down, but a higher one would save less than 5 %";
        return KS_OK;
    }
    int64_t held = 0;
    for (int hold = 0; hold < KS_CLOCK_HOLDS; hold++) {
        held += counts(use, hold) ? use->held[hold] : 0;
    }
    ks_findings_set_source(&finding.where, facts, source);
    explain(use, out, &finding);
    finding.verify = "kscope run train.py  # with the fix: the finding must be gone";
    const struct ks_evidence evidence[] = {
        {"looks", (double)use->looks, "count"},
        {"held_back", (double)held / (double)use->looks, "share"},
        {"clock", (double)use->mhz / (double)use->mhz_max, "share"},
        {"clock_lost", lost_share(use), "share"},
        {"busy", (double)facts->mean_step.busy_ns, "ns"},
        {"temperature_max", (double)use->temperature_c_max, "celsius"},
        {"power", (double)use->power_mw / 1e3, "watts"},
        {"power_limit", (double)use->power_limit_mw / 1e3, "watts"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    return ks_findings_add(out, facts, &finding, err);
}

static const char *reason_of(const struct ks_clock_use *use, struct ks_findings *out)
{
    double cap = (double)use->lost_ppm[KS_CLOCK_POWER_CAP] / 1e4;
    if (cap >= 100 * share_min && !is_limit_lowered(use)) {
        return ks_findings_text(out,
                                "the board's own limit of power takes %.0f%% of the clock, as "
                                "products on tensor cores do",
                                cap);
    }
    return ks_findings_text(out, "heat and power take %.1f%% of the clock", 100 * lost_share(use));
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    uint32_t worst = UINT32_MAX;
    const struct ks_clock_use *most = NULL;
    if (!ks_gpu_step_can_judge(facts, check)) {
        return KS_OK;
    }
    for (uint32_t i = 0; i < ks_trace_source_count(facts->trace); i++) {
        const struct ks_clock_use *use = &ks_trace_source(facts->trace, i)->clocks;
        if (use->looks >= LOOKS_MIN && (!most || lost_share(use) > lost_share(most))) {
            most = use;
            worst = i;
        }
    }
    if (!most) {
        check->state = KS_CHECK_COULD_NOT;
        check->reason = "the driver was not asked for clocks (kscope run does so) often enough";
        return KS_OK;
    }
    int64_t lost_ns = ks_gpu_step_part(facts->mean_step.busy_ns, lost_share(most));
    if (ks_gpu_step_is_share(&facts->mean_step, lost_ns, share_min)) {
        return report(facts, worst, out, check, err);
    }
    check->reason = reason_of(most, out);
    return KS_OK;
}

const struct ks_rule ks_rule_gpu_throttled = {
    .id = "gpu.throttled",
    .title = "Heat or a shortage of power holds the clock of a GPU down",
    .impact = KS_IMPACT_TIME,
    .check = check,
};
