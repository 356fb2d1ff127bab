#include "page/page_flame.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "export/folded_stacks.h"
#include "export/host_stacks.h"
#include "measure/sum.h"
#include "show/json_writer.h"

enum {
    NODES_MAX = 20000,
    FOLDED_BELOW = 2000, /* part of the root: 0.05 % */
    NO_NODE = UINT32_MAX,
};

/* Of a sum that stopped at the end of its type: a bound of one more folds it, too. */
static const int64_t TOTAL_MAX = INT64_MAX - 1;

/* A tree of stacks on its way into a flame graph. */
struct folding {
    const struct ks_host_stacks *stacks;
    bool is_device;
    int64_t *totals;       /* by node of the tree */
    uint32_t *sizes;       /* how many nodes it holds, with itself */
    uint32_t *sorted;      /* nodes but the root: by parent, then total descending, then name */
    uint32_t *first_child; /* by node: its place in `sorted`; count: none */
    int64_t least;         /* frames below this are folded */
    struct ks_flame *flame;
};

static const struct ks_stack_node *node_at(const struct folding *f, size_t node)
{
    return &f->stacks->tree.nodes[node];
}

static int64_t self_of(const struct folding *f, size_t node)
{
    return f->is_device ? node_at(f, node)->device_ns : node_at(f, node)->value;
}

static struct ks_str text_of(const struct folding *f, size_t node)
{
    return ks_strpool_get(f->stacks->pool, (struct ks_strid){node_at(f, node)->name});
}

/* ------------------------------------------------------------------ order */

static int compare_nodes(const void *left, const void *right, void *user)
{
    const struct folding *f = user;
    uint32_t a = *(const uint32_t *)left;
    uint32_t b = *(const uint32_t *)right;
    if (node_at(f, a)->parent != node_at(f, b)->parent) {
        return node_at(f, a)->parent < node_at(f, b)->parent ? -1 : 1;
    }
    if (f->totals[a] != f->totals[b]) {
        return f->totals[a] > f->totals[b] ? -1 : 1;
    }
    return ks_str_compare(text_of(f, a), text_of(f, b));
}

/* Totals from the leaves up, and the order of siblings. */
static enum ks_status sort_nodes(struct folding *f, struct ks_err *err)
{
    size_t count = f->stacks->tree.count;
    f->totals = ks_alloc(count, sizeof(*f->totals));
    f->sizes = ks_alloc(count, sizeof(*f->sizes));
    f->sorted = ks_alloc(count, sizeof(*f->sorted));
    f->first_child = ks_alloc(count, sizeof(*f->first_child));
    if (!f->totals || !f->sizes || !f->sorted || !f->first_child) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot sort stacks: count=%zu", count);
    }
    for (size_t i = count; i-- > 0;) {
        int64_t self = self_of(f, i);
        int64_t total = ks_sum_add(f->totals[i], self > 0 ? self : 0);
        f->totals[i] = total < TOTAL_MAX ? total : TOTAL_MAX;
        f->sizes[i]++;
        f->first_child[i] = (uint32_t)count - 1;
        if (i > 0) {
            uint32_t parent = node_at(f, i)->parent;
            f->totals[parent] = ks_sum_add(f->totals[parent], f->totals[i]);
            f->sizes[parent] += f->sizes[i];
            f->sorted[i - 1] = (uint32_t)i;
        }
    }
    qsort_r(f->sorted, count - 1, sizeof(*f->sorted), compare_nodes, f);
    for (size_t i = count - 1; i > 0; i--) {
        f->first_child[node_at(f, f->sorted[i - 1])->parent] = (uint32_t)i - 1;
    }
    return KS_OK;
}

/* Twice the bound until so few frames are left that the page stays small. Each of them may have
 * one beside it that stands for others. */
static void choose_least(struct folding *f)
{
    size_t kept = 0;
    f->least = f->totals[KS_STACK_ROOT] / FOLDED_BELOW;
    f->least = f->least > 0 ? f->least : 1;
    do {
        kept = 0;
        for (size_t i = 1; i < f->stacks->tree.count; i++) {
            kept += f->totals[i] >= f->least;
        }
        f->least = kept > NODES_MAX / 2 ? ks_sum_scale(f->least, 2) : f->least;
    } while (kept > NODES_MAX / 2);
}

/* ------------------------------------------------------------------ frames */

static enum ks_status add(struct folding *f, struct ks_flame_node node, uint64_t key,
                          struct ks_str text, uint32_t *place, struct ks_err *err)
{
    struct ks_flame *flame = f->flame;
    KS_TRY(ks_page_names_find(&flame->names, key, text, &node.name, err));
    KS_TRY(ks_grow(&flame->nodes, flame->count, &flame->capacity, sizeof(*flame->nodes), "frames",
                   err));
    *place = (uint32_t)flame->count;
    flame->nodes[flame->count++] = node;
    return KS_OK;
}

/* One frame for the siblings from `at` on, which are all too small. */
static enum ks_status add_others(struct folding *f, uint32_t parent, uint32_t above, size_t at,
                                 struct ks_err *err)
{
    enum { OTHERS = 1 };
    struct ks_flame_node node = {.parent = parent};
    size_t frames = 0;
    for (; at + 1 < f->stacks->tree.count && node_at(f, f->sorted[at])->parent == above; at++) {
        uint32_t from = f->sorted[at];
        node.total = ks_sum_add(node.total, f->totals[from]);
        node.calls = ks_sum_add(node.calls, node_at(f, from)->calls);
        frames += f->totals[from] > 0 ? f->sizes[from] : 0;
    }
    if (node.total == 0) {
        return KS_OK;
    }
    char text[48];
    uint32_t place = 0;
    int len =
        snprintf(text, sizeof(text), "other (%zu %s)", frames, frames == 1 ? "frame" : "frames");
    node.self = node.total;
    return add(f, node, (uint64_t)frames << 32 | OTHERS, (struct ks_str){text, (size_t)len}, &place,
               err);
}

/* Goes down the tree; `places` and `at` are the way from the root. */
static enum ks_status walk(struct folding *f, uint32_t *above, uint32_t *places, uint32_t *next,
                           struct ks_err *err)
{
    size_t depth = 0;
    above[0] = KS_STACK_ROOT;
    places[0] = NO_NODE;
    next[0] = f->first_child[KS_STACK_ROOT];
    for (;;) {
        uint32_t at = next[depth];
        bool is_child = at + (size_t)1 < f->stacks->tree.count &&
                        node_at(f, f->sorted[at])->parent == above[depth];
        if (is_child && f->totals[f->sorted[at]] >= f->least) {
            uint32_t from = f->sorted[at];
            struct ks_flame_node node = {.self = self_of(f, from) > 0 ? self_of(f, from) : 0,
                                         .total = f->totals[from],
                                         .calls = node_at(f, from)->calls,
                                         .parent = places[depth]};
            next[depth++]++;
            KS_ASSERT(depth <= KS_FOLDED_DEPTH_MAX);
            above[depth] = from;
            next[depth] = f->first_child[from];
            KS_TRY(add(f, node, (uint64_t)node_at(f, from)->name << 32, text_of(f, from),
                       &places[depth], err));
            continue;
        }
        if (is_child) {
            KS_TRY(add_others(f, places[depth], above[depth], at, err));
        }
        if (depth-- == 0) {
            return KS_OK;
        }
    }
}

static enum ks_status fold(struct folding *f, struct ks_err *err)
{
    enum { LEVELS = KS_FOLDED_DEPTH_MAX + 1 };
    KS_TRY(sort_nodes(f, err));
    choose_least(f);
    uint32_t *way = ks_alloc(3 * (size_t)LEVELS, sizeof(*way));
    if (!way) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep frames: no memory");
    }
    enum ks_status status = walk(f, way, way + LEVELS, way + 2 * (size_t)LEVELS, err);
    ks_free(way);
    return status;
}

/* ------------------------------------------------------------------ kinds */

/* Adds a tree, unless it holds nothing. */
static enum ks_status add_kind(struct ks_page_flames *flames, const struct ks_host_stacks *stacks,
                               bool is_device, const char *name, const char *unit,
                               struct ks_err *err)
{
    struct ks_flame *flame = &flames->list[flames->count];
    struct folding f = {.stacks = stacks, .is_device = is_device, .flame = flame};
    *flame = (struct ks_flame){.name = name, .unit = unit};
    ks_page_names_init(&flame->names, false);
    flames->count++;
    enum ks_status status = fold(&f, err);
    ks_free(f.totals);
    ks_free(f.sizes);
    ks_free(f.sorted);
    ks_free(f.first_child);
    return status;
}

static enum ks_status add_host(struct ks_page_flames *flames, const struct ks_view *view,
                               struct ks_err *err)
{
    struct ks_host_stacks stacks;
    struct ks_export_options options = {.weight = KS_EXPORT_SELF_CPU};
    bool has_gpu = view->facts->has_gpu;
    enum ks_status status = ks_host_stacks_init(&stacks, view, &options, has_gpu, err);
    if (status == KS_OK) {
        status = add_kind(flames, &stacks, false, "operators", "ns", err);
    }
    if (status == KS_OK && has_gpu) {
        status = add_kind(flames, &stacks, true, "device", "ns", err);
    }
    ks_host_stacks_release(&stacks);
    return status;
}

/* Python by what tells most: functions that were counted, samples, frames beside operators. */
static enum ks_status add_python(struct ks_page_flames *flames, const struct ks_view *view,
                                 struct ks_err *err)
{
    struct ks_export_options options = {.weight = KS_EXPORT_SELF_CPU};
    const char *unit = "ns";
    if (ks_trace_call_path_count(view->trace) > 0) {
        options.weight = KS_EXPORT_FUNCTIONS;
    } else if (ks_trace_rows(view->trace, KS_TABLE_sample) > 0) {
        options.weight = KS_EXPORT_SAMPLES;
        unit = "samples";
    } else if (view->facts->has_frames && ks_trace_rows(view->trace, KS_TABLE_slice) > 0) {
        options.categories = "python_function";
    } else {
        return KS_OK;
    }
    struct ks_host_stacks stacks;
    enum ks_status status = ks_host_stacks_init(&stacks, view, &options, false, err);
    if (status == KS_OK) {
        status = add_kind(flames, &stacks, false, "python", unit, err);
    }
    ks_host_stacks_release(&stacks);
    return status;
}

enum ks_status ks_page_flames_init(struct ks_page_flames *flames, const struct ks_view *view,
                                   struct ks_err *err)
{
    *flames = (struct ks_page_flames){0};
    if (ks_trace_rows(view->trace, KS_TABLE_slice) > 0) {
        KS_TRY(add_host(flames, view, err));
    }
    return add_python(flames, view, err);
}

void ks_page_flames_release(struct ks_page_flames *flames)
{
    for (size_t i = 0; i < flames->count; i++) {
        ks_page_names_release(&flames->list[i].names);
        ks_free(flames->list[i].nodes);
    }
    flames->count = 0;
}

size_t ks_page_flames_size(const struct ks_page_flames *flames)
{
    size_t size = 0;
    for (size_t i = 0; i < flames->count; i++) {
        size += flames->list[i].count + flames->list[i].names.cost;
    }
    return size;
}

/* ------------------------------------------------------------------ writing */

static int64_t value_of(const struct ks_flame_node *node, size_t field)
{
    switch (field) {
    case 0: return node->parent == NO_NODE ? -1 : (int64_t)node->parent;
    case 1: return node->name;
    case 2: return node->self;
    case 3: return node->total;
    default: return node->calls;
    }
}

static void write_kind(const struct ks_flame *flame, int64_t *column, struct ks_json *json)
{
    static const char *const keys[] = {"parent", "name", "self", "total", "calls"};
    ks_json_object_begin(json, NULL);
    ks_json_text(json, "name", flame->name);
    ks_json_text(json, "unit", flame->unit);
    ks_page_names_write(&flame->names, json, "strings");
    ks_json_object_begin(json, "nodes");
    for (size_t k = 0; k < KS_COUNT_OF(keys); k++) {
        for (size_t i = 0; i < flame->count; i++) {
            column[i] = value_of(&flame->nodes[i], k);
        }
        ks_json_ints(json, keys[k], column, flame->count);
    }
    ks_json_object_end(json);
    ks_json_object_end(json);
}

enum ks_status ks_page_flames_write(const struct ks_page_flames *flames, ks_write_cb write,
                                    void *user, struct ks_err *err)
{
    size_t most = 1;
    for (size_t i = 0; i < flames->count; i++) {
        most = flames->list[i].count > most ? flames->list[i].count : most;
    }
    int64_t *column = ks_alloc(most, sizeof(*column));
    if (!column) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write frames: count=%zu", most);
    }
    struct ks_json json;
    ks_json_init_for_markup(&json, 0, write, user);
    ks_json_object_begin(&json, NULL);
    ks_json_array_begin(&json, "kinds");
    for (size_t i = 0; i < flames->count; i++) {
        write_kind(&flames->list[i], column, &json);
    }
    ks_json_array_end(&json);
    ks_json_object_end(&json);
    ks_free(column);
    return ks_json_finish(&json, err);
}
