/* The texts of a data block: each once, named by its place in a list. Long ones are cut, and from a
 * bound on what all of them take new ones are no longer kept but share one that says so. */
#ifndef KS_PAGE_PAGE_NAMES_H
#define KS_PAGE_PAGE_NAMES_H

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"

struct ks_json;

struct ks_page_names {
    struct ks_arena arena; /* of texts that were cut, or copied */
    bool is_borrowing;     /* texts outlive the list, so that whole ones need no copy */
    struct ks_map places;  /* the caller's key -> 1 + place */
    struct ks_str *list;
    size_t count;
    size_t capacity;
    size_t cost;     /* bytes that the list takes as JSON in the page, at most */
    size_t left_out; /* texts that the list has no room for */
};

void ks_page_names_init(struct ks_page_names *names, bool is_borrowing);
void ks_page_names_release(struct ks_page_names *names);
/* Place of the text; the same key always means the same text. */
enum ks_status ks_page_names_find(struct ks_page_names *names, uint64_t key, struct ks_str text,
                                  uint32_t *place, struct ks_err *err) KS_MUST_CHECK;
/* The list as an array. */
void ks_page_names_write(const struct ks_page_names *names, struct ks_json *json, const char *key);

/* The text, or a copy of its beginning that ends in an ellipsis; NULL text: no memory. */
struct ks_str ks_page_names_cut(struct ks_arena *arena, struct ks_str text, size_t len_max);

#endif
