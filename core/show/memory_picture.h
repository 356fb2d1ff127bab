/* What `kscope memory` shows: one snapshot, or two beside each other, with all that was computed of
 * them. The three writers say the same numbers. */
#ifndef KS_SHOW_MEMORY_PICTURE_H
#define KS_SHOW_MEMORY_PICTURE_H

#include "base/text.h"
#include "snapshot/pool_totals.h"
#include "snapshot/pressure.h"
#include "snapshot/snapshot_compare.h"

enum { KS_MEMORY_SIDES_MAX = 2 };

struct ks_memory_side {
    const char *path;
    const struct ks_snapshot *snapshot;
    struct ks_pool_totals_list totals;
    struct ks_holdings holdings;
    struct ks_timeline_list timelines;
    struct ks_pressure_list pressures;
};

struct ks_memory_picture {
    struct ks_memory_side sides[KS_MEMORY_SIDES_MAX];
    size_t side_count;
    struct ks_snapshot_comparison comparison; /* of two sides */
};

enum ks_status ks_memory_write_screen(const struct ks_memory_picture *picture,
                                      const struct ks_memory_style *style, ks_write_cb write,
                                      void *user, struct ks_err *err) KS_MUST_CHECK;
/* docs/memory.schema.json is its schema. */
enum ks_status ks_memory_write_json(const struct ks_memory_picture *picture,
                                    const struct ks_memory_style *style, ks_write_cb write,
                                    void *user, struct ks_err *err) KS_MUST_CHECK;
/* Of the last side, one line for each block: the text that memory() and segments() of
 * torch.cuda._memory_viz make flame graphs of. */
enum ks_status ks_memory_write_folded(const struct ks_memory_picture *picture,
                                      const struct ks_memory_style *style, ks_write_cb write,
                                      void *user, struct ks_err *err) KS_MUST_CHECK;

/* "train.py:12 step"; "no stack" when there is none. Appends raw text of the input. */
void ks_memory_append_place(struct ks_text *text, const struct ks_stack_pool *pool, uint32_t frame);
/* What the allocator could do about it, as a sentence without its end. */
void ks_memory_append_verdict(struct ks_text *text, const struct ks_pressure *pressure);
const char *ks_memory_verdict_word(enum ks_pressure_verdict verdict);
/* The key of a note in JSON, and the sentence for people. */
const char *ks_memory_note_key(enum ks_snap_note note);
const char *ks_memory_note_text(enum ks_snap_note note);
const char *ks_memory_size_name(enum ks_size_class size);
const char *ks_memory_state_name(enum ks_snap_state state);

#endif
