/* Structs that point to arrays, texts and each other, as bytes that can lie in a file, and back.
 *
 * The bytes are those of the structs, so they are good for the build that wrote them only. A type
 * describes its pointers; all other members need no word. In the image a pointer is 1 + its
 * distance from the begin, 0 for NULL. What is described wrongly is noticed: a pointer into the
 * arena of the structs, or into the program, that no field describes makes packing fail. */
#ifndef KS_BASE_IMAGE_H
#define KS_BASE_IMAGE_H

#include "base/arena.h"
#include "base/text.h"

enum ks_image_kind {
    KS_IMAGE_ARRAY,    /* pointer to as many items of `type` as the size_t at `count` says */
    KS_IMAGE_REF,      /* pointer to an item of one of the arrays of `type`, or NULL */
    KS_IMAGE_TEXT,     /* const char *, with a NUL at its end, or NULL */
    KS_IMAGE_STR,      /* struct ks_str */
    KS_IMAGE_INSIDE,   /* `count` structs of `type`, one behind the other */
    KS_IMAGE_NAMED,    /* pointer to one of the static things of `type`, or NULL */
    KS_IMAGE_LEFT_OUT, /* `count` bytes that become 0 */
};

struct ks_image_type;

struct ks_image_field {
    enum ks_image_kind kind;
    size_t offset;
    size_t count;
    const struct ks_image_type *type;
};

struct ks_image_type {
    const char *name;
    size_t size;
    const struct ks_image_field *fields;
    size_t field_count;
    /* Of things that only have names: */
    const char *(*name_of)(const void *item);
    const void *(*find)(const char *name); /* NULL: there is none */
};

#define KS_IMAGE_ARRAY_OF(owner, member, count_member, of)                                         \
    {                                                                                              \
        KS_IMAGE_ARRAY, offsetof(owner, member), offsetof(owner, count_member), &(of)              \
    }
#define KS_IMAGE_REF_TO(owner, member, of)                                                         \
    {                                                                                              \
        KS_IMAGE_REF, offsetof(owner, member), 0, &(of)                                            \
    }
#define KS_IMAGE_TEXT_IN(owner, member)                                                            \
    {                                                                                              \
        KS_IMAGE_TEXT, offsetof(owner, member), 0, NULL                                            \
    }
#define KS_IMAGE_STR_IN(owner, member)                                                             \
    {                                                                                              \
        KS_IMAGE_STR, offsetof(owner, member), 0, NULL                                             \
    }
#define KS_IMAGE_STRUCTS(owner, member, of_count, of)                                              \
    {                                                                                              \
        KS_IMAGE_INSIDE, offsetof(owner, member), of_count, &(of)                                  \
    }
#define KS_IMAGE_NAME_OF(owner, member, of)                                                        \
    {                                                                                              \
        KS_IMAGE_NAMED, offsetof(owner, member), 0, &(of)                                          \
    }
#define KS_IMAGE_NOT(owner, member)                                                                \
    {                                                                                              \
        KS_IMAGE_LEFT_OUT, offsetof(owner, member), sizeof(((owner *)0)->member), NULL             \
    }
/* A type without pointers, and one with an array of fields. */
#define KS_IMAGE_PLAIN(type_name)                                                                  \
    {                                                                                              \
        .name = #type_name, .size = sizeof(struct type_name)                                       \
    }
#define KS_IMAGE_TYPE(type_name, field_list)                                                       \
    {                                                                                              \
        .name = #type_name, .size = sizeof(struct type_name), .fields = (field_list),              \
        .field_count = KS_COUNT_OF(field_list)                                                     \
    }

/* Appends the image of `root` to `out`, which must be empty. `arena`: where what it points to lies;
 * NULL: anywhere. Errors: KS_ERR_NOMEM; KS_ERR_UNSUPPORTED, with the type and place of a pointer
 * that is not described, or leads to no array. */
enum ks_status ks_image_pack(const void *root, const struct ks_image_type *type,
                             const struct ks_arena *arena, struct ks_text *out, struct ks_err *err)
    KS_MUST_CHECK;

/* Makes an image usable where it lies, and copies its root to `root`. `bytes` is aligned to 16 and
 * must live as long as what `root` points to. Errors: KS_ERR_FORMAT, KS_ERR_NOMEM. */
enum ks_status ks_image_unpack(char *bytes, size_t size, const struct ks_image_type *type,
                               void *root, struct ks_err *err) KS_MUST_CHECK;

#endif
