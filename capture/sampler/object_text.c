#include "capture/sampler/object_text.h"

#include <string.h>

enum {
    HEADER_SIZE = 40,
    LENGTH_AT = 16,
    STATE_AT = 32,
    KIND_SHIFT = 2, /* bits of the state: interned, kind, compact, ASCII */
    KIND_MASK = 7,
    COMPACT_BIT = 1 << 5,
    ASCII_BIT = 1 << 6,
    LENGTH_MAX = 1 << 30,
};

static uint32_t character_at(const char *bytes, size_t index, unsigned kind)
{
    uint8_t one;
    uint16_t two;
    uint32_t four;
    switch (kind) {
    case 1: memcpy(&one, bytes + index, sizeof(one)); return one;
    case 2: memcpy(&two, bytes + index * sizeof(two), sizeof(two)); return two;
    default: memcpy(&four, bytes + index * sizeof(four), sizeof(four)); return four;
    }
}

/* Gives how many bytes it wrote: 0, no room. */
static size_t put_utf8(char *out, size_t room, uint32_t c)
{
    enum { LAST = 0x10FFFF, SURROGATES = 0xD800, SURROGATES_END = 0xE000 };
    static const uint8_t LEADS[] = {0, 0, 0xC0, 0xE0, 0xF0};
    if ((c >= SURROGATES && c < SURROGATES_END) || c > LAST || c == 0) {
        c = '?';
    }
    size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    if (size > room) {
        return 0;
    }
    for (size_t i = size - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (c & 0x3F));
        c >>= 6;
    }
    out[0] = (char)(size == 1 ? c : LEADS[size] | c);
    return size;
}

bool ks_object_text_read(struct ks_self_memory *memory, size_t at,
                         const struct ks_python_layout *layout, uintptr_t object, char *out,
                         size_t size, size_t *len)
{
    const char *bytes = memory->area + at;
    int64_t length = 0;
    uint32_t state = 0;
    if (object == 0 || !ks_self_memory_read(memory, at, object, HEADER_SIZE)) {
        return false;
    }
    memcpy(&length, bytes + LENGTH_AT, sizeof(length));
    memcpy(&state, bytes + STATE_AT, sizeof(state));
    unsigned kind = (state >> KIND_SHIFT) & KIND_MASK;
    bool is_known = (kind == 1 || kind == 2 || kind == 4) && (state & COMPACT_BIT) != 0;
    if (!is_known || length < 0 || length > LENGTH_MAX) {
        return false;
    }
    size_t count = (size_t)length < size ? (size_t)length : size;
    uintptr_t data = object + (state & ASCII_BIT ? layout->text_data : layout->text_data_wide);
    if (count > 0 && !ks_self_memory_read(memory, at, data, count * kind)) {
        return false;
    }
    *len = 0;
    for (size_t i = 0; i < count; i++) {
        size_t put = put_utf8(out + *len, size - *len, character_at(bytes, i, kind));
        if (put == 0) {
            break;
        }
        *len += put;
    }
    return true;
}
