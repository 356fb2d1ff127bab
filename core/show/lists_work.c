/* Lists of work: operators, kernels, copies, links, regions. */
#include "show/lists.h"

/* ------------------------------------------------------------------ operators */

static size_t operator_count(const struct ks_view *view)
{
    return view->facts->operator_count;
}

static const void *operator_row(const struct ks_view *view, size_t row)
{
    return &view->facts->operators[row];
}

static struct ks_cell operator_name(const struct ks_view *view, size_t row)
{
    return ks_cell_text(ks_operator_label(view->facts, &view->facts->operators[row]));
}

static struct ks_cell operator_kind(const struct ks_view *view, size_t row)
{
    static const char *const words[] = {"op", "annotation", "runtime"};
    return ks_cell_word(words[view->facts->operators[row].kind]);
}

static struct ks_cell operator_shapes(const struct ks_view *view, size_t row)
{
    return ks_cell_text(ks_view_str(view, view->facts->operators[row].shapes));
}

static struct ks_cell operator_cpu_mean(const struct ks_view *view, size_t row)
{
    const struct ks_operator_fact *op = &view->facts->operators[row];
    return ks_cell_ratio((double)op->cpu_ns, (double)op->calls);
}

static struct ks_cell operator_device_mean(const struct ks_view *view, size_t row)
{
    const struct ks_operator_fact *op = &view->facts->operators[row];
    return ks_cell_ratio((double)op->device_ns, (double)op->calls);
}

static bool is_by_shape(const struct ks_view *view)
{
    return view->facts->scope.group_by_shape;
}

static bool is_by_stack(const struct ks_view *view)
{
    return view->facts->scope.group_by_stack > 0;
}

#define NO_MEMORY "recorded without profile_memory=True"

static const struct ks_column operator_columns[] = {
    {.key = "name",
     .title = "operator",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_TEXT,
     .cell = operator_name},
    {.key = "kind",
     .title = "kind",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_TEXT,
     .cell = operator_kind},
    {.key = "input_shapes",
     .title = "input shapes",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_TEXT,
     .cell = operator_shapes,
     .is_there = is_by_shape},
    {.key = "stack",
     .title = "called from",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_TEXT,
     KS_COLUMN_OF(ks_operator_fact, stack),
     .is_there = is_by_stack},
    {.key = "calls",
     .title = "calls",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_operator_fact, calls)},
    {.key = "self_cpu_ns",
     .title = "self CPU",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_operator_fact, self_cpu_ns)},
    {.key = "self_exclusive_ns",
     .title = "exclusive",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_operator_fact, self_exclusive_ns),
     .reason = "the rows overlap"},
    {.key = "cpu_ns",
     .title = "CPU",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_operator_fact, cpu_ns)},
    {.key = "cpu_mean_ns",
     .title = "CPU a call",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_SCREEN,
     .field = KS_FIELD_REAL,
     .cell = operator_cpu_mean},
    {.key = "self_device_ns",
     .title = "self GPU",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_operator_fact, self_device_ns)},
    {.key = "device_ns",
     .title = "GPU",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_operator_fact, device_ns)},
    {.key = "device_mean_ns",
     .title = "GPU a call",
     .unit = KS_CELL_TIME,
     .places = 0,
     .field = KS_FIELD_REAL,
     .cell = operator_device_mean},
    {.key = "cpu_bytes",
     .title = "CPU mem",
     .unit = KS_CELL_BYTES,
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_operator_fact, cpu_bytes),
     .reason = NO_MEMORY},
    {.key = "self_cpu_bytes",
     .title = "self CPU mem",
     .unit = KS_CELL_BYTES,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_operator_fact, self_cpu_bytes),
     .reason = NO_MEMORY},
    {.key = "device_bytes",
     .title = "GPU mem",
     .unit = KS_CELL_BYTES,
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_operator_fact, device_bytes),
     .reason = NO_MEMORY},
    {.key = "self_device_bytes",
     .title = "self GPU mem",
     .unit = KS_CELL_BYTES,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_operator_fact, self_device_bytes),
     .reason = NO_MEMORY},
    {.key = "flops",
     .title = "FLOPs",
     .unit = KS_CELL_FLOPS,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_operator_fact, flops),
     .reason = "recorded without record_shapes=True or with_flops=True"},
    {.key = NULL},
};

static const struct ks_sort_alias operator_aliases[] = {
    {"key", "name"},
    {"count", "calls"},
    {"cpu_time", "cpu_mean_ns"},
    {"cpu_time_total", "cpu_ns"},
    {"self_cpu_time_total", "self_cpu_ns"},
    {"device_time", "device_mean_ns"},
    {"device_time_total", "device_ns"},
    {"self_device_time_total", "self_device_ns"},
    {"cuda_time", "device_mean_ns"},
    {"cuda_time_total", "device_ns"},
    {"self_cuda_time_total", "self_device_ns"},
    {"xpu_time_total", "device_ns"},
    {"self_xpu_time_total", "self_device_ns"},
    {"cpu_memory_usage", "cpu_bytes"},
    {"self_cpu_memory_usage", "self_cpu_bytes"},
    {"device_memory_usage", "device_bytes"},
    {"self_device_memory_usage", "self_device_bytes"},
    {"cuda_memory_usage", "device_bytes"},
    {"self_cuda_memory_usage", "self_device_bytes"},
    {NULL, NULL},
};

const struct ks_list ks_list_operators = {
    .name = "operators",
    .columns = operator_columns,
    .aliases = operator_aliases,
    .empty = "The trace holds no operators.",
    .row_count = operator_count,
    .row = operator_row,
};

/* ------------------------------------------------------------------ stacks */

static size_t stack_count(const struct ks_view *view)
{
    return view->facts->stack_count;
}

static const void *stack_row(const struct ks_view *view, size_t row)
{
    return &view->facts->stacks[row];
}

#define STACK_SUM(key_, title_, unit_, member, reason_)                                            \
    {                                                                                              \
        .key = key_, .title = title_, .unit = unit_, .places = KS_COLUMN_BOTH,                     \
        KS_COLUMN_OF(ks_stack_fact, member), .reason = reason_                                     \
    }

static const struct ks_column stack_columns[] = {
    {.key = "stack",
     .title = "called from",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_TEXT,
     KS_COLUMN_OF(ks_stack_fact, stack)},
    STACK_SUM("calls", "calls", KS_CELL_COUNT, calls, NULL),
    STACK_SUM("self_cpu_ns", "self CPU", KS_CELL_TIME, self_cpu_ns, NULL),
    STACK_SUM("self_device_ns", "self GPU", KS_CELL_TIME, self_device_ns, NULL),
    STACK_SUM("self_cpu_bytes", "self CPU mem", KS_CELL_BYTES, self_cpu_bytes, NO_MEMORY),
    STACK_SUM("self_device_bytes", "self GPU mem", KS_CELL_BYTES, self_device_bytes, NO_MEMORY),
    {.key = NULL},
};

const struct ks_list ks_list_stacks = {
    .name = "stacks",
    .columns = stack_columns,
    .empty = "No operator was called from a Python frame: record with with_stack=True.",
    .row_count = stack_count,
    .row = stack_row,
};

/* ------------------------------------------------------------------ kernels */

static size_t kernel_count(const struct ks_view *view)
{
    return view->facts->kernel_count;
}

static const void *kernel_row(const struct ks_view *view, size_t row)
{
    return &view->facts->kernels[row];
}

static struct ks_cell kernel_kind(const struct ks_view *view, size_t row)
{
    switch (view->facts->kernels[row].category) {
    case KS_CATEGORY_MEMCPY: return ks_cell_word("memcpy");
    case KS_CATEGORY_MEMSET: return ks_cell_word("memset");
    default: return ks_cell_word("kernel");
    }
}

static struct ks_cell kernel_mean(const struct ks_view *view, size_t row)
{
    const struct ks_kernel_fact *kernel = &view->facts->kernels[row];
    return ks_cell_ratio((double)kernel->total_ns, (double)kernel->calls);
}

static struct ks_cell kernel_share(const struct ks_view *view, size_t row)
{
    int64_t total_ns = 0;
    for (size_t i = 0; i < view->facts->device_count; i++) {
        total_ns += view->facts->devices[i].work_sum_ns;
    }
    return ks_cell_ratio((double)view->facts->kernels[row].total_ns, (double)total_ns);
}

static const struct ks_column kernel_columns[] = {
    {.key = "name",
     .title = "kernel",
     .unit = KS_CELL_KERNEL,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_ID,
     KS_COLUMN_OF(ks_kernel_fact, name),
     .reason = "it has no name"},
    {.key = "kind",
     .title = "kind",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_TEXT,
     .cell = kernel_kind},
    {.key = "device",
     .title = "GPU",
     .places = KS_COLUMN_BOTH | KS_COLUMN_VARIES,
     KS_COLUMN_OF(ks_kernel_fact, device),
     .reason = "the trace does not say"},
    {.key = "calls",
     .title = "calls",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_kernel_fact, calls)},
    {.key = "total_ns",
     .title = "total",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_kernel_fact, total_ns)},
    {.key = "share",
     .title = "share",
     .unit = KS_CELL_SHARE,
     .places = KS_COLUMN_SCREEN,
     .field = KS_FIELD_REAL,
     .cell = kernel_share},
    {.key = "mean_ns",
     .title = "mean",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_REAL,
     .cell = kernel_mean},
    {.key = "min_ns",
     .title = "min",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_kernel_fact, min_ns)},
    {.key = "max_ns",
     .title = "max",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_kernel_fact, max_ns)},
    {.key = "tensor_core",
     .title = "tensor core",
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_BOOL,
     KS_COLUMN_OF(ks_kernel_fact, is_tensor_core)},
    {.key = "communication",
     .title = "comm",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_BOOL,
     KS_COLUMN_OF(ks_kernel_fact, is_communication)},
    {.key = "occupancy",
     .title = "occupancy",
     .unit = KS_CELL_SHARE,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_REAL,
     KS_COLUMN_OF(ks_kernel_fact, occupancy),
     .reason = "the trace gives no achieved occupancy for it"},
    {.key = NULL},
};

static const struct ks_sort_alias kernel_aliases[] = {
    {"key", "name"},
    {"count", "calls"},
    {"cuda_time", "mean_ns"},
    {"cuda_time_total", "total_ns"},
    {"self_cuda_time_total", "total_ns"},
    {"device_time", "mean_ns"},
    {"device_time_total", "total_ns"},
    {"self_device_time_total", "total_ns"},
    {NULL, NULL},
};

const struct ks_list ks_list_kernels = {
    .name = "kernels",
    .columns = kernel_columns,
    .aliases = kernel_aliases,
    .empty = "The trace holds no GPU work.",
    .row_count = kernel_count,
    .row = kernel_row,
};

/* ------------------------------------------------------------------ sequences of kernels */

static size_t sequence_count(const struct ks_view *view)
{
    return view->facts->sequence_count;
}

static const void *sequence_row(const struct ks_view *view, size_t row)
{
    return &view->facts->sequences[row];
}

static void write_kernels(const struct ks_view *view, size_t row, struct ks_json *json)
{
    const struct ks_sequence_fact *sequence = &view->facts->sequences[row];
    ks_json_array_begin(json, "kernels");
    for (size_t i = 0; i < (size_t)sequence->length; i++) {
        ks_json_str(json, NULL, ks_view_str(view, sequence->kernels[i]));
    }
    ks_json_array_end(json);
}

static const struct ks_column sequence_columns[] = {
    {.key = "text",
     .title = "kernels",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_SCREEN,
     .field = KS_FIELD_TEXT,
     KS_COLUMN_OF(ks_sequence_fact, text)},
    {.key = "length",
     .title = "length",
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_sequence_fact, length)},
    {.key = "count",
     .title = "times",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_sequence_fact, count)},
    {.key = "total_ns",
     .title = "total",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_sequence_fact, total_ns)},
    {.key = "gap_ns",
     .title = "gaps",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_sequence_fact, gap_ns)},
    {.key = "fusible",
     .title = "fusible",
     .places = KS_COLUMN_BOTH | KS_COLUMN_VARIES,
     .field = KS_FIELD_BOOL,
     KS_COLUMN_OF(ks_sequence_fact, is_fusible)},
    {.key = NULL},
};

const struct ks_list ks_list_sequences = {
    .name = "sequences",
    .columns = sequence_columns,
    .empty = "No kernels follow each other more than once.",
    .row_count = sequence_count,
    .row = sequence_row,
    .write_more = write_kernels,
};

/* ------------------------------------------------------------------ copies */

static size_t copy_count(const struct ks_view *view)
{
    return view->facts->copy_count;
}

static const void *copy_row(const struct ks_view *view, size_t row)
{
    return &view->facts->copies[row];
}

static struct ks_cell copy_kind(const struct ks_view *view, size_t row)
{
    return ks_cell_text(ks_copy_label(view->facts, &view->facts->copies[row]));
}

/* Only calls that took time count: the others would make the rate too high. */
static struct ks_cell copy_rate(const struct ks_view *view, size_t row)
{
    const struct ks_copy_fact *copy = &view->facts->copies[row];
    if (copy->bytes == KS_UNKNOWN) {
        return (struct ks_cell){0};
    }
    return ks_cell_ratio((double)copy->timed_bytes * 1e9, (double)copy->timed_ns);
}

static const struct ks_column copy_columns[] = {
    {.key = "kind",
     .title = "copy",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_TEXT,
     .cell = copy_kind},
    {.key = "calls",
     .title = "calls",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_copy_fact, calls)},
    {.key = "bytes",
     .title = "bytes",
     .unit = KS_CELL_BYTES,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_copy_fact, bytes),
     .reason = "no row says how much was copied"},
    {.key = "total_ns",
     .title = "total",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_copy_fact, total_ns)},
    {.key = "bytes_per_s",
     .title = "rate",
     .unit = KS_CELL_RATE,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_REAL,
     .cell = copy_rate,
     .reason = "no call has both bytes and a duration"},
    {.key = "zero_duration_calls",
     .title = "0 ns",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_copy_fact, zero_duration_calls)},
    {.key = NULL},
};

static const struct ks_sort_alias copy_aliases[] = {
    {"name", "kind"},
    {"count", "calls"},
    {"cuda_time_total", "total_ns"},
    {"device_time_total", "total_ns"},
    {NULL, NULL},
};

const struct ks_list ks_list_copies = {
    .name = "copies",
    .columns = copy_columns,
    .aliases = copy_aliases,
    .empty = "The trace holds no copies from or to a GPU.",
    .row_count = copy_count,
    .row = copy_row,
};

/* ------------------------------------------------------------------ links */

static size_t link_count(const struct ks_view *view)
{
    (void)view;
    return 1;
}

static const void *link_row(const struct ks_view *view, size_t row)
{
    (void)row;
    return &view->facts->links;
}

#define NO_DELAY "no launch has GPU work that starts after it"

static const struct ks_column link_columns[] = {
    {.key = "launches",
     .title = "launches",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_link_fact, launches)},
    {.key = "kernel_launches",
     .title = "kernel",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_link_fact, kernel_launches)},
    {.key = "graph_launches",
     .title = "graph",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_link_fact, graph_launches)},
    {.key = "memcpy_launches",
     .title = "memcpy",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_link_fact, memcpy_launches)},
    {.key = "memset_launches",
     .title = "memset",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_link_fact, memset_launches)},
    {.key = "linked",
     .title = "linked",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_link_fact, linked)},
    {.key = "orphan_gpu_events",
     .title = "orphans",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_link_fact, orphan_gpu_events)},
    {.key = "launches_without_work",
     .title = "no work",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_link_fact, launches_without_work)},
    {.key = "gpu_before_launch",
     .title = "too early",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_link_fact, gpu_before_launch)},
    {.key = "delay_ns.min",
     .title = "delay min",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_link_fact, delay_ns_min),
     .reason = NO_DELAY},
    {.key = "delay_ns.median",
     .title = "median",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_link_fact, delay_ns_median),
     .reason = NO_DELAY},
    {.key = "delay_ns.max",
     .title = "max",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_link_fact, delay_ns_max),
     .reason = NO_DELAY},
    {.key = NULL},
};

const struct ks_list ks_list_links = {
    .name = "links",
    .columns = link_columns,
    .empty = "The trace holds no launches.",
    .row_count = link_count,
    .row = link_row,
};

/* ------------------------------------------------------------------ regions */

static size_t region_count(const struct ks_view *view)
{
    return view->facts->region_count;
}

static const void *region_row(const struct ks_view *view, size_t row)
{
    return &view->facts->regions[row];
}

static struct ks_cell region_mean(const struct ks_view *view, size_t row)
{
    const struct ks_region_fact *region = &view->facts->regions[row];
    return ks_cell_ratio((double)region->all_ns, (double)region->calls);
}

static const struct ks_column region_columns[] = {
    {.key = "category",
     .title = "category",
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_ID,
     KS_COLUMN_OF(ks_region_fact, category),
     .reason = "the program gave it none"},
    {.key = "name",
     .title = "region",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_ID,
     KS_COLUMN_OF(ks_region_fact, name),
     .reason = "it has no name"},
    {.key = "calls",
     .title = "calls",
     .unit = KS_CELL_COUNT,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_region_fact, calls)},
    {.key = "total_ns",
     .title = "total",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_region_fact, total_ns)},
    {.key = "self_ns",
     .title = "self",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_region_fact, self_ns)},
    {.key = "mean_ns",
     .title = "mean",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_REAL,
     .cell = region_mean},
    {.key = "min_ns",
     .title = "min",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_JSON,
     KS_COLUMN_OF(ks_region_fact, min_ns)},
    {.key = "max_ns",
     .title = "max",
     .unit = KS_CELL_TIME,
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_region_fact, max_ns)},
    {.key = NULL},
};

const struct ks_list ks_list_regions = {
    .name = "regions",
    .columns = region_columns,
    .empty = "There is no recording with labelled regions.",
    .row_count = region_count,
    .row = region_row,
};
