#include "base/arena.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"

#ifdef KS_SMALL_LIMITS /* fuzzing: a small block is cleared quickly, and soon followed by others */
enum { BLOCK_SIZE_MIN = 512 };
#else
enum { BLOCK_SIZE_MIN = 4 * 1024 };
#endif

enum {
    ALIGNMENT = 16,
    BLOCK_SIZE_MAX = 4 * 1024 * 1024, /* growth stops here; one larger request gets its own size */
    PAGES_SIZE_MIN = 2 * 1024 * 1024, /* from here on a block is mapped, with huge pages */
    /* A spare block is kept up to here: the kernel takes longer to give a page than it takes to
     * clear one that is there. */
    SPARE_SIZE_MAX = 64 * 1024 * 1024,
};

struct ks_arena_block {
    struct ks_arena_block *older;
    size_t size;  /* bytes behind this header */
    size_t dirty; /* bytes that may not be zero any more, because a rewind gave them back */
    bool is_mapped;
};

static_assert(sizeof(struct ks_arena_block) % ALIGNMENT == 0, "blocks must keep the alignment");

static char *block_bytes(struct ks_arena_block *block)
{
    return (char *)(block + 1);
}

static void free_block(struct ks_arena_block *block)
{
    if (block->is_mapped) {
        ks_pages_unmap(block, sizeof(*block) + block->size);
    } else {
        ks_free(block);
    }
}

void ks_arena_init(struct ks_arena *arena)
{
    *arena = (struct ks_arena){0};
}

static void drop_spare(struct ks_arena *arena)
{
    if (arena->spare) {
        free_block(arena->spare);
        arena->spare = NULL;
    }
}

/* Keeps the block, or the spare one, whichever is larger. */
static void keep_or_free(struct ks_arena *arena, struct ks_arena_block *block)
{
    bool is_larger = !arena->spare || arena->spare->size < block->size;
    if (!block->is_mapped || block->size > SPARE_SIZE_MAX || !is_larger) {
        free_block(block);
        return;
    }
    drop_spare(arena);
    arena->spare = block;
}

static void free_blocks_down_to(struct ks_arena *arena, const struct ks_arena_block *last)
{
    while (arena->head != last) {
        struct ks_arena_block *block = arena->head;
        KS_ASSERT(block != NULL);
        arena->head = block->older;
        arena->bytes_total -= block->size;
        keep_or_free(arena, block);
    }
}

void ks_arena_release(struct ks_arena *arena)
{
    free_blocks_down_to(arena, NULL);
    drop_spare(arena);
    arena->used = 0;
}

/* NULL: there is none, or it is too small, or much too large. */
static struct ks_arena_block *take_spare(struct ks_arena *arena, size_t size)
{
    struct ks_arena_block *block = arena->spare;
    if (!block || block->size < size || block->size / 4 > size) {
        return NULL;
    }
    arena->spare = NULL;
    return block;
}

static bool add_block(struct ks_arena *arena, size_t size_min)
{
    size_t size = arena->head ? arena->head->size * 2 : BLOCK_SIZE_MIN;
    if (size > BLOCK_SIZE_MAX) {
        size = BLOCK_SIZE_MAX;
    }
    if (size < size_min) {
        size = size_min;
    }

    bool is_mapped = size >= PAGES_SIZE_MIN;
    struct ks_arena_block *block = take_spare(arena, size);
    if (block) {
        block->dirty = block->size;
    } else {
        size_t total = sizeof(struct ks_arena_block) + size;
        block = is_mapped ? ks_pages_map(total) : ks_alloc(1, total);
        if (!block) {
            return false;
        }
        *block = (struct ks_arena_block){.size = size, .is_mapped = is_mapped};
    }
    block->older = arena->head;
    arena->head = block;
    arena->used = 0;
    arena->bytes_total += block->size;
    return true;
}

void *ks_arena_alloc(struct ks_arena *arena, size_t count, size_t size)
{
    size_t bytes = 0;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 4) {
        return NULL;
    }
    bytes = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if ((!arena->head || arena->head->size - arena->used < bytes) && !add_block(arena, bytes)) {
        return NULL;
    }

    struct ks_arena_block *head = arena->head;
    char *ptr = block_bytes(head) + arena->used;
    if (arena->used < head->dirty) {
        size_t old = head->dirty - arena->used;
        memset(ptr, 0, old < bytes ? old : bytes);
    }
    arena->used += bytes;
    return ptr;
}

char *ks_arena_copy(struct ks_arena *arena, const char *bytes, size_t len)
{
    if (len == SIZE_MAX) {
        return NULL;
    }
    char *copy = ks_new(arena, char, len + 1);
    if (copy && len > 0) {
        memcpy(copy, bytes, len);
    }
    return copy;
}

void ks_arena_adopt(struct ks_arena *arena, struct ks_arena *from)
{
    struct ks_arena_block *oldest = from->head;
    drop_spare(from);
    if (!oldest) {
        return;
    }
    while (oldest->older) {
        oldest = oldest->older;
    }
    if (arena->head) { /* allocation goes on in its own newest block */
        oldest->older = arena->head->older;
        arena->head->older = from->head;
    } else {
        arena->head = from->head;
        arena->used = from->used;
    }
    arena->bytes_total += from->bytes_total;
    *from = (struct ks_arena){0};
}

bool ks_arena_owns(const struct ks_arena *arena, const void *ptr)
{
    for (struct ks_arena_block *block = arena->head; block; block = block->older) {
        uintptr_t begin = (uintptr_t)block_bytes(block);
        if ((uintptr_t)ptr >= begin && (uintptr_t)ptr - begin < block->size) {
            return true;
        }
    }
    return false;
}

struct ks_arena_mark ks_arena_mark(const struct ks_arena *arena)
{
    return (struct ks_arena_mark){arena->head, arena->used};
}

void ks_arena_rewind(struct ks_arena *arena, struct ks_arena_mark mark)
{
    if (mark.head == arena->head) {
        KS_ASSERT(mark.used <= arena->used);
        if (arena->head && arena->used > arena->head->dirty) {
            arena->head->dirty = arena->used;
        }
    } else {
        free_blocks_down_to(arena, mark.head);
        /* How far this block had been filled when the next one came is not known any more. */
        if (arena->head) {
            arena->head->dirty = arena->head->size;
        }
    }
    arena->used = mark.used;
}
