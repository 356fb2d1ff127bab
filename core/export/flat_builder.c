/* The layout: a buffer begins with the place of its root. A table begins with the distance back to
 * its vtable, which says where in the table each field lies. References are the distance from
 * where they stand to what they mean, which always comes later. Everything is aligned to its size,
 * counted from the end, whose place is a multiple of 8. */
#include "export/flat_builder.h"

#include "base/alloc.h"
#include "base/err.h"

enum { CAPACITY_MIN = 1024, ALIGN_MAX = 8 };

void ks_flat_init(struct ks_flat_builder *flat)
{
    *flat = (struct ks_flat_builder){0};
}

void ks_flat_release(struct ks_flat_builder *flat)
{
    ks_free(flat->ptr);
    *flat = (struct ks_flat_builder){0};
}

void ks_flat_reset(struct ks_flat_builder *flat)
{
    flat->used = 0;
    flat->failed = false;
}

/* Room for `size` more bytes in front. */
static bool reserve(struct ks_flat_builder *flat, size_t size)
{
    if (flat->failed || flat->capacity - flat->used >= size) {
        return !flat->failed;
    }
    size_t capacity = flat->capacity > 0 ? flat->capacity : CAPACITY_MIN;
    while (capacity - flat->used < size && capacity <= UINT32_MAX) {
        capacity *= 2;
    }
    char *grown = capacity <= UINT32_MAX ? ks_alloc(capacity, 1) : NULL; // places have 32 bits
    if (!grown) {
        flat->failed = true;
        return false;
    }
    if (flat->used > 0) {
        memcpy(grown + capacity - flat->used, flat->ptr + flat->capacity - flat->used, flat->used);
    }
    ks_free(flat->ptr);
    flat->ptr = grown;
    flat->capacity = capacity;
    return true;
}

static void put(struct ks_flat_builder *flat, const void *bytes, size_t size)
{
    if (size > 0 && reserve(flat, size)) {
        flat->used += size;
        memcpy(flat->ptr + flat->capacity - flat->used, bytes, size);
    }
}

/* Zeros, so that what is put next, `size` bytes, begins at a multiple of `align`. */
static void pad(struct ks_flat_builder *flat, size_t size, size_t align)
{
    static const char zeros[ALIGN_MAX] = "";
    put(flat, zeros, (align - (flat->used + size) % align) % align);
}

static void put_u32(struct ks_flat_builder *flat, size_t value)
{
    uint32_t number = (uint32_t)value;
    put(flat, &number, sizeof(number));
}

static ks_flat_place here(const struct ks_flat_builder *flat)
{
    return (ks_flat_place)flat->used;
}

ks_flat_place ks_flat_text(struct ks_flat_builder *flat, struct ks_str text)
{
    pad(flat, text.len + 1, sizeof(uint32_t));
    put(flat, "", 1); // the NUL
    put(flat, text.ptr, text.len);
    put_u32(flat, text.len);
    return here(flat);
}

ks_flat_place ks_flat_places(struct ks_flat_builder *flat, const ks_flat_place *places,
                             size_t count)
{
    pad(flat, 0, sizeof(uint32_t));
    for (size_t i = count; i > 0; i--) {
        put_u32(flat, flat->used + sizeof(uint32_t) - places[i - 1]);
    }
    put_u32(flat, count);
    return here(flat);
}

ks_flat_place ks_flat_structs(struct ks_flat_builder *flat, const void *structs, size_t count,
                              size_t size)
{
    pad(flat, count * size, ALIGN_MAX);
    put(flat, structs, count * size);
    put_u32(flat, count);
    return here(flat);
}

void ks_flat_table_begin(struct ks_flat_builder *flat)
{
    flat->table_start = flat->used;
    memset(flat->fields, 0, sizeof(flat->fields));
}

void ks_flat_number(struct ks_flat_builder *flat, unsigned field, size_t size, int64_t value)
{
    KS_ASSERT(field < KS_FLAT_FIELDS_MAX);
    pad(flat, size, size);
    put(flat, &value, size); // little-endian, as the format
    flat->fields[field] = here(flat);
}

void ks_flat_refer(struct ks_flat_builder *flat, unsigned field, ks_flat_place place)
{
    KS_ASSERT(field < KS_FLAT_FIELDS_MAX);
    if (place != 0) {
        pad(flat, sizeof(uint32_t), sizeof(uint32_t));
        put_u32(flat, flat->used + sizeof(uint32_t) - place);
        flat->fields[field] = here(flat);
    }
}

/* The vtable lies before its table: its own size, that of the table, and where the fields are. */
ks_flat_place ks_flat_table_end(struct ks_flat_builder *flat)
{
    uint16_t vtable[KS_FLAT_FIELDS_MAX + 2] = {0};
    size_t count = KS_FLAT_FIELDS_MAX;
    while (count > 0 && flat->fields[count - 1] == 0) {
        count--;
    }
    size_t vtable_size = (count + 2) * sizeof(*vtable);
    pad(flat, sizeof(uint32_t), sizeof(uint32_t));
    put_u32(flat, vtable_size); // from the table back to its vtable
    ks_flat_place table = here(flat);
    vtable[0] = (uint16_t)vtable_size;
    vtable[1] = (uint16_t)(table - flat->table_start);
    for (size_t i = 0; i < count; i++) {
        vtable[i + 2] = (uint16_t)(flat->fields[i] ? table - flat->fields[i] : 0);
    }
    put(flat, vtable, vtable_size);
    return table;
}

enum ks_status ks_flat_finish(struct ks_flat_builder *flat, ks_flat_place root, struct ks_str *out,
                              struct ks_err *err)
{
    pad(flat, sizeof(uint32_t), ALIGN_MAX);
    put_u32(flat, flat->used + sizeof(uint32_t) - root);
    if (flat->failed) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot describe a table: no memory");
    }
    *out = (struct ks_str){flat->ptr + flat->capacity - flat->used, flat->used};
    return KS_OK;
}
