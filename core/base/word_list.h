/* Lists of words with commas between them, as "workers=4,compile=default": settings of a script,
 * and what is to be tried. Words point into the list. */
#ifndef KS_BASE_WORD_LIST_H
#define KS_BASE_WORD_LIST_H

#include "base/str.h"

/* Without "=" all of the word is the name, and `has_value` is false. */
struct ks_word {
    struct ks_str text, name, value;
    bool has_value;
};

struct ks_word ks_word_of(struct ks_str text);
/* The word behind `*offset`, which moves on; false at the end, and before an empty word. */
bool ks_word_list_next(const char *list, size_t *offset, struct ks_word *word);
/* The word of that name; false when there is none. */
bool ks_word_list_find(const char *list, struct ks_str name, struct ks_word *word);

#endif
