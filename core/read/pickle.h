/* A pickle of plain data: numbers, texts, lists and dicts as Python's pickle (protocols 2 to 5) and
 * the pickler of libtorch write them. Opcodes that name, build or call anything are refused with
 * their place; nothing is ever run. Reading is a loop over a stack of values, without recursion,
 * so nesting costs no stack of ours. Values take four bytes, and all memory is bounded by the
 * caller. What the pickle says is not trusted: sharing may make a small file describe endless or
 * cyclic data, so who walks over it must count. */
#ifndef KS_READ_PICKLE_H
#define KS_READ_PICKLE_H

#include "read/feed.h"
#include "store/strpool.h"

struct ks_pickle;

struct ks_pickle_value {
    uint32_t v;
};

enum ks_pickle_kind {
    KS_PICKLE_NONE,
    KS_PICKLE_BOOL,
    KS_PICKLE_INT,
    KS_PICKLE_REAL,
    KS_PICKLE_STR,
    KS_PICKLE_LIST, /* also tuples and sets */
    KS_PICKLE_DICT,
    KS_PICKLE_OTHER, /* bytes, integers beyond 64 bits: known to be there, not kept */
};

/* Reads up to the STOP of the pickle. Texts go to `strings`. `bytes_max`: what the values may take.
 * Errors: KS_ERR_FORMAT (cut, an opcode that is refused, or a pickle that no pickler writes),
 * KS_ERR_LIMIT, KS_ERR_IO, KS_ERR_NOMEM. `*out` is to be closed with ks_pickle_close. */
enum ks_status ks_pickle_read(struct ks_feed *feed, struct ks_strpool *strings, uint64_t bytes_max,
                              struct ks_pickle **out, struct ks_err *err) KS_MUST_CHECK;
void ks_pickle_close(struct ks_pickle *pickle); /* NULL is fine */

/* Is this how a pickle of protocol 2 to 5 begins that holds a dict or a list? */
bool ks_pickle_is_head(const char *bytes, size_t size);

struct ks_pickle_value ks_pickle_root(const struct ks_pickle *pickle);
int ks_pickle_protocol(const struct ks_pickle *pickle); /* 0: it does not say */
enum ks_pickle_kind ks_pickle_kind(struct ks_pickle_value value);
bool ks_pickle_bool(struct ks_pickle_value value); /* false unless it is True */
/* False: no integer, or one that does not fit. */
bool ks_pickle_int(const struct ks_pickle *pickle, struct ks_pickle_value value, int64_t *number);
bool ks_pickle_unsigned(const struct ks_pickle *pickle, struct ks_pickle_value value,
                        uint64_t *number);
bool ks_pickle_real(const struct ks_pickle *pickle, struct ks_pickle_value value, double *number);
/* The empty text unless it is a text. */
struct ks_strid ks_pickle_str(struct ks_pickle_value value);
/* Which list or dict it is, and how many there are: an index for what is known of them. */
uint32_t ks_pickle_container(struct ks_pickle_value value);
size_t ks_pickle_container_count(const struct ks_pickle *pickle);
/* Items of a list, keys of a dict; 0 for all others. */
size_t ks_pickle_count(const struct ks_pickle *pickle, struct ks_pickle_value value);
/* All items of a list one behind the other; NULL for all others. */
const struct ks_pickle_value *ks_pickle_items(const struct ks_pickle *pickle,
                                              struct ks_pickle_value list, size_t *count);
struct ks_pickle_value ks_pickle_item(const struct ks_pickle *pickle, struct ks_pickle_value list,
                                      size_t index);
/* As they were set: a key may come more than once, the last counts. */
void ks_pickle_pair(const struct ks_pickle *pickle, struct ks_pickle_value dict, size_t index,
                    struct ks_pickle_value *key, struct ks_pickle_value *value);
/* Value of a text as key; false when it is no dict or has none. Looks at all keys. */
bool ks_pickle_find(const struct ks_pickle *pickle, struct ks_pickle_value dict,
                    struct ks_strid key, struct ks_pickle_value *value);

#endif
