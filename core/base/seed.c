#include "base/seed.h"

#include <sys/random.h>
#include <time.h>

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
