/* The block `flame` of a page: trees of frames with the time that each holds, for operators on the
 * host, for the GPU work that they launched, and for Python functions where a recording has them.
 * Frames that hold next to nothing are folded into one beside their siblings, which says how many
 * it stands for. */
#ifndef KS_PAGE_PAGE_FLAME_H
#define KS_PAGE_PAGE_FLAME_H

#include "page/page_names.h"
#include "show/view.h"

enum { KS_FLAME_KINDS_MAX = 3 };

/* A frame; parents come before their children, which stand by total, descending. */
struct ks_flame_node {
    int64_t self;
    int64_t total;
    int64_t calls;
    uint32_t parent; /* place, UINT32_MAX for the first level */
    uint32_t name;
};

struct ks_flame {
    const char *name; /* static text */
    const char *unit;
    struct ks_page_names names;
    struct ks_flame_node *nodes;
    size_t count;
    size_t capacity;
};

struct ks_page_flames {
    struct ks_flame list[KS_FLAME_KINDS_MAX];
    size_t count;
};

/* To be released after an error, too. */
enum ks_status ks_page_flames_init(struct ks_page_flames *flames, const struct ks_view *view,
                                   struct ks_err *err) KS_MUST_CHECK;
void ks_page_flames_release(struct ks_page_flames *flames);
/* Frames and bytes of names: tells whether it is worth compressing. */
size_t ks_page_flames_size(const struct ks_page_flames *flames);
enum ks_status ks_page_flames_write(const struct ks_page_flames *flames, ks_write_cb write,
                                    void *user, struct ks_err *err) KS_MUST_CHECK;

#endif
