/* Memory that is given back as a whole. Blocks grow geometrically; all memory is zeroed.
 * `mark`/`rewind` give back what was taken since (scratch arenas). Not thread-safe. */
#ifndef KS_BASE_ARENA_H
#define KS_BASE_ARENA_H

#include "base/compiler.h"

struct ks_arena_block;

struct ks_arena {
    struct ks_arena_block *head;  /* newest block; older ones behind it */
    size_t used;                  /* bytes taken from head */
    size_t bytes_total;           /* bytes of all blocks */
    struct ks_arena_block *spare; /* that a rewind gave back, for the next one of its size */
};

struct ks_arena_mark {
    struct ks_arena_block *head;
    size_t used;
};

void ks_arena_init(struct ks_arena *arena);
void ks_arena_release(struct ks_arena *arena);
/* `size` zeroed bytes aligned to 16, or NULL. */
void *ks_arena_alloc(struct ks_arena *arena, size_t count, size_t size);
/* Copies `len` bytes and a NUL; NULL when out of memory. */
char *ks_arena_copy(struct ks_arena *arena, const char *bytes, size_t len);
struct ks_arena_mark ks_arena_mark(const struct ks_arena *arena);
/* Moves all memory of `from`, which is empty then; marks of neither may be used any more. */
void ks_arena_adopt(struct ks_arena *arena, struct ks_arena *from);
/* Does the pointer point into memory of the arena? */
bool ks_arena_owns(const struct ks_arena *arena, const void *ptr);
void ks_arena_rewind(struct ks_arena *arena, struct ks_arena_mark mark);

#define ks_new(arena, type, count) ((type *)ks_arena_alloc((arena), (size_t)(count), sizeof(type)))

#endif
