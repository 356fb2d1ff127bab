#include "query/scan_columns.h"

#include <math.h>

/* ------------------------------------------------------------------ types of the store */

enum cell_type {
    CELL_uint8_t,
    CELL_uint16_t,
    CELL_uint32_t,
    CELL_uint64_t,
    CELL_int32_t,
    CELL_int64_t,
    CELL_float,
    CELL_double,
};

/* clang-format off */
#define KS_SLICE_COLUMN(column, type) CELL_##type,
static const uint8_t slice_types[] = {
#include "store/tables.def"
};
#define KS_GPU_COLUMN(column, type) CELL_##type,
static const uint8_t gpu_types[] = {
#include "store/tables.def"
};
#define KS_MEMORY_COLUMN(column, type) CELL_##type,
static const uint8_t memory_types[] = {
#include "store/tables.def"
};
#define KS_MARK_COLUMN(column, type) CELL_##type,
static const uint8_t mark_types[] = {
#include "store/tables.def"
};
#define KS_SAMPLE_COLUMN(column, type) CELL_##type,
static const uint8_t sample_types[] = {
#include "store/tables.def"
};
#define KS_LINK_COLUMN(column, type) CELL_##type,
static const uint8_t link_types[] = {
#include "store/tables.def"
};
/* clang-format on */

static const uint8_t *const types[KS_TABLE_COUNT] = {
    [KS_TABLE_slice] = slice_types,   [KS_TABLE_gpu] = gpu_types,
    [KS_TABLE_memory] = memory_types, [KS_TABLE_mark] = mark_types,
    [KS_TABLE_sample] = sample_types, [KS_TABLE_link] = link_types,
};

int64_t ks_scan_number(enum ks_table_id table, uint8_t column, const void *cells, size_t at)
{
    switch ((enum cell_type)types[table][column]) {
    case CELL_uint8_t: return ((const uint8_t *)cells)[at];
    case CELL_uint16_t: return ((const uint16_t *)cells)[at];
    case CELL_uint32_t: return ((const uint32_t *)cells)[at];
    case CELL_uint64_t: return (int64_t)((const uint64_t *)cells)[at];
    case CELL_int32_t: return ((const int32_t *)cells)[at];
    case CELL_int64_t: return ((const int64_t *)cells)[at];
    case CELL_float:
    case CELL_double: break;
    }
    return 0; // no real is asked for as a number
}

static struct ks_sql_value plain_cell(enum ks_table_id table, uint8_t column, const void *cells,
                                      size_t at)
{
    switch (types[table][column]) {
    case CELL_float: return ks_sql_real((double)((const float *)cells)[at]);
    case CELL_double: return ks_sql_real(((const double *)cells)[at]);
    default: return ks_sql_integer(ks_scan_number(table, column, cells, at));
    }
}

struct ks_sql_value ks_sql_real(double value)
{
    return (struct ks_sql_value){.type = isnan(value) ? KS_SQL_NULL : KS_SQL_REAL, .real = value};
}

/* ------------------------------------------------------------------ cells */

static struct ks_sql_value unless(int64_t value, int64_t unknown)
{
    return value == unknown ? (struct ks_sql_value){0} : ks_sql_integer(value);
}

static struct ks_sql_value text_of(const struct ks_trace *trace, struct ks_strid id)
{
    return id.v == 0 ? (struct ks_sql_value){0} : ks_sql_text(ks_trace_str(trace, id));
}

static struct ks_sql_value word(const char *text)
{
    return *text ? ks_sql_text(ks_str_from(text)) : (struct ks_sql_value){0};
}

static const char *link_word(int64_t kind)
{
    static const char *const words[] = {
        [KS_LINK_OTHER] = "other",   [KS_LINK_KERNEL] = "kernel", [KS_LINK_GRAPH] = "graph",
        [KS_LINK_MEMCPY] = "memcpy", [KS_LINK_MEMSET] = "memset",
    };
    KS_ASSERT((size_t)kind < KS_COUNT_OF(words));
    return words[kind];
}

static struct ks_sql_value collective_cell(const struct ks_trace *trace, int64_t id,
                                           const struct ks_scan_column *column)
{
    if (id == 0) {
        return (struct ks_sql_value){0};
    }
    const char *member = (const char *)ks_trace_collective(trace, (uint32_t)id) + column->detail;
    if (column->shown == KS_SHOWN_COLLECTIVE_TEXT) {
        return text_of(trace, *(const struct ks_strid *)(const void *)member);
    }
    return unless(*(const int64_t *)(const void *)member, -1);
}

uint64_t ks_scan_column_bits(const struct ks_scan_column *column)
{
    if (column->column == KS_NO_COLUMN) {
        return 0;
    }
    bool asks_category =
        column->shown == KS_SHOWN_REGION_TEXT || column->shown == KS_SHOWN_OTHER_TEXT;
    return KS_COLUMN_BIT(column->column) |
           (asks_category ? KS_COLUMN_BIT(KS_SLICE_COL_category) : 0);
}

static struct ks_sql_value slice_text(const struct ks_trace *trace, int64_t id,
                                      const struct ks_scan_column *column, const void *const *cells,
                                      size_t at)
{
    const uint8_t *categories = cells[KS_SLICE_COL_category];
    bool is_region = categories[at] == KS_CATEGORY_REGION;
    bool is_shown = is_region == (column->shown == KS_SHOWN_REGION_TEXT);
    return is_shown ? text_of(trace, (struct ks_strid){(uint32_t)id}) : (struct ks_sql_value){0};
}

struct ks_sql_value ks_scan_cell(const struct ks_trace *trace, enum ks_table_id table,
                                 const struct ks_scan_column *column, const void *const *cells,
                                 size_t at, uint64_t row)
{
    if (column->shown == KS_SHOWN_ROW) {
        return ks_sql_integer((int64_t)row);
    }
    if (column->shown == KS_SHOWN_NUMBER) {
        return plain_cell(table, column->column, cells[column->column], at);
    }
    int64_t number = ks_scan_number(table, column->column, cells[column->column], at);
    switch ((enum ks_shown)column->shown) {
    case KS_SHOWN_ROW:
    case KS_SHOWN_NUMBER: break;
    case KS_SHOWN_ID: return unless(number, 0);
    case KS_SHOWN_MINUS: return unless(number, -1);
    case KS_SHOWN_MOMENT: return unless(number, KS_TIME_NONE);
    case KS_SHOWN_TEXT: return text_of(trace, (struct ks_strid){(uint32_t)number});
    case KS_SHOWN_CATEGORY: return word(ks_category_name((enum ks_category)number));
    case KS_SHOWN_LINK_KIND: return word(link_word(number));
    case KS_SHOWN_FLAG: return ks_sql_integer((number & column->detail) != 0);
    case KS_SHOWN_TRACK_NUMBER:
        return number == 0 ? (struct ks_sql_value){0}
                           : unless(ks_trace_track(trace, (uint32_t)number)->number, -1);
    case KS_SHOWN_COLLECTIVE_TEXT:
    case KS_SHOWN_COLLECTIVE_NUMBER: return collective_cell(trace, number, column);
    case KS_SHOWN_REGION_TEXT:
    case KS_SHOWN_OTHER_TEXT: return slice_text(trace, number, column, cells, at);
    }
    return ks_sql_integer(number);
}

/* ------------------------------------------------------------------ the tables */

#define INTEGER(name_, column_, shown_, meaning_)                                                  \
    {                                                                                              \
        .sql = {.name = name_, .type = KS_SQL_INTEGER, .meaning = meaning_}, .column = column_,    \
        .shown = KS_SHOWN_##shown_                                                                 \
    }
#define TEXT(name_, column_, shown_, meaning_)                                                     \
    {                                                                                              \
        .sql = {.name = name_, .type = KS_SQL_TEXT, .meaning = meaning_}, .column = column_,       \
        .shown = KS_SHOWN_##shown_                                                                 \
    }
#define REAL(name_, column_, meaning_)                                                             \
    {                                                                                              \
        .sql = {.name = name_, .type = KS_SQL_REAL, .meaning = meaning_}, .column = column_,       \
        .shown = KS_SHOWN_NUMBER                                                                   \
    }
#define PUSHED(name_, type_, column_, shown_, push_, meaning_)                                     \
    {                                                                                              \
        .sql = {.name = name_, .type = KS_SQL_##type_, .meaning = meaning_}, .column = column_,    \
        .shown = KS_SHOWN_##shown_, .push = KS_PUSH_##push_                                        \
    }
#define FLAG(name_, column_, bit_, meaning_)                                                       \
    {                                                                                              \
        .sql = {.name = name_, .type = KS_SQL_INTEGER, .meaning = meaning_}, .column = column_,    \
        .shown = KS_SHOWN_FLAG, .detail = bit_                                                     \
    }
#define COLLECTIVE(name_, type_, shown_, member_, meaning_)                                        \
    {                                                                                              \
        .sql = {.name = name_, .type = KS_SQL_##type_, .meaning = meaning_},                       \
        .column = KS_GPU_COL_collective, .shown = KS_SHOWN_COLLECTIVE_##shown_,                    \
        .detail = offsetof(struct ks_collective, member_)                                          \
    }

/* What all tables begin with. */
#define ROW PUSHED("id", INTEGER, KS_NO_COLUMN, ROW, ROW, "number of the row, from 0")
#define TIME(table_)                                                                               \
    PUSHED("ts_ns", INTEGER, KS_##table_##_COL_start_ns, NUMBER, TIME,                             \
           "start, counted from the origin of the trace")
#define DUR(table_) INTEGER("dur_ns", KS_##table_##_COL_dur_ns, NUMBER, "duration")
#define TRACK(table_, meaning_)                                                                    \
    PUSHED("track_id", INTEGER, KS_##table_##_COL_lane, ID, TRACK, meaning_)
#define NAME(table_)                                                                               \
    PUSHED("name_id", INTEGER, KS_##table_##_COL_name, ID, FILTER, "id of the name in string"),    \
        PUSHED("name", TEXT, KS_##table_##_COL_name, TEXT, NAME, "name")
#define CATEGORY(table_)                                                                           \
    PUSHED("category", TEXT, KS_##table_##_COL_category, CATEGORY, CATEGORY,                       \
           "kind of event, as torch names it today")
#define IDS(table_)                                                                                \
    PUSHED("external_id", INTEGER, KS_##table_##_COL_ext_id, MINUS, INDEX,                         \
           "External id: own id of an operator, else that of the operator it belongs to"),         \
        PUSHED("correlation", INTEGER, KS_##table_##_COL_corr, MINUS, INDEX,                       \
               "joins a launching call with its GPU work, inside one file")

static const struct ks_scan_column slice_columns[] = {
    ROW,
    TIME(SLICE),
    DUR(SLICE),
    TRACK(SLICE, "track of the thread"),
    NAME(SLICE),
    CATEGORY(SLICE),
    IDS(SLICE),
    INTEGER("sequence", KS_SLICE_COL_seq, MINUS, "Sequence number of autograd"),
    INTEGER("aux", KS_SLICE_COL_aux, MINUS,
            "python_function: Python id; operators: thread id of the forward call"),
    INTEGER("python_parent_id", KS_SLICE_COL_parent_aux, MINUS,
            "python_function: aux of the frame that called"),
    TEXT("input_shapes", KS_SLICE_COL_dims, TEXT, "shapes of the inputs, as torch prints them"),
    TEXT("input_types", KS_SLICE_COL_types, OTHER_TEXT, "types of the inputs, as JSON"),
    TEXT("concrete_inputs", KS_SLICE_COL_concrete, OTHER_TEXT,
         "values of inputs, as JSON; python_function: the line it was called from"),
    TEXT("region_category", KS_SLICE_COL_types, REGION_TEXT,
         "region: what kind of work it is, as the program says"),
    TEXT("region_values", KS_SLICE_COL_concrete, REGION_TEXT,
         "region: what the program noted in it, as JSON"),
    FLAG("is_unfinished", KS_SLICE_COL_flags, KS_SLICE_UNFINISHED,
         "1: the file holds no end, dur_ns is 0"),
    FLAG("is_async", KS_SLICE_COL_flags, KS_SLICE_ASYNC, "1: overlaps freely with others"),
    FLAG("is_hidden", KS_SLICE_COL_flags, KS_SLICE_HIDDEN, "1: torch leaves it out of its tables"),
};

static const struct ks_scan_column gpu_columns[] = {
    ROW,
    TIME(GPU),
    DUR(GPU),
    TRACK(GPU, "track of the device"),
    PUSHED("stream_id", INTEGER, KS_GPU_COL_stream, ID, FILTER, "track of the stream"),
    NAME(GPU),
    CATEGORY(GPU),
    INTEGER("device", KS_GPU_COL_lane, TRACK_NUMBER, "number of the device"),
    INTEGER("stream", KS_GPU_COL_stream, TRACK_NUMBER, "number of the stream"),
    IDS(GPU),
    INTEGER("bytes", KS_GPU_COL_bytes, MINUS, "size of a copy or set"),
    INTEGER("launch_ns", KS_GPU_COL_launch_ns, MOMENT, "start of the call that launched it"),
    INTEGER("launch_end_ns", KS_GPU_COL_launch_end_ns, MOMENT, "end of that call"),
    INTEGER("launch_track_id", KS_GPU_COL_launch_lane, ID, "track of the thread of that call"),
    TEXT("grid", KS_GPU_COL_grid, TEXT, "blocks of the grid, as JSON"),
    TEXT("block", KS_GPU_COL_block, TEXT, "threads of a block, as JSON"),
    REAL("occupancy", KS_GPU_COL_occupancy, "estimated achieved occupancy, 0 to 1"),
    REAL("blocks_per_sm", KS_GPU_COL_blocks_per_sm, "blocks for each multiprocessor"),
    REAL("warps_per_sm", KS_GPU_COL_warps_per_sm, "warps for each multiprocessor"),
    INTEGER("shared_bytes", KS_GPU_COL_shared_bytes, NUMBER, "shared memory of a block"),
    INTEGER("registers", KS_GPU_COL_registers, ID, "registers of a thread"),
    FLAG("is_communication", KS_GPU_COL_flags, KS_GPU_COMMUNICATION,
         "1: kernel of a collective (NCCL, RCCL, HCCL)"),
    COLLECTIVE("collective", TEXT, TEXT, name, "name of the collective"),
    COLLECTIVE("collective_group", TEXT, TEXT, group, "its process group"),
    COLLECTIVE("collective_ranks", TEXT, TEXT, ranks, "ranks of that group"),
    COLLECTIVE("collective_dtype", TEXT, TEXT, dtype, "type of its elements"),
    COLLECTIVE("collective_sequence", INTEGER, NUMBER, sequence, "its number in the group"),
    COLLECTIVE("collective_in_elements", INTEGER, NUMBER, in_elements, "elements that go in"),
    COLLECTIVE("collective_out_elements", INTEGER, NUMBER, out_elements, "elements that come out"),
    COLLECTIVE("collective_group_size", INTEGER, NUMBER, group_size, "ranks in the group"),
};

static const struct ks_scan_column memory_columns[] = {
    ROW,
    TIME(MEMORY),
    TRACK(MEMORY, "track of the process"),
    INTEGER("bytes", KS_MEMORY_COL_bytes, NUMBER, "size; negative: freed"),
    INTEGER("address", KS_MEMORY_COL_addr, NUMBER,
            "address, negative from 2^63 on: printf('%x', address) is right for all"),
    INTEGER("allocated_bytes", KS_MEMORY_COL_allocated, MINUS, "of this device after the event"),
    INTEGER("reserved_bytes", KS_MEMORY_COL_reserved, MINUS, "of this device after the event"),
    INTEGER("host_bytes_sum", KS_MEMORY_COL_host_sum, NUMBER,
            "host bytes of the process, summed up to here"),
    INTEGER("device_bytes_sum", KS_MEMORY_COL_device_sum, NUMBER,
            "device bytes of the process, summed up to here"),
    INTEGER("device", KS_MEMORY_COL_device, MINUS, "number of the device; NULL: the host"),
    INTEGER("device_type", KS_MEMORY_COL_device_type, NUMBER,
            "torch's number of the kind: 0 CPU, 1 CUDA"),
    FLAG("is_out_of_memory", KS_MEMORY_COL_flags, KS_MEMORY_OUT_OF_MEMORY,
         "1: the allocation failed"),
};

static const struct ks_scan_column mark_columns[] = {
    ROW,
    TIME(MARK),
    TRACK(MARK, "track"),
    NAME(MARK),
    TEXT("series", KS_MARK_COL_series, TEXT, "counters: which of several values"),
    REAL("value", KS_MARK_COL_value, "counters: the value"),
    TEXT("unit", KS_MARK_COL_unit, TEXT, "counters of recordings: the unit of the value"),
    TEXT("mark_values", KS_MARK_COL_values, TEXT,
         "instants of recordings: what the program attached, as JSON"),
    FLAG("is_counter", KS_MARK_COL_flags, KS_MARK_COUNTER, "1: a sample of a counter"),
};

static const struct ks_scan_column sample_columns[] = {
    ROW,
    TIME(SAMPLE),
    TRACK(SAMPLE, "track of the thread"),
    PUSHED("stack_id", INTEGER, KS_SAMPLE_COL_stack, ID, FILTER, "what it ran, in stack"),
    INTEGER("weight", KS_SAMPLE_COL_weight, NUMBER,
            "looks that it stands for: the thread was idle and had not moved"),
    FLAG("is_running", KS_SAMPLE_COL_flags, KS_SAMPLE_RUNNING,
         "1: it used the CPU since the look before"),
    FLAG("holds_gil", KS_SAMPLE_COL_flags, KS_SAMPLE_HOLDS_GIL,
         "1: it held the interpreter's lock, where that can be seen"),
};

static const struct ks_scan_column link_columns[] = {
    ROW,
    TIME(LINK),
    DUR(LINK),
    TRACK(LINK, "track of the thread"),
    NAME(LINK),
    TEXT("kind", KS_LINK_COL_kind, LINK_KIND,
         "what it launches: kernel, graph, memcpy, memset, or other"),
    IDS(LINK),
    INTEGER("gpu_count", KS_LINK_COL_gpu_count, NUMBER, "kernels, copies and sets it launched"),
    INTEGER("gpu_first_ns", KS_LINK_COL_gpu_first_ns, MOMENT, "start of the first of them"),
    INTEGER("gpu_end_ns", KS_LINK_COL_gpu_end_ns, MOMENT, "end of the last of them"),
};

#define SHAPE(table_, meaning_)                                                                    \
    [KS_TABLE_##table_] = {#table_, meaning_, table_##_columns, KS_COUNT_OF(table_##_columns)}

static const struct ks_scan_shape shapes[KS_TABLE_COUNT] = {
    SHAPE(slice,
          "What the host did: operators, runtime calls, annotations, Python functions, regions"),
    SHAPE(gpu, "What devices did: kernels, copies, sets, waits, annotations"),
    SHAPE(memory, "What allocators did"),
    SHAPE(mark, "Instants and samples of counters"),
    SHAPE(sample, "Where threads were when the sampler of a recording looked"),
    SHAPE(link, "Runtime and driver calls with a correlation, and the GPU work they launched"),
};

const struct ks_scan_shape *ks_scan_shape(enum ks_table_id table)
{
    KS_ASSERT((unsigned)table < KS_TABLE_COUNT);
    return &shapes[table];
}
