/* A dict of plain data as Python's marshal (versions 2 to 5) writes it: integers, floats, texts,
 * tuples and dicts, and references to them. Types that hold code, and all others, are refused with
 * their byte and its place; nothing is ever run. Reading is a loop over a stack of values, without
 * recursion, and gives each pair of the outermost dict to a callback as soon as it is whole.
 *
 * What references share stays in memory, so that the number of values is bounded; a value that is
 * part of itself cannot be made. */
#ifndef KS_READ_MARSHAL_H
#define KS_READ_MARSHAL_H

#include "read/reader.h"

enum ks_marshal_kind {
    KS_MARSHAL_NOTHING, /* of a container that is not whole yet */
    KS_MARSHAL_INT,
    KS_MARSHAL_REAL,
    KS_MARSHAL_STR,
    KS_MARSHAL_TUPLE,
    KS_MARSHAL_DICT,
};

struct ks_marshal_value {
    uint32_t kind;  /* enum ks_marshal_kind */
    uint32_t count; /* of a tuple: items; of a dict: pairs */
    union {
        int64_t integer; /* one beyond 64 bits is the nearest of them */
        double real;
        struct ks_strid text; /* of the builder */
        uint64_t first;       /* of a tuple or dict: place of its values */
    } as;
};

struct ks_marshal;

/* Values of tuples and dicts can be asked for until the callback returns. `offset`: of the key. */
typedef enum ks_status (*ks_marshal_pair_cb)(void *user, const struct ks_marshal_value *key,
                                             const struct ks_marshal_value *value, int64_t offset,
                                             struct ks_err *err);

/* Does the input begin like a dict whose first key is a tuple, or like an empty one? */
bool ks_marshal_is_head(struct ks_str head);

enum ks_status ks_marshal_open(const struct ks_reader_context *context, ks_marshal_pair_cb on_pair,
                               void *user, struct ks_marshal **out, struct ks_err *err)
    KS_MUST_CHECK;
void ks_marshal_close(struct ks_marshal *marshal); /* NULL is fine */
/* As `push` of a reader. Errors: KS_ERR_FORMAT (a type that is refused, or bytes that marshal does
 * not write), KS_ERR_LIMIT, KS_ERR_NOMEM, those of the callback. */
enum ks_status ks_marshal_push(struct ks_marshal *marshal, const struct ks_window *window,
                               size_t *used, struct ks_err *err) KS_MUST_CHECK;
int64_t ks_marshal_offset(const struct ks_marshal *m); /* of the value that was read last */
bool ks_marshal_is_whole(const struct ks_marshal *marshal);
uint64_t ks_marshal_trailing(const struct ks_marshal *marshal); /* bytes behind the dict */

/* The items of a tuple; keys and values of a dict in turn. */
const struct ks_marshal_value *ks_marshal_items(const struct ks_marshal *marshal,
                                                const struct ks_marshal_value *container);

#endif
