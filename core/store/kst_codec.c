#include "store/kst_codec.h"

#include <string.h>

/* Loops over plain arrays of one width each, so that the compiler makes vectors of them. */
#define DEFINE_RANGE(bits, type)                                                                   \
    static void range_##bits(const type *values, size_t count, uint64_t *low, uint64_t *high)      \
    {                                                                                              \
        type min = values[0];                                                                      \
        type max = values[0];                                                                      \
        for (size_t i = 1; i < count; i++) {                                                       \
            min = values[i] < min ? values[i] : min;                                               \
            max = values[i] > max ? values[i] : max;                                               \
        }                                                                                          \
        *low = (uint64_t)min;                                                                      \
        *high = (uint64_t)max;                                                                     \
    }

DEFINE_RANGE(8, uint8_t)
DEFINE_RANGE(16, uint16_t)
DEFINE_RANGE(32, uint32_t)
DEFINE_RANGE(64, int64_t)

#define DEFINE_NARROW(bits, type, stored_bits, stored_type)                                        \
    static void narrow_##bits##_##stored_bits(const type *values, size_t count, uint64_t base,     \
                                              stored_type *to)                                     \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            to[i] = (stored_type)(values[i] - (type)base);                                         \
        }                                                                                          \
    }                                                                                              \
    static void widen_##bits##_##stored_bits(const stored_type *from, size_t count, uint64_t base, \
                                             type *values)                                         \
    {                                                                                              \
        for (size_t i = 0; i < count; i++) {                                                       \
            values[i] = (type)(from[i] + (type)base);                                              \
        }                                                                                          \
    }

DEFINE_NARROW(64, uint64_t, 8, uint8_t)
DEFINE_NARROW(64, uint64_t, 16, uint16_t)
DEFINE_NARROW(64, uint64_t, 32, uint32_t)
DEFINE_NARROW(32, uint32_t, 8, uint8_t)
DEFINE_NARROW(32, uint32_t, 16, uint16_t)
DEFINE_NARROW(16, uint16_t, 8, uint8_t)

static void find_range(const void *values, size_t value_size, size_t count, uint64_t *low,
                       uint64_t *high)
{
    switch (value_size) {
    case 1: range_8(values, count, low, high); break;
    case 2: range_16(values, count, low, high); break;
    case 4: range_32(values, count, low, high); break;
    default: range_64(values, count, low, high); break;
    }
}

static uint8_t width_of(uint64_t range)
{
    return range <= UINT8_MAX ? 1 : range <= UINT16_MAX ? 2 : range <= UINT32_MAX ? 4 : 8;
}

static void narrow(const void *values, size_t value_size, size_t count,
                   const struct ks_kst_coding *coding, void *to)
{
    switch (value_size * 10 + coding->width) {
    case 81: narrow_64_8(values, count, coding->base, to); break;
    case 82: narrow_64_16(values, count, coding->base, to); break;
    case 84: narrow_64_32(values, count, coding->base, to); break;
    case 41: narrow_32_8(values, count, coding->base, to); break;
    case 42: narrow_32_16(values, count, coding->base, to); break;
    default: narrow_16_8(values, count, coding->base, to); break;
    }
}

/* Zeros behind the values; gives the size with them. */
static size_t pad(char *to, size_t width, size_t count)
{
    size_t room = ks_kst_room(width, count);
    memset(to + width * count, 0, room - width * count);
    return room;
}

size_t ks_kst_encode(const void *values, size_t value_size, size_t count,
                     struct ks_kst_coding *coding, void *to)
{
    uint64_t low = 0;
    uint64_t high = 0;
    find_range(values, value_size, count, &low, &high);
    uint8_t width = width_of(high - low);
    if (low == high) {
        *coding = (struct ks_kst_coding){.encoding = KS_KST_CONSTANT, .base = low};
        return 0;
    }
    if (width >= value_size) {
        *coding = (struct ks_kst_coding){.encoding = KS_KST_PLAIN, .width = (uint8_t)value_size};
        memcpy(to, values, count * value_size);
        return pad(to, value_size, count);
    }
    *coding = (struct ks_kst_coding){.encoding = KS_KST_OFFSET, .width = width, .base = low};
    narrow(values, value_size, count, coding, to);
    return pad(to, width, count);
}

size_t ks_kst_stored_size(const struct ks_kst_coding *coding, size_t value_size, size_t count)
{
    uint8_t width = coding->width;
    bool is_good = false;
    switch (coding->encoding) {
    case KS_KST_PLAIN: is_good = width == value_size && coding->base == 0; break;
    case KS_KST_CONSTANT: is_good = width == 0; break;
    case KS_KST_OFFSET:
        is_good = (width == 1 || width == 2 || width == 4) && width < value_size;
        break;
    default: break;
    }
    return is_good ? ks_kst_room(width, count) : SIZE_MAX;
}

static void fill(uint64_t base, size_t value_size, size_t count, char *values)
{
    for (size_t i = 0; i < count; i++) {
        memcpy(values + i * value_size, &base, value_size);
    }
}

void ks_kst_decode(const void *from, const struct ks_kst_coding *coding, size_t value_size,
                   size_t count, void *values)
{
    if (coding->encoding == KS_KST_PLAIN) {
        memcpy(values, from, count * value_size);
        return;
    }
    if (coding->encoding == KS_KST_CONSTANT) {
        switch (value_size) { // known sizes make each copy one move
        case 1: memset(values, (int)(coding->base & UINT8_MAX), count); break;
        case 4: fill(coding->base, 4, count, values); break;
        case 8: fill(coding->base, 8, count, values); break;
        default: fill(coding->base, value_size, count, values); break;
        }
        return;
    }
    switch (value_size * 10 + coding->width) {
    case 81: widen_64_8(from, count, coding->base, values); break;
    case 82: widen_64_16(from, count, coding->base, values); break;
    case 84: widen_64_32(from, count, coding->base, values); break;
    case 41: widen_32_8(from, count, coding->base, values); break;
    case 42: widen_32_16(from, count, coding->base, values); break;
    default: widen_16_8(from, count, coding->base, values); break;
    }
}
