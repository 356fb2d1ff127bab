/* What a mean step of each run was spent on: the parts of its breakdown, why the device idled, and
 * the phases. */
#include <math.h>

#include "base/err.h"
#include "compare/compare_impl.h"

/* As the keys of the report's steps. */
static const struct {
    enum ks_compare_group group;
    const char *name;
    size_t offset;
} kinds[] = {
#define PART(group, member, index, name)                                                           \
    {                                                                                              \
        group, name, offsetof(struct ks_step, member[index])                                       \
    }
    PART(KS_COMPARE_BREAKDOWN, breakdown_ns, KS_ROLE_KERNEL, "kernel"),
    PART(KS_COMPARE_BREAKDOWN, breakdown_ns, KS_ROLE_MEMCPY, "memcpy"),
    PART(KS_COMPARE_BREAKDOWN, breakdown_ns, KS_ROLE_MEMSET, "memset"),
    PART(KS_COMPARE_BREAKDOWN, breakdown_ns, KS_ROLE_COMMUNICATION, "communication"),
    PART(KS_COMPARE_BREAKDOWN, breakdown_ns, KS_ROLE_RUNTIME, "runtime"),
    PART(KS_COMPARE_BREAKDOWN, breakdown_ns, KS_ROLE_DATALOADER, "dataloader"),
    PART(KS_COMPARE_BREAKDOWN, breakdown_ns, KS_ROLE_CPU, "cpu"),
    PART(KS_COMPARE_BREAKDOWN, breakdown_ns, KS_ROLE_OTHER, "other"),
    PART(KS_COMPARE_IDLE, idle_by_cause_ns, KS_IDLE_DATA, "data"),
    PART(KS_COMPARE_IDLE, idle_by_cause_ns, KS_IDLE_SYNC, "sync"),
    PART(KS_COMPARE_IDLE, idle_by_cause_ns, KS_IDLE_HOST_CODE, "host_code"),
    PART(KS_COMPARE_IDLE, idle_by_cause_ns, KS_IDLE_LAUNCH, "launch"),
    PART(KS_COMPARE_IDLE, idle_by_cause_ns, KS_IDLE_ALLOCATOR, "allocator"),
    PART(KS_COMPARE_IDLE, idle_by_cause_ns, KS_IDLE_COLLECTIVE, "collective"),
    PART(KS_COMPARE_IDLE, idle_by_cause_ns, KS_IDLE_KERNEL_TO_KERNEL, "kernel_to_kernel"),
    PART(KS_COMPARE_IDLE, idle_by_cause_ns, KS_IDLE_PROFILER, "profiler"),
    PART(KS_COMPARE_IDLE, idle_by_cause_ns, KS_IDLE_UNKNOWN, "unknown"),
    PART(KS_COMPARE_PHASES, phases_ns, KS_PHASE_DATA, "data"),
    PART(KS_COMPARE_PHASES, phases_ns, KS_PHASE_TRANSFER, "transfer"),
    PART(KS_COMPARE_PHASES, phases_ns, KS_PHASE_FORWARD, "forward"),
    PART(KS_COMPARE_PHASES, phases_ns, KS_PHASE_LOSS, "loss"),
    PART(KS_COMPARE_PHASES, phases_ns, KS_PHASE_BACKWARD, "backward"),
    PART(KS_COMPARE_PHASES, phases_ns, KS_PHASE_OPTIMIZER, "optimizer"),
    PART(KS_COMPARE_PHASES, phases_ns, KS_PHASE_OTHER, "other"),
#undef PART
};

/* NaN without a step. */
static double mean_of(const struct ks_facts *facts, const double *weights, size_t offset)
{
    double sum = facts->step_count > 0 ? 0 : (double)NAN;
    for (size_t i = 0; i < facts->step_count; i++) {
        const char *member = (const char *)&facts->steps[i] + offset;
        sum += weights[i] * (double)*(const int64_t *)(const void *)member;
    }
    return sum;
}

enum ks_status ks_compare_parts(const struct ks_compare_input sides[KS_COMPARE_SIDES],
                                struct ks_comparison *out, struct ks_err *err)
{
    const struct ks_facts *a = sides[KS_COMPARE_A].facts;
    const struct ks_facts *b = sides[KS_COMPARE_B].facts;
    double *a_weights = NULL;
    double *b_weights = NULL;
    KS_TRY(ks_compare_weights(a, &a_weights, &out->arena, err));
    KS_TRY(ks_compare_weights(b, &b_weights, &out->arena, err));
    out->parts = ks_new(&out->arena, struct ks_compare_part, KS_COUNT_OF(kinds));
    if (!out->parts) {
        return ks_compare_no_memory(err);
    }
    for (size_t i = 0; i < KS_COUNT_OF(kinds); i++) {
        double a_ns = mean_of(a, a_weights, kinds[i].offset);
        double b_ns = mean_of(b, b_weights, kinds[i].offset);
        bool is_nothing = !(a_ns > 0) && !(b_ns > 0);
        if (!is_nothing) {
            out->parts[out->part_count++] =
                (struct ks_compare_part){kinds[i].group, kinds[i].name, a_ns, b_ns, b_ns - a_ns};
        }
    }
    return KS_OK;
}
