/* Are input shapes written the way torch prints them? One blank behind each comma and nowhere else,
 * no list below the second level: Kineto writes just that, so nearly all events need no more than
 * this. "No" is no judgement: the text is then put into that form, which may change nothing. */
#ifndef KS_READ_KINETO_DIMS_H
#define KS_READ_KINETO_DIMS_H

#include "base/str.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* `raw` is the JSON text of a value. */
static inline bool kineto_dims_are_canonical_scalar(struct ks_str raw)
{
    int depth = 0;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.ptr[i];
        if (c == '[') {
            if (++depth > 2) {
                return false;
            }
        } else if (c == ']') {
            depth--;
        } else if (c == ',') {
            if (i + 2 >= raw.len || raw.ptr[i + 1] != ' ' || raw.ptr[i + 2] == ' ') {
                return false;
            }
            i++;
        } else if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
            return false;
        }
    }
    return raw.len > 0 && raw.ptr[0] == '[';
}

#ifdef __SSE2__
static inline unsigned kineto_bytes_equal(__m128i v, char c)
{
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_set1_epi8(c)));
}

/* Bit i: is the number of bits up to and with i odd? */
static inline unsigned kineto_parity(unsigned bits)
{
    bits ^= bits << 1;
    bits ^= bits << 2;
    bits ^= bits << 4;
    return bits ^ bits << 8;
}

/* Reads KS_WINDOW_PAD bytes past the text at most. Between the outer brackets, opening and closing
 * ones take turns when no list is deeper than the second level. */
static inline bool kineto_dims_are_canonical(struct ks_str raw)
{
    if (raw.len < 2 || raw.ptr[0] != '[' || raw.ptr[raw.len - 1] != ']') {
        return kineto_dims_are_canonical_scalar(raw);
    }
    const char *p = raw.ptr + 1;
    size_t left = raw.len - 2;
    unsigned is_behind_comma = 0; /* the byte before this block is one */
    unsigned is_open = 0;
    for (;;) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        unsigned valid = left >= 16 ? 0xFFFF : (1U << left) - 1;
        unsigned commas = kineto_bytes_equal(v, ',') & valid;
        unsigned blanks = kineto_bytes_equal(v, ' ') & valid;
        unsigned opens = kineto_bytes_equal(v, '[') & valid;
        unsigned closes = kineto_bytes_equal(v, ']') & valid;
        unsigned odd = (kineto_bytes_equal(v, '\n') | kineto_bytes_equal(v, '\t') |
                        kineto_bytes_equal(v, '\r')) &
                       valid;
        unsigned after_comma = (commas << 1 | is_behind_comma) & 0xFFFF;
        unsigned parity = kineto_parity(opens | closes) ^ (is_open ? 0xFFFF : 0);
        if ((blanks ^ after_comma) | odd | (opens & ~parity) | (closes & parity & 0xFFFF)) {
            return false;
        }
        is_behind_comma = commas >> 15;
        is_open = parity >> 15 & 1;
        if (left <= 16) {
            return is_behind_comma == 0 && is_open == 0;
        }
        p += 16;
        left -= 16;
    }
}
#else
static inline bool kineto_dims_are_canonical(struct ks_str raw)
{
    return kineto_dims_are_canonical_scalar(raw);
}
#endif

#endif
