#include "capture/shared/ticks.h"

#include <string.h>

#include "capture/shared/small_file.h"

enum { TRIES = 5, MEASURED_NS = 1000000, NS_KHZ = 1000000 };

bool ks_ticks_are_tsc(void)
{
#ifdef __x86_64__
    char text[16] = "";
    ks_small_file_read("/sys/devices/system/clocksource/clocksource0/current_clocksource", text,
                       sizeof(text));
    return strncmp(text, "tsc", 3) == 0 && (text[3] == '\n' || text[3] == '\0');
#else
    return false;
#endif
}

struct ks_wire_clock ks_ticks_triple(bool is_tsc)
{
    struct ks_wire_clock best = {0};
    uint64_t closest = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t before = ks_ticks(is_tsc);
        int64_t monotonic_ns = ks_clock_ns(CLOCK_MONOTONIC);
        int64_t unix_ns = ks_clock_ns(CLOCK_REALTIME);
        uint64_t took = ks_ticks(is_tsc) - before;
        if (took < closest) {
            closest = took;
            best = (struct ks_wire_clock){before + took / 2, monotonic_ns, unix_ns};
        }
    }
    return best;
}

uint32_t ks_ticks_khz(bool is_tsc)
{
    if (!is_tsc) {
        return NS_KHZ;
    }
    struct ks_wire_clock from = ks_ticks_triple(true);
    struct ks_wire_clock to = from;
    while (to.monotonic_ns - from.monotonic_ns < MEASURED_NS) {
        to = ks_ticks_triple(true);
    }
    uint64_t ticks = to.tick - from.tick;
    return (uint32_t)(ticks * 1000000 / (uint64_t)(to.monotonic_ns - from.monotonic_ns));
}
