/* Rule optimizer.unfused: the optimizer launches kernels for each tensor, or for each operation,
 * where one fused kernel does all of it.
 *
 * Claim: Optimizer.step of a torch optimizer with a fused variant (Adam, AdamW, SGD) runs operators
 * for single tensors (foreach=False) or foreach operators, or that of any other optimizer runs
 * operators for single tensors; a fused (else foreach) step would make the step at least 5%
 * shorter.
 *
 * Evidence: operators inside of Optimizer.step that launch work (docs/analyses/op_work.md):
 * launches, tensors, time on the host and on the device.
 *
 * Saving, per step: replays of the recorded steps in which these stretches take a part of their
 * time on the host, and their work a part of its time on the device, by the table below: steps of
 * 24 and 300 tensors on an H100 (host: 300 tensors; device: tensors of 16 MB). A
 * program that the host limits gains launches, one that the GPU limits gains memory traffic: AdamW
 * reads and writes 20 values for each of the model in single operators, 21 by foreach, 7 fused; SGD
 * with momentum 8 and 5.
 *
 * Without a GPU: of Adam and AdamW, what stays of the time by the second table, which one
 * thread of a Xeon took for 300 tensors of 64 values up to 16 of a million, torch 2.13; low without
 * what recording the operators cost. SGD of large tensors gained nothing there, and foreach took
 * twice as long as single ones.
 *
 * Silent when: gpu_step.c sees an obstacle (without a GPU: too few steps, no steps), no step of an
 * optimizer launched work, or it is fused.
 */
#include "advise/cpu_step.h"
#include "advise/gpu_step.h"
#include "advise/registry.h"

static const double share_min = 0.05;

/* What stays of the time on the host and on the device: at least and at most. */
struct parts {
    const char *optimizer;
    enum ks_optimizer_kind kind;
    double host[2];
    double work[2];
};

static const struct parts fused[] = {
    {"AdamW", KS_OPTIMIZER_SINGLE, {0.04, 0.12}, {0.20, 0.45}},
    {"AdamW", KS_OPTIMIZER_FOREACH, {0.25, 0.45}, {0.30, 0.45}},
    {"Adam", KS_OPTIMIZER_SINGLE, {0.04, 0.12}, {0.20, 0.45}},
    {"Adam", KS_OPTIMIZER_FOREACH, {0.25, 0.45}, {0.30, 0.45}},
    {"SGD", KS_OPTIMIZER_SINGLE, {0.07, 0.30}, {0.50, 0.95}},
    {"SGD", KS_OPTIMIZER_FOREACH, {0.60, 0.95}, {0.60, 0.95}},
};

/* Without a GPU, where a fused step runs the same arithmetic, once over memory. */
static const struct parts fused_on_cpu[] = {
    {"AdamW", KS_OPTIMIZER_SINGLE, {0.09, 0.55}, {1, 1}},
    {"AdamW", KS_OPTIMIZER_FOREACH, {0.15, 0.35}, {1, 1}},
    {"Adam", KS_OPTIMIZER_SINGLE, {0.09, 0.55}, {1, 1}},
    {"Adam", KS_OPTIMIZER_FOREACH, {0.15, 0.35}, {1, 1}},
};

/* Of any other: foreach for single tensors (AdamW: 0.13 of the host's time; the device moves as
 * many bytes, in fewer and longer kernels). */
static const struct parts foreach_for_single = {
    "", KS_OPTIMIZER_SINGLE, {0.10, 0.30}, {0.50, 1.00}};

/* "AdamW" of "Optimizer.step#AdamW.step". */
static struct ks_str class_name(const struct ks_facts *facts)
{
    struct ks_str name = ks_trace_str(facts->trace, facts->work.optimizer.name);
    const char *hash = memchr(name.ptr, '#', name.len);
    if (!hash) {
        return (struct ks_str){0};
    }
    struct ks_str class = {hash + 1, (size_t)(name.ptr + name.len - hash) - 1};
    const char *dot = memchr(class.ptr, '.', class.len);
    class.len = dot ? (size_t)(dot - class.ptr) : class.len;
    return class;
}

/* The next number of a version, 0 at its end; moves behind the '.'. */
static int64_t next_number(struct ks_str *version)
{
    int64_t number = 0;
    while (version->len > 0 && version->ptr[0] >= '0' && version->ptr[0] <= '9' && number < 1000) {
        number = 10 * number + (version->ptr[0] - '0');
        version->ptr++;
        version->len--;
    }
    if (version->len > 0) {
        version->ptr++;
        version->len--;
    }
    return number;
}

/* Unknown versions count as new ones. */
static bool is_torch_2_from(const struct ks_facts *facts, int64_t minor)
{
    for (uint32_t i = 0; i < ks_trace_source_count(facts->trace); i++) {
        struct ks_str version =
            ks_trace_str(facts->trace, ks_trace_source(facts->trace, i)->torch_version);
        if (version.len == 0) {
            continue;
        }
        int64_t major = next_number(&version);
        if (major < 2 || (major == 2 && next_number(&version) < minor)) {
            return false;
        }
    }
    return true;
}

static const struct parts *find_in(const struct ks_facts *facts, const struct parts *list,
                                   size_t count)
{
    struct ks_str class = class_name(facts);
    for (size_t i = 0; i < count; i++) {
        if (list[i].kind == facts->work.optimizer.kind &&
            ks_str_equal(class, ks_str_from(list[i].optimizer))) {
            return &list[i];
        }
    }
    return NULL;
}

/* NULL: nothing better is known. SGD has a fused variant from torch 2.3 on, the CPU has them from
 * 2.4 on. */
static const struct parts *find_parts(const struct ks_facts *facts)
{
    if (!facts->has_gpu) {
        return is_torch_2_from(facts, 4) ? find_in(facts, fused_on_cpu, KS_COUNT_OF(fused_on_cpu))
                                         : NULL;
    }
    bool is_old_sgd = ks_str_equal(class_name(facts), KS_STR("SGD")) && !is_torch_2_from(facts, 3);
    const struct parts *parts = is_old_sgd ? NULL : find_in(facts, fused, KS_COUNT_OF(fused));
    bool is_single = facts->work.optimizer.kind == KS_OPTIMIZER_SINGLE;
    return !parts && is_single ? &foreach_for_single : parts;
}

struct ks_replay_shrink ks_optimizer_unfused_repair(const struct ks_facts *facts)
{
    const struct parts *parts = find_parts(facts);
    return parts ? (struct ks_replay_shrink){.marks = KS_REPLAY_OPTIMIZER,
                                             .host_part = (parts->host[0] + parts->host[1]) / 2,
                                             .work_part = (parts->work[0] + parts->work[1]) / 2}
                 : (struct ks_replay_shrink){0};
}

static struct ks_replay_change keep(const struct parts *parts, size_t end)
{
    struct ks_replay_change change = KS_REPLAY_UNCHANGED;
    change.shrinks[0] = (struct ks_replay_shrink){
        .marks = KS_REPLAY_OPTIMIZER, .host_part = parts->host[end], .work_part = parts->work[end]};
    return change;
}

/* Names come from the program, which may have optimizers of its own. */
static bool is_one_of_torch(struct ks_str class)
{
    static const char *const names[] = {"ASGD",  "Adadelta", "Adafactor", "Adagrad",
                                        "Adam",  "AdamW",    "Adamax",    "NAdam",
                                        "RAdam", "RMSprop",  "Rprop",     "SGD"};
    for (size_t i = 0; i < KS_COUNT_OF(names); i++) {
        if (ks_str_equal(class, ks_str_from(names[i]))) {
            return true;
        }
    }
    return false;
}

static void write_fix(const struct ks_facts *facts, const struct parts *parts,
                      struct ks_findings *out, struct ks_finding *finding)
{
    const struct ks_optimizer_cost *optimizer = &facts->work.optimizer;
    struct ks_str class = class_name(facts);
    bool is_single = optimizer->kind == KS_OPTIMIZER_SINGLE;
    bool can_fuse = parts != &foreach_for_single;
    bool is_torch = can_fuse || is_one_of_torch(class);
    const char *way = is_single ? "one tensor at a time" : "one operation at a time";
    finding->fix_text = ks_findings_text(
        out,
        "%s: %.*s works %s, with %.0f launches, %.2f ms of the host and %.2f ms of the GPU in each "
        "step.%s",
        can_fuse ? "Let one kernel update all tensors, with fused=True"
                 : "Update all tensors at once, with foreach=True or torch._foreach_ functions",
        (int)class.len, class.ptr, way, optimizer->cost.launches,
        (double)optimizer->cost.host_ns / 1e6, (double)optimizer->cost.device_ns / 1e6,
        can_fuse ? " It needs parameters and gradients on one GPU, in floating point." : "");
    finding->fix_code =
        is_torch
            ? ks_findings_text(out,
                               "optimizer = torch.optim.%.*s(model.parameters(), ..., %s=True)",
                               (int)class.len, class.ptr, can_fuse ? "fused" : "foreach")
            : "torch._foreach_mul_(averages, beta)           # all tensors of a kind in a list\n"
              "torch._foreach_add_(averages, grads, alpha=1 - beta)";
}

static enum ks_status report(const struct parts *parts, const struct ks_facts *facts,
                             struct ks_findings *out, struct ks_check *check, struct ks_err *err)
{
    const struct ks_optimizer_cost *optimizer = &facts->work.optimizer;
    struct ks_finding finding = ks_gpu_step_finding(&ks_rule_optimizer_unfused);
    const struct ks_replay_change before = KS_REPLAY_UNCHANGED;
    const struct ks_replay_change sure = keep(parts, 1);
    const struct ks_replay_change most = keep(parts, 0);
    KS_TRY(ks_gpu_step_what_if(facts, &before, &sure, &most, &finding, err));
    if (!ks_gpu_step_is_worth(facts, &finding, share_min)) {
        check->reason = ks_findings_text(
            out, "a fused optimizer would save %.2f to %.2f of %.2f ms a step",
            (double)finding.saving.low_ns / 1e6, (double)finding.saving.high_ns / 1e6,
            (double)facts->mean_step.step_ns / 1e6);
        return KS_OK;
    }
    write_fix(facts, parts, out, &finding);
    const struct ks_evidence evidence[] = {
        {"launches_per_step", optimizer->cost.launches, "count"},
        {"optimizer_on_host", (double)optimizer->cost.host_ns, "ns"},
        {"optimizer_on_device", (double)optimizer->cost.device_ns, "ns"},
        {"tensors", optimizer->tensors, "count"},
    };
    ks_finding_show(&finding, evidence,
                    optimizer->tensors > 0 ? KS_COUNT_OF(evidence) : KS_COUNT_OF(evidence) - 1);
    ks_gpu_step_set_work(&finding.where, facts, &optimizer->cost, optimizer->name);
    return ks_findings_add(out, facts, &finding, err);
}

/* ------------------------------------------------------------ without a GPU */

static void set_cpu_savings(const struct parts *parts, const struct ks_facts *facts,
                            struct ks_finding *finding)
{
    const struct ks_optimizer_cost *optimizer = &facts->work.optimizer;
    double step_ns = ks_cpu_step_mean_ns(facts);
    double all_ns = (double)optimizer->cost.host_ns;
    double rows_ns = optimizer->cost.count * optimizer->operators * (double)facts->row_cost_ns;
    double sure_ns = all_ns > rows_ns ? all_ns - rows_ns : 0;
    ks_cpu_step_set_savings(finding, facts, ks_cpu_step_first_source(facts),
                            sure_ns * (1 - parts->host[1]) / step_ns,
                            all_ns * (1 - parts->host[0]) / step_ns);
}

static enum ks_status report_on_cpu(const struct parts *parts, const struct ks_facts *facts,
                                    struct ks_findings *out, struct ks_check *check,
                                    struct ks_err *err)
{
    const struct ks_optimizer_cost *optimizer = &facts->work.optimizer;
    struct ks_finding finding =
        ks_cpu_step_finding(&ks_rule_optimizer_unfused, facts, ks_cpu_step_first_source(facts));
    struct ks_str class = class_name(facts);
    set_cpu_savings(parts, facts, &finding);
    if (!ks_cpu_step_is_worth(facts, &finding, share_min)) {
        check->reason = ks_findings_text(out, "a fused optimizer would save %.2f to %.2f ms a step",
                                         (double)finding.saving.low_ns / 1e6,
                                         (double)finding.saving.high_ns / 1e6);
        return KS_OK;
    }
    finding.title = "The optimizer runs many small operators";
    finding.fix_text = ks_findings_text(
        out,
        "Let one operator update all tensors, with fused=True: %.*s works one %s at a time, with "
        "%.0f operators and %.2f ms in each step.",
        (int)class.len, class.ptr, optimizer->kind == KS_OPTIMIZER_SINGLE ? "tensor" : "operation",
        optimizer->operators, (double)optimizer->cost.host_ns / 1e6);
    finding.fix_code =
        ks_findings_text(out, "optimizer = torch.optim.%.*s(model.parameters(), ..., fused=True)",
                         (int)class.len, class.ptr);
    const struct ks_evidence evidence[] = {
        {"operators", optimizer->operators, "count"},
        {"optimizer_on_host", (double)optimizer->cost.host_ns, "ns"},
        {"tensors", optimizer->tensors, "count"},
    };
    ks_finding_show(&finding, evidence,
                    optimizer->tensors > 0 ? KS_COUNT_OF(evidence) : KS_COUNT_OF(evidence) - 1);
    ks_gpu_step_set_work(&finding.where, facts, &optimizer->cost, optimizer->name);
    return ks_findings_add(out, facts, &finding, err);
}

static enum ks_status check(const struct ks_facts *facts, struct ks_findings *out,
                            struct ks_check *check, struct ks_err *err)
{
    bool can_judge =
        facts->has_gpu ? ks_gpu_step_can_judge(facts, check) : ks_cpu_step_can_judge(facts, check);
    if (!can_judge) {
        return KS_OK;
    }
    const struct ks_optimizer_cost *optimizer = &facts->work.optimizer;
    const struct parts *parts = find_parts(facts);
    if (parts) {
        return facts->has_gpu ? report(parts, facts, out, check, err)
                              : report_on_cpu(parts, facts, out, check, err);
    }
    struct ks_str class = class_name(facts);
    check->reason =
        optimizer->kind == KS_OPTIMIZER_NONE ? "no Optimizer.step that does work was recorded"
        : optimizer->kind == KS_OPTIMIZER_FUSED
            ? "the optimizer is fused"
            : ks_findings_text(out,
                               facts->has_gpu
                                   ? "%.*s has no fused variant"
                                   : "nothing surely makes a step of %.*s shorter without a GPU",
                               (int)class.len, class.ptr);
    return KS_OK;
}

const struct ks_rule ks_rule_optimizer_unfused = {
    .id = "optimizer.unfused",
    .title = "The optimizer launches many small kernels",
    .impact = KS_IMPACT_TIME,
    .hinders_graphs = true, /* it reads its step counters on the host, and what remains is fewer */
    .check = check,
};
