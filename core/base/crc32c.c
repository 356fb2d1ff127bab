#include "base/crc32c.h"

#include <string.h>

enum { POLYNOMIAL_BITS = 8 };

/* Four bits at a time: 64 bytes of table, for machines without the instruction. */
static uint32_t half_byte(uint32_t crc)
{
    for (int i = 0; i < POLYNOMIAL_BITS / 2; i++) {
        crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78U : 0);
    }
    return crc;
}

uint32_t ks_crc32c_plain(uint32_t crc, const void *bytes, size_t size)
{
    uint32_t table[16];
    const unsigned char *at = bytes;
    for (uint32_t i = 0; i < KS_COUNT_OF(table); i++) {
        table[i] = half_byte(i);
    }
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= at[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

#ifdef __x86_64__
#include <immintrin.h>

KS_NO_COVERAGE __attribute__((target("sse4.2"))) static uint32_t crc32c_fast(uint32_t crc,
                                                                             const void *bytes,
                                                                             size_t size)
{
    const char *at = bytes;
    uint64_t sum = ~crc;
    for (; size >= sizeof(uint64_t); size -= sizeof(uint64_t), at += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, at, sizeof(word));
        sum = _mm_crc32_u64(sum, word);
    }
    for (; size > 0; size--, at++) {
        sum = _mm_crc32_u8((uint32_t)sum, (unsigned char)*at);
    }
    return ~(uint32_t)sum;
}

uint32_t ks_crc32c(uint32_t crc, const void *bytes, size_t size)
{
    return __builtin_cpu_supports("sse4.2") ? crc32c_fast(crc, bytes, size)
                                            : ks_crc32c_plain(crc, bytes, size);
}
#else
uint32_t ks_crc32c(uint32_t crc, const void *bytes, size_t size)
{
    return ks_crc32c_plain(crc, bytes, size);
}
#endif
