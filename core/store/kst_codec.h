/* How the column of a chunk lies in a sealed file: as it is, as one value, or as small distances
 * from the least one. Most columns of a chunk hold one value (-1) or a narrow range. */
#ifndef KS_STORE_KST_CODEC_H
#define KS_STORE_KST_CODEC_H

#include "base/compiler.h"

enum ks_kst_encoding {
    KS_KST_PLAIN = 0,    /* the values, `value_size` bytes each */
    KS_KST_CONSTANT = 1, /* no bytes: all are `base` */
    KS_KST_OFFSET = 2,   /* value - base, `width` bytes each, unsigned, modulo the value's size */
};

struct ks_kst_coding {
    uint8_t encoding; /* enum ks_kst_encoding */
    uint8_t width;    /* bytes of a stored value; 0 when constant */
    uint64_t base;    /* the low `value_size` bytes count */
};

/* Bytes for so many values, with zeros behind them up to a multiple of 8: so all lie aligned. */
static inline size_t ks_kst_room(size_t value_size, size_t count)
{
    return (value_size * count + 7) & ~(size_t)7;
}

/* Encodes `count` >= 1 values of 1, 2, 4 or 8 bytes; 8-byte ones are compared as signed. `to` is
 * aligned to 8 and has room for ks_kst_room. Gives the number of bytes written. */
size_t ks_kst_encode(const void *values, size_t value_size, size_t count,
                     struct ks_kst_coding *coding, void *to);
/* Bytes that so many values take, a multiple of 8; SIZE_MAX: it is no coding of such values. */
size_t ks_kst_stored_size(const struct ks_kst_coding *coding, size_t value_size, size_t count);
/* The other way round; `from` holds what ks_kst_stored_size says. */
void ks_kst_decode(const void *from, const struct ks_kst_coding *coding, size_t value_size,
                   size_t count, void *values);

#endif
