/* Memory for table chunks, bounded: when more than `bytes_max` is in use, chunks that nobody has
 * pinned go to an unlinked temporary file and come back when pinned again. A pointer into a chunk
 * is good until it is unpinned. One thread at a time while building, unless the pool is shared; a
 * sealed trace is read-only, and pins of different threads are guarded by the pool's lock. */
#ifndef KS_STORE_CHUNK_H
#define KS_STORE_CHUNK_H

#include "base/arena.h"

struct ks_chunk {
    void *ptr;            /* NULL while spilled */
    size_t size;          /* bytes */
    int64_t spill_offset; /* place in the spill file, -1 none yet */
    uint32_t pins;
    bool dirty;             /* memory differs from the spill file */
    struct ks_chunk *newer; /* list of resident, unpinned chunks, oldest first to go */
    struct ks_chunk *older;
};

struct ks_chunk_pool;

/* bytes_max 0: no limit, nothing is ever spilled. The spill file lies in $TMPDIR, else /tmp. */
enum ks_status ks_chunk_pool_create(uint64_t bytes_max, struct ks_chunk_pool **out,
                                    struct ks_err *err) KS_MUST_CHECK;
/* Ends all chunks with it; NULL is fine. */
void ks_chunk_pool_destroy(struct ks_chunk_pool *pool);
/* While a pool is shared, several threads may create and destroy chunks of it. Switched while only
 * one does. */
void ks_chunk_pool_share(struct ks_chunk_pool *pool, bool is_shared);
/* Gives memory that no chunk uses back to the system. */
void ks_chunk_pool_trim(struct ks_chunk_pool *pool);
/* A zeroed chunk, pinned once. The chunk struct belongs to the pool. */
enum ks_status ks_chunk_create(struct ks_chunk_pool *pool, size_t size, struct ks_chunk **out,
                               struct ks_err *err) KS_MUST_CHECK;
/* The same, but what the bytes hold is left open: for chunks that are filled to the end. */
enum ks_status ks_chunk_create_raw(struct ks_chunk_pool *pool, size_t size, struct ks_chunk **out,
                                   struct ks_err *err) KS_MUST_CHECK;
/* Fills a chunk that was made without its bytes; called with the pool's lock held. */
typedef enum ks_status (*ks_chunk_load_cb)(void *user, size_t index, void *to, size_t size,
                                           struct ks_err *err);
/* Of a pool with a limit: who knows the bytes of chunks made by ks_chunk_create_unloaded. */
void ks_chunk_pool_set_loader(struct ks_chunk_pool *pool, ks_chunk_load_cb load, void *user);
/* A chunk that is loaded when it is pinned, and again when it has gone for lack of room: it must
 * not be written to. Not pinned. */
enum ks_status ks_chunk_create_unloaded(struct ks_chunk_pool *pool, size_t size, size_t index,
                                        struct ks_chunk **out, struct ks_err *err) KS_MUST_CHECK;
void ks_chunk_destroy(struct ks_chunk_pool *pool, struct ks_chunk *chunk); /* NULL is fine */
enum ks_status ks_chunk_pin(struct ks_chunk_pool *pool, struct ks_chunk *chunk, struct ks_err *err)
    KS_MUST_CHECK;
/* `wrote`: the bytes were changed while pinned. */
void ks_chunk_unpin(struct ks_chunk_pool *pool, struct ks_chunk *chunk, bool wrote);
uint64_t ks_chunk_pool_bytes_max(const struct ks_chunk_pool *pool); /* the limit */
uint64_t ks_chunk_pool_bytes_spilled(const struct ks_chunk_pool *pool);
uint64_t ks_chunk_pool_bytes_peak(const struct ks_chunk_pool *pool);

#endif
