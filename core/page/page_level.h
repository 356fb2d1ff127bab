/* A level of a track: rows of spans, or of blocks of spans, which become columns of integers.
 * docs/formats/page.md describes them. */
#ifndef KS_PAGE_PAGE_LEVEL_H
#define KS_PAGE_PAGE_LEVEL_H

#include <stddef.h>
#include <stdint.h>

struct ks_json;

struct ks_page_row {
    int64_t start_ns;
    int64_t dur_ns;
    int64_t depth;
    int64_t name;
    int64_t count;
};

/* A level under way: its rows, and room for one column of them. */
struct ks_page_level {
    struct ks_page_row *rows;
    int64_t *column;
    size_t count;
};

/* `resolution_ns` 0: every row is one span as it is. */
void ks_page_level_write(const struct ks_page_level *level, struct ks_json *json, int64_t start_ns,
                         int64_t end_ns, int64_t resolution_ns);

#endif
