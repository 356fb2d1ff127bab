#include "launch/clock.h"

int64_t ks_clock_ns(clockid_t id)
{
    struct timespec now;
    (void)clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
