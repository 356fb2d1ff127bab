#include "export/folded_stacks.h"

#include "analyze/function_tree.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/text.h"
#include "measure/sum.h"

/* Nodes of the trace, call paths or stacks, as nodes of the tree that is written. */
struct stacks {
    const struct ks_trace *trace;
    struct ks_strpool *pool;
    struct ks_stack_tree *tree;
    struct ks_text name;
    struct ks_function_tree functions;
    uint32_t *clean_of; /* by function: id in the pool */
    uint32_t *node_of;  /* these by id of a node of the trace: in `tree` ... */
    uint16_t *depth_of; /* ... and how deep that is */
};

void ks_folded_append_name(struct ks_text *text, struct ks_str name)
{
    const unsigned char *bytes = (const unsigned char *)name.ptr;
    for (size_t i = 0; i < name.len;) {
        size_t len = ks_utf8_sequence(bytes + i, name.len - i);
        if (len == 0) {
            ks_text_append_str(text, KS_STR("\xEF\xBF\xBD"));
            i++;
            continue;
        }
        bool is_control = bytes[i] < 0x20 || bytes[i] == 0x7f;
        const char *plain = is_control ? " " : bytes[i] == ';' ? ":" : name.ptr + i;
        ks_text_append(text, plain, len);
        i += len;
    }
    if (name.len == 0) {
        ks_text_append_str(text, KS_STR("(no name)"));
    }
}

/* "train.py(12): step", as torch has its Python frames; of C functions the name alone. */
static enum ks_status name_function(struct stacks *stacks, size_t function, struct ks_err *err)
{
    const struct ks_function_id *id = &stacks->functions.functions[function];
    struct ks_text *text = &stacks->name;
    struct ks_strid clean;
    ks_text_reset(text);
    if (id->first_line > 0) {
        ks_folded_append_name(text, ks_trace_str(stacks->trace, id->file));
        ks_text_printf(text, "(%u): ", id->first_line);
    }
    ks_folded_append_name(text, ks_trace_str(stacks->trace, id->name));
    if (text->failed) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep a name: no memory");
    }
    KS_TRY(ks_strpool_intern(stacks->pool, (struct ks_str){text->ptr, text->len}, &clean, err));
    stacks->clean_of[function] = clean.v;
    return KS_OK;
}

/* Of a stack as deep as the limit the rest is left out, and what is below counts there. */
static enum ks_status add_node(struct stacks *stacks, size_t id, struct ks_err *err)
{
    uint32_t caller = stacks->functions.caller_of[id];
    uint32_t parent = caller != 0 ? stacks->node_of[caller] : KS_STACK_ROOT;
    uint16_t depth = caller != 0 ? stacks->depth_of[caller] : 0;
    stacks->depth_of[id] = depth;
    stacks->node_of[id] = parent;
    if (depth == KS_FOLDED_DEPTH_MAX) {
        return KS_OK;
    }
    stacks->depth_of[id]++;
    uint32_t clean = stacks->clean_of[stacks->functions.function_of[id]];
    return ks_stack_tree_child(stacks->tree, parent, clean, &stacks->node_of[id], err);
}

static enum ks_status add_nodes(struct stacks *stacks, struct ks_err *err)
{
    size_t count = stacks->functions.node_count;
    size_t functions = stacks->functions.function_count;
    stacks->clean_of = ks_alloc(functions + 1, sizeof(*stacks->clean_of));
    stacks->node_of = ks_alloc(count + 1, sizeof(*stacks->node_of));
    stacks->depth_of = ks_alloc(count + 1, sizeof(*stacks->depth_of));
    if (!stacks->clean_of || !stacks->node_of || !stacks->depth_of) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep stacks: count=%zu", count);
    }
    for (size_t i = 0; i < functions; i++) {
        KS_TRY(name_function(stacks, i, err));
    }
    for (size_t id = 1; id <= count; id++) {
        KS_TRY(add_node(stacks, id, err));
    }
    return KS_OK;
}

static void add_value(struct stacks *stacks, uint32_t id, int64_t value, int64_t calls)
{
    struct ks_stack_node *node = &stacks->tree->nodes[stacks->node_of[id]];
    node->value = ks_sum_add(node->value, value);
    node->calls = ks_sum_add(node->calls, calls);
}

static void init(struct stacks *stacks, const struct ks_row_filter *filter, struct ks_strpool *pool,
                 struct ks_stack_tree *tree)
{
    *stacks = (struct stacks){.trace = filter->facts->trace, .pool = pool, .tree = tree};
    ks_text_init(&stacks->name);
}

static void release(struct stacks *stacks)
{
    ks_function_tree_release(&stacks->functions);
    ks_text_release(&stacks->name);
    ks_free(stacks->clean_of);
    ks_free(stacks->node_of);
    ks_free(stacks->depth_of);
}

/* ------------------------------------------------------------------ call paths */

enum ks_status ks_folded_add_paths(const struct ks_row_filter *filter, struct ks_strpool *pool,
                                   struct ks_stack_tree *tree, struct ks_err *err)
{
    struct stacks stacks;
    if (filter->has_time || filter->has_categories) {
        return KS_OK;
    }
    init(&stacks, filter, pool, tree);
    enum ks_status status = ks_function_tree_of_paths(&stacks.functions, stacks.trace, err);
    if (status == KS_OK) {
        status = add_nodes(&stacks, err);
    }
    for (uint32_t id = 1; status == KS_OK && id <= stacks.functions.node_count; id++) {
        const struct ks_call_path *path = ks_trace_call_path(stacks.trace, id);
        add_value(&stacks, id, ks_call_path_self_ns(path), path->calls);
    }
    release(&stacks);
    return status;
}

/* ------------------------------------------------------------------ samples */

static enum ks_status add_lane(struct stacks *stacks, const struct ks_row_filter *filter,
                               const struct ks_lane *lane, struct ks_err *err)
{
    struct ks_sample_scan scan;
    enum ks_status status;
    ks_sample_scan_open(&scan, stacks->trace,
                        KS_COLUMN_BIT(KS_SAMPLE_COL_start_ns) | KS_COLUMN_BIT(KS_SAMPLE_COL_stack) |
                            KS_COLUMN_BIT(KS_SAMPLE_COL_weight),
                        lane->row_begin, lane->row_end);
    while ((status = ks_sample_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count; i++) {
            if (scan.col.stack[i] != 0 &&
                ks_row_filter_keeps_moment(filter, lane->track, scan.col.start_ns[i])) {
                add_value(stacks, scan.col.stack[i], scan.col.weight[i], scan.col.weight[i]);
            }
        }
    }
    ks_sample_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

enum ks_status ks_folded_add_samples(const struct ks_row_filter *filter, struct ks_strpool *pool,
                                     struct ks_stack_tree *tree, struct ks_err *err)
{
    struct stacks stacks;
    size_t lane_count = 0;
    init(&stacks, filter, pool, tree);
    const struct ks_lane *lanes = ks_trace_lanes(stacks.trace, KS_TABLE_sample, &lane_count);
    enum ks_status status = ks_function_tree_of_stacks(&stacks.functions, stacks.trace, err);
    if (status == KS_OK) {
        status = add_nodes(&stacks, err);
    }
    for (size_t i = 0; status == KS_OK && i < lane_count; i++) {
        status = add_lane(&stacks, filter, &lanes[i], err);
    }
    release(&stacks);
    return status;
}
