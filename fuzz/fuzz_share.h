/* Chooses by its bytes which inputs a target looks at more closely than it can at all of them: an
 * input is treated the same each time, so what it found is found again. In a replay, which a corpus
 * goes through once, all are chosen. */
#ifndef KS_FUZZ_SHARE_H
#define KS_FUZZ_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static inline bool fuzz_is_chosen(const uint8_t *data, size_t size, uint64_t one_in)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    return XXH3_64bits(data, size) % one_in == 0;
#else
    (void)data;
    (void)size;
    (void)one_in;
    return true;
#endif
}

#endif
