#include "analyze/work_costs.h"

/* Stretches of one thread hold one another at most a few deep: looked at behind the last one that
 * begins before a moment. */
enum { DEPTH_MAX = 16 };

unsigned ks_work_costs_marks(const struct ks_work_costs *work, uint32_t lane, int64_t ns)
{
    size_t begin = 0;
    size_t end = work->span_count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        const struct ks_work_span *span = &work->spans[middle];
        bool is_before = span->lane != lane ? span->lane < lane : span->from_ns <= ns;
        begin = is_before ? middle + 1 : begin;
        end = is_before ? end : middle;
    }
    unsigned marks = 0;
    for (size_t i = 0; i < DEPTH_MAX && begin > i; i++) {
        const struct ks_work_span *span = &work->spans[begin - 1 - i];
        if (span->lane != lane) {
            break;
        }
        marks |= ns < span->until_ns ? span->marks : 0;
    }
    return marks;
}
