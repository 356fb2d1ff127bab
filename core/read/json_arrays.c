#include "read/json_arrays.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_AVX2_FORM
#include <immintrin.h>
#endif

/* Behind an opening bracket, at a quote. */
static const char *scan_strings_scalar(const char *p)
{
    for (;;) {
        p = *p == '"' ? ks_scan_string(p + 1) : p;
        if (*p != '"') {
            return NULL;
        }
        p++;
        if (*p == ']') {
            return p + 1;
        }
        if (*p != ',') {
            return NULL;
        }
        p += p[1] == ' ' ? 2 : 1;
        if (*p != '"') {
            return NULL;
        }
    }
}

const char *ks_scan_array_scalar(const char *p)
{
    return p[1] == '"' ? scan_strings_scalar(p + 1) : ks_scan_numbers(p);
}

#ifdef HAS_AVX2_FORM
#define AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt")))

AVX2 static inline uint32_t equal(__m256i v, char c)
{
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(v, _mm256_set1_epi8(c)));
}

AVX2 static inline uint32_t below(__m256i v, char c)
{
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpgt_epi8(_mm256_set1_epi8(c), v));
}

/* Bit i: is the number of bits up to and with i odd? */
static inline uint32_t parity(uint32_t bits)
{
    bits ^= bits << 1;
    bits ^= bits << 2;
    bits ^= bits << 4;
    bits ^= bits << 8;
    return bits ^ bits << 16;
}

/* The k-th closing bracket closes the array when so many opened before it. */
AVX2 static const char *scan_numbers_avx2(const char *p)
{
    unsigned depth = 0;
    for (;;) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)p);
        uint32_t opens = equal(v, '[');
        uint32_t closes = equal(v, ']');
        /* ',', '-', '.', '/' and the digits are neighbours; two of them do not belong. */
        uint32_t plain =
            (below(v, '9' + 1) & ~below(v, ',') & ~equal(v, '.') & ~equal(v, '/')) | equal(v, ' ');
        uint32_t bad = ~(plain | opens | closes);
        for (uint32_t left = closes; left != 0; left = _blsr_u32(left)) {
            uint32_t before = _blsmsk_u32(left) >> 1;
            if (depth + (unsigned)_mm_popcnt_u32(opens & before) ==
                1 + (unsigned)_mm_popcnt_u32(closes & before)) {
                return (bad & before) == 0 ? p + _tzcnt_u32(left) + 1 : NULL;
            }
        }
        if (bad != 0) {
            return NULL;
        }
        depth += (unsigned)_mm_popcnt_u32(opens) - (unsigned)_mm_popcnt_u32(closes);
        p += 32;
    }
}

/* Each byte outside of strings says what may come next; a bit of `after_` at i means that the byte
 * at i follows such a one. */
AVX2 static const char *scan_strings_avx2(const char *p)
{
    uint32_t in_string = 0; /* all bits: the block begins inside */
    uint32_t after_close = 0;
    uint32_t after_comma = 0;
    uint32_t after_blank = 1; /* a string must come first */
    for (;;) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)p);
        uint32_t quotes = equal(v, '"');
        uint32_t inside = parity(quotes) ^ in_string; /* with the opening quote */
        uint32_t outside = ~(inside | quotes);
        uint32_t opening = quotes & inside;
        uint32_t closing = quotes & ~inside;
        uint32_t commas = equal(v, ',') & outside;
        uint32_t blanks = equal(v, ' ') & outside;
        uint32_t ends = equal(v, ']') & outside;
        uint32_t until = ends != 0 ? _blsmsk_u32(ends) : UINT32_MAX;
        after_close |= closing << 1;
        after_comma |= commas << 1;
        after_blank |= blanks << 1;
        uint32_t wrong = (after_close & ~(commas | ends)) | (after_comma & ~(opening | blanks)) |
                         (after_blank & ~opening) | equal(v, '\\') | below(v, 0x20);
        if ((wrong & until) != 0) {
            return NULL;
        }
        if (ends != 0) {
            return p + _tzcnt_u32(ends) + 1;
        }
        in_string = (uint32_t)((int32_t)inside >> 31);
        after_close = closing >> 31;
        after_comma = commas >> 31;
        after_blank = blanks >> 31;
        p += 32;
    }
}

AVX2 static const char *scan_array_avx2(const char *p)
{
    return p[1] == '"' ? scan_strings_avx2(p + 1) : scan_numbers_avx2(p);
}

ks_scan_array_cb ks_scan_array_choose(void)
{
    bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
    return has_avx2 ? scan_array_avx2 : ks_scan_array_scalar;
}
#else
ks_scan_array_cb ks_scan_array_choose(void)
{
    return ks_scan_array_scalar;
}
#endif
