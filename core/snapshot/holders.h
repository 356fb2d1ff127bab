/* Who holds memory: blocks put together by stack, by place, by size and by category. What is added
 * up are sizes and numbers of blocks; the order of groups depends on bytes and texts only. */
#ifndef KS_SNAPSHOT_HOLDERS_H
#define KS_SNAPSHOT_HOLDERS_H

#include "snapshot/snapshot.h"

struct ks_holder {
    int32_t device;
    uint32_t stack; /* by stack */
    uint32_t place; /* the frame that stands for it; 0: no stack */
    struct ks_strid category;
    int64_t bytes;     /* with rounding, where that is known */
    int64_t requested; /* as asked for */
    size_t count;
    size_t stack_count; /* by place: different stacks */
};

struct ks_holder_list {
    struct ks_holder *items; /* by bytes, largest first */
    size_t count;
};

enum ks_size_class {
    KS_SIZE_TINY,   /* up to 512 B, the least that a block has */
    KS_SIZE_SMALL,  /* up to 1 MiB: the pool of small blocks */
    KS_SIZE_MEDIUM, /* below 10 MiB: share segments of 20 MiB */
    KS_SIZE_LARGE,  /* below 200 MiB: segments of their own size */
    KS_SIZE_HUGE,
    KS_SIZE_CLASS_COUNT,
};

struct ks_size_total {
    int64_t bytes;
    int64_t requested;
    size_t count;
};

/* Grows while blocks are added, in any order. */
struct ks_holders {
    struct ks_map by_stack; /* (device, stack): index + 1 */
    struct ks_holder *items;
    size_t count, capacity;
};

void ks_holders_init(struct ks_holders *holders);
void ks_holders_release(struct ks_holders *holders);
enum ks_status ks_holders_add(struct ks_holders *holders, const struct ks_stack_pool *pool,
                              const struct ks_holder *holder, struct ks_err *err) KS_MUST_CHECK;
/* Sorted copies in `arena`: by stack, and by place. */
enum ks_status ks_holders_list(const struct ks_holders *holders, const struct ks_stack_pool *pool,
                               struct ks_arena *arena, struct ks_holder_list *by_stack,
                               struct ks_holder_list *by_place, struct ks_err *err) KS_MUST_CHECK;

/* Of the blocks that the program holds at the moment of the snapshot. */
struct ks_holdings {
    struct ks_holder_list by_stack;
    struct ks_holder_list by_place;
    struct ks_holder_list by_category; /* empty when the snapshot has no categories */
    struct ks_size_total sizes[KS_SIZE_CLASS_COUNT];
};

enum ks_status ks_holdings_compute(const struct ks_snapshot *snapshot, struct ks_arena *arena,
                                   struct ks_holdings *out, struct ks_err *err) KS_MUST_CHECK;
enum ks_size_class ks_size_class_of(int64_t bytes);

#endif
