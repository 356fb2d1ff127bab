/* A1: operators as torch's key_averages shows them (docs/analyses/operators.md).
 *
 * The rows of a thread come in order of start, longest first. Two stacks of open rows are kept:
 * - torch's tree: a row that does not fit into the top of the stack pops it, so a row that ends
 *   after its would-be parent goes to the nearest ancestor that holds it;
 * - the exclusive tree: the parent is the smallest row that holds the new one, Python frames
 *   included.
 * A closed child that is the only one of its parent so far and has its name waits in `pending`:
 * when no sibling comes, the parent swallows it (torch's de-duplication). A row is given back to
 * the pool when both trees are done with it.
 */
#include <stdlib.h>

#include "analyze/flops.h"
#include "analyze/operator_stacks.h"
#include "analyze/registry.h"
#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/map.h"
#include "measure/sum.h"

enum { NONE = UINT32_MAX, SEARCH_MAX = 256, COMPACT_DEPTH = 64 };

/* Sums of memory and GPU time of a row or of its children. */
struct use {
    int64_t device_ns;
    int64_t host_bytes;
    int64_t device_bytes;
};

/* A row while it is open in one of the trees. */
struct open_row {
    int64_t start_ns;
    int64_t end_ns;
    uint32_t name;
    uint32_t fact;    /* index into the table, NONE: it counts nowhere */
    uint32_t pending; /* only child of the same name, closed */
    uint32_t child_count;
    bool is_in_torch; /* still open (or pending) in torch's tree */
    bool is_in_exclusive;
    bool is_nested; /* exclusive: it and all rows below it lie in one another */
    int64_t flops;
    int64_t child_ns; /* torch: sum of the children */
    int64_t own_device_ns;
    struct use total; /* memory of the row itself; device_ns unused */
    struct use children;
    int64_t covered_ns; /* exclusive: union of the children */
    int64_t covered_until_ns;
    int64_t swallowed_ns; /* exclusive time of the children that it swallowed */
    uint32_t late;        /* list of swallowed rows whose exclusive time is not known yet */
    uint32_t late_next;
    uint32_t late_owner; /* row in whose list this one is, NONE */
};

struct stack {
    uint32_t *rows;
    size_t count;
    size_t capacity;
};

struct table {
    struct ks_operator_fact *facts;
    size_t count;
    size_t capacity;
    uint32_t *first_of;     /* by string id of the name: 1 + index; by name only */
    uint32_t *next_of;      /* 1 + index of the next fact of the same name */
    struct ks_map by_shape; /* (name and kind, shapes and stack) -> 1 + index */
};

struct state {
    struct ks_analyzer *analyzer;
    struct table table;
    struct ks_map flops; /* (name and shapes, types and concrete inputs) -> flops */
    struct open_row *pool;
    size_t pool_count;
    size_t pool_capacity;
    uint32_t free_list; /* linked by `pending` */
    struct stack torch;
    struct stack exclusive;
    size_t compact_at;
    struct ks_memory_scan memory; /* stands at the first event at or after the current row */
    bool is_memory_open;
    bool is_memory_done;
    size_t memory_index;
    uint32_t process;
    uint32_t source;
    uint32_t step_fact;
    struct ks_operator_stacks stacks;
    uint32_t step_name; /* with stacks: of the first step, for all */
};

/* ------------------------------------------------------------ the table */

static enum ks_status add_fact(struct table *table, const struct ks_operator_fact *fact,
                               uint32_t *index, struct ks_err *err)
{
    if (table->count == table->capacity) {
        size_t capacity = table->capacity ? 2 * table->capacity : 256;
        void *facts = ks_realloc(table->facts, capacity, sizeof(*table->facts));
        table->facts = facts ? facts : table->facts;
        void *next_of = ks_realloc(table->next_of, capacity, sizeof(*table->next_of));
        table->next_of = next_of ? next_of : table->next_of;
        if (!facts || !next_of) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep operators: count=%zu",
                           table->count);
        }
        table->capacity = capacity;
    }
    table->facts[table->count] = *fact;
    table->next_of[table->count] = 0;
    *index = (uint32_t)table->count++;
    return KS_OK;
}

static struct ks_operator_fact new_fact(uint32_t name, uint32_t shapes, enum ks_operator_kind kind)
{
    return (struct ks_operator_fact){.name = {name}, .shapes = {shapes}, .kind = kind};
}

static enum ks_status find_by_name(struct table *table, uint32_t name, enum ks_operator_kind kind,
                                   uint32_t *index, struct ks_err *err)
{
    uint32_t at = table->first_of[name];
    for (; at != 0; at = table->next_of[at - 1]) {
        if (table->facts[at - 1].kind == kind) {
            *index = at - 1;
            return KS_OK;
        }
    }
    struct ks_operator_fact fact = new_fact(name, 0, kind);
    KS_TRY(add_fact(table, &fact, index, err));
    table->next_of[*index] = table->first_of[name];
    table->first_of[name] = *index + 1;
    return KS_OK;
}

/* By shapes and stack, where they are not 0. */
static enum ks_status find_by_shape(struct table *table, const struct ks_operator_fact *fact,
                                    uint32_t *index, struct ks_err *err)
{
    uint64_t key = (uint64_t)fact->name.v << 2 | (uint64_t)fact->kind;
    uint64_t rest = (uint64_t)fact->stack_group << 32 | fact->shapes.v;
    const uint64_t *found = ks_map_find(&table->by_shape, key, rest);
    if (found) {
        *index = (uint32_t)(*found - 1);
        return KS_OK;
    }
    KS_TRY(add_fact(table, fact, index, err));
    uint64_t *slot = ks_map_put(&table->by_shape, key, rest, NULL);
    if (!slot) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep operators: count=%zu",
                       table->count);
    }
    *slot = (uint64_t)*index + 1;
    return KS_OK;
}

/* All ProfilerStep#N are one row. */
static enum ks_status find_step_fact(struct state *state, uint32_t name, uint32_t *index,
                                     struct ks_err *err)
{
    if (state->step_fact == NONE) {
        struct ks_operator_fact fact = new_fact(name, 0, KS_OPERATOR_ANNOTATION);
        fact.is_folded_step = true;
        KS_TRY(add_fact(&state->table, &fact, &state->step_fact, err));
    }
    *index = state->step_fact;
    return KS_OK;
}

static bool kind_of(uint8_t category, enum ks_operator_kind *kind)
{
    switch (category) {
    case KS_CATEGORY_NONE:
    case KS_CATEGORY_CPU_OP:
    case KS_CATEGORY_OTHER_HOST: *kind = KS_OPERATOR_OP; return true;
    case KS_CATEGORY_USER_ANNOTATION: *kind = KS_OPERATOR_ANNOTATION; return true;
    case KS_CATEGORY_RUNTIME:
    case KS_CATEGORY_DRIVER: *kind = KS_OPERATOR_RUNTIME; return true;
    default: return false;
    }
}

/* ------------------------------------------------------------ open rows */

static enum ks_status take_row(struct state *state, uint32_t *index, struct ks_err *err)
{
    if (state->free_list != NONE) {
        *index = state->free_list;
        state->free_list = state->pool[*index].pending;
        return KS_OK;
    }
    KS_TRY(ks_grow(&state->pool, state->pool_count, &state->pool_capacity, sizeof(*state->pool),
                   "open operators", err));
    *index = (uint32_t)state->pool_count++;
    return KS_OK;
}

/* Takes a row out of the list of its owner; the lists are a row or two long. */
static void leave_late_list(struct state *state, uint32_t index)
{
    struct open_row *row = &state->pool[index];
    if (row->late_owner == NONE) {
        return;
    }
    uint32_t *at = &state->pool[row->late_owner].late;
    while (*at != index) {
        at = &state->pool[*at].late_next;
    }
    *at = row->late_next;
    row->late_owner = NONE;
}

/* The rows in the late list of `from` count where `to` does, or stay where they are (NONE). */
static void pass_late_list(struct state *state, uint32_t from, uint32_t to)
{
    uint32_t at = state->pool[from].late;
    state->pool[from].late = NONE;
    while (at != NONE) {
        struct open_row *row = &state->pool[at];
        uint32_t next = row->late_next;
        row->late_owner = to;
        if (to != NONE) {
            row->fact = state->pool[to].fact;
            row->late_next = state->pool[to].late;
            state->pool[to].late = at;
        }
        at = next;
    }
}

/* Gives a row back when no tree holds it; its exclusive time is booked then. */
static void drop_row(struct state *state, uint32_t index)
{
    struct open_row *row = &state->pool[index];
    if (row->is_in_torch || row->is_in_exclusive) {
        return;
    }
    if (row->fact != NONE) {
        struct ks_operator_fact *fact = &state->table.facts[row->fact];
        int64_t own_ns = ks_sum_sub(row->end_ns, row->start_ns) - row->covered_ns;
        fact->self_exclusive_ns =
            ks_sum_add(fact->self_exclusive_ns, ks_sum_add(own_ns, row->swallowed_ns));
    }
    leave_late_list(state, index);
    pass_late_list(state, index, NONE);
    row->pending = state->free_list;
    state->free_list = index;
}

static enum ks_status push(struct stack *stack, uint32_t row, struct ks_err *err)
{
    KS_TRY(ks_grow(&stack->rows, stack->count, &stack->capacity, sizeof(*stack->rows),
                   "open operators", err));
    stack->rows[stack->count++] = row;
    return KS_OK;
}

/* ------------------------------------------------------------ torch's tree */

static void count_row(struct state *state, const struct open_row *row)
{
    if (row->fact == NONE) {
        return;
    }
    struct ks_operator_fact *fact = &state->table.facts[row->fact];
    int64_t dur_ns = ks_sum_sub(row->end_ns, row->start_ns);
    fact->calls++;
    fact->cpu_ns = ks_sum_add(fact->cpu_ns, dur_ns);
    fact->self_cpu_ns = ks_sum_add(fact->self_cpu_ns, ks_sum_sub(dur_ns, row->child_ns));
    fact->self_device_ns = ks_sum_add(fact->self_device_ns, row->own_device_ns);
    fact->device_ns =
        ks_sum_add(fact->device_ns, ks_sum_add(row->own_device_ns, row->children.device_ns));
    fact->cpu_bytes = ks_sum_add(fact->cpu_bytes, row->total.host_bytes);
    fact->self_cpu_bytes = ks_sum_add(fact->self_cpu_bytes,
                                      ks_sum_sub(row->total.host_bytes, row->children.host_bytes));
    fact->device_bytes = ks_sum_add(fact->device_bytes, row->total.device_bytes);
    fact->self_device_bytes = ks_sum_add(
        fact->self_device_bytes, ks_sum_sub(row->total.device_bytes, row->children.device_bytes));
    fact->flops = ks_sum_add(fact->flops, row->flops);
}

static void finish_in_torch(struct state *state, uint32_t index)
{
    count_row(state, &state->pool[index]);
    state->pool[index].is_in_torch = false;
    drop_row(state, index);
}

/* The parent stands for its only child of the same name: it takes over the child's children and
 * GPU time, and the child is no call of its own. */
static void swallow(struct state *state, uint32_t parent_index)
{
    struct open_row *parent = &state->pool[parent_index];
    struct open_row *child = &state->pool[parent->pending];
    parent->child_ns = child->child_ns;
    parent->children = child->children;
    parent->own_device_ns = child->own_device_ns;
    pass_late_list(state, parent->pending, parent_index);
    if (child->is_in_exclusive) { /* overlapping rows: its time is not known yet */
        child->fact = parent->fact;
        child->late_owner = parent_index;
        child->late_next = parent->late;
        parent->late = parent->pending;
    } else {
        int64_t own_ns = ks_sum_sub(child->end_ns, child->start_ns) - child->covered_ns;
        parent->swallowed_ns =
            ks_sum_add(parent->swallowed_ns, ks_sum_add(own_ns, child->swallowed_ns));
        child->fact = NONE;
    }
    uint32_t index = parent->pending;
    child->is_in_torch = false;
    parent->pending = NONE;
    drop_row(state, index);
}

static void close_in_torch(struct state *state)
{
    uint32_t index = state->torch.rows[--state->torch.count];
    struct open_row *row = &state->pool[index];
    if (row->pending != NONE) {
        swallow(state, index);
    }
    if (state->torch.count == 0) {
        finish_in_torch(state, index);
        return;
    }
    struct open_row *parent = &state->pool[state->torch.rows[state->torch.count - 1]];
    parent->child_ns = ks_sum_add(parent->child_ns, ks_sum_sub(row->end_ns, row->start_ns));
    parent->children.device_ns = ks_sum_add(
        parent->children.device_ns, ks_sum_add(row->own_device_ns, row->children.device_ns));
    parent->children.host_bytes = ks_sum_add(parent->children.host_bytes, row->total.host_bytes);
    parent->children.device_bytes =
        ks_sum_add(parent->children.device_bytes, row->total.device_bytes);
    if (parent->child_count == 1 && parent->name == row->name) {
        parent->pending = index;
    } else {
        finish_in_torch(state, index);
    }
}

static enum ks_status open_in_torch(struct state *state, uint32_t index, struct ks_err *err)
{
    int64_t start_ns = state->pool[index].start_ns;
    int64_t end_ns = state->pool[index].end_ns;
    while (state->torch.count > 0) {
        struct open_row *top = &state->pool[state->torch.rows[state->torch.count - 1]];
        if (start_ns < top->end_ns && end_ns <= top->end_ns) {
            top->child_count++;
            if (top->pending != NONE) {
                uint32_t sibling = top->pending;
                top->pending = NONE;
                finish_in_torch(state, sibling);
            }
            break;
        }
        close_in_torch(state);
    }
    state->pool[index].is_in_torch = true;
    return push(&state->torch, index, err);
}

/* ------------------------------------------------------------ the exclusive tree */

static void close_in_exclusive(struct state *state, uint32_t index)
{
    state->pool[index].is_in_exclusive = false;
    drop_row(state, index);
}

/* The smallest open row that holds [start, end), or NONE; of equal ones the later in order is the
 * inner one. While all open rows nest, that is the top. Otherwise rows further down, which started
 * no later, are looked at until they started too early to be smaller. */
static uint32_t find_parent(struct state *state, int64_t start_ns, int64_t end_ns)
{
    uint32_t best = NONE;
    int64_t best_ns = INT64_MAX;
    size_t searched = 0;
    for (size_t i = state->exclusive.count; i > 0; i--) {
        const struct open_row *row = &state->pool[state->exclusive.rows[i - 1]];
        if (searched++ == SEARCH_MAX) {
            state->analyzer->facts->parents_guessed++;
            break;
        }
        int64_t dur_ns = ks_sum_sub(row->end_ns, row->start_ns);
        if (row->end_ns >= end_ns && row->start_ns <= start_ns && dur_ns < best_ns) {
            best = state->exclusive.rows[i - 1];
            best_ns = dur_ns;
            if (row->is_nested) {
                break;
            }
        }
        if (best != NONE && ks_sum_sub(end_ns, row->start_ns) > best_ns) {
            break;
        }
    }
    return best;
}

/* Puts a row on top; it nests when it ends within the row below, and that nests, too. */
static void stack_exclusive(struct state *state, size_t at, uint32_t index)
{
    const struct open_row *below = at > 0 ? &state->pool[state->exclusive.rows[at - 1]] : NULL;
    struct open_row *row = &state->pool[index];
    row->is_nested = !below || (below->is_nested && row->end_ns <= below->end_ns);
    state->exclusive.rows[at] = index;
}

/* Closes what ended before `ns` also below rows that are still open. */
static void compact(struct state *state, int64_t ns)
{
    size_t kept = 0;
    for (size_t i = 0; i < state->exclusive.count; i++) {
        uint32_t index = state->exclusive.rows[i];
        if (state->pool[index].end_ns <= ns) {
            close_in_exclusive(state, index);
        } else {
            stack_exclusive(state, kept++, index);
        }
    }
    state->exclusive.count = kept;
    state->compact_at = 2 * kept > COMPACT_DEPTH ? 2 * kept : COMPACT_DEPTH;
}

static enum ks_status open_in_exclusive(struct state *state, uint32_t index, struct ks_err *err)
{
    int64_t start_ns = state->pool[index].start_ns;
    int64_t end_ns = state->pool[index].end_ns;
    while (state->exclusive.count > 0) {
        uint32_t top = state->exclusive.rows[state->exclusive.count - 1];
        if (state->pool[top].end_ns > start_ns) {
            break;
        }
        state->exclusive.count--;
        close_in_exclusive(state, top);
    }
    if (state->exclusive.count >= state->compact_at) {
        compact(state, start_ns);
    }
    uint32_t parent = find_parent(state, start_ns, end_ns);
    if (parent != NONE) {
        struct open_row *row = &state->pool[parent];
        int64_t from_ns = start_ns > row->covered_until_ns ? start_ns : row->covered_until_ns;
        if (end_ns > from_ns) {
            row->covered_ns += end_ns - from_ns;
            row->covered_until_ns = end_ns;
        }
    }
    state->pool[index].is_in_exclusive = true;
    KS_TRY(push(&state->exclusive, index, err));
    stack_exclusive(state, state->exclusive.count - 1, index);
    return KS_OK;
}

/* ------------------------------------------------------------ memory and FLOPs of a row */

/* Moves to the first event at or after `ns`; rows come in order of start. */
static enum ks_status seek_memory(struct state *state, int64_t ns, struct ks_err *err)
{
    while (!state->is_memory_done) {
        for (; state->memory_index < state->memory.count; state->memory_index++) {
            if (state->memory.col.start_ns[state->memory_index] >= ns) {
                return KS_OK;
            }
        }
        state->memory_index = 0;
        enum ks_status status = ks_memory_scan_next(&state->memory, err);
        if (status == KS_END) {
            state->is_memory_done = true;
            return KS_OK;
        }
        KS_TRY(status);
    }
    return KS_OK;
}

static void close_memory(struct state *state)
{
    if (state->is_memory_open) {
        ks_memory_scan_close(&state->memory);
    }
    state->is_memory_open = false;
    state->is_memory_done = true;
}

static void open_memory(struct state *state)
{
    close_memory(state);
    const struct ks_lane *lane =
        ks_trace_lane_find(state->analyzer->trace, KS_TABLE_memory, state->process);
    if (!lane) {
        return;
    }
    ks_memory_scan_open(&state->memory, state->analyzer->trace,
                        KS_COLUMN_BIT(KS_MEMORY_COL_start_ns) |
                            KS_COLUMN_BIT(KS_MEMORY_COL_host_sum) |
                            KS_COLUMN_BIT(KS_MEMORY_COL_device_sum),
                        lane->row_begin, lane->row_end);
    state->memory.count = 0;
    state->memory_index = 0;
    state->is_memory_open = true;
    state->is_memory_done = false;
}

/* Index of the first event of the chunk that comes after `ns`, from the current one on: it is near
 * for most rows. The count when there is none. */
static size_t find_memory_after(const struct state *state, int64_t ns)
{
    const int64_t *start_ns = state->memory.col.start_ns;
    size_t count = state->memory.count;
    size_t begin = state->memory_index;
    size_t stride = 1;
    while (begin + stride < count && start_ns[begin + stride] <= ns) {
        begin += stride;
        stride *= 2;
    }
    size_t end = begin + stride < count ? begin + stride : count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        if (start_ns[middle] <= ns) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

/* Most rows see no allocator event, and nearly all others only events of one chunk. */
static enum ks_status note_memory(struct state *state, struct open_row *row, struct ks_err *err)
{
    KS_TRY(seek_memory(state, row->start_ns, err));
    if (state->is_memory_done || state->memory.col.start_ns[state->memory_index] > row->end_ns) {
        return KS_OK;
    }
    size_t end = find_memory_after(state, row->end_ns);
    if (state->memory_index == 0 || end == state->memory.count) {
        return ks_trace_memory_between(state->analyzer->trace, state->process, row->start_ns,
                                       row->end_ns, &row->total.host_bytes,
                                       &row->total.device_bytes, err);
    }
    /* Unsigned: a sum that wrapped around still gives the right difference. */
    size_t before = state->memory_index - 1;
    const int64_t *host = state->memory.col.host_sum;
    const int64_t *device = state->memory.col.device_sum;
    row->total.host_bytes = (int64_t)((uint64_t)host[end - 1] - (uint64_t)host[before]);
    row->total.device_bytes = (int64_t)((uint64_t)device[end - 1] - (uint64_t)device[before]);
    return KS_OK;
}

static enum ks_status note_flops(struct state *state, struct open_row *row,
                                 const struct ks_slice_scan *scan, size_t i, struct ks_err *err)
{
    const struct ks_trace *trace = state->analyzer->trace;
    uint64_t a = (uint64_t)scan->col.name[i] << 32 | scan->col.dims[i];
    uint64_t b = (uint64_t)scan->col.types[i] << 32 | scan->col.concrete[i];
    bool added = false;
    uint64_t *slot = ks_map_put(&state->flops, a, b, &added);
    if (!slot) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep FLOPs: count=%zu",
                       state->flops.count);
    }
    if (added) {
        struct ks_flops_call call = {
            .name = ks_trace_str(trace, (struct ks_strid){scan->col.name[i]}),
            .shapes = ks_trace_str(trace, (struct ks_strid){scan->col.dims[i]}),
            .types = ks_trace_str(trace, (struct ks_strid){scan->col.types[i]}),
            .concrete = ks_trace_str(trace, (struct ks_strid){scan->col.concrete[i]})};
        *slot = (uint64_t)ks_flops_count(&call);
    }
    row->flops = (int64_t)*slot;
    return KS_OK;
}

/* ------------------------------------------------------------ stacks */

static enum ks_status find_group(struct state *state, const struct ks_slice_scan *scan, size_t i,
                                 uint32_t *group, struct ks_err *err)
{
    uint32_t stack = 0;
    const struct ks_stack_row row = {
        .source = state->source,
        .name = scan->col.name[i],
        .start_ns = scan->col.start_ns[i],
        .end_ns = ks_sum_add(scan->col.start_ns[i], scan->col.dur_ns[i]),
        .number = scan->col.seq[i],
        .thread = scan->col.aux[i],
    };
    KS_TRY(ks_operator_stacks_find(&state->stacks, &row, &stack, err));
    return ks_operator_stacks_group(&state->stacks, stack, group, err);
}

/* All steps of a stack are one row, as all steps are without stacks. */
static enum ks_status find_by_stack(struct state *state, const struct ks_slice_scan *scan, size_t i,
                                    struct ks_operator_fact *wanted, uint32_t *fact,
                                    struct ks_err *err)
{
    if (wanted->is_folded_step) {
        state->step_name = state->step_name ? state->step_name : wanted->name.v;
        wanted->name.v = state->step_name;
    }
    KS_TRY(find_group(state, scan, i, &wanted->stack_group, err));
    return find_by_shape(&state->table, wanted, fact, err);
}

/* ------------------------------------------------------------ rows */

static enum ks_status find_fact(struct state *state, const struct ks_slice_scan *scan, size_t i,
                                unsigned name_flags, enum ks_operator_kind kind, uint32_t *fact,
                                struct ks_err *err)
{
    const struct ks_facts *facts = state->analyzer->facts;
    if (!ks_step_lookup_keeps_host(facts, state->source, scan->col.start_ns[i])) {
        *fact = NONE;
        return KS_OK;
    }
    uint32_t name = scan->col.name[i];
    bool is_step = name_flags & KS_NAME_PROFILER_STEP;
    uint32_t shapes = facts->scope.group_by_shape ? scan->col.dims[i] : 0;
    if (facts->scope.group_by_stack > 0) {
        struct ks_operator_fact wanted = new_fact(name, is_step ? 0 : shapes, kind);
        wanted.is_folded_step = is_step;
        return find_by_stack(state, scan, i, &wanted, fact, err);
    }
    if (is_step) {
        return find_step_fact(state, name, fact, err);
    }
    if (facts->scope.group_by_shape) {
        struct ks_operator_fact wanted = new_fact(name, shapes, kind);
        return find_by_shape(&state->table, &wanted, fact, err);
    }
    return find_by_name(&state->table, name, kind, fact, err);
}

/* What torch sums for a row: kernels by External id go to operators and annotations only, since
 * calls carry the id of the operator that made them. */
static enum ks_status describe(struct state *state, struct open_row *row,
                               const struct ks_slice_scan *scan, size_t i, unsigned name_flags,
                               enum ks_operator_kind kind, struct ks_err *err)
{
    bool is_async = scan->col.flags[i] & KS_SLICE_ASYNC;
    if (kind != KS_OPERATOR_RUNTIME && !is_async) {
        row->own_device_ns =
            ks_device_time_find(&state->analyzer->device_time, state->source, scan->col.ext_id[i]);
    }
    if (scan->col.dims[i] != 0) {
        state->analyzer->facts->has_shapes = true;
        if (KS_UNLIKELY(name_flags & KS_NAME_FLOPS)) {
            KS_TRY(note_flops(state, row, scan, i, err));
        }
    }
    return state->is_memory_open ? note_memory(state, row, err) : KS_OK;
}

/* Asynchronous rows overlap freely: they are in no tree and have no self time. */
static void count_async(struct state *state, struct open_row *row)
{
    row->child_ns = ks_sum_sub(row->end_ns, row->start_ns);
    row->children.host_bytes = row->total.host_bytes;
    row->children.device_bytes = row->total.device_bytes;
    count_row(state, row);
}

static enum ks_status note_row(struct state *state, const struct ks_slice_scan *scan, size_t i,
                               struct ks_err *err)
{
    uint8_t category = scan->col.category[i];
    if (category == KS_CATEGORY_OVERHEAD || category == KS_CATEGORY_TRACE) {
        return KS_OK;
    }
    uint32_t name = scan->col.name[i];
    unsigned name_flags = ks_row_names_get(&state->analyzer->names, name);
    enum ks_operator_kind kind = KS_OPERATOR_OP;
    bool is_shown = kind_of(category, &kind) && !(name_flags & KS_NAME_DROPPED) &&
                    !(scan->col.flags[i] & KS_SLICE_HIDDEN);
    if (state->stacks.depth > 0 && category == KS_CATEGORY_PYTHON) {
        int64_t start_ns = scan->col.start_ns[i];
        KS_TRY(ks_operator_stacks_open(&state->stacks, name, start_ns,
                                       ks_sum_add(start_ns, scan->col.dur_ns[i]), err));
    }
    uint32_t index = NONE;
    KS_TRY(take_row(state, &index, err));
    struct open_row *row = &state->pool[index];
    *row = (struct open_row){.start_ns = scan->col.start_ns[i],
                             .end_ns = ks_sum_add(scan->col.start_ns[i], scan->col.dur_ns[i]),
                             .name = name,
                             .fact = NONE,
                             .pending = NONE,
                             .late = NONE,
                             .late_next = NONE,
                             .late_owner = NONE,
                             .covered_until_ns = INT64_MIN};
    if (is_shown) {
        KS_TRY(find_fact(state, scan, i, name_flags, kind, &row->fact, err));
        KS_TRY(describe(state, row, scan, i, name_flags, kind, err));
    }
    if (scan->col.flags[i] & KS_SLICE_ASYNC) {
        if (is_shown) {
            count_async(state, row);
        }
        row->fact = NONE;
        drop_row(state, index);
        return KS_OK;
    }
    KS_TRY(open_in_exclusive(state, index, err));
    return is_shown ? open_in_torch(state, index, err) : KS_OK;
}

static void close_all(struct state *state)
{
    while (state->exclusive.count > 0) {
        close_in_exclusive(state, state->exclusive.rows[--state->exclusive.count]);
    }
    while (state->torch.count > 0) {
        close_in_torch(state);
    }
}

static const uint64_t columns =
    KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
    KS_COLUMN_BIT(KS_SLICE_COL_ext_id) | KS_COLUMN_BIT(KS_SLICE_COL_name) |
    KS_COLUMN_BIT(KS_SLICE_COL_dims) | KS_COLUMN_BIT(KS_SLICE_COL_types) |
    KS_COLUMN_BIT(KS_SLICE_COL_concrete) | KS_COLUMN_BIT(KS_SLICE_COL_category) |
    KS_COLUMN_BIT(KS_SLICE_COL_flags);

static const uint64_t stack_columns =
    KS_COLUMN_BIT(KS_SLICE_COL_seq) | KS_COLUMN_BIT(KS_SLICE_COL_aux);

/* The first pass looks at stacks alone: nodes may run on a lane before that of their makers. */
static enum ks_status note_makers_of_row(struct state *state, const struct ks_slice_scan *scan,
                                         size_t i, struct ks_err *err)
{
    uint8_t category = scan->col.category[i];
    enum ks_operator_kind kind = KS_OPERATOR_OP;
    uint32_t group = 0;
    if (category == KS_CATEGORY_PYTHON) {
        int64_t start_ns = scan->col.start_ns[i];
        return ks_operator_stacks_open(&state->stacks, scan->col.name[i], start_ns,
                                       ks_sum_add(start_ns, scan->col.dur_ns[i]), err);
    }
    bool is_asked = kind_of(category, &kind) && !(scan->col.flags[i] & KS_SLICE_ASYNC);
    return is_asked ? find_group(state, scan, i, &group, err) : KS_OK;
}

static enum ks_status note_makers(struct state *state, const struct ks_lane *lane,
                                  struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status;
    state->source = ks_trace_track(state->analyzer->trace, lane->track)->source;
    ks_operator_stacks_begin_lane(&state->stacks);
    ks_slice_scan_open(&scan, state->analyzer->trace, columns | stack_columns, lane->row_begin,
                       lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            status = note_makers_of_row(state, &scan, i, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status scan_lane(struct state *state, const struct ks_lane *lane, struct ks_err *err)
{
    const struct ks_track *track = ks_trace_track(state->analyzer->trace, lane->track);
    bool by_stack = state->stacks.depth > 0;
    ks_operator_stacks_begin_lane(&state->stacks);
    state->source = track->source;
    state->process = track->kind == KS_TRACK_PROCESS ? lane->track : track->parent;
    state->compact_at = COMPACT_DEPTH;
    open_memory(state);
    struct ks_slice_scan scan;
    enum ks_status status;
    ks_slice_scan_open(&scan, state->analyzer->trace, columns | (by_stack ? stack_columns : 0),
                       lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            status = note_row(state, &scan, i, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    close_memory(state);
    close_all(state);
    return status == KS_END ? KS_OK : status;
}

/* ------------------------------------------------------------ the result */

/* What is sorted in place of facts, which are large. */
struct ranked {
    int64_t self_cpu_ns;
    const struct ks_operator_fact *fact;
};

static int compare_ranked(const void *left, const void *right, void *trace)
{
    const struct ranked *ranked_a = left;
    const struct ranked *ranked_b = right;
    if (ranked_a->self_cpu_ns != ranked_b->self_cpu_ns) {
        return ranked_a->self_cpu_ns > ranked_b->self_cpu_ns ? -1 : 1;
    }
    const struct ks_operator_fact *a = ranked_a->fact;
    const struct ks_operator_fact *b = ranked_b->fact;
    int order = ks_str_compare(ks_trace_str(trace, a->name), ks_trace_str(trace, b->name));
    if (order == 0 && a->kind != b->kind) {
        order = a->kind < b->kind ? -1 : 1;
    }
    order = order ? order
                  : ks_str_compare(ks_trace_str(trace, a->shapes), ks_trace_str(trace, b->shapes));
    return order ? order : ks_str_compare(a->stack, b->stack);
}

/* Ranks all but those whose calls were all swallowed by their parents. */
static size_t rank_facts(const struct table *table, const struct ks_trace *trace,
                         struct ranked *ranked)
{
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct ks_operator_fact *fact = &table->facts[i];
        if (fact->calls > 0) {
            ranked[count++] = (struct ranked){fact->self_cpu_ns, fact};
        }
    }
    qsort_r(ranked, count, sizeof(*ranked), compare_ranked, (void *)(uintptr_t)trace);
    return count;
}

static void publish_fact(struct ks_facts *facts, const struct ks_operator_fact *known)
{
    struct ks_operator_fact *fact = &facts->operators[facts->operator_count++];
    *fact = *known;
    if (!facts->has_memory) {
        fact->cpu_bytes = fact->self_cpu_bytes = KS_UNKNOWN;
        fact->device_bytes = fact->self_device_bytes = KS_UNKNOWN;
    }
    if (!facts->has_shapes) {
        fact->flops = KS_UNKNOWN;
    }
}

static enum ks_status publish(struct state *state, struct ks_err *err)
{
    struct ks_facts *facts = state->analyzer->facts;
    const struct table *table = &state->table;
    struct ranked *ranked = ks_alloc(table->count + 1, sizeof(*ranked));
    facts->operators = ks_new(state->analyzer->results, struct ks_operator_fact, table->count + 1);
    if (!ranked || !facts->operators) {
        ks_free(ranked);
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep operators: count=%zu",
                       table->count);
    }
    size_t count = rank_facts(table, state->analyzer->trace, ranked);
    for (size_t i = 0; i < count; i++) {
        publish_fact(facts, ranked[i].fact);
    }
    ks_free(ranked);
    return KS_OK;
}

static enum ks_status run(struct state *state, struct ks_err *err)
{
    const struct ks_trace *trace = state->analyzer->trace;
    size_t names = (size_t)ks_trace_str_count(trace) + 1;
    state->table.first_of = ks_alloc(names, sizeof(uint32_t));
    if (!state->table.first_of) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep operators: names=%zu", names);
    }
    KS_TRY(ks_device_time_init(&state->analyzer->device_time, state->analyzer->facts, err));
    size_t lane_count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(trace, KS_TABLE_slice, &lane_count);
    bool by_stack = state->stacks.depth > 0;
    state->stacks.is_noting = true;
    for (size_t i = 0; i < lane_count && by_stack; i++) {
        KS_TRY(note_makers(state, &lanes[i], err));
    }
    state->stacks.is_noting = false;
    for (size_t i = 0; i < lane_count; i++) {
        KS_TRY(scan_lane(state, &lanes[i], err));
    }
    if (by_stack) {
        KS_TRY(ks_operator_stacks_name(&state->stacks, state->table.facts, state->table.count,
                                       state->analyzer->results, err));
        KS_TRY(ks_operator_stacks_sum(&state->stacks, state->table.facts, state->table.count,
                                      state->analyzer, err));
    }
    return publish(state, err);
}

enum ks_status ks_operators_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct state state = {
        .analyzer = analyzer, .free_list = NONE, .step_fact = NONE, .is_memory_done = true};
    ks_map_init(&state.table.by_shape);
    ks_map_init(&state.flops);
    ks_operator_stacks_init(&state.stacks, analyzer->trace, analyzer->facts->scope.group_by_stack);
    enum ks_status status = run(&state, err);
    close_memory(&state);
    ks_map_release(&state.table.by_shape);
    ks_map_release(&state.flops);
    ks_operator_stacks_release(&state.stacks);
    ks_free(state.table.first_of);
    ks_free(state.table.next_of);
    ks_free(state.table.facts);
    ks_free(state.pool);
    ks_free(state.torch.rows);
    ks_free(state.exclusive.rows);
    return status;
}
