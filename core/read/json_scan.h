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
        __m128i hit = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, quote),
                                                _mm_cmpeq_epi8(v, backslash)),
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

#endif
