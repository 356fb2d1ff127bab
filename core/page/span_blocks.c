#include "page/span_blocks.h"

#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "measure/sum.h"
#include "page/span_depths.h"

enum { DEPTHS = KS_SPAN_DEPTH_MAX + 1 };

enum ks_status ks_span_blocks_init(struct ks_span_blocks *blocks, int64_t length_ns, size_t parts,
                                   struct ks_err *err)
{
    KS_ASSERT(blocks->track_count < UINT16_MAX && blocks->count_max > 0);
    blocks->resolution_ns = 1;
    while (length_ns / blocks->resolution_ns >= (int64_t)parts) {
        blocks->resolution_ns *= 2;
    }
    blocks->last = ks_alloc(blocks->track_count * DEPTHS + 1, sizeof(*blocks->last));
    return blocks->last ? KS_OK
                        : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep tracks: count=%zu",
                                  blocks->track_count);
}

void ks_span_blocks_release(struct ks_span_blocks *blocks)
{
    ks_free(blocks->list);
    ks_free(blocks->last);
    blocks->list = NULL;
    blocks->last = NULL;
}

static int64_t part_of(const struct ks_span_blocks *blocks, int64_t start_ns)
{
    return ks_sum_sub(start_ns, blocks->origin_ns) / blocks->resolution_ns;
}

/* Joins `from` to `into`, the block before it, when both are short and of one stretch. */
static bool join(const struct ks_span_blocks *blocks, struct ks_span_block *into,
                 const struct ks_span_block *from)
{
    if (into->longest_ns >= blocks->resolution_ns || from->longest_ns >= blocks->resolution_ns ||
        part_of(blocks, into->start_ns) != part_of(blocks, from->start_ns) ||
        into->count > UINT32_MAX - from->count) {
        return false;
    }
    if (from->longest_ns > into->longest_ns) {
        into->longest_ns = from->longest_ns;
        into->name = from->name;
    }
    into->end_ns = into->end_ns > from->end_ns ? into->end_ns : from->end_ns;
    into->count += from->count;
    return true;
}

/* Twice the resolution, and as many blocks fewer as that gives. */
static void coarsen(struct ks_span_blocks *blocks)
{
    size_t kept = 0;
    blocks->resolution_ns *= 2;
    memset(blocks->last, 0, blocks->track_count * DEPTHS * sizeof(*blocks->last));
    for (size_t i = 0; i < blocks->count; i++) {
        struct ks_span_block block = blocks->list[i];
        uint32_t *last = &blocks->last[(size_t)block.track * DEPTHS + block.depth];
        if (*last == 0 || !join(blocks, &blocks->list[*last - 1], &block)) {
            blocks->list[kept++] = block;
            *last = (uint32_t)kept;
        }
    }
    blocks->count = kept;
}

enum ks_status ks_span_blocks_add(struct ks_span_blocks *blocks, const struct ks_page_span *span,
                                  struct ks_err *err)
{
    struct ks_span_block block = {.start_ns = span->start_ns,
                                  .end_ns = ks_sum_add(span->start_ns, span->dur_ns),
                                  .longest_ns = span->dur_ns,
                                  .name = span->name,
                                  .count = 1,
                                  .track = span->track,
                                  .depth = span->depth};
    uint32_t *last = &blocks->last[(size_t)span->track * DEPTHS + span->depth];
    if (*last != 0 && join(blocks, &blocks->list[*last - 1], &block)) {
        return KS_OK;
    }
    while (blocks->count >= blocks->count_max && blocks->resolution_ns < INT64_MAX / 4) {
        coarsen(blocks);
        if (blocks->count < blocks->count_max) { /* room again, and perhaps no need of it */
            return ks_span_blocks_add(blocks, span, err);
        }
    }
    KS_TRY(ks_grow(&blocks->list, blocks->count, &blocks->capacity, sizeof(*blocks->list),
                   "blocks of the timeline", err));
    blocks->list[blocks->count++] = block;
    *last = (uint32_t)blocks->count;
    return KS_OK;
}

enum ks_status ks_span_blocks_seal(struct ks_span_blocks *blocks, size_t *first, struct ks_err *err)
{
    struct ks_span_block *sorted = ks_alloc(blocks->count + 1, sizeof(*sorted));
    size_t *next = ks_alloc(blocks->track_count + 1, sizeof(*next));
    bool is_good = sorted && next;
    for (size_t t = 0; t <= blocks->track_count; t++) {
        first[t] = 0;
    }
    for (size_t i = 0; i < blocks->count; i++) {
        first[blocks->list[i].track + 1]++;
    }
    for (size_t t = 0; t < blocks->track_count; t++) {
        first[t + 1] += first[t];
    }
    for (size_t t = 0; is_good && t < blocks->track_count; t++) {
        next[t] = first[t];
    }
    for (size_t i = 0; is_good && i < blocks->count; i++) {
        sorted[next[blocks->list[i].track]++] = blocks->list[i];
    }
    ks_free(next);
    if (!is_good) {
        ks_free(sorted);
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot sort blocks: count=%zu",
                       blocks->count);
    }
    ks_free(blocks->list);
    blocks->list = sorted;
    blocks->capacity = blocks->count + 1;
    return KS_OK;
}
