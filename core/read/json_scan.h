/* Vector steps of the JSON reader. Each has a scalar twin, chosen where SSE2 is missing and
 * compared with it in tests/unit/test_json_scan.c. Both may read KS_WINDOW_PAD bytes past `end`. */
#ifndef KS_READ_JSON_SCAN_H
#define KS_READ_JSON_SCAN_H

#include <string.h>

#include "base/compiler.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* First byte at or after p that is a quote, a backslash, below 0x20 or above 0x7F. A zero byte
 * stops it too, so the padding behind a window ends every scan. */
static inline const char *ks_scan_string_scalar(const char *p)
{
    for (;;) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\' || c < 0x20 || c > 0x7F) {
            return p;
        }
        p++;
    }
}

#ifdef __SSE2__
static inline const char *ks_scan_string(const char *p)
{
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i backslash = _mm_set1_epi8('\\');
    const __m128i blank = _mm_set1_epi8(0x20);
    for (;;) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        /* Signed compare: bytes from 0x80 are negative, so they are "below 0x20" as well. */
        __m128i hit =
            _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, backslash)),
                         _mm_cmplt_epi8(v, blank));
        unsigned mask = (unsigned)_mm_movemask_epi8(hit);
        if (mask != 0) {
            return p + __builtin_ctz(mask);
        }
        p += 16;
    }
}
#else
static inline const char *ks_scan_string(const char *p)
{
    return ks_scan_string_scalar(p);
}
#endif

/* Digits at p and their value: 0 when there is none, KS_DIGITS_MAX + 1 when there are more than
 * KS_DIGITS_MAX, whose value then says nothing. */
enum { KS_DIGITS_MAX = 16 };

static inline unsigned ks_scan_digits_scalar(const char *p, uint64_t *value)
{
    unsigned count = 0;
    uint64_t v = 0;
    while (count <= KS_DIGITS_MAX && (unsigned char)(p[count] - '0') < 10) {
        v = v * 10 + (uint64_t)(p[count] - '0');
        count++;
    }
    *value = v;
    return count;
}

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
/* Eight characters as one number, each of them with '0' taken away: digits are 0 to 9 then. */
static inline uint64_t ks_load_digits(const char *p)
{
    uint64_t bytes;
    memcpy(&bytes, p, sizeof(bytes));
    return bytes ^ UINT64_C(0x3030303030303030);
}

/* How many of the eight are digits before the first that is none. An addition that carries says so
 * about the next byte too, which no longer matters. */
static inline unsigned ks_count_digits(uint64_t bytes)
{
    uint64_t stops =
        (bytes | (bytes + UINT64_C(0x7676767676767676))) & UINT64_C(0x8080808080808080);
    return stops == 0 ? 8 : (unsigned)__builtin_ctzll(stops) / 8;
}

/* Value of eight digits, the first in the lowest byte: neighbours are joined to pairs, the pairs to
 * the number by two multiplications that each add up two of them in their upper half. */
static inline uint64_t ks_join_digits(uint64_t bytes)
{
    const uint64_t low_of_four = UINT64_C(0x000000FF000000FF);
    uint64_t pairs = bytes * 10 + (bytes >> 8);
    uint64_t outer = (pairs & low_of_four) * (100 + (UINT64_C(1000000) << 32));
    uint64_t inner = (pairs >> 16 & low_of_four) * (1 + (UINT64_C(10000) << 32));
    return (outer + inner) >> 32;
}

static inline unsigned ks_scan_digits(const char *p, uint64_t *value)
{
    static const uint32_t POWERS[] = {1,      10,      100,      1000,     10000,
                                      100000, 1000000, 10000000, 100000000};
    uint64_t first = ks_load_digits(p);
    unsigned count = ks_count_digits(first);
    if (count < 8) {
        /* Shifted up, so that zeros stand before the digits. */
        *value = count == 0 ? 0 : ks_join_digits(first << (64 - 8 * count));
        return count;
    }
    uint64_t second = ks_load_digits(p + 8);
    count = ks_count_digits(second);
    uint64_t low = count == 0 ? 0 : ks_join_digits(second << (64 - 8 * count));
    *value = ks_join_digits(first) * POWERS[count] + low;
    return count == 8 && (unsigned char)(p[16] - '0') < 10 ? KS_DIGITS_MAX + 1 : 8 + count;
}
#else
static inline unsigned ks_scan_digits(const char *p, uint64_t *value)
{
    return ks_scan_digits_scalar(p, value);
}
#endif

/* First byte at or after p that is no blank, tab or line end. */
static inline const char *ks_scan_blanks_scalar(const char *p)
{
    while (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r') {
        p++;
    }
    return p;
}

#ifdef __SSE2__
static inline const char *ks_scan_blanks(const char *p)
{
    /* One blank behind a colon or comma is the rule, indentation behind a line end the rest. */
    if (p[0] == ' ' && p[1] > ' ') {
        return p + 1;
    }
    for (;;) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i blank = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8(' ')),
                                                  _mm_cmpeq_epi8(v, _mm_set1_epi8('\n'))),
                                     _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('\t')),
                                                  _mm_cmpeq_epi8(v, _mm_set1_epi8('\r'))));
        unsigned text = ~(unsigned)_mm_movemask_epi8(blank) & 0xFFFF;
        if (text != 0) {
            return p + __builtin_ctz(text);
        }
        p += 16;
    }
}
#else
static inline const char *ks_scan_blanks(const char *p)
{
    return ks_scan_blanks_scalar(p);
}
#endif

/* At the opening bracket of an array: the byte behind its closing one when all between is digits,
 * commas, blanks, minus signs and brackets, else NULL. */
static inline const char *ks_scan_numbers_scalar(const char *p)
{
    int depth = 0;
    for (;;) {
        char c = *p;
        bool is_plain = (c >= '0' && c <= '9') || c == ',' || c == ' ' || c == '-';
        if (!is_plain && c != '[' && c != ']') {
            return NULL;
        }
        depth += (c == '[') - (c == ']');
        p++;
        if (depth == 0) {
            return p;
        }
    }
}

#ifdef __SSE2__
static inline const char *ks_scan_numbers(const char *p)
{
    int depth = 0;
    for (;;) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i open = _mm_cmpeq_epi8(v, _mm_set1_epi8('['));
        __m128i close = _mm_cmpeq_epi8(v, _mm_set1_epi8(']'));
        /* ',', '-', '.', '/' and the digits are neighbours; the two that do not belong go below. */
        __m128i plain = _mm_and_si128(_mm_cmpgt_epi8(v, _mm_set1_epi8(',' - 1)),
                                      _mm_cmplt_epi8(v, _mm_set1_epi8('9' + 1)));
        __m128i odd = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('.')),
                                   _mm_cmpeq_epi8(v, _mm_set1_epi8('/')));
        plain = _mm_or_si128(_mm_andnot_si128(odd, plain), _mm_cmpeq_epi8(v, _mm_set1_epi8(' ')));
        unsigned opens = (unsigned)_mm_movemask_epi8(open);
        unsigned brackets = opens | (unsigned)_mm_movemask_epi8(close);
        unsigned bad = ~((unsigned)_mm_movemask_epi8(plain) | brackets) & 0xFFFF;
        while (brackets != 0) {
            unsigned at = (unsigned)__builtin_ctz(brackets);
            depth += opens >> at & 1 ? 1 : -1;
            if (depth == 0) {
                return (bad & ((1u << at) - 1)) == 0 ? p + at + 1 : NULL;
            }
            brackets &= brackets - 1;
        }
        if (bad != 0) {
            return NULL;
        }
        p += 16;
    }
}
#else
static inline const char *ks_scan_numbers(const char *p)
{
    return ks_scan_numbers_scalar(p);
}
#endif

#endif
