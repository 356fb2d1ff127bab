#include "page/page_names.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/text.h"
#include "show/json_writer.h"

enum {
    NAME_LEN_MAX = 600,         /* a kernel's name with its templates is seldom longer */
    COST_MAX = 3 * 1024 * 1024, /* of 20 MB for the page, whatever the input */
    ESCAPED_SIZE = 6,           /* \u0000 */
    QUOTES_SIZE = 3,            /* and a comma */
};

static const struct ks_str ellipsis = {"\xE2\x80\xA6", 3};

void ks_page_names_init(struct ks_page_names *names, bool is_borrowing)
{
    *names = (struct ks_page_names){.is_borrowing = is_borrowing};
    ks_arena_init(&names->arena);
    ks_map_init(&names->places);
}

void ks_page_names_release(struct ks_page_names *names)
{
    ks_arena_release(&names->arena);
    ks_map_release(&names->places);
    ks_free(names->list);
    names->list = NULL;
}

struct ks_str ks_page_names_cut(struct ks_arena *arena, struct ks_str text, size_t len_max)
{
    size_t len = len_max;
    if (text.len <= len_max) {
        return text;
    }
    while (len > 0 && (text.ptr[len] & 0xC0) == 0x80) {
        len--; /* not inside of a character */
    }
    char *copy = ks_new(arena, char, len + ellipsis.len);
    if (!copy) {
        return (struct ks_str){0};
    }
    memcpy(copy, text.ptr, len);
    memcpy(copy + len, ellipsis.ptr, ellipsis.len);
    return (struct ks_str){copy, len + ellipsis.len};
}

/* What the text takes when every byte that may need an escape gets one. */
static size_t cost_of(struct ks_str text)
{
    size_t cost = QUOTES_SIZE;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.ptr[i];
        bool is_plain = byte >= 0x20 && byte != 0x7f && !strchr("\"\\<>&", byte);
        cost += byte >= 0x80 ? 3 : is_plain ? 1 : ESCAPED_SIZE;
    }
    return cost;
}

static enum ks_status add(struct ks_page_names *names, struct ks_str text, struct ks_err *err)
{
    KS_TRY(
        ks_grow(&names->list, names->count, &names->capacity, sizeof(*names->list), "names", err));
    struct ks_str kept = ks_page_names_cut(&names->arena, text, NAME_LEN_MAX);
    if (kept.ptr == text.ptr && !names->is_borrowing) {
        kept.ptr = ks_arena_copy(&names->arena, text.ptr, text.len);
    }
    if (!kept.ptr) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep names: count=%zu",
                       names->count);
    }
    names->cost += cost_of(kept);
    names->list[names->count++] = kept;
    return KS_OK;
}

/* All texts that there is no room for are one. */
static enum ks_status find_rest(struct ks_page_names *names, uint32_t *place, struct ks_err *err)
{
    if (names->left_out++ == 0) {
        KS_TRY(add(names, KS_STR("(name not in this file)"), err));
        names->cost = COST_MAX + 1; /* from here on no short one gets in, either */
    }
    *place = (uint32_t)names->count - 1;
    return KS_OK;
}

enum ks_status ks_page_names_find(struct ks_page_names *names, uint64_t key, struct ks_str text,
                                  uint32_t *place, struct ks_err *err)
{
    uint64_t *slot = ks_map_put(&names->places, key, 0, NULL);
    if (!slot) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep names: count=%zu",
                       names->count);
    }
    if (*slot == 0) {
        if (names->cost > COST_MAX) {
            KS_TRY(find_rest(names, place, err));
        } else {
            KS_TRY(add(names, text, err));
            *place = (uint32_t)names->count - 1;
        }
        *slot = (uint64_t)*place + 1;
    }
    *place = (uint32_t)(*slot - 1);
    return KS_OK;
}

void ks_page_names_write(const struct ks_page_names *names, struct ks_json *json, const char *key)
{
    ks_json_array_begin(json, key);
    for (size_t i = 0; i < names->count; i++) {
        ks_json_str(json, NULL, names->list[i]);
    }
    ks_json_array_end(json);
}
