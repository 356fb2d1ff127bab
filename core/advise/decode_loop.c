#include "advise/decode_loop.h"

#include "advise/gpu_step.h"

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

bool ks_decode_loop_has_gap(const struct ks_facts *facts)
{
    int64_t gap_ns = facts->work.readings.gap_ns;
    struct ks_check check = {0};
    return gap_ns > 0 &&
           (double)gap_ns >= gap_share_min * (double)ks_gpu_step_real_ns(&facts->mean_step) &&
           ks_decode_loop_can_be(facts, &check);
}
