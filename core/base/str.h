/* Strings inside are pointer and length; a NUL ends them only at the border to the system. */
#ifndef KS_BASE_STR_H
#define KS_BASE_STR_H

#include <string.h>

#include "base/compiler.h"

struct ks_str {
    const char *ptr;
    size_t len;
};

#define KS_STR(literal) ((struct ks_str){"" literal "", sizeof(literal) - 1})

static inline struct ks_str ks_str_from(const char *text)
{
    return (struct ks_str){text, strlen(text)};
}

static inline bool ks_str_equal(struct ks_str a, struct ks_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool ks_str_starts(struct ks_str s, struct ks_str prefix)
{
    return s.len >= prefix.len && memcmp(s.ptr, prefix.ptr, prefix.len) == 0;
}

static inline bool ks_str_contains(struct ks_str s, struct ks_str part)
{
    return part.len == 0 || (s.len >= part.len && memmem(s.ptr, s.len, part.ptr, part.len));
}

/* -1, 0 or 1 by bytes, then by length: a total order for tie-breaks. */
int ks_str_compare(struct ks_str a, struct ks_str b);
bool ks_str_equal_nocase(struct ks_str a, struct ks_str b);

#endif
