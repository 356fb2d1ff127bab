/* Vector steps of the JSON reader. Each has a scalar twin, chosen where SSE2 is missing and
 * compared with it in tests/unit/test_json_scan.c. Both may read KS_WINDOW_PAD bytes past `end`. */
#ifndef KS_READ_JSON_SCAN_H
#define KS_READ_JSON_SCAN_H

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
