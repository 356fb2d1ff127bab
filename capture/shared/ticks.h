/* The clock of a recording: the time stamp counter where it runs evenly, else CLOCK_MONOTONIC. */
#ifndef KS_CAPTURE_SHARED_TICKS_H
#define KS_CAPTURE_SHARED_TICKS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "wire/recording.h"

static inline int64_t ks_clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline uint64_t ks_ticks(bool is_tsc)
{
#ifdef __x86_64__
    if (is_tsc) {
        return __builtin_ia32_rdtsc();
    }
#endif
    return (uint64_t)ks_clock_ns(CLOCK_MONOTONIC);
}

/* Does the kernel itself keep time by the counter, which means that it trusts it? */
bool ks_ticks_are_tsc(void);
/* Measured in about a millisecond; 1000000 (ns) where ticks are no counter's. */
uint32_t ks_ticks_khz(bool is_tsc);
/* All three clocks at one moment: the tick is the middle of two, as close as a few tries come. */
struct ks_wire_clock ks_ticks_triple(bool is_tsc);

#endif
