#include "analyze/step_lookup.h"

#include "analyze/lane_sweep.h"

size_t ks_step_lookup(const struct ks_step *steps, size_t count, int64_t ns)
{
    size_t begin = 0;
    size_t end = count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (steps[middle].host_start_ns <= ns) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    if (begin == 0) {
        return count;
    }
    const struct ks_step *step = &steps[begin - 1];
    return ns - step->host_start_ns < step->host_ns ? begin - 1 : count;
}

const struct ks_step *ks_step_lookup_host(const struct ks_facts *facts, uint32_t source, int64_t ns)
{
    if (!facts->step_ranges) {
        return NULL;
    }
    struct ks_step_range range = facts->step_ranges[source];
    size_t count = range.end - range.begin;
    size_t index = ks_step_lookup(facts->steps + range.begin, count, ns);
    return index < count ? &facts->steps[range.begin + index] : NULL;
}

uint32_t ks_step_lookup_thread(const struct ks_facts *facts, uint32_t source)
{
    struct ks_step_range range = facts->step_ranges[source];
    uint32_t wanted = range.begin < range.end ? facts->steps[range.begin].thread : 0;
    size_t count = 0;
    const struct ks_lane *lanes = ks_lane_sweep_lanes(facts->trace, KS_TABLE_slice, source, &count);
    uint32_t best = 0;
    uint64_t rows_max = 0;
    for (size_t i = 0; i < count; i++) {
        if (ks_trace_track(facts->trace, lanes[i].track)->kind != KS_TRACK_THREAD) {
            continue;
        }
        if (lanes[i].track == wanted) {
            return wanted;
        }
        uint64_t rows = lanes[i].row_end - lanes[i].row_begin;
        if (rows > rows_max) {
            best = lanes[i].track;
            rows_max = rows;
        }
    }
    return best;
}

bool ks_step_lookup_keeps_gpu(const struct ks_facts *facts, uint32_t device_track,
                              int64_t launch_ns)
{
    const struct ks_track *device = ks_trace_track(facts->trace, device_track);
    if (facts->scope.device_given && device->number != facts->scope.device) {
        return false;
    }
    if (!facts->scope.step_range_given) {
        return true;
    }
    if (launch_ns != KS_TIME_NONE) {
        return ks_step_lookup_host(facts, device->source, launch_ns) != NULL;
    }
    struct ks_step_range range = facts->step_ranges[device->source];
    return range.begin < range.end && facts->steps[range.begin].found_by == KS_STEPS_WINDOW;
}
