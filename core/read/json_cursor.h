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

enum ks_json { KS_JSON_OK, KS_JSON_MORE, KS_JSON_BAD };

enum { KS_JSON_DEPTH_MAX = 512 };

struct ks_json_faults {
    uint32_t strings;     /* strings with bytes or escapes that are not allowed */
    uint32_t non_finite;  /* NaN, infinities, N/A, and numbers too large for a double */
    uint32_t syntax;      /* commas before a closing bracket */
    const char *first;    /* place of the first fault that strict readers refuse; NULL none */
};

struct ks_json_cursor {
    const char *at;
    const char *end; /* zero bytes follow for KS_WINDOW_PAD */
    bool lenient_quotes; /* a quote ends a string only where the text goes on like JSON */
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

/* Skips blanks, tabs and line ends. */
static inline void ks_json_blanks(struct ks_json_cursor *c)
{
    while (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r') {
        c->at++;
    }
}

/* Next character after blanks, not consumed; MORE at the end. */
static inline enum ks_json ks_json_peek(struct ks_json_cursor *c, char *ch)
{
    ks_json_blanks(c);
    *ch = *c->at;
    return KS_LIKELY(c->at < c->end) ? KS_JSON_OK : KS_JSON_MORE;
}

/* At an opening quote: takes the string; faults are noted, the raw text is given. */
enum ks_json ks_json_string(struct ks_json_cursor *c, struct ks_json_str *out);
/* At an object's key: takes key and colon. */
enum ks_json ks_json_key(struct ks_json_cursor *c, struct ks_json_str *key);
/* What the value at the cursor is; nothing is consumed. BAD when it is no value. */
enum ks_json ks_json_kind_of(struct ks_json_cursor *c, enum ks_json_kind *kind);
/* Takes any value. Depth over KS_JSON_DEPTH_MAX is BAD. */
enum ks_json ks_json_skip(struct ks_json_cursor *c);
/* Takes a scalar that is no string (number, true, null, NaN, ...): its text. */
enum ks_json ks_json_scalar(struct ks_json_cursor *c, struct ks_str *text,
                            enum ks_json_kind *kind);

/* Numbers, also inside quotes ("12"). `*found` is false for null, text, NaN (noted as fault). */
enum ks_json ks_json_int(struct ks_json_cursor *c, int64_t *value, bool *found);
enum ks_json ks_json_double(struct ks_json_cursor *c, double *value, bool *found);
/* Microseconds as exact nanoseconds. */
enum ks_json ks_json_time(struct ks_json_cursor *c, int64_t *ns, bool *found);

/* The same for the development builds of March 2024, which wrote the fraction as a plain number of
 * nanoseconds: "5.7" is 5,007 ns. */
enum ks_json ks_json_time_unpadded(struct ks_json_cursor *c, int64_t *ns, bool *found);

/* After a value inside an object or array: takes ',' (more = true) or `close` (more = false). A
 * comma right before `close` is noted as a fault. */
enum ks_json ks_json_next(struct ks_json_cursor *c, char close, bool *more);

#endif
