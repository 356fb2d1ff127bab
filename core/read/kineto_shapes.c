#include "read/kineto_shapes.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

void kineto_shapes_init(struct kineto_shapes *shapes)
{
    memset(shapes->kept, 0, sizeof(shapes->kept));
    ks_text_init(&shapes->scratch);
}

void kineto_shapes_release(struct kineto_shapes *shapes)
{
    ks_text_release(&shapes->scratch);
}

static size_t place_of(struct ks_str raw)
{
    return (size_t)(XXH3_64bits(raw.ptr, raw.len) >> (64 - SHAPES_BITS));
}

uint32_t kineto_shapes_find(const struct kineto_shapes *shapes, struct ks_str raw)
{
    if (KS_UNLIKELY(raw.len > SHAPE_TEXT_MAX)) {
        return 0;
    }
    const struct kineto_shape *shape = &shapes->kept[place_of(raw)];
    bool is_it = shape->len == raw.len && memcmp(shape->text, raw.ptr, raw.len) == 0;
    return is_it ? shape->id : 0;
}

void kineto_shapes_keep(struct kineto_shapes *shapes, struct ks_str raw, uint32_t id)
{
    if (raw.len <= SHAPE_TEXT_MAX) {
        struct kineto_shape *shape = &shapes->kept[place_of(raw)];
        shape->id = id;
        shape->len = (uint32_t)raw.len;
        memcpy(shape->text, raw.ptr, raw.len);
    }
}

struct ks_str kineto_shapes_normalise(struct kineto_shapes *shapes, struct ks_str raw)
{
    struct ks_text *text = &shapes->scratch;
    ks_text_reset(text);
    if (!ks_text_reserve(text, 2 * raw.len)) {
        return (struct ks_str){0};
    }
    char *to = text->ptr;
    char *entry = to; /* where the current list of the second level begins */
    bool has_lists = false;
    int depth = 0;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.ptr[i];
        if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
            continue;
        }
        *to++ = c;
        if (c == ',') {
            *to++ = ' ';
        } else if (c == '[') {
            depth++;
            entry = depth == 2 ? to : entry;
            has_lists = depth > 2 || (has_lists && depth != 2);
        } else if (c == ']') {
            depth--;
            if (depth == 1 && has_lists) {
                *entry = ']';
                to = entry + 1;
            }
        }
    }
    text->len = (size_t)(to - text->ptr);
    return (struct ks_str){text->ptr, text->len};
}
