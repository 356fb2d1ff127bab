/* Rule device.round_trip: tensors go to the CPU inside the step, are worked on there and come back.
 *
 * Claim: at least once a step a whole tensor is copied to the host, operators or numpy work on it
 * there, and a result is copied back, while the GPU idles for at least 3% of the step.
 *
 * Evidence: pairs of copies with operators on the host between them whose input shapes lead from
 * one to the other, or with a way into numpy and back (docs/analyses/round_trips.md), idle time
 * between the copies.
 *
 * Saving, per step: replays of the recorded steps without the operators from the one that brings
 * the tensor to the one that takes the result back. High: and without the time between them. Low:
 * less what the same operators take the host when they launch their work on the GPU: a quarter of
 * what they and numpy take, at least 30 us for each operator.
 *
 * Silent when: gpu_step.c sees an obstacle (too few steps, no steps, no GPU work), or input shapes
 * were not recorded.
 */
#include "advise/gpu_step.h"
#include "advise/registry.h"

/* What an operator takes the host on the GPU is 5 to 50 us in traces. */
enum { LAUNCH_NS = 30 * 1000 };

static const double share_min = 0.03;
static const double repaired_share_min = 0.25;

/* What the same operators take the host when they launch their work on the GPU. */
static int64_t launching_ns(const struct ks_trip_cost *trips)
{
    int64_t launching_ns = ks_gpu_step_part(LAUNCH_NS, trips->operators);
    int64_t part_ns = ks_gpu_step_part(trips->work_ns, repaired_share_min);
    return launching_ns > part_ns ? launching_ns : part_ns;
}

static void take(int64_t *ns, int64_t taken_ns)
{
    *ns = *ns > taken_ns ? *ns - taken_ns : 0;
}

static enum ks_status set_savings(const struct ks_facts *facts, struct ks_finding *finding,
                                  struct ks_err *err)
{
    const unsigned most = KS_REPLAY_ROUND_TRIP | KS_REPLAY_BETWEEN;
    KS_TRY(ks_gpu_step_what_if_dropped(facts, KS_REPLAY_ROUND_TRIP, most, finding, err));
    int64_t remains_ns = launching_ns(&facts->mean_step.trips);
    take(&finding->saving.low_ns, remains_ns);
    take(&finding->saving_in_trace.low_ns, remains_ns);
    return KS_OK;
}

static void write_place(const struct ks_facts *facts, const struct ks_round_trip *trip,
                        struct ks_finding *finding)
{
    struct ks_where *where = &finding->where;
    where->op = trip->op;
    ks_findings_set_rank(where, facts, trip->source);
    ks_findings_set_steps(where, trip->steps, trip->step_count);
    if (trip->site && trip->site->place) {
        where->file = trip->site->place->file;
        where->line = trip->site->place->line;
    }
}

/* Who works on the tensors most. */
static struct ks_str worker_of(const struct ks_facts *facts, const struct ks_round_trip *trip)
{
    return trip->operators > 0 ? ks_trace_str(facts->trace, trip->longest)
                               : KS_STR("numpy, or other code behind .numpy(),");
}

static enum ks_status report(const struct ks_facts *facts, struct ks_findings *out,
                             struct ks_check *check, struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    const struct ks_trip_cost *trips = &mean->trips;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_device_round_trip);
    KS_TRY(set_savings(facts, &finding, err));
    if (!ks_gpu_step_is_gain(&finding, check)) {
        return KS_OK;
    }
    struct ks_str op = worker_of(facts, trips->worst);
    finding.fix_text = ks_findings_text(
        out,
        "Do it on the GPU: %.2f MB a step go to the CPU and %.2f MB come back; %.*s and what else "
        "works on them there takes %.2f ms. Leave out .cpu() and .to(), and use operators of "
        "torch: "
        "they run where their tensors are.",
        trips->bytes_down / 1e6, trips->bytes_up / 1e6, (int)op.len, op.ptr,
        (double)trips->work_ns / 1e6);
    finding.fix_code =
        "best = scores.topk(5).indices  # not scores.cpu().topk(5).indices.to(device)";
    const struct ks_evidence evidence[] = {
        {"trips_per_step", trips->count, "count"},        {"to_host", trips->bytes_down, "bytes"},
        {"to_device", trips->bytes_up, "bytes"},          {"on_host", (double)trips->work_ns, "ns"},
        {"idle_meanwhile", (double)trips->idle_ns, "ns"}, {"copying", (double)trips->copy_ns, "ns"},
    };
    ks_finding_show(&finding, evidence, KS_COUNT_OF(evidence));
    write_place(facts, trips->worst, &finding);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    const struct ks_mean_step *mean = &facts->mean_step;
    if (!ks_gpu_step_can_judge_shapes(facts, check)) {
        return KS_OK;
    }
    int64_t idle_ns = ks_gpu_step_trips_ns(mean);
    if (idle_ns > 0 && ks_gpu_step_is_share(mean, idle_ns, share_min)) {
        return report(facts, out, check, err);
    }
    check->reason = ks_findings_text(
        out, "%.1f round trips a step were seen, in which the GPU idles %.2f of %.2f ms",
        mean->trips.count, (double)mean->trips.idle_ns / 1e6, (double)mean->step_ns / 1e6);
    return KS_OK;
}

const struct ks_rule ks_rule_device_round_trip = {
    .id = "device.round_trip",
    .title = "Tensors go to the CPU and back inside the step",
    .impact = KS_IMPACT_TIME,
    .hinders_graphs = true,
    .check = check,
};
