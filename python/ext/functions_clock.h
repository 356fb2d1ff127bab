/* Ticks for the function profiler: those of the recording when there is one, so that its nodes are
 * on the clock of everything else in it; else the time stamp counter where the kernel trusts it. */
#ifndef KS_PYTHON_FUNCTIONS_CLOCK_H
#define KS_PYTHON_FUNCTIONS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t ks_functions_monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t ks_functions_tick(bool is_tsc)
{
#ifdef __x86_64__
    if (__builtin_expect(is_tsc, 1)) {
        return __builtin_ia32_rdtsc();
    }
#endif
    (void)is_tsc;
    return ks_functions_monotonic_ns();
}

/* Remembers when this module was loaded; the longer ago, the better is the rate below. */
void ks_functions_clock_init(void);
/* Whether the kernel itself takes its time from the counter. */
bool ks_functions_clock_is_tsc(void);
double ks_functions_seconds_per_tick(bool is_tsc);

#endif
