#include "base/word_list.h"

struct ks_word ks_word_of(struct ks_str text)
{
    const char *equals = memchr(text.ptr, '=', text.len);
    size_t len = equals ? (size_t)(equals - text.ptr) : text.len;
    size_t behind = equals ? len + 1 : len;
    return (struct ks_word){.text = text,
                            .name = {text.ptr, len},
                            .value = {text.ptr + behind, text.len - behind},
                            .has_value = equals != NULL};
}

bool ks_word_list_next(const char *list, size_t *offset, struct ks_word *word)
{
    const char *begin = list + *offset;
    size_t len = strcspn(begin, ",");
    if (len == 0) {
        return false;
    }
    *word = ks_word_of((struct ks_str){begin, len});
    *offset += len + (begin[len] == ',');
    return true;
}

bool ks_word_list_find(const char *list, struct ks_str name, struct ks_word *word)
{
    for (size_t offset = 0; ks_word_list_next(list, &offset, word);) {
        if (ks_str_equal(word->name, name)) {
            return true;
        }
    }
    return false;
}
