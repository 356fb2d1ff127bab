#include "show/json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/text.h"

enum { LINES_DEPTH_MAX = 2, INDENT = 2 };

static void flush(struct ks_json *json)
{
    if (json->used > 0 && !json->failed) {
        json->failed = !json->write(json->user, json->buffer, json->used);
    }
    json->used = 0;
}

static void put(struct ks_json *json, const char *bytes, size_t size)
{
    while (size > 0) {
        size_t room = sizeof(json->buffer) - json->used;
        size_t part = size < room ? size : room;
        memcpy(json->buffer + json->used, bytes, part);
        json->used += part;
        bytes += part;
        size -= part;
        if (json->used == sizeof(json->buffer)) {
            flush(json);
        }
    }
}

static void put_text(struct ks_json *json, const char *text)
{
    put(json, text, strlen(text));
}

/* A line feed and the indent of this depth, or nothing where lines are not broken. */
static void put_line(struct ks_json *json, size_t depth)
{
    static const char spaces[INDENT * LINES_DEPTH_MAX] = "    ";
    if (depth <= LINES_DEPTH_MAX && !json->is_one_line) {
        put_text(json, "\n");
        put(json, spaces, depth * INDENT);
    }
}

/* The two-character escape of a byte, or NULL. */
static const char *short_escape(unsigned char byte)
{
    switch (byte) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\b': return "\\b";
    case '\f': return "\\f";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: return NULL;
    }
}

static void put_escaped(struct ks_json *json, unsigned char byte)
{
    const char *escape = short_escape(byte);
    char text[8];
    if (!escape) {
        snprintf(text, sizeof(text), "\\u%04x", byte);
        escape = text;
    }
    put_text(json, escape);
}

/* U+2028 or U+2029: ends a line of a script, and is none of JSON. */
static bool is_separator(const unsigned char *bytes, size_t len)
{
    return len == 3 && bytes[0] == 0xE2 && bytes[1] == 0x80 && (bytes[2] | 1) == 0xA9;
}

/* Does the character of `len` bytes stand for itself? */
static bool is_plain(const struct ks_json *json, const unsigned char *bytes, size_t len)
{
    if (len != 1) {
        return len > 1 && !(json->is_for_markup && is_separator(bytes, len));
    }
    bool is_markup = *bytes == '<' || *bytes == '>' || *bytes == '&';
    return *bytes >= 0x20 && *bytes != 0x7f && *bytes != '"' && *bytes != '\\' &&
           !(is_markup && json->is_for_markup);
}

static void put_string(struct ks_json *json, struct ks_str s)
{
    const unsigned char *bytes = (const unsigned char *)s.ptr;
    size_t plain = 0; /* start of what needs no change */
    bool is_cut = json->len_max > 0 && s.len > json->len_max;
    size_t end = is_cut ? json->len_max : s.len;
    put_text(json, "\"");
    for (size_t i = 0; i < end;) {
        size_t len = bytes[i] < 0x80 ? 1 : ks_utf8_sequence(bytes + i, s.len - i);
        if (is_cut && i + len > end) { /* not inside of a character */
            end = i;
        } else if (is_plain(json, bytes + i, len)) {
            i += len;
        } else {
            put(json, s.ptr + plain, i - plain);
            if (len == 0) {
                put_text(json, "\xEF\xBF\xBD"); /* U+FFFD for a byte that is no UTF-8 */
            } else if (len == 1) {
                put_escaped(json, bytes[i]);
            } else {
                put_text(json, bytes[i + 2] & 1 ? "\\u2029" : "\\u2028");
            }
            i += len > 0 ? len : 1;
            plain = i;
        }
    }
    if (plain < end) {
        put(json, s.ptr + plain, end - plain);
    }
    put_text(json, is_cut ? "\xE2\x80\xA6\"" : "\"");
}

static void begin_value(struct ks_json *json, const char *key)
{
    if (json->depth == 0) {
        return;
    }
    if (json->has_items[json->depth]) {
        put_text(json, ",");
    }
    if ((json->depth > LINES_DEPTH_MAX || json->is_one_line) && json->has_items[json->depth]) {
        put_text(json, " ");
    }
    json->has_items[json->depth] = true;
    put_line(json, json->depth);
    if (key) {
        put_string(json, ks_str_from(key));
        put_text(json, ": ");
    }
}

static void begin_container(struct ks_json *json, const char *key, const char *bracket)
{
    begin_value(json, key);
    put_text(json, bracket);
    KS_ASSERT(json->depth + 1 < KS_JSON_DEPTH_MAX);
    json->has_items[++json->depth] = false;
}

static void end_container(struct ks_json *json, const char *bracket)
{
    KS_ASSERT(json->depth > 0);
    bool has_items = json->has_items[json->depth--];
    if (has_items && json->depth < LINES_DEPTH_MAX) {
        put_line(json, json->depth);
    }
    put_text(json, bracket);
}

void ks_json_init(struct ks_json *json, ks_write_cb write, void *user)
{
    json->write = write;
    json->user = user;
    json->failed = false;
    json->is_one_line = false;
    json->is_for_markup = false;
    json->len_max = 0;
    json->depth = 0;
    json->used = 0;
}

void ks_json_init_for_markup(struct ks_json *json, size_t len_max, ks_write_cb write, void *user)
{
    ks_json_init(json, write, user);
    json->is_for_markup = true;
    json->len_max = len_max;
}

void ks_json_init_one_line(struct ks_json *json, ks_write_cb write, void *user)
{
    ks_json_init(json, write, user);
    json->is_one_line = true;
}

enum ks_status ks_json_finish(struct ks_json *json, struct ks_err *err)
{
    KS_ASSERT(json->depth == 0);
    put_text(json, "\n");
    flush(json);
    if (json->failed) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot write JSON: the receiver stopped");
    }
    return KS_OK;
}

void ks_json_object_begin(struct ks_json *json, const char *key)
{
    begin_container(json, key, "{");
}

void ks_json_object_end(struct ks_json *json)
{
    end_container(json, "}");
}

void ks_json_array_begin(struct ks_json *json, const char *key)
{
    begin_container(json, key, "[");
}

void ks_json_array_end(struct ks_json *json)
{
    end_container(json, "]");
}

void ks_json_null(struct ks_json *json, const char *key)
{
    begin_value(json, key);
    put_text(json, "null");
}

void ks_json_bool(struct ks_json *json, const char *key, bool value)
{
    begin_value(json, key);
    put_text(json, value ? "true" : "false");
}

void ks_json_int(struct ks_json *json, const char *key, int64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, value);
    begin_value(json, key);
    put_text(json, text);
}

/* The digits of a number, as printf gives them but in a fraction of its time. */
static size_t format_int(int64_t value, char *end)
{
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    char *at = end;
    do {
        *--at = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (value < 0) {
        *--at = '-';
    }
    return (size_t)(end - at);
}

void ks_json_ints(struct ks_json *json, const char *key, const int64_t *values, size_t count)
{
    char text[24];
    text[sizeof(text) - 1] = ',';
    begin_value(json, key);
    put_text(json, "[");
    for (size_t i = 0; i < count; i++) {
        size_t len = format_int(values[i], text + sizeof(text) - 1);
        put(json, text + sizeof(text) - 1 - len, len + (i + 1 < count));
    }
    put_text(json, "]");
}

void ks_json_format_real(double value, char text[KS_JSON_REAL_SIZE])
{
    if (!isfinite(value)) {
        memcpy(text, "null", sizeof("null"));
        return;
    }
    /* 17 digits always read back equal; most numbers need no more than 15. */
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, KS_JSON_REAL_SIZE, "%.*g", digits, value);
        if (strtod(text, NULL) == value) {
            break;
        }
    }
    for (char *at = text; *at; at++) { /* the locale of the process may have another point */
        if (!strchr("0123456789+-e", *at)) {
            *at = '.';
        }
    }
}

void ks_json_real(struct ks_json *json, const char *key, double value)
{
    char text[KS_JSON_REAL_SIZE];
    ks_json_format_real(value, text);
    begin_value(json, key);
    put_text(json, text);
}

void ks_json_str(struct ks_json *json, const char *key, struct ks_str value)
{
    begin_value(json, key);
    put_string(json, value);
}

void ks_json_text(struct ks_json *json, const char *key, const char *value)
{
    if (value) {
        ks_json_str(json, key, ks_str_from(value));
    } else {
        ks_json_null(json, key);
    }
}
