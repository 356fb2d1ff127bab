#include "snapshot/stack_pool.h"

#include "analyze/frame_names.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"

_Static_assert(KS_STACK_RECENT == 1 << 12, "slots are the upper twelve of 32 bits");

/* Parts of names and files that torch.cuda._memory_viz leaves out of its flame graphs. */
static const char *const unshown_names[] = {
    "unwind::unwind",    "CapturedTraceback::gather",
    "gather_with_cpp",   "_start",
    "__libc_start_main", "PyEval_",
    "PyObject_",         "PyFunction_",
};
static const char *const unshown_files[] = {
    "core/boxing",
    "/Register",
    "/Redispatch",
    "pythonrun.c",
    "Modules/main.c",
    "Objects/call.c",
    "Objects/methodobject.c",
    "pycore_ceval.h",
    "ceval.c",
    "cpython/abstract.h",
};
/* What every native stack begins with: says nothing about who allocated. */
static const char *const allocator_names[] = {
    "CachingAllocator",      "empty_generic",      "empty_cuda",
    "empty_strided_generic", "empty_strided_cuda",
};

enum ks_status ks_stack_pool_init(struct ks_stack_pool *pool, struct ks_strpool *strings,
                                  struct ks_err *err)
{
    *pool = (struct ks_stack_pool){.strings = strings};
    ks_map_init(&pool->frame_ids);
    ks_map_init(&pool->node_ids);
    KS_TRY(ks_grow(&pool->frames, 0, &pool->frame_capacity, sizeof(*pool->frames), "frames", err));
    KS_TRY(ks_grow(&pool->nodes, 0, &pool->node_capacity, sizeof(*pool->nodes), "stacks", err));
    pool->frames[0] = (struct ks_stack_frame){0};
    pool->nodes[0] = (struct ks_stack_node){0};
    pool->frame_count = pool->node_count = 1;
    return KS_OK;
}

void ks_stack_pool_release(struct ks_stack_pool *pool)
{
    ks_map_release(&pool->frame_ids);
    ks_map_release(&pool->node_ids);
    ks_free(pool->frames);
    ks_free(pool->nodes);
    *pool = (struct ks_stack_pool){0};
}

/* The next id of the map's key: 0 is never one, so a value of 0 is a key that was just added. */
static enum ks_status find_id(struct ks_map *map, uint64_t a, uint64_t b, uint64_t **id,
                              struct ks_err *err)
{
    *id = ks_map_put(map, a, b, NULL);
    return *id ? KS_OK : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep stacks: no memory");
}

static enum ks_status check_count(size_t count, struct ks_err *err)
{
    return count < UINT32_MAX
               ? KS_OK
               : ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET, "Cannot keep stacks: count=%zu", count);
}

enum ks_status ks_stack_pool_frame(struct ks_stack_pool *pool, struct ks_stack_frame frame,
                                   uint32_t *id, struct ks_err *err)
{
    uint64_t *known = NULL;
    uint64_t texts = (uint64_t)frame.file.v << 32 | frame.name.v;
    KS_TRY(check_count(pool->frame_count, err));
    KS_TRY(ks_grow(&pool->frames, pool->frame_count, &pool->frame_capacity, sizeof(*pool->frames),
                   "frames", err));
    KS_TRY(find_id(&pool->frame_ids, texts, (uint64_t)frame.line, &known, err));
    if (*known == 0) {
        *known = pool->frame_count;
        pool->frames[pool->frame_count++] = frame;
    }
    *id = (uint32_t)*known;
    return KS_OK;
}

struct ks_str ks_stack_pool_name(const struct ks_stack_pool *pool, uint32_t frame)
{
    return ks_strpool_get(pool->strings, pool->frames[frame].name);
}

struct ks_str ks_stack_pool_file(const struct ks_stack_pool *pool, uint32_t frame)
{
    return ks_strpool_get(pool->strings, pool->frames[frame].file);
}

static bool contains_any(struct ks_str text, const char *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (ks_str_contains(text, ks_str_from(parts[i]))) {
            return true;
        }
    }
    return false;
}

bool ks_stack_pool_is_shown(const struct ks_stack_pool *pool, uint32_t frame)
{
    return !contains_any(ks_stack_pool_name(pool, frame), unshown_names,
                         KS_COUNT_OF(unshown_names)) &&
           !contains_any(ks_stack_pool_file(pool, frame), unshown_files,
                         KS_COUNT_OF(unshown_files));
}

static bool ends_in_py(struct ks_str file)
{
    return file.len >= 3 && memcmp(file.ptr + file.len - 3, ".py", 3) == 0;
}

static void classify(const struct ks_stack_pool *pool, struct ks_stack_node *node)
{
    struct ks_str file = ks_stack_pool_file(pool, node->frame);
    bool is_python = ends_in_py(file);
    if (is_python && ks_frame_kind_of_file(file) == KS_FRAME_USER) {
        node->user = node->frame;
    }
    if (is_python) {
        node->python = node->frame;
    } else if (ks_stack_pool_is_shown(pool, node->frame) &&
               !contains_any(ks_stack_pool_name(pool, node->frame), allocator_names,
                             KS_COUNT_OF(allocator_names))) {
        node->native = node->frame;
    }
}

static enum ks_status find_node(struct ks_stack_pool *pool, uint32_t parent, uint32_t frame,
                                uint32_t *id, struct ks_err *err)
{
    uint64_t *known = NULL;
    KS_TRY(check_count(pool->node_count, err));
    KS_TRY(ks_grow(&pool->nodes, pool->node_count, &pool->node_capacity, sizeof(*pool->nodes),
                   "stacks", err));
    KS_TRY(find_id(&pool->node_ids, parent, frame, &known, err));
    if (*known == 0) {
        struct ks_stack_node *node = &pool->nodes[pool->node_count];
        *node = pool->nodes[parent];
        node->parent = parent;
        node->frame = frame;
        classify(pool, node);
        *known = pool->node_count++;
    }
    *id = (uint32_t)*known;
    return KS_OK;
}

enum ks_status ks_stack_pool_push(struct ks_stack_pool *pool, uint32_t parent, uint32_t frame,
                                  uint32_t *id, struct ks_err *err)
{
    uint32_t slot = (parent * 0x9E3779B1u ^ frame * 0x85EBCA77u) >> 20;
    const struct ks_stack_node *node = &pool->nodes[pool->recent[slot]];
    if (node->parent == parent && node->frame == frame) { /* frame 0 is never pushed */
        *id = pool->recent[slot];
        return KS_OK;
    }
    KS_TRY(find_node(pool, parent, frame, id, err));
    pool->recent[slot] = *id;
    return KS_OK;
}

uint32_t ks_stack_pool_place(const struct ks_stack_pool *pool, uint32_t stack)
{
    const struct ks_stack_node *node = &pool->nodes[stack];
    return node->user ? node->user : node->python ? node->python : node->native;
}

int ks_stack_pool_compare_frames(const struct ks_stack_pool *pool, uint32_t left, uint32_t right)
{
    if (left == right) {
        return 0;
    }
    int order = ks_str_compare(ks_stack_pool_file(pool, left), ks_stack_pool_file(pool, right));
    int64_t lines[] = {pool->frames[left].line, pool->frames[right].line};
    if (order == 0) {
        order = (lines[0] > lines[1]) - (lines[0] < lines[1]);
    }
    return order ? order
                 : ks_str_compare(ks_stack_pool_name(pool, left), ks_stack_pool_name(pool, right));
}

int ks_stack_pool_compare(const struct ks_stack_pool *pool, uint32_t left, uint32_t right)
{
    while (left != right) {
        const struct ks_stack_node *nodes[] = {&pool->nodes[left], &pool->nodes[right]};
        int order = ks_stack_pool_compare_frames(pool, nodes[0]->frame, nodes[1]->frame);
        if (order != 0) {
            return order;
        }
        left = nodes[0]->parent;
        right = nodes[1]->parent;
    }
    return 0;
}
