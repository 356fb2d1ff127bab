/* Lists of what belongs together over a forward and a backward pass: modules, and operators with
 * the nodes of autograd that they make. */
#include "show/lists.h"

#define TEXT(key_, title_, places_, member)                                                        \
    {                                                                                              \
        .key = key_, .title = title_, .unit = KS_CELL_NAME, .places = places_,                     \
        .field = KS_FIELD_TEXT, KS_COLUMN_OF(ks_module_fact, member)                               \
    }
#define NUMBER(type, key_, title_, unit_, places_, member, reason_)                                \
    {                                                                                              \
        .key = key_, .title = title_, .unit = unit_, .places = places_,                            \
        KS_COLUMN_OF(type, member), .reason = reason_                                              \
    }
#define COUNT(type, key_, title_, member)                                                          \
    NUMBER(type, key_, title_, KS_CELL_COUNT, KS_COLUMN_BOTH, member, NULL)
#define TIME(type, key_, title_, member)                                                           \
    NUMBER(type, key_, title_, KS_CELL_TIME, KS_COLUMN_BOTH, member, NULL)

/* ------------------------------------------------------------------ modules */

static size_t module_count(const struct ks_view *view)
{
    return view->facts->module_count;
}

static const void *module_row(const struct ks_view *view, size_t row)
{
    return &view->facts->modules[row];
}

static struct ks_cell module_id(const struct ks_view *view, size_t row)
{
    (void)view;
    return ks_cell_int((int64_t)row);
}

static struct ks_cell module_source(const struct ks_view *view, size_t row)
{
    return ks_cell_word(view->facts->modules[row].is_region ? "hooks" : "frames");
}

#define NO_LINK "nodes of autograd in the trace do not tell what made them"
#define NO_DEVICE "hooks do not see the work of a GPU"
#define BACKWARD(key_, title_, member)                                                             \
    NUMBER(ks_module_fact, key_, title_, KS_CELL_TIME, KS_COLUMN_BOTH, member, NO_LINK)
#define DEVICE(key_, title_, places_, member)                                                      \
    NUMBER(ks_module_fact, key_, title_, KS_CELL_TIME, places_, member, NO_DEVICE)

static const struct ks_column module_columns[] = {
    {.key = "id", .title = "row", .places = KS_COLUMN_JSON, .cell = module_id},
    {.key = "parent",
     .title = "parent",
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_module_fact, parent),
     .reason = "called from outside of modules"},
    {.key = "depth",
     .title = "depth",
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_module_fact, depth)},
    TEXT("tree", "module", KS_COLUMN_SCREEN, tree_name),
    TEXT("name", "name", KS_COLUMN_JSON, name),
    TEXT("class", "class", KS_COLUMN_JSON, class_name),
    {.key = "source",
     .title = "told by",
     .places = KS_COLUMN_BOTH | KS_COLUMN_VARIES,
     .field = KS_FIELD_TEXT,
     .cell = module_source},
    COUNT(ks_module_fact, "calls", "calls", calls),
    TIME(ks_module_fact, "forward_ns", "forward", forward_ns),
    TIME(ks_module_fact, "forward_self_ns", "self", forward_self_ns),
    BACKWARD("backward_ns", "backward", backward_ns),
    BACKWARD("backward_self_ns", "self", backward_self_ns),
    DEVICE("forward_device_ns", "GPU forward", KS_COLUMN_BOTH, forward_device_ns),
    DEVICE("forward_self_device_ns", "self", KS_COLUMN_JSON, forward_self_device_ns),
    DEVICE("backward_device_ns", "GPU backward", KS_COLUMN_BOTH, backward_device_ns),
    DEVICE("backward_self_device_ns", "self", KS_COLUMN_JSON, backward_self_device_ns),
    NUMBER(ks_module_fact, "recompute_calls", "recomputed", KS_CELL_COUNT, KS_COLUMN_JSON,
           recompute_calls, NULL),
    TIME(ks_module_fact, "recompute_ns", "recomputed", recompute_ns),
    DEVICE("recompute_device_ns", "GPU recomputed", KS_COLUMN_JSON, recompute_device_ns),
    {.key = NULL},
};

const struct ks_list ks_list_modules = {
    .name = "modules",
    .columns = module_columns,
    .empty = "The trace holds no calls of modules: record with with_stack=True, or with hooks.",
    .row_count = module_count,
    .row = module_row,
};

/* ------------------------------------------------------------------ autograd */

static size_t autograd_count(const struct ks_view *view)
{
    return view->facts->autograd_count;
}

static const void *autograd_row(const struct ks_view *view, size_t row)
{
    return &view->facts->autograd[row];
}

static struct ks_cell autograd_node(const struct ks_view *view, size_t row)
{
    return ks_cell_text(ks_autograd_label(view->facts, &view->facts->autograd[row]));
}

static struct ks_cell autograd_ratio(const struct ks_view *view, size_t row)
{
    const struct ks_autograd_fact *pair = &view->facts->autograd[row];
    return ks_cell_ratio((double)pair->backward_ns, (double)pair->forward_ns);
}

static struct ks_cell autograd_device_ratio(const struct ks_view *view, size_t row)
{
    const struct ks_autograd_fact *pair = &view->facts->autograd[row];
    return ks_cell_ratio((double)pair->backward_device_ns, (double)pair->forward_device_ns);
}

static bool is_by_shape(const struct ks_view *view)
{
    return view->facts->scope.group_by_shape;
}

#define PAIR ks_autograd_fact

static const struct ks_column autograd_columns[] = {
    {.key = "forward",
     .title = "operator",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_ID,
     KS_COLUMN_OF(ks_autograd_fact, forward),
     .reason = "no operator of the trace made the node"},
    {.key = "input_shapes",
     .title = "input shapes",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_ID,
     KS_COLUMN_OF(ks_autograd_fact, shapes),
     .reason = "recorded without record_shapes=True, or there is no operator",
     .is_there = is_by_shape},
    {.key = "backward",
     .title = "node",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_TEXT,
     .cell = autograd_node},
    NUMBER(PAIR, "forward_calls", "made by", KS_CELL_COUNT, KS_COLUMN_JSON, forward_calls, NULL),
    COUNT(PAIR, "calls", "calls", calls),
    TIME(PAIR, "forward_ns", "forward", forward_ns),
    TIME(PAIR, "backward_ns", "backward", backward_ns),
    {.key = "ratio",
     .title = "ratio",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_REAL,
     .cell = autograd_ratio,
     .reason = "the operator took no time"},
    TIME(PAIR, "forward_device_ns", "GPU forward", forward_device_ns),
    TIME(PAIR, "backward_device_ns", "GPU backward", backward_device_ns),
    {.key = "device_ratio",
     .title = "GPU ratio",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_REAL,
     .cell = autograd_device_ratio,
     .reason = "the operator launched no work"},
    {.key = NULL},
};

const struct ks_list ks_list_autograd = {
    .name = "autograd",
    .columns = autograd_columns,
    .empty = "The trace holds no backward pass.",
    .row_count = autograd_count,
    .row = autograd_row,
};
