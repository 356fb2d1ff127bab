#include "advise/decode_loop.h"

#include <string.h>

static const double gap_share_min = 0.05;

/* The allocator rounds to 512 bytes, and no element is wider than fp32. */
enum { ELEMENT_BYTES_MAX = 4, ALLOCATION_STEP = 512 };

bool ks_decode_loop_can_be(const struct ks_facts *facts, struct ks_check *check)
{
    for (size_t i = 0; i < facts->source_count; i++) {
        if (facts->graphs[i].has_backward) {
            check->reason = "the steps train";
            return false;
        }
    }
    return true;
}

bool ks_decode_loop_explains_growth(const struct ks_facts *facts, int64_t bytes)
{
    const struct ks_cache_cost *caches = &facts->work.caches;
    return (double)bytes <=
           ELEMENT_BYTES_MAX * caches->new_elements + ALLOCATION_STEP * caches->cost.count;
}

void ks_decode_loop_set_steps(struct ks_where *where, const int64_t *steps, size_t count)
{
    _Static_assert((int)KS_COST_STEPS_MAX <= (int)KS_FINDING_STEPS_MAX, "all fit");
    memcpy(where->steps, steps, count * sizeof(*steps));
    where->step_count = count;
}

/* The step without the profiler, as far as that is known. */
static int64_t real_step_ns(const struct ks_mean_step *mean)
{
    return mean->unprofiled_ns > 0  ? mean->unprofiled_ns
           : mean->predicted_ns > 0 ? mean->predicted_ns
                                    : mean->step_ns;
}

bool ks_decode_loop_has_gap(const struct ks_facts *facts)
{
    int64_t gap_ns = facts->work.readings.gap_ns;
    struct ks_check check = {0};
    return gap_ns > 0 &&
           (double)gap_ns >= gap_share_min * (double)real_step_ns(&facts->mean_step) &&
           ks_decode_loop_can_be(facts, &check);
}
