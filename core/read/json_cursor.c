#include "read/json_cursor.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "base/time.h"
#include "read/json_string.h"

enum { WORD_MAX = 32, NUMBER_MAX = 512, KEY_AHEAD_MAX = 96 };

static void note_fault(struct ks_json_cursor *c, const char *place)
{
    if (!c->faults.first || place < c->faults.first) {
        c->faults.first = place;
    }
}

static bool ends_scalar(char ch)
{
    return ch == ',' || ch == '}' || ch == ']' || ch == ' ' || ch == '\n' || ch == '\r' ||
           ch == '\t' || ch == '\0' || ch == ':';
}

/* Answer of a look ahead to `p`, where the decision falls: MORE when that is past the end. */
static enum ks_json decide(const struct ks_json_cursor *c, const char *p, bool is_so)
{
    return p >= c->end && c->is_open ? KS_JSON_MORE : is_so ? KS_JSON_OK : KS_JSON_BAD;
}

/* Does a quoted text with a colon behind it stand here? */
static enum ks_json looks_like_key(const struct ks_json_cursor *c, const char *p)
{
    if (*p != '"') {
        return decide(c, p, false);
    }
    const char *q = p + 1;
    while (q - p < KEY_AHEAD_MAX && *q != '"' && *q != '\n' && *q != '\0') {
        q++;
    }
    if (*q != '"') {
        return decide(c, q, false);
    }
    q = ks_scan_blanks(q + 1);
    return decide(c, q, *q == ':');
}

/* Could JSON go on like this behind the closing quote of a value (or of a key)? Used only on
 * events whose plain reading failed, so a wrong guess costs one event that was lost anyway. */
static enum ks_json goes_on_like_json(const struct ks_json_cursor *c, const char *p, bool is_key)
{
    p = ks_scan_blanks(p);
    if (is_key) {
        return decide(c, p, *p == ':');
    }
    if (*p == ',') {
        p = ks_scan_blanks(p + 1);
        return c->in_array ? decide(c, p, *p != '\0' && strchr("\"-0123456789tfnIN[{", *p))
                           : looks_like_key(c, p);
    }
    if (*p != '}' && *p != ']') {
        return decide(c, p, p >= c->end);
    }
    p = ks_scan_blanks(p + 1);
    return decide(c, p, *p == ',' || *p == '}' || *p == ']' || p >= c->end);
}

static enum ks_json take_string(struct ks_json_cursor *c, struct ks_json_str *out, bool is_key)
{
    const char *start = c->at + 1;
    const char *p = start;
    unsigned flags = 0;
    for (;;) {
        p = ks_scan_string(p);
        if (KS_LIKELY(*p == '"')) {
            enum ks_json ends =
                c->lenient_quotes ? goes_on_like_json(c, p + 1, is_key) : KS_JSON_OK;
            if (ends == KS_JSON_MORE) {
                return KS_JSON_MORE;
            }
            if (ends == KS_JSON_OK) {
                break;
            }
            flags |= KS_JSON_STR_QUOTE;
            p++;
        } else if (p >= c->end) {
            return KS_JSON_MORE;
        } else if (*p == '\\') {
            flags |= KS_JSON_STR_ESCAPE;
            p += p[1] == '"' || p[1] == '\\' ? 2 : 1; // any other byte speaks for itself
        } else {
            flags |= (unsigned char)*p >= 0x80 ? KS_JSON_STR_HIGH : KS_JSON_STR_CONTROL;
            p++;
        }
    }
    if (p >= c->end) {
        return KS_JSON_MORE;
    }
    *out = (struct ks_json_str){start, (size_t)(p - start), flags};
    c->at = p + 1;
    if (KS_UNLIKELY(flags != 0)) {
        const char *fault = ks_json_str_fault(out);
        if (fault) {
            c->faults.strings++;
            note_fault(c, fault);
        }
    }
    return KS_JSON_OK;
}

enum ks_json ks_json_string_slow(struct ks_json_cursor *c, struct ks_json_str *out)
{
    return take_string(c, out, false);
}

enum ks_json ks_json_key_slow(struct ks_json_cursor *c, struct ks_json_str *key)
{
    char ch;
    if (ks_json_peek(c, &ch) != KS_JSON_OK) {
        return KS_JSON_MORE;
    }
    if (ch != '"') {
        return KS_JSON_BAD;
    }
    enum ks_json step = take_string(c, key, true);
    if (step != KS_JSON_OK) {
        return step;
    }
    if (KS_LIKELY(*c->at == ':')) {
        c->at++;
        return KS_JSON_OK;
    }
    step = ks_json_peek(c, &ch);
    if (step != KS_JSON_OK) {
        return step;
    }
    if (ch != ':') {
        return KS_JSON_BAD;
    }
    c->at++;
    return KS_JSON_OK;
}

/* RFC 8259 number grammar over the whole token. */
static bool is_number(const char *p, const char *end)
{
    p += p < end && *p == '-';
    if (p == end || !isdigit((unsigned char)*p)) {
        return false;
    }
    if (*p == '0') {
        p++;
    } else {
        while (p < end && isdigit((unsigned char)*p)) {
            p++;
        }
    }
    if (p < end && *p == '.') {
        p++;
        if (p == end || !isdigit((unsigned char)*p)) {
            return false;
        }
        while (p < end && isdigit((unsigned char)*p)) {
            p++;
        }
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        p += p < end && (*p == '+' || *p == '-');
        if (p == end) {
            return false;
        }
        while (p < end && isdigit((unsigned char)*p)) {
            p++;
        }
    }
    return p == end;
}

/* Words that writers print where a number should be. */
static bool is_non_finite_word(const char *p, size_t len)
{
    static const char *const WORDS[] = {"nan", "inf", "infinity", "n/a", "none", "undefined"};
    if (len > 0 && (*p == '-' || *p == '+')) {
        p++;
        len--;
    }
    for (size_t i = 0; i < KS_COUNT_OF(WORDS); i++) {
        if (ks_str_equal_nocase((struct ks_str){p, len}, ks_str_from(WORDS[i]))) {
            return true;
        }
    }
    return false;
}

/* Number too large for a double: legal JSON, but no value. Only long or exponent forms can be. */
static bool overflows_double(struct ks_str text)
{
    if (text.len < 300 && !memchr(text.ptr, 'e', text.len) && !memchr(text.ptr, 'E', text.len)) {
        return false;
    }
    char copy[NUMBER_MAX + 1];
    if (text.len > NUMBER_MAX) {
        return true;
    }
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    return !isfinite(strtod(copy, NULL));
}

static enum ks_json classify_scalar(struct ks_json_cursor *c, struct ks_str text,
                                    enum ks_json_kind *kind)
{
    if (ks_str_equal(text, KS_STR("true"))) {
        *kind = KS_JSON_TRUE;
    } else if (ks_str_equal(text, KS_STR("false"))) {
        *kind = KS_JSON_FALSE;
    } else if (ks_str_equal(text, KS_STR("null"))) {
        *kind = KS_JSON_NULL;
    } else if (is_number(text.ptr, text.ptr + text.len)) {
        *kind = KS_JSON_NUMBER;
        if (overflows_double(text)) {
            *kind = KS_JSON_NON_FINITE;
            c->faults.non_finite++;
        }
    } else if (text.len <= WORD_MAX && is_non_finite_word(text.ptr, text.len)) {
        *kind = KS_JSON_NON_FINITE;
        c->faults.non_finite++;
        note_fault(c, text.ptr);
    } else {
        return KS_JSON_BAD;
    }
    return KS_JSON_OK;
}

enum ks_json ks_json_scalar(struct ks_json_cursor *c, struct ks_str *text, enum ks_json_kind *kind)
{
    const char *start = c->at;
    const char *p = start;
    while (!ends_scalar(*p)) {
        p++;
    }
    if (p >= c->end) {
        return KS_JSON_MORE;
    }
    if (p == start) {
        return KS_JSON_BAD;
    }
    *text = (struct ks_str){start, (size_t)(p - start)};
    enum ks_json step = classify_scalar(c, *text, kind);
    if (step == KS_JSON_OK) {
        c->at = p;
    }
    return step;
}

enum ks_json ks_json_kind_of(struct ks_json_cursor *c, enum ks_json_kind *kind)
{
    char ch;
    enum ks_json step = ks_json_peek(c, &ch);
    if (step != KS_JSON_OK) {
        return step;
    }
    if (ch == '"' || ch == '{' || ch == '[') {
        *kind = ch == '"' ? KS_JSON_STRING : ch == '{' ? KS_JSON_OBJECT : KS_JSON_ARRAY;
        return KS_JSON_OK;
    }
    struct ks_json_cursor look = *c;
    struct ks_str text;
    return ks_json_scalar(&look, &text, kind);
}

/* Takes an array of plain numbers, nested or not. BAD says nothing and takes nothing. Commas and
 * signs are not checked, so exact cursors do not use it. */
static enum ks_json skip_numbers(struct ks_json_cursor *c)
{
    const char *end = ks_scan_numbers(c->at);
    if (KS_LIKELY(end != NULL)) {
        c->at = end;
        return KS_JSON_OK;
    }
    /* An array that the window cuts must not be judged by rules that it would not meet whole. */
    const char *p = c->at;
    while ((*p >= '0' && *p <= '9') || (*p != '\0' && strchr(", -[]", *p))) {
        p++;
    }
    return p >= c->end ? KS_JSON_MORE : KS_JSON_BAD;
}

/* Takes an array of strings that need no second look (types of inputs, printed scalars). */
static bool skip_string_array(struct ks_json_cursor *c)
{
    const char *p = c->at + 1;
    while (*p == '"') {
        p = ks_scan_string(p + 1);
        if (*p != '"') {
            return false;
        }
        p = ks_scan_blanks(p + 1);
        if (*p == ']') {
            c->at = p + 1;
            return true;
        }
        if (*p != ',') {
            return false;
        }
        p = ks_scan_blanks(p + 1);
    }
    return false;
}

/* Open containers, one bit each: 1 for an array. */
struct nesting {
    uint64_t is_array[KS_JSON_DEPTH_MAX / 64];
    int depth;
};

static bool nesting_push(struct nesting *n, bool is_array)
{
    if (n->depth == KS_JSON_DEPTH_MAX) {
        return false;
    }
    uint64_t bit = (uint64_t)1 << (n->depth % 64);
    uint64_t *word = &n->is_array[n->depth / 64];
    *word = is_array ? *word | bit : *word & ~bit;
    n->depth++;
    return true;
}

static bool nesting_top_is_array(const struct nesting *n)
{
    return n->is_array[(n->depth - 1) / 64] >> ((n->depth - 1) % 64) & 1;
}

/* Behind a value: closes what ends here. `*done`: the outermost container is closed. */
static enum ks_json close_containers(struct ks_json_cursor *c, struct nesting *n, bool *done)
{
    *done = false;
    while (n->depth > 0) {
        bool more;
        enum ks_json step = ks_json_next(c, nesting_top_is_array(n) ? ']' : '}', &more);
        if (step != KS_JSON_OK) {
            return step;
        }
        if (more) {
            return KS_JSON_OK;
        }
        n->depth--;
    }
    *done = true;
    return KS_JSON_OK;
}

/* Opens the container at the cursor; an empty one is closed at once (`*is_empty`). */
static enum ks_json open_container(struct ks_json_cursor *c, struct nesting *n, bool *is_empty)
{
    bool is_array = *c->at == '[';
    if (!nesting_push(n, is_array)) {
        return KS_JSON_BAD;
    }
    c->at++;
    char ch;
    enum ks_json step = ks_json_peek(c, &ch);
    if (step != KS_JSON_OK) {
        return step;
    }
    *is_empty = ch == (is_array ? ']' : '}');
    if (*is_empty) {
        c->at++;
        n->depth--;
    }
    return KS_JSON_OK;
}

/* Takes a value that is no container. */
static enum ks_json skip_flat(struct ks_json_cursor *c)
{
    struct ks_json_str raw;
    struct ks_str text;
    enum ks_json_kind kind;
    return *c->at == '"' ? ks_json_string(c, &raw) : ks_json_scalar(c, &text, &kind);
}

static enum ks_json skip_container(struct ks_json_cursor *c)
{
    struct nesting n;
    n.depth = 0;
    bool done = false;
    while (!done) {
        enum ks_json step;
        if (n.depth > 0) {
            c->in_array = nesting_top_is_array(&n);
            struct ks_json_str key;
            step = c->in_array ? KS_JSON_OK : ks_json_key(c, &key);
            if (step != KS_JSON_OK) {
                return step;
            }
        }
        char ch;
        step = ks_json_peek(c, &ch);
        if (step != KS_JSON_OK) {
            return step;
        }
        bool is_closed = true;
        if (ch == '[' || ch == '{') {
            step = open_container(c, &n, &is_closed);
        } else {
            step = skip_flat(c);
        }
        if (step != KS_JSON_OK) {
            return step;
        }
        if (is_closed) {
            step = close_containers(c, &n, &done);
            if (step != KS_JSON_OK) {
                return step;
            }
        }
    }
    return KS_JSON_OK;
}

enum ks_json ks_json_skip_slow(struct ks_json_cursor *c)
{
    char ch;
    enum ks_json step = ks_json_peek(c, &ch);
    if (step != KS_JSON_OK) {
        return step;
    }
    if (ch != '[' && ch != '{') {
        return skip_flat(c);
    }
    bool is_trusted = ch == '[' && !c->is_exact;
    bool has_strings = c->at[1] == '"';
    if (is_trusted && !has_strings) {
        step = skip_numbers(c);
        if (step != KS_JSON_BAD) {
            return step;
        }
    }
    if (is_trusted && has_strings && !c->lenient_quotes && skip_string_array(c)) {
        return KS_JSON_OK;
    }
    bool in_array = c->in_array;
    step = skip_container(c);
    c->in_array = in_array;
    return step;
}

enum ks_json ks_json_next_slow(struct ks_json_cursor *c, char close, bool *more)
{
    char ch;
    enum ks_json step = ks_json_peek(c, &ch);
    if (step != KS_JSON_OK) {
        return step;
    }
    if (ch == close) {
        c->at++;
        *more = false;
        return KS_JSON_OK;
    }
    if (ch != ',') {
        return KS_JSON_BAD;
    }
    c->at++;
    step = ks_json_peek(c, &ch);
    if (step != KS_JSON_OK) {
        return step;
    }
    *more = ch != close;
    if (!*more) {
        c->faults.syntax++;
        note_fault(c, c->at);
        c->at++;
    }
    return KS_JSON_OK;
}

/* Text of a number, quoted or not. `*found` false: null, NaN or no number; the value is taken. */
static enum ks_json number_text(struct ks_json_cursor *c, struct ks_str *text, bool *found)
{
    char ch;
    enum ks_json step = ks_json_peek(c, &ch);
    if (step != KS_JSON_OK) {
        return step;
    }
    *found = false;
    if (ch == '[' || ch == '{') {
        return ks_json_skip(c);
    }
    if (ch != '"') {
        enum ks_json_kind kind;
        step = ks_json_scalar(c, text, &kind);
        *found = step == KS_JSON_OK && kind == KS_JSON_NUMBER;
        return step;
    }
    struct ks_json_str raw;
    step = ks_json_string(c, &raw);
    if (step != KS_JSON_OK) {
        return step;
    }
    *text = (struct ks_str){raw.ptr, raw.len};
    *found = is_number(raw.ptr, raw.ptr + raw.len);
    if (!*found && is_non_finite_word(raw.ptr, raw.len)) {
        c->faults.non_finite++;
    }
    return KS_JSON_OK;
}

static double text_to_double(struct ks_str text)
{
    char copy[NUMBER_MAX + 1];
    size_t len = text.len < NUMBER_MAX ? text.len : NUMBER_MAX;
    memcpy(copy, text.ptr, len);
    copy[len] = '\0';
    return strtod(copy, NULL);
}

enum ks_json ks_json_int_slow(struct ks_json_cursor *c, int64_t *value, bool *found)
{
    struct ks_str text;
    enum ks_json step = number_text(c, &text, found);
    if (step != KS_JSON_OK || !*found) {
        return step;
    }
    char *end;
    char copy[32];
    if (text.len < sizeof(copy) && !memchr(text.ptr, '.', text.len) &&
        !memchr(text.ptr, 'e', text.len) && !memchr(text.ptr, 'E', text.len)) {
        memcpy(copy, text.ptr, text.len);
        copy[text.len] = '\0';
        /* Addresses use all 64 bits: what does not fit in int64 wraps as two's complement. */
        *value = copy[0] == '-' ? strtoll(copy, &end, 10) : (int64_t)strtoull(copy, &end, 10);
        return KS_JSON_OK;
    }
    double d = text_to_double(text);
    *found = d > -9.2e18 && d < 9.2e18;
    *value = *found ? (int64_t)d : 0;
    return KS_JSON_OK;
}

/* Digits up to 18 long: the common case without any call. False: take the long way. */
static inline bool fast_digits(const char **at, uint64_t *value)
{
    const char *p = *at;
    uint64_t v = 0;
    while ((unsigned char)(*p - '0') < 10) {
        v = v * 10 + (uint64_t)(*p - '0');
        p++;
    }
    if (p == *at || p - *at > 18 || (**at == '0' && p - *at > 1)) {
        return false;
    }
    *at = p;
    *value = v;
    return true;
}

enum ks_json ks_json_double(struct ks_json_cursor *c, double *value, bool *found)
{
    static const double POW10[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9};
    ks_json_blanks(c);
    const char *p = c->at + (*c->at == '-');
    uint64_t whole;
    uint64_t part = 0;
    if (fast_digits(&p, &whole) && whole < 1000000) {
        const char *point = p;
        if (*p == '.') {
            p++;
            while ((unsigned char)(*p - '0') < 10 && p - point < 10) {
                part = part * 10 + (uint64_t)(*p - '0');
                p++;
            }
        }
        ptrdiff_t digits = p > point ? p - point - 1 : 0;
        bool has_digits = p == point || digits > 0;
        if (has_digits && digits < 10 && ks_json_ends_number(*p)) {
            /* Both parts are exact integers below 2^53: one rounding, as strtod does it. */
            double scaled = (double)whole * POW10[digits] + (double)part;
            *value = *c->at == '-' ? -scaled / POW10[digits] : scaled / POW10[digits];
            *found = true;
            c->at = p;
            return KS_JSON_OK;
        }
    }
    struct ks_str text;
    enum ks_json step = number_text(c, &text, found);
    if (step == KS_JSON_OK && *found) {
        *value = text_to_double(text);
    }
    return step;
}

/* A number that does not fit becomes the largest one of its sign, which no caller takes for a time.
 */
static void parse_time(struct ks_str text, int64_t *ns)
{
    if (!ks_time_parse_us(text, ns)) {
        *ns = text.ptr[0] == '-' ? -INT64_MAX : INT64_MAX;
    }
}

enum ks_json ks_json_time_slow(struct ks_json_cursor *c, int64_t *ns, bool *found)
{
    struct ks_str text;
    enum ks_json step = number_text(c, &text, found);
    if (step == KS_JSON_OK && *found) {
        parse_time(text, ns);
    }
    return step;
}

enum ks_json ks_json_time_unpadded(struct ks_json_cursor *c, int64_t *ns, bool *found)
{
    struct ks_str text;
    enum ks_json step = number_text(c, &text, found);
    if (step != KS_JSON_OK || !*found) {
        return step;
    }
    const char *point = memchr(text.ptr, '.', text.len);
    size_t whole = point ? (size_t)(point - text.ptr) : text.len;
    bool is_plain = point && text.len - whole <= 4 &&
                    isdigit((unsigned char)text.ptr[text.len - 1]) &&
                    !memchr(point, 'e', text.len - whole) && !memchr(point, 'E', text.len - whole);
    parse_time(is_plain ? (struct ks_str){text.ptr, whole} : text, ns);
    int64_t part = 0;
    for (size_t i = whole + 1; is_plain && i < text.len; i++) {
        part = part * 10 + (text.ptr[i] - '0');
    }
    if (*ns<INT64_MAX - part && * ns> part - INT64_MAX) {
        *ns += text.ptr[0] == '-' ? -part : part;
    }
    return KS_JSON_OK;
}
