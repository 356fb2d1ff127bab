/* Tables in the layout of FlatBuffers, as the metadata of Arrow has them. Written from the end to
 * the front, so that what a table refers to is there before it: places count from the end.
 *
 * Fields of a table are given between begin and end, largest first, so that nothing must be padded
 * but once. Being out of memory is remembered; ask by ks_flat_finish. */
#ifndef KS_EXPORT_FLAT_BUILDER_H
#define KS_EXPORT_FLAT_BUILDER_H

#include "base/text.h"

enum { KS_FLAT_FIELDS_MAX = 8 };

/* Distance of something written from the end of the buffer; 0: nothing. */
typedef uint32_t ks_flat_place;

struct ks_flat_builder {
    char *ptr;       /* what is written lies in its last `used` bytes */
    size_t capacity; /* a multiple of 8 */
    size_t used;
    bool failed;
    size_t table_start;                       /* `used` when the table under way began */
    ks_flat_place fields[KS_FLAT_FIELDS_MAX]; /* of that table; 0: the default */
};

void ks_flat_init(struct ks_flat_builder *flat);
void ks_flat_release(struct ks_flat_builder *flat);
void ks_flat_reset(struct ks_flat_builder *flat);

ks_flat_place ks_flat_text(struct ks_flat_builder *flat, struct ks_str text);
/* A vector of places of tables. */
ks_flat_place ks_flat_places(struct ks_flat_builder *flat, const ks_flat_place *places,
                             size_t count);
/* A vector of structs of int64, in the order of memory; `size` bytes each. */
ks_flat_place ks_flat_structs(struct ks_flat_builder *flat, const void *structs, size_t count,
                              size_t size);

void ks_flat_table_begin(struct ks_flat_builder *flat);
/* A field of 1, 2, 4 or 8 bytes. */
void ks_flat_number(struct ks_flat_builder *flat, unsigned field, size_t size, int64_t value);
/* A field that refers to something written before; place 0: it is left out. */
void ks_flat_refer(struct ks_flat_builder *flat, unsigned field, ks_flat_place place);
ks_flat_place ks_flat_table_end(struct ks_flat_builder *flat);

/* The whole, with `root` as its table; a multiple of 8 bytes, good until the next change. */
enum ks_status ks_flat_finish(struct ks_flat_builder *flat, ks_flat_place root, struct ks_str *out,
                              struct ks_err *err) KS_MUST_CHECK;

#endif
