/* Each string is stored once and named by a 32-bit id; id 0 is the empty string.
 * Ids count up in order of first appearance. Strings live as long as the pool. */
#ifndef KS_STORE_STRPOOL_H
#define KS_STORE_STRPOOL_H

#include "base/arena.h"
#include "base/str.h"

struct ks_strid {
    uint32_t v;
};

enum { KS_STR_LEN_MAX = 16 * 1024 * 1024 };

struct ks_strpool;

enum ks_status ks_strpool_create(struct ks_strpool **out, struct ks_err *err) KS_MUST_CHECK;
void ks_strpool_destroy(struct ks_strpool *pool);
/* Errors: KS_ERR_LIMIT (longer than KS_STR_LEN_MAX, or 2^32 strings), KS_ERR_NOMEM. */
enum ks_status ks_strpool_intern(struct ks_strpool *pool, struct ks_str s, struct ks_strid *out,
                                 struct ks_err *err) KS_MUST_CHECK;
/* Id of `s` if it is there, else id 0. */
struct ks_strid ks_strpool_find(const struct ks_strpool *pool, struct ks_str s);
/* The text, also NUL-terminated. The id must exist. */
struct ks_str ks_strpool_get(const struct ks_strpool *pool, struct ks_strid id);
uint32_t ks_strpool_count(const struct ks_strpool *pool); /* ids are 0 .. count-1 */

/* A pool whose texts are known already: `*bytes` is to be filled with all of them, each with a NUL
 * behind it, in the order of their ids; then ks_strpool_seal tells them apart. Nothing can be
 * interned. */
enum ks_status ks_strpool_create_sealed(uint32_t count, size_t size, struct ks_strpool **out,
                                        char **bytes, struct ks_err *err) KS_MUST_CHECK;
/* False when lengths and bytes do not fit together, or text 0 is not empty. */
bool ks_strpool_seal(struct ks_strpool *pool, const uint32_t *lengths, size_t size);

#endif
