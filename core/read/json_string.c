#include "read/json_string.h"

static const char REPLACEMENT[] = "\xEF\xBF\xBD"; // U+FFFD

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Code unit of the four hex digits at ptr, or -1. */
static int hex4(const char *ptr, const char *end)
{
    if (end - ptr < 4) {
        return -1;
    }
    int value = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(ptr[i]);
        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

/* Length of the escape at ptr (a backslash), 0 when JSON knows no such escape. */
static size_t escape_len(const char *ptr, const char *end)
{
    if (end - ptr < 2) {
        return 0;
    }
    if (ptr[1] == 'u') {
        return hex4(ptr + 2, end) >= 0 ? 6 : 0;
    }
    return ptr[1] != '\0' && strchr("\"\\/bfnrt", ptr[1]) ? 2 : 0;
}

static bool is_high_surrogate(int unit)
{
    return unit >= 0xD800 && unit <= 0xDBFF;
}

static bool is_low_surrogate(int unit)
{
    return unit >= 0xDC00 && unit <= 0xDFFF;
}

/* Code point of the \u escape at ptr and the bytes it takes; a lone surrogate gives -1. */
static int unicode_escape(const char *ptr, const char *end, size_t *size)
{
    int unit = hex4(ptr + 2, end);
    *size = 6;
    if (is_high_surrogate(unit) && end - ptr >= 12 && ptr[6] == '\\' && ptr[7] == 'u') {
        int low = hex4(ptr + 8, end);
        if (is_low_surrogate(low)) {
            *size = 12;
            return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
        }
    }
    return is_high_surrogate(unit) || is_low_surrogate(unit) ? -1 : unit;
}

static const char *first_bad_escape(const struct ks_json_str *raw)
{
    const char *end = raw->ptr + raw->len;
    for (const char *p = raw->ptr; p < end;) {
        if (*p != '\\') {
            p++;
            continue;
        }
        size_t len = escape_len(p, end);
        if (len == 0) {
            return p;
        }
        p += len;
    }
    return NULL;
}

const char *ks_json_str_fault(const struct ks_json_str *raw)
{
    const char *end = raw->ptr + raw->len;
    for (const char *p = raw->ptr; p < end;) {
        unsigned char c = (unsigned char)*p;
        size_t len = 1;
        if (c == '\\') {
            len = escape_len(p, end);
            if (len == 6 && unicode_escape(p, end, &len) < 0) {
                return p;
            }
        } else if (c >= 0x80) {
            len = ks_utf8_sequence((const unsigned char *)p, (size_t)(end - p));
        } else if (c < 0x20 || c == '"') {
            len = 0;
        }
        if (len == 0) {
            return p;
        }
        p += len;
    }
    return NULL;
}

static void append_code_point(struct ks_text *out, int code)
{
    char b[4];
    if (code < 0x80) {
        b[0] = (char)code;
        ks_text_append(out, b, 1);
    } else if (code < 0x800) {
        b[0] = (char)(0xC0 | code >> 6);
        b[1] = (char)(0x80 | (code & 0x3F));
        ks_text_append(out, b, 2);
    } else if (code < 0x10000) {
        b[0] = (char)(0xE0 | code >> 12);
        b[1] = (char)(0x80 | (code >> 6 & 0x3F));
        b[2] = (char)(0x80 | (code & 0x3F));
        ks_text_append(out, b, 3);
    } else {
        b[0] = (char)(0xF0 | code >> 18);
        b[1] = (char)(0x80 | (code >> 12 & 0x3F));
        b[2] = (char)(0x80 | (code >> 6 & 0x3F));
        b[3] = (char)(0x80 | (code & 0x3F));
        ks_text_append(out, b, 4);
    }
}

static size_t append_escape(struct ks_text *out, const char *ptr, const char *end)
{
    static const char FROM[] = "bfnrt";
    static const char TO[] = "\b\f\n\r\t";
    if (ptr[1] == 'u') {
        size_t size;
        int code = unicode_escape(ptr, end, &size);
        append_code_point(out, code < 0 ? 0xFFFD : code);
        return size;
    }
    const char *known = strchr(FROM, ptr[1]);
    ks_text_append(out, known ? TO + (known - FROM) : ptr + 1, 1);
    return 2;
}

/* Bytes of the invalid sequence at ptr that one U+FFFD stands for: the longest part that could
 * still have begun a valid sequence (Unicode 15, section 3.9, "maximal subpart"). */
static size_t invalid_part(const unsigned char *p, size_t len)
{
    unsigned char lead = p[0];
    size_t want = lead >= 0xC2 && lead <= 0xDF   ? 2
                  : lead >= 0xE0 && lead <= 0xEF ? 3
                  : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                 : 1;
    size_t n = 1;
    while (n < want && n < len && (p[n] & 0xC0) == 0x80) {
        bool second_ok =
            n > 1 || !((lead == 0xE0 && p[1] < 0xA0) || (lead == 0xED && p[1] > 0x9F) ||
                       (lead == 0xF0 && p[1] < 0x90) || (lead == 0xF4 && p[1] > 0x8F));
        if (!second_ok) {
            break;
        }
        n++;
    }
    return n;
}

static size_t append_high(struct ks_text *out, const char *ptr, const char *end)
{
    const unsigned char *p = (const unsigned char *)ptr;
    size_t left = (size_t)(end - ptr);
    size_t len = ks_utf8_sequence(p, left);
    if (len > 0) {
        ks_text_append(out, ptr, len);
        return len;
    }
    ks_text_append(out, REPLACEMENT, sizeof(REPLACEMENT) - 1);
    return invalid_part(p, left);
}

struct ks_str ks_json_str_decode(const struct ks_json_str *raw, struct ks_text *scratch)
{
    bool literal = (raw->flags & KS_JSON_STR_ESCAPE) == 0 || first_bad_escape(raw) != NULL;
    if (literal && (raw->flags & KS_JSON_STR_HIGH) == 0) {
        return (struct ks_str){raw->ptr, raw->len};
    }
    const char *end = raw->ptr + raw->len;
    ks_text_reset(scratch);
    for (const char *p = raw->ptr; p < end;) {
        if (*p == '\\' && !literal) {
            p += append_escape(scratch, p, end);
        } else if ((unsigned char)*p >= 0x80) {
            p += append_high(scratch, p, end);
        } else {
            ks_text_append(scratch, p, 1);
            p++;
        }
    }
    return scratch->failed ? (struct ks_str){"", 0} : (struct ks_str){scratch->ptr, scratch->len};
}
