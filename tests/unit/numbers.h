/* Random numbers that are the same in each run: tests say which seed failed. */
#ifndef KS_TESTS_NUMBERS_H
#define KS_TESTS_NUMBERS_H

#include <stdint.h>

struct numbers {
    uint64_t state;
};

/* splitmix64, Steele, Lea and Flood 2014. */
static inline uint64_t numbers_next(struct numbers *numbers)
{
    uint64_t z = (numbers->state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static inline uint64_t numbers_below(struct numbers *numbers, uint64_t limit)
{
    return numbers_next(numbers) % limit;
}

#endif
