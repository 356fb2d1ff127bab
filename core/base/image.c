#include "base/image.h"

#include "base/alloc.h"
#include "base/build_id.h"
#include "base/err.h"
#include "base/grow.h"

enum { ALIGNMENT = 16 };

/* An array, where it lay and where it lies in the image. */
struct array {
    const char *from; /* NULL while unpacking */
    size_t offset;
    size_t size;
    const struct ks_image_type *type;
};

struct arrays {
    struct array *list;
    size_t count;
    size_t capacity;
};

static enum ks_status fail_nomem(struct ks_err *err)
{
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot make image: no memory");
}

static const void *pointer_at(const char *place)
{
    const void *ptr;
    memcpy(&ptr, place, sizeof(ptr));
    return ptr;
}

static size_t size_at(const char *place)
{
    size_t size;
    memcpy(&size, place, sizeof(size));
    return size;
}

static void set_word(char *place, uintptr_t word)
{
    memcpy(place, &word, sizeof(word));
}

/* ------------------------------------------------------------------ packing */

struct packer {
    struct ks_text *out;
    const struct ks_arena *arena;
    struct arrays arrays;
};

/* Where the next bytes come to lie; texts need no alignment. */
static size_t append(struct packer *p, const void *bytes, size_t size, size_t alignment)
{
    static const char zeros[ALIGNMENT];
    ks_text_append(p->out, zeros, -p->out->len & (alignment - 1));
    size_t offset = p->out->len;
    ks_text_append(p->out, bytes, size);
    return offset;
}

static enum ks_status add_array(struct arrays *arrays, const struct array *array,
                                struct ks_err *err)
{
    KS_TRY(ks_grow(&arrays->list, arrays->count, &arrays->capacity, sizeof(*arrays->list), "arrays",
                   err));
    arrays->list[arrays->count++] = *array;
    return KS_OK;
}

static void put_word(struct packer *p, size_t place, uintptr_t word)
{
    if (!p->out->failed) {
        set_word(p->out->ptr + place, word);
    }
}

static size_t append_text(struct packer *p, const char *ptr, size_t len)
{
    size_t offset = append(p, ptr, len, 1);
    ks_text_append(p->out, "", 1);
    return offset;
}

static enum ks_status pack_items(struct packer *p, const char *from, size_t offset, size_t count,
                                 const struct ks_image_type *type, struct ks_err *err);

static enum ks_status pack_array(struct packer *p, const char *from, size_t place,
                                 const struct ks_image_field *field, struct ks_err *err)
{
    const char *items = pointer_at(from + field->offset);
    size_t count = items ? size_at(from + field->count) : 0;
    if (!items) {
        put_word(p, place, 0);
        return KS_OK;
    }
    struct array array = {.from = items, .size = count * field->type->size, .type = field->type};
    array.offset = append(p, items, array.size, ALIGNMENT);
    put_word(p, place, array.offset + 1);
    KS_TRY(add_array(&p->arrays, &array, err));
    return pack_items(p, items, array.offset, count, field->type, err);
}

/* One field of the struct at `from`, whose bytes lie at `offset` of the image. */
static enum ks_status pack_field(struct packer *p, const char *from, size_t offset,
                                 const struct ks_image_field *field, struct ks_err *err)
{
    size_t place = offset + field->offset;
    const char *ptr = NULL;
    switch (field->kind) {
    case KS_IMAGE_ARRAY: return pack_array(p, from, place, field, err);
    case KS_IMAGE_INSIDE:
        return pack_items(p, from + field->offset, place, field->count, field->type, err);
    case KS_IMAGE_REF: return KS_OK; // when all arrays are known
    case KS_IMAGE_LEFT_OUT:
        if (!p->out->failed) {
            memset(p->out->ptr + place, 0, field->count);
        }
        return KS_OK;
    case KS_IMAGE_TEXT:
        ptr = pointer_at(from + field->offset);
        put_word(p, place, ptr ? append_text(p, ptr, strlen(ptr)) + 1 : 0);
        return KS_OK;
    case KS_IMAGE_NAMED:
        ptr = pointer_at(from + field->offset);
        ptr = ptr ? field->type->name_of(ptr) : NULL;
        put_word(p, place, ptr ? append_text(p, ptr, strlen(ptr)) + 1 : 0);
        return KS_OK;
    case KS_IMAGE_STR: {
        struct ks_str text;
        memcpy(&text, from + field->offset, sizeof(text));
        put_word(p, place, text.ptr ? append_text(p, text.ptr, text.len) + 1 : 0);
        return KS_OK;
    }
    }
    return KS_OK;
}

static enum ks_status pack_items(struct packer *p, const char *from, size_t offset, size_t count,
                                 const struct ks_image_type *type, struct ks_err *err)
{
    if (type->field_count == 0) {
        return KS_OK;
    }
    for (size_t i = 0; i < count; i++) {
        for (size_t f = 0; f < type->field_count; f++) {
            KS_TRY(pack_field(p, from + i * type->size, offset + i * type->size, &type->fields[f],
                              err));
        }
    }
    return p->out->failed ? fail_nomem(err) : KS_OK;
}

/* ------------------------------------------------------------------ references */

static const struct array *find_array(const struct arrays *arrays, const char *ptr,
                                      const struct ks_image_type *type)
{
    for (size_t i = 0; i < arrays->count; i++) {
        const struct array *array = &arrays->list[i];
        if (array->type == type && ptr >= array->from &&
            (size_t)(ptr - array->from) < array->size &&
            (size_t)(ptr - array->from) % type->size == 0) {
            return array;
        }
    }
    return NULL;
}

static enum ks_status fail_pointer(const struct ks_image_type *type, size_t offset,
                                   struct ks_err *err)
{
    return ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                   "Cannot make image: type=\"%s\", the pointer at byte %zu is not described",
                   type->name, offset);
}

static enum ks_status put_reference(struct packer *p, const char *from, size_t place,
                                    const struct ks_image_type *owner,
                                    const struct ks_image_field *field, struct ks_err *err)
{
    const char *ptr = pointer_at(from + field->offset);
    const struct array *array = ptr ? find_array(&p->arrays, ptr, field->type) : NULL;
    if (ptr && !array) {
        return fail_pointer(owner, field->offset, err);
    }
    put_word(p, place, ptr ? array->offset + (size_t)(ptr - array->from) + 1 : 0);
    return KS_OK;
}

static enum ks_status put_references(struct packer *p, const char *from, size_t offset,
                                     size_t count, const struct ks_image_type *type,
                                     struct ks_err *err)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t f = 0; f < type->field_count; f++) {
            const struct ks_image_field *field = &type->fields[f];
            const char *item = from + i * type->size;
            size_t place = offset + i * type->size + field->offset;
            if (field->kind == KS_IMAGE_REF) {
                KS_TRY(put_reference(p, item, place, type, field, err));
            } else if (field->kind == KS_IMAGE_INSIDE) {
                KS_TRY(
                    put_references(p, item + field->offset, place, field->count, field->type, err));
            }
        }
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ pointers not described */

static bool is_described(const struct ks_image_type *type, size_t offset)
{
    for (size_t f = 0; f < type->field_count; f++) {
        const struct ks_image_field *field = &type->fields[f];
        size_t size = field->kind == KS_IMAGE_LEFT_OUT ? field->count
                      : field->kind == KS_IMAGE_INSIDE ? field->count * field->type->size
                                                       : sizeof(void *);
        if (offset < field->offset || offset - field->offset >= size) {
            continue;
        }
        return field->kind != KS_IMAGE_INSIDE ||
               is_described(field->type, (offset - field->offset) % field->type->size);
    }
    return false;
}

/* Numbers are hardly ever like addresses: their range is looked at first. */
static bool is_stray(const struct packer *p, const char *ptr)
{
    if (p->arena && ks_arena_owns(p->arena, ptr)) {
        return true;
    }
    return (uintptr_t)ptr >> 32 != 0 && ks_build_owns(ptr);
}

/* A bool with what padding behind it happens to hold looks like an address whose last byte is 0 or
 * 1. Of addresses that nobody described hardly any end so, and one that does not is enough. */
static bool may_be_address(uintptr_t word)
{
    return word >= 0x10000 && word >> 47 == 0 && (word & 0xff) > 1;
}

static enum ks_status find_strays(const struct packer *p, const char *from, size_t count,
                                  const struct ks_image_type *type, struct ks_err *err)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t at = 0; at + sizeof(void *) <= type->size; at += sizeof(void *)) {
            const char *ptr = pointer_at(from + i * type->size + at);
            if (may_be_address((uintptr_t)ptr) && is_stray(p, ptr) && !is_described(type, at)) {
                return fail_pointer(type, at, err);
            }
        }
    }
    return KS_OK;
}

static enum ks_status pack(struct packer *p, const void *root, const struct ks_image_type *type,
                           struct ks_err *err)
{
    struct array self = {.from = root, .size = type->size, .type = type};
    self.offset = append(p, root, type->size, ALIGNMENT);
    KS_TRY(add_array(&p->arrays, &self, err));
    KS_TRY(pack_items(p, root, self.offset, 1, type, err));
    if (p->out->failed) {
        return fail_nomem(err);
    }
    for (size_t i = 0; i < p->arrays.count; i++) {
        const struct array *array = &p->arrays.list[i];
        size_t count = array->size / array->type->size;
        KS_TRY(put_references(p, array->from, array->offset, count, array->type, err));
        KS_TRY(find_strays(p, array->from, count, array->type, err));
    }
    return KS_OK;
}

enum ks_status ks_image_pack(const void *root, const struct ks_image_type *type,
                             const struct ks_arena *arena, struct ks_text *out, struct ks_err *err)
{
    KS_ASSERT(out->len == 0);
    struct packer p = {.out = out, .arena = arena};
    enum ks_status status = pack(&p, root, type, err);
    ks_free(p.arrays.list);
    return status;
}

/* ------------------------------------------------------------------ unpacking */

/* Packing goes through the fields in one order, and so does this: each array and text lies behind
 * the one before, so that none is taken twice. */
struct unpacker {
    char *bytes;
    size_t size;
    size_t next;
    struct arrays arrays;
};

static enum ks_status fail_damaged(struct ks_err *err)
{
    return ks_fail(err, KS_ERR_FORMAT, KS_NO_OFFSET, "Cannot read image: it is damaged");
}

/* Takes `size` bytes of the image for the pointer at `place`; false: they are not there. */
static bool take(struct unpacker *u, char *place, size_t size, size_t alignment)
{
    size_t offset = size_at(place) - 1;
    if (offset < u->next || offset > u->size || size > u->size - offset ||
        offset % alignment != 0) {
        return false;
    }
    u->next = offset + size;
    set_word(place, (uintptr_t)(u->bytes + offset));
    return true;
}

static bool take_text(struct unpacker *u, char *place)
{
    size_t offset = size_at(place) - 1;
    const char *end = offset < u->size ? memchr(u->bytes + offset, 0, u->size - offset) : NULL;
    return end && take(u, place, (size_t)(end - (u->bytes + offset)) + 1, 1);
}

static bool take_str(struct unpacker *u, char *place)
{
    struct ks_str text;
    memcpy(&text, place, sizeof(text));
    return text.len < u->size && take(u, place, text.len + 1, 1);
}

static bool take_named(struct unpacker *u, char *place, const struct ks_image_type *type)
{
    if (!take_text(u, place)) {
        return false;
    }
    const void *item = type->find(pointer_at(place));
    set_word(place, (uintptr_t)item);
    return item != NULL;
}

static enum ks_status unpack_items(struct unpacker *u, char *items, size_t count,
                                   const struct ks_image_type *type, struct ks_err *err);

static enum ks_status unpack_array(struct unpacker *u, char *item,
                                   const struct ks_image_field *field, struct ks_err *err)
{
    char *place = item + field->offset;
    size_t count = size_at(item + field->count);
    struct array array = {.offset = size_at(place) - 1, .type = field->type};
    if (__builtin_mul_overflow(count, field->type->size, &array.size) ||
        !take(u, place, array.size, ALIGNMENT)) {
        return fail_damaged(err);
    }
    KS_TRY(add_array(&u->arrays, &array, err));
    return unpack_items(u, u->bytes + array.offset, count, field->type, err);
}

static enum ks_status unpack_field(struct unpacker *u, char *item,
                                   const struct ks_image_field *field, struct ks_err *err)
{
    char *place = item + field->offset;
    bool is_good = true;
    if (field->kind == KS_IMAGE_INSIDE) {
        return unpack_items(u, place, field->count, field->type, err);
    }
    if (field->kind == KS_IMAGE_LEFT_OUT || field->kind == KS_IMAGE_REF || size_at(place) == 0) {
        return KS_OK;
    }
    switch (field->kind) {
    case KS_IMAGE_ARRAY: return unpack_array(u, item, field, err);
    case KS_IMAGE_TEXT: is_good = take_text(u, place); break;
    case KS_IMAGE_STR: is_good = take_str(u, place); break;
    case KS_IMAGE_NAMED: is_good = take_named(u, place, field->type); break;
    default: break;
    }
    return is_good ? KS_OK : fail_damaged(err);
}

static enum ks_status unpack_items(struct unpacker *u, char *items, size_t count,
                                   const struct ks_image_type *type, struct ks_err *err)
{
    for (size_t i = 0; i < count && type->field_count > 0; i++) {
        for (size_t f = 0; f < type->field_count; f++) {
            KS_TRY(unpack_field(u, items + i * type->size, &type->fields[f], err));
        }
    }
    return KS_OK;
}

static bool take_reference(struct unpacker *u, char *place, const struct ks_image_type *type)
{
    size_t offset = size_at(place) - 1;
    for (size_t i = 0; i < u->arrays.count; i++) {
        const struct array *array = &u->arrays.list[i];
        if (array->type == type && offset >= array->offset &&
            offset - array->offset < array->size && (offset - array->offset) % type->size == 0) {
            set_word(place, (uintptr_t)(u->bytes + offset));
            return true;
        }
    }
    return false;
}

static bool take_references(struct unpacker *u, char *items, size_t count,
                            const struct ks_image_type *type)
{
    for (size_t i = 0; i < count && type->field_count > 0; i++) {
        for (size_t f = 0; f < type->field_count; f++) {
            const struct ks_image_field *field = &type->fields[f];
            char *place = items + i * type->size + field->offset;
            bool is_ref = field->kind == KS_IMAGE_REF && size_at(place) != 0;
            if ((is_ref && !take_reference(u, place, field->type)) ||
                (field->kind == KS_IMAGE_INSIDE &&
                 !take_references(u, place, field->count, field->type))) {
                return false;
            }
        }
    }
    return true;
}

static enum ks_status unpack(struct unpacker *u, const struct ks_image_type *type,
                             struct ks_err *err)
{
    struct array self = {.size = type->size, .type = type};
    if (u->size < type->size) {
        return fail_damaged(err);
    }
    u->next = type->size;
    KS_TRY(add_array(&u->arrays, &self, err));
    KS_TRY(unpack_items(u, u->bytes, 1, type, err));
    for (size_t i = 0; i < u->arrays.count; i++) {
        const struct array *array = &u->arrays.list[i];
        if (!take_references(u, u->bytes + array->offset, array->size / array->type->size,
                             array->type)) {
            return fail_damaged(err);
        }
    }
    return KS_OK;
}

enum ks_status ks_image_unpack(char *bytes, size_t size, const struct ks_image_type *type,
                               void *root, struct ks_err *err)
{
    struct unpacker u = {.bytes = bytes, .size = size};
    enum ks_status status = unpack(&u, type, err);
    if (status == KS_OK) {
        memcpy(root, bytes, type->size);
    }
    ks_free(u.arrays.list);
    return status;
}
