/* Clocks as one number. */
#ifndef KS_LAUNCH_CLOCK_H
#define KS_LAUNCH_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of that clock. */
int64_t ks_clock_ns(clockid_t id);

#endif
