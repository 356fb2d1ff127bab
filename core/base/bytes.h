/* Little-endian bytes: written to a growing text, read from a range that is never left. A reader
 * that has failed gives zeros from then on, so that who reads asks once at the end. */
#ifndef KS_BASE_BYTES_H
#define KS_BASE_BYTES_H

#include "base/text.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers lie in files as in memory");

struct ks_bytes {
    const char *ptr;
    size_t left;
    bool failed; /* more was asked for than there is */
};

/* The next `size` bytes, or NULL. */
static inline const char *ks_bytes_take(struct ks_bytes *bytes, size_t size)
{
    if (bytes->failed || size > bytes->left) {
        bytes->failed = true;
        return NULL;
    }
    const char *ptr = bytes->ptr;
    bytes->ptr += size;
    bytes->left -= size;
    return ptr;
}

#define KS_DEFINE_BYTES(name, type)                                                                \
    static inline type ks_bytes_##name(struct ks_bytes *bytes)                                     \
    {                                                                                              \
        type value = 0;                                                                            \
        const char *ptr = ks_bytes_take(bytes, sizeof(value));                                     \
        if (ptr) {                                                                                 \
            memcpy(&value, ptr, sizeof(value));                                                    \
        }                                                                                          \
        return value;                                                                              \
    }                                                                                              \
    static inline void ks_put_##name(struct ks_text *out, type value)                              \
    {                                                                                              \
        ks_text_append(out, (const char *)&value, sizeof(value));                                  \
    }

KS_DEFINE_BYTES(u8, uint8_t)
KS_DEFINE_BYTES(u32, uint32_t)
KS_DEFINE_BYTES(u64, uint64_t)
KS_DEFINE_BYTES(i32, int32_t)
KS_DEFINE_BYTES(i64, int64_t)

/* A count of items that take `size` bytes each at least: one that cannot be there fails. */
static inline uint32_t ks_bytes_count(struct ks_bytes *bytes, size_t size)
{
    uint32_t count = ks_bytes_u32(bytes);
    if (count > bytes->left / size) {
        bytes->failed = true;
        count = 0;
    }
    return count;
}

#endif
