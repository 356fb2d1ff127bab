/* What the sampler and the function profiler saw: stacks, samples of them, and call paths. */
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "read/recording_impl.h"

static const uint32_t NO_PARENT = 0xFFFFFFFF;

/* ------------------------------------------------------------------ functions and stacks */

static enum ks_status name_code(struct recording *r, uint32_t id, struct recording_code *code,
                                struct ks_err *err)
{
    const uint64_t *found = ks_map_find(&r->ids, KS_WIRE_CODE, id);
    *code = (struct recording_code){0};
    if (!found) {
        return recording_name_or_number(r, 0, "function", id, &code->name, err);
    }
    *code = r->codes[*found - 1];
    (void)recording_string(r, code->file_id, &code->file);
    return recording_name_or_number(r, code->name_id, "function", id, &code->name, err);
}

/* 1 + index of the stack with this number, 0: there is none. */
static uint64_t find_stack(const struct recording *r, uint32_t id)
{
    const uint64_t *found = id != 0 ? ks_map_find(&r->ids, KS_WIRE_STACK, id) : NULL;
    return found ? *found : 0;
}

/* Callers come first: a stack whose caller does not is taken for the outermost. */
static enum ks_status add_stack(struct recording *r, size_t index, struct ks_err *err)
{
    const struct ks_wire_stack *raw = &r->stacks[index];
    struct recording_code code;
    uint32_t id = 0;
    uint64_t caller = find_stack(r, raw->caller);
    bool is_lost = raw->caller != 0 && (caller == 0 || caller > index);
    KS_TRY(recording_count(r, KS_STAT_names_missing, is_lost, KS_NO_OFFSET, err));
    KS_TRY(name_code(r, raw->code, &code, err));
    struct ks_stack stack = {
        .function = code.name,
        .file = code.file,
        .first_line = code.first_line,
        .line = raw->line,
        .caller = caller == 0 || is_lost ? 0 : r->stack_first + (uint32_t)caller - 1,
    };
    KS_TRY(ks_trace_builder_stack(r->to.builder, &stack, &id, err));
    r->stack_first = index == 0 ? id : r->stack_first;
    return KS_OK;
}

enum ks_status recording_add_stacks(struct recording *r, struct ks_err *err)
{
    for (size_t i = 0; i < r->stack_count; i++) {
        KS_TRY(add_stack(r, i, err));
    }
    return KS_OK;
}

enum ks_status recording_take_sample(struct recording *r, const char *payload, int64_t offset,
                                     struct ks_err *err)
{
    struct ks_wire_sample raw;
    memcpy(&raw, payload, sizeof(raw));
    uint64_t stack = find_stack(r, raw.stack);
    struct ks_sample_row row = {
        .stack = stack > 0 ? r->stack_first + (uint32_t)stack - 1 : 0,
        .weight = raw.weight,
        .flags = (uint8_t)(raw.flags & (KS_SAMPLE_RUNNING | KS_SAMPLE_HOLDS_GIL)),
    };
    if (!recording_time(r, raw.tick, &row.start_ns)) {
        return recording_count(r, KS_STAT_time_out_of_range, 1, offset, err);
    }
    KS_TRY(recording_count(r, KS_STAT_names_missing, stack == 0 && raw.stack != 0, offset, err));
    KS_TRY(recording_track(r, raw.tid, 0, &row.lane, err));
    r->to.source->events++;
    return ks_trace_builder_sample(r->to.builder, &row, err);
}

/* ------------------------------------------------------------------ call paths */

struct paths {
    struct ks_call_path *list; /* `parent`: 1 + index in this list */
    size_t count;
    size_t capacity;
    struct ks_map index; /* (slot, number in it) to 1 + index */
};

static int64_t clamp(uint64_t value)
{
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static int64_t add(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* What a call that has not returned has taken until the recording ended. */
static int64_t open_time(const struct recording *r, const struct ks_wire_node *node)
{
    bool is_open = node->open > 0 && r->end_tick > node->open_tick;
    return is_open ? recording_duration(r, r->end_tick - node->open_tick) : 0;
}

static enum ks_status add_node(struct recording *r, struct paths *paths,
                               const struct recording_slot *slot, size_t number,
                               const struct ks_wire_node *node, struct ks_err *err)
{
    struct recording_code code;
    const uint64_t *parent = ks_map_find(&paths->index, node->parent_slot, node->parent_index);
    bool is_lost = node->parent_slot != NO_PARENT && !parent;
    int64_t offset = recording_offset(slot->index, number * sizeof(*node));
    int64_t open_ns = open_time(r, node);
    KS_TRY(recording_count(r, KS_STAT_names_missing, is_lost, offset, err));
    KS_TRY(name_code(r, node->code, &code, err));
    struct ks_call_path path = {
        .parent = parent ? (uint32_t)*parent : 0,
        .function = code.name,
        .file = code.file,
        .first_line = code.first_line,
        .open = node->open,
        .calls = clamp(node->calls),
        .total_ns = add(recording_duration(r, node->total_ticks), open_ns),
        .child_ns = recording_duration(r, node->child_ticks),
    };
    KS_TRY(recording_track(r, slot->tid, 0, &path.track, err));
    KS_TRY(ks_grow(&paths->list, paths->count, &paths->capacity, sizeof(*paths->list), "call paths",
                   err));
    uint64_t *place = ks_map_put(&paths->index, slot->index, number, NULL);
    if (!place) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep call paths: count=%zu",
                       paths->count);
    }
    if (path.parent > 0) {
        struct ks_call_path *above = &paths->list[path.parent - 1];
        above->child_ns = add(above->child_ns, open_ns);
    }
    paths->list[paths->count] = path;
    *place = ++paths->count;
    return KS_OK;
}

static enum ks_status add_nodes(struct recording *r, struct paths *paths,
                                const struct recording_slot *slot, const char *payload,
                                struct ks_err *err)
{
    for (size_t i = 0; (i + 1) * sizeof(struct ks_wire_node) <= slot->size; i++) {
        struct ks_wire_node node;
        memcpy(&node, payload + i * sizeof(node), sizeof(node));
        if (node.code != 0) {
            KS_TRY(add_node(r, paths, slot, i, &node, err));
        }
    }
    return KS_OK;
}

static enum ks_status read_node_slots(struct recording *r, struct paths *paths, struct ks_err *err)
{
    struct ks_chunk_pool *pool = ks_trace_builder_pool(r->to.builder);
    for (size_t i = 0; i < r->slot_count; i++) {
        const struct recording_slot *slot = &r->slots[i];
        if (slot->kind != KS_WIRE_NODES || !slot->chunk) {
            continue;
        }
        KS_TRY(ks_chunk_pin(pool, slot->chunk, err));
        enum ks_status status = add_nodes(r, paths, slot, slot->chunk->ptr, err);
        ks_chunk_unpin(pool, slot->chunk, false);
        KS_TRY(status);
    }
    return KS_OK;
}

static enum ks_status publish(struct recording *r, const struct paths *paths, struct ks_err *err)
{
    uint32_t first = 0;
    for (size_t i = 0; i < paths->count; i++) {
        struct ks_call_path path = paths->list[i];
        uint32_t id = 0;
        path.parent = path.parent > 0 ? first + path.parent - 1 : 0;
        KS_TRY(ks_trace_builder_call_path(r->to.builder, &path, &id, err));
        first = i == 0 ? id : first;
    }
    return KS_OK;
}

/* A thread makes the node of a caller before those of what it calls, and takes slots one by one: in
 * the order of the lane's slots parents come first. */
enum ks_status recording_add_call_paths(struct recording *r, struct ks_err *err)
{
    struct paths paths = {0};
    ks_map_init(&paths.index);
    enum ks_status status = read_node_slots(r, &paths, err);
    if (status == KS_OK) {
        status = publish(r, &paths, err);
    }
    ks_map_release(&paths.index);
    ks_free(paths.list);
    return status;
}
