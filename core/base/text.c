#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"

enum { CAPACITY_MIN = 256 };

void ks_text_init(struct ks_text *text)
{
    *text = (struct ks_text){0};
}

void ks_text_release(struct ks_text *text)
{
    ks_free(text->ptr);
    *text = (struct ks_text){0};
}

void ks_text_reset(struct ks_text *text)
{
    text->len = 0;
    text->failed = false;
}

/* Room for `len` more bytes and the NUL that vsnprintf writes. */
bool ks_text_reserve(struct ks_text *text, size_t len)
{
    if (text->failed) {
        return false;
    }
    if (len < text->capacity - text->len) {
        return true;
    }
    size_t needed = 0;
    if (__builtin_add_overflow(text->len, len, &needed) || needed > SIZE_MAX / 4) {
        text->failed = true;
        return false;
    }
    size_t capacity = text->capacity == 0 ? CAPACITY_MIN : text->capacity * 2;
    while (capacity <= needed) {
        capacity *= 2;
    }
    char *ptr = ks_realloc(text->ptr, capacity, 1);
    if (!ptr) {
        text->failed = true;
        return false;
    }
    text->ptr = ptr;
    text->capacity = capacity;
    return true;
}

void ks_text_append(struct ks_text *text, const char *bytes, size_t len)
{
    if (len > 0 && ks_text_reserve(text, len)) {
        memcpy(text->ptr + text->len, bytes, len);
        text->len += len;
    }
}

void ks_text_append_str(struct ks_text *text, struct ks_str s)
{
    ks_text_append(text, s.ptr, s.len);
}

void ks_text_printf(struct ks_text *text, const char *format, ...)
{
    if (text->failed) {
        return;
    }
    size_t room = text->capacity - text->len;
    va_list args;
    va_start(args, format);
    int len = vsnprintf(room > 0 ? text->ptr + text->len : NULL, room, format, args);
    va_end(args);
    if (len < 0) {
        text->failed = true;
        return;
    }
    if ((size_t)len >= room) {
        if (!ks_text_reserve(text, (size_t)len)) {
            return;
        }
        va_start(args, format);
        (void)vsnprintf(text->ptr + text->len, (size_t)len + 1, format, args);
        va_end(args);
    }
    text->len += (size_t)len;
}

/* Table 3-7 of the Unicode standard: the first byte says how many follow, and a few first bytes
 * narrow the second one, so that there are no overlong forms, no surrogates, nothing above
 * U+10FFFF. */
size_t ks_utf8_sequence(const unsigned char *ptr, size_t len)
{
    if (len == 0) {
        return 0;
    }
    unsigned char c = ptr[0];
    if (c < 0x80) {
        return 1;
    }
    size_t size = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    if (c < 0xC2 || c > 0xF4 || len < size) {
        return 0;
    }
    unsigned char low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
    unsigned char high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
    if (ptr[1] < low || ptr[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < size; i++) {
        if ((ptr[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    return size;
}
