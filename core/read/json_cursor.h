/* A position in JSON text inside a window, and the small steps over it.
 *
 * Steps return KS_JSON_OK, KS_JSON_MORE (the window ends inside the item) or KS_JSON_BAD (the text
 * breaks the grammar at `at`). Damage that leaves the structure readable (bytes that strings may
 * not hold, NaN and its like) is noted in `faults` and goes on; what a caller does with it is its
 * business. Nothing is allocated, nothing recurses.
 */
#ifndef KS_READ_JSON_CURSOR_H
#define KS_READ_JSON_CURSOR_H

#include "base/str.h"
#include "read/json_scan.h"

enum ks_json { KS_JSON_OK, KS_JSON_MORE, KS_JSON_BAD };

enum { KS_JSON_DEPTH_MAX = 512 };

struct ks_json_faults {
    uint32_t strings;    /* strings with bytes or escapes that are not allowed */
    uint32_t non_finite; /* NaN, infinities, N/A, and numbers too large for a double */
    uint32_t syntax;     /* commas before a closing bracket */
    const char *first;   /* place of the first fault that strict readers refuse; NULL none */
};

struct ks_json_cursor {
    const char *at;
    const char *end;     /* zero bytes follow for KS_WINDOW_PAD */
    bool lenient_quotes; /* a quote ends a string only where the text goes on like JSON */
    bool is_open;        /* more bytes may follow `end`: a guess at quotes waits for them */
    bool is_exact;       /* no grammar is taken on trust (strict readers) */
    bool in_array;       /* what the text goes on like: next element, or next key */
    struct ks_json_faults faults;
};

enum {
    KS_JSON_STR_ESCAPE = 1,  /* holds a backslash */
    KS_JSON_STR_HIGH = 2,    /* holds a byte >= 0x80 */
    KS_JSON_STR_CONTROL = 4, /* holds a byte < 0x20 */
    KS_JSON_STR_QUOTE = 8,   /* holds a bare quote (lenient_quotes) */
};

/* Text between the quotes as it stands in the file. */
struct ks_json_str {
    const char *ptr;
    size_t len;
    unsigned flags;
};

enum ks_json_kind {
    KS_JSON_STRING,
    KS_JSON_NUMBER,
    KS_JSON_OBJECT,
    KS_JSON_ARRAY,
    KS_JSON_TRUE,
    KS_JSON_FALSE,
    KS_JSON_NULL,
    KS_JSON_NON_FINITE, /* NaN, Infinity, inf, N/A, ... : a bare word where a number should be */
};

/* Skips blanks, tabs and line ends. Other control bytes stop it like any text. */
static inline void ks_json_blanks(struct ks_json_cursor *c)
{
    if (*c->at <= ' ') {
        c->at = ks_scan_blanks(c->at);
    }
}

/* Next character after blanks, not consumed; MORE at the end. */
static inline enum ks_json ks_json_peek(struct ks_json_cursor *c, char *ch)
{
    ks_json_blanks(c);
    *ch = *c->at;
    return KS_LIKELY(*ch != '\0' || c->at < c->end) ? KS_JSON_OK : KS_JSON_MORE;
}

/* Does a number end before this character? */
static inline bool ks_json_ends_number(char ch)
{
    return ch == ',' || ch == '}' || ch == ' ' || ch == '\n' || ch == ']';
}

/* The steps below come twice: inline for what Kineto writes all day, and `_slow` for everything.
 * The inline part needs no look at `end`: behind it stand zero bytes, which match nothing it takes.
 */
enum ks_json ks_json_string_slow(struct ks_json_cursor *c, struct ks_json_str *out);
enum ks_json ks_json_key_slow(struct ks_json_cursor *c, struct ks_json_str *key);
enum ks_json ks_json_skip_slow(struct ks_json_cursor *c);
enum ks_json ks_json_int_slow(struct ks_json_cursor *c, int64_t *value, bool *found);
enum ks_json ks_json_time_slow(struct ks_json_cursor *c, int64_t *ns, bool *found);
enum ks_json ks_json_next_slow(struct ks_json_cursor *c, char close, bool *more);

/* The same on plain pointers, for loops that keep their place in a register: the end of what is
 * taken at p, or NULL when the cursor has to take it. */

static inline const char *ks_json_string_at(const char *p, struct ks_json_str *out)
{
    const char *end = *p == '"' ? ks_scan_string(p + 1) : p;
    if (KS_UNLIKELY(*end != '"' || end == p)) {
        return NULL;
    }
    *out = (struct ks_json_str){p + 1, (size_t)(end - p - 1), 0};
    return end + 1;
}

static inline const char *ks_json_int_at(const char *p, int64_t *value)
{
    bool is_negative = *p == '-';
    p += is_negative;
    uint64_t v;
    unsigned count = ks_scan_digits(p, &v);
    if (KS_UNLIKELY(count - 1 >= KS_DIGITS_MAX || !ks_json_ends_number(p[count]) ||
                    (*p == '0' && count > 1))) {
        return NULL;
    }
    *value = is_negative ? -(int64_t)v : (int64_t)v;
    return p + count;
}

/* A whole number of up to 16 digits that nobody wants. */
static inline const char *ks_json_digits_at(const char *p)
{
    uint64_t v;
    unsigned count = ks_scan_digits(p, &v);
    bool is_number =
        count - 1 < KS_DIGITS_MAX && ks_json_ends_number(p[count]) && (*p != '0' || count == 1);
    return KS_LIKELY(is_number) ? p + count : NULL;
}

/* Three decimals is what Kineto writes. */
static inline const char *ks_json_time_at(const char *p, int64_t *ns)
{
    uint64_t us;
    unsigned count = ks_scan_digits(p, &us);
    const char *point = p + count;
    if (KS_UNLIKELY(count - 1 >= KS_DIGITS_MAX || us >= INT64_MAX / 1000 || *point != '.' ||
                    (unsigned char)(point[1] - '0') >= 10 ||
                    (unsigned char)(point[2] - '0') >= 10 ||
                    (unsigned char)(point[3] - '0') >= 10 || !ks_json_ends_number(point[4]) ||
                    (*p == '0' && count > 1))) {
        return NULL;
    }
    uint64_t part = (uint64_t)((point[1] - '0') * 100 + (point[2] - '0') * 10 + (point[3] - '0'));
    *ns = (int64_t)(us * 1000 + part);
    return point + 4;
}

/* At an opening quote: takes the string; faults are noted, the raw text is given. */
static inline enum ks_json ks_json_string(struct ks_json_cursor *c, struct ks_json_str *out)
{
    const char *end = c->lenient_quotes ? NULL : ks_json_string_at(c->at, out);
    if (KS_UNLIKELY(!end)) {
        return ks_json_string_slow(c, out);
    }
    c->at = end;
    return KS_JSON_OK;
}

/* At an object's key: takes key and colon. */
static inline enum ks_json ks_json_key(struct ks_json_cursor *c, struct ks_json_str *key)
{
    const char *start = c->at + 1;
    if (KS_LIKELY(*c->at == '"' && !c->lenient_quotes)) {
        const char *p = ks_scan_string(start);
        if (KS_LIKELY(p[0] == '"' && p[1] == ':')) {
            *key = (struct ks_json_str){start, (size_t)(p - start), 0};
            c->at = p + 2;
            return KS_JSON_OK;
        }
    }
    return ks_json_key_slow(c, key);
}

/* What the value at the cursor is; nothing is consumed. BAD when it is no value. */
enum ks_json ks_json_kind_of(struct ks_json_cursor *c, enum ks_json_kind *kind);
/* Takes any value. Depth over KS_JSON_DEPTH_MAX is BAD. */
static inline enum ks_json ks_json_skip(struct ks_json_cursor *c)
{
    ks_json_blanks(c);
    const char *p = c->at;
    if (*p >= '1' && *p <= '9') {
        do {
            p++;
        } while ((unsigned char)(*p - '0') < 10);
        if (KS_LIKELY(ks_json_ends_number(*p) && p - c->at < 300)) {
            c->at = p;
            return KS_JSON_OK;
        }
    } else if (*p == '0' && ks_json_ends_number(p[1])) {
        c->at = p + 1;
        return KS_JSON_OK;
    }
    return ks_json_skip_slow(c);
}
/* Takes a scalar that is no string (number, true, null, NaN, ...): its text. */
enum ks_json ks_json_scalar(struct ks_json_cursor *c, struct ks_str *text, enum ks_json_kind *kind);

/* Numbers, also inside quotes ("12"). `*found` is false for null, text, NaN (noted as fault). */
static inline enum ks_json ks_json_int(struct ks_json_cursor *c, int64_t *value, bool *found)
{
    ks_json_blanks(c);
    const char *end = ks_json_int_at(c->at, value);
    if (KS_UNLIKELY(!end)) {
        return ks_json_int_slow(c, value, found);
    }
    *found = true;
    c->at = end;
    return KS_JSON_OK;
}

enum ks_json ks_json_double(struct ks_json_cursor *c, double *value, bool *found);

/* Microseconds as exact nanoseconds; INT64_MAX or its negative when they do not fit. */
static inline enum ks_json ks_json_time(struct ks_json_cursor *c, int64_t *ns, bool *found)
{
    ks_json_blanks(c);
    const char *end = ks_json_time_at(c->at, ns);
    if (KS_UNLIKELY(!end)) {
        return ks_json_time_slow(c, ns, found);
    }
    *found = true;
    c->at = end;
    return KS_JSON_OK;
}

/* The same for the development builds of March 2024, which wrote the fraction as a plain number of
 * nanoseconds: "5.7" is 5,007 ns. */
enum ks_json ks_json_time_unpadded(struct ks_json_cursor *c, int64_t *ns, bool *found);

/* After a value inside an object or array: takes ',' (more = true) or `close` (more = false). A
 * comma right before `close` is noted as a fault. */
static inline enum ks_json ks_json_next(struct ks_json_cursor *c, char close, bool *more)
{
    ks_json_blanks(c);
    if (*c->at == ',') {
        const char *p = c->at + 1;
        p = *p <= ' ' ? ks_scan_blanks(p) : p;
        if (KS_LIKELY(*p != close && *p != '\0')) {
            c->at = p;
            *more = true;
            return KS_JSON_OK;
        }
    } else if (*c->at == close) {
        c->at++;
        *more = false;
        return KS_JSON_OK;
    }
    return ks_json_next_slow(c, close, more);
}

#endif
