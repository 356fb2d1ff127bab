#include "show/plain.h"

enum { CONTROL_C1_END = 0xA0 };

static uint32_t decode(const unsigned char *bytes, size_t len)
{
    switch (len) {
    case 1: return bytes[0];
    case 2: return ((uint32_t)(bytes[0] & 0x1F) << 6) | (bytes[1] & 0x3F);
    case 3:
        return ((uint32_t)(bytes[0] & 0x0F) << 12) | ((uint32_t)(bytes[1] & 0x3F) << 6) |
               (bytes[2] & 0x3F);
    default:
        return ((uint32_t)(bytes[0] & 0x07) << 18) | ((uint32_t)(bytes[1] & 0x3F) << 12) |
               ((uint32_t)(bytes[2] & 0x3F) << 6) | (bytes[3] & 0x3F);
    }
}

struct span {
    uint32_t first;
    uint32_t last;
};

static bool in_spans(uint32_t code, const struct span *spans, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (code >= spans[i].first && code <= spans[i].last) {
            return true;
        }
    }
    return false;
}

/* Characters that act on the terminal or on the order of text, or that nobody can see. */
static bool is_unsafe(uint32_t code)
{
    static const struct span spans[] = {
        {0x00, 0x1F},     {0x7F, CONTROL_C1_END - 1}, {0xAD, 0xAD},     {0x61C, 0x61C},
        {0x200B, 0x200F}, {0x2028, 0x202E},           {0x2060, 0x2069}, {0xFEFF, 0xFEFF},
        {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F},
    };
    return in_spans(code, spans, KS_COUNT_OF(spans));
}

/* Columns of one safe character; the wide blocks are those of East Asian scripts and emoji. */
static size_t columns_of(uint32_t code)
{
    static const struct span none[] = {
        {0x300, 0x36F}, {0x483, 0x489}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0x1F3FB, 0x1F3FF},
    };
    static const struct span wide[] = {
        {0x1100, 0x115F},   {0x2E80, 0xA4CF},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},
        {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F},
        {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD},
    };
    if (in_spans(code, none, KS_COUNT_OF(none))) {
        return 0;
    }
    return in_spans(code, wide, KS_COUNT_OF(wide)) ? 2 : 1;
}

void ks_plain_append(struct ks_text *text, struct ks_str s)
{
    const unsigned char *bytes = (const unsigned char *)s.ptr;
    for (size_t i = 0; i < s.len;) {
        size_t len = ks_utf8_sequence(bytes + i, s.len - i);
        if (len == 0) {
            ks_text_printf(text, "\\x%02x", bytes[i++]);
            continue;
        }
        uint32_t code = decode(bytes + i, len);
        if (!is_unsafe(code)) {
            ks_text_append(text, s.ptr + i, len);
        } else {
            ks_text_printf(text, "\\u%04x", code);
        }
        i += len;
    }
}

size_t ks_plain_width(struct ks_str plain)
{
    const unsigned char *bytes = (const unsigned char *)plain.ptr;
    size_t width = 0;
    for (size_t i = 0; i < plain.len;) {
        size_t len = ks_utf8_sequence(bytes + i, plain.len - i);
        width += len == 0 ? 1 : columns_of(decode(bytes + i, len));
        i += len == 0 ? 1 : len;
    }
    return width;
}

/* Bytes at the start of `plain` that fill at most `width` columns. */
static size_t head_bytes(struct ks_str plain, size_t width)
{
    const unsigned char *bytes = (const unsigned char *)plain.ptr;
    size_t used = 0;
    size_t i = 0;
    while (i < plain.len) {
        size_t len = ks_utf8_sequence(bytes + i, plain.len - i);
        len = len == 0 ? 1 : len;
        size_t columns = columns_of(decode(bytes + i, len));
        if (used + columns > width) {
            break;
        }
        used += columns;
        i += len;
    }
    return i;
}

/* Bytes before a tail of at most `width` columns. */
static size_t tail_offset(struct ks_str plain, size_t width)
{
    size_t total = ks_plain_width(plain);
    size_t skip = total > width ? total - width : 0;
    size_t offset = head_bytes(plain, skip);
    /* A wide character may lie across the border: it goes too. */
    while (ks_plain_width((struct ks_str){plain.ptr + offset, plain.len - offset}) > width) {
        size_t len =
            ks_utf8_sequence((const unsigned char *)plain.ptr + offset, plain.len - offset);
        offset += len == 0 ? 1 : len;
    }
    return offset;
}

/* `head_percent` of what can be shown is the start of the text. */
static void append_fit(struct ks_text *text, struct ks_str s, size_t width, size_t head_percent)
{
    /* Only the ends of a long name can be seen: megabytes between them are not looked at. */
    enum { SEEN_MAX = 8192 };
    struct ks_text plain;
    ks_text_init(&plain);
    bool is_huge = s.len > 2 * (size_t)SEEN_MAX;
    ks_plain_append(&plain, (struct ks_str){s.ptr, is_huge ? SEEN_MAX : s.len});
    if (is_huge) {
        ks_plain_append(&plain, (struct ks_str){s.ptr + s.len - SEEN_MAX, SEEN_MAX});
    }
    text->failed = text->failed || plain.failed;

    struct ks_str all = {plain.ptr, plain.len};
    if (ks_plain_width(all) <= width) {
        ks_text_append_str(text, all);
    } else if (width <= 4) {
        ks_text_append(text, all.ptr, head_bytes(all, width));
    } else {
        size_t head = ((width - 2) * head_percent + 99) / 100;
        size_t offset = tail_offset(all, width - 2 - head);
        ks_text_append(text, all.ptr, head_bytes(all, head));
        ks_text_append(text, "..", 2);
        ks_text_append(text, all.ptr + offset, all.len - offset);
    }
    ks_text_release(&plain);
}

void ks_plain_append_fit(struct ks_text *text, struct ks_str s, size_t width)
{
    append_fit(text, s, width, 50);
}

void ks_plain_append_kernel(struct ks_text *text, struct ks_str name, size_t width)
{
    append_fit(text, ks_plain_kernel(name), width, 70);
}

struct ks_str ks_plain_kernel(struct ks_str name)
{
    static const struct ks_str prefixes[] = {
        {"void ", 5}, {"at::native::", 12}, {"(anonymous namespace)::", 23}};
    for (size_t i = 0; i < KS_COUNT_OF(prefixes); i++) {
        if (ks_str_starts(name, prefixes[i]) && name.len > prefixes[i].len) {
            name = (struct ks_str){name.ptr + prefixes[i].len, name.len - prefixes[i].len};
        }
    }
    if (name.len == 0 || name.ptr[name.len - 1] != ')') {
        return name;
    }
    size_t depth = 0;
    for (size_t i = name.len; i > 0; i--) {
        if (name.ptr[i - 1] == ')') {
            depth++;
        } else if (name.ptr[i - 1] == '(' && --depth == 0) {
            return i > 1 ? (struct ks_str){name.ptr, i - 1} : name;
        }
    }
    return name;
}
