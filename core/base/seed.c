#include "base/seed.h"

#include <stdatomic.h>
#include <sys/random.h>
#include <time.h>

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
/* Each map asks for one, and asking the system took a twentieth of an execution. Other ones each
 * time, so that two readings of an input still differ in them. */
uint64_t ks_seed_random(void)
{
    static _Atomic uint64_t count;
    return (atomic_fetch_add(&count, 1) + 1) * 0x9E3779B97F4A7C15u;
}
#else
uint64_t ks_seed_random(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed)) {
        struct timespec now = {0};
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        seed = (uint64_t)now.tv_nsec * 0x9E3779B97F4A7C15u ^ (uint64_t)(uintptr_t)&seed;
    }
    return seed;
}
#endif
