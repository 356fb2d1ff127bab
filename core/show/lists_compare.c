/* Lists of a comparison: what differs in the recordings, parts of a step, operators, kernels,
 * memory, findings. A column of A, of B, and of the change from A to B has the same key in each. */
#include "show/lists.h"

#define NOT_THERE "the run does not have it"

#define ROWS_OF(rows, count)                                                                       \
    static size_t rows##_count(const struct ks_view *view)                                         \
    {                                                                                              \
        return view->comparison ? view->comparison->count : 0;                                     \
    }                                                                                              \
    static const void *rows##_row(const struct ks_view *view, size_t row)                          \
    {                                                                                              \
        return &view->comparison->rows[row];                                                       \
    }

ROWS_OF(setups, setup_count)
ROWS_OF(parts, part_count)
ROWS_OF(operators, operator_count)
ROWS_OF(kernels, kernel_count)
ROWS_OF(memory, memory_count)
ROWS_OF(findings, finding_count)

/* ------------------------------------------------------------------ recording */

static struct ks_cell setup_what(const struct ks_view *view, size_t row)
{
    return ks_cell_word(view->comparison->setups[row].what);
}

static struct ks_cell setup_note(const struct ks_view *view, size_t row)
{
    return ks_cell_word(view->comparison->setups[row].note);
}

#define TEXT_MEMBER(name, heading, cell_unit, type, member, why)                                   \
    {                                                                                              \
        .key = name, .title = heading, .unit = cell_unit, .places = KS_COLUMN_BOTH,                \
        .field = KS_FIELD_TEXT, KS_COLUMN_OF(type, member), .reason = why                          \
    }
#define WORD(name, heading, of)                                                                    \
    {                                                                                              \
        .key = name, .title = heading, .places = KS_COLUMN_BOTH, .field = KS_FIELD_TEXT,           \
        .cell = of                                                                                 \
    }
#define NOT_SAID "the recording does not say"

static const struct ks_column setup_columns[] = {
    WORD("what", "differs", setup_what),
    TEXT_MEMBER("a", "A", KS_CELL_PLAIN, ks_compare_setup, a, NOT_SAID),
    TEXT_MEMBER("b", "B", KS_CELL_PLAIN, ks_compare_setup, b, NOT_SAID),
    {.key = "note",
     .title = "so",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_BOTH,
     .field = KS_FIELD_TEXT,
     .cell = setup_note},
    {.key = NULL},
};

const struct ks_list ks_list_compare_recording = {
    .name = "compare_recording",
    .columns = setup_columns,
    .empty = "Both were recorded alike.",
    .row_count = setups_count,
    .row = setups_row,
};

/* ------------------------------------------------------------------ parts of a step */

static struct ks_cell part_group(const struct ks_view *view, size_t row)
{
    static const char *const words[] = {"breakdown", "idle", "phase"};
    return ks_cell_word(words[view->comparison->parts[row].group]);
}

static struct ks_cell part_name(const struct ks_view *view, size_t row)
{
    return ks_cell_word(view->comparison->parts[row].name);
}

#define REAL(name, heading, cell_unit, type, member, why)                                          \
    {                                                                                              \
        .key = name, .title = heading, .unit = cell_unit, .places = KS_COLUMN_BOTH,                \
        .field = KS_FIELD_REAL, KS_COLUMN_OF(type, member), .reason = why                          \
    }
#define NO_STEP "the run has no step"

static const struct ks_column part_columns[] = {
    WORD("group", "of", part_group),
    WORD("name", "part", part_name),
    REAL("a_ns", "A", KS_CELL_TIME, ks_compare_part, a_ns, NO_STEP),
    REAL("b_ns", "B", KS_CELL_TIME, ks_compare_part, b_ns, NO_STEP),
    REAL("change_ns", "change", KS_CELL_TIME_CHANGE, ks_compare_part, change_ns, NO_STEP),
    {.key = NULL},
};

const struct ks_list ks_list_compare_parts = {
    .name = "compare_parts",
    .columns = part_columns,
    .empty = "No run has a step.",
    .row_count = parts_count,
    .row = parts_row,
};

/* ------------------------------------------------------------------ operators */

static struct ks_cell operator_kind(const struct ks_view *view, size_t row)
{
    static const char *const words[] = {"op", "annotation", "runtime"};
    return ks_cell_word(words[view->comparison->operators[row].kind]);
}

static struct ks_cell operator_state(const struct ks_view *view, size_t row)
{
    return ks_cell_word(ks_view_compare_state(view->comparison->operators[row].state));
}

static bool is_by_shape(const struct ks_view *view)
{
    return view->comparison && view->comparison->is_by_shape;
}

static const struct ks_column operator_columns[] = {
    TEXT_MEMBER("name", "operator", KS_CELL_NAME, ks_compare_operator, name, NULL),
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
     KS_COLUMN_OF(ks_compare_operator, shapes),
     .is_there = is_by_shape},
    WORD("state", "in", operator_state),
    REAL("a.calls", "calls A", KS_CELL_PLAIN, ks_compare_operator, a.calls, NOT_THERE),
    REAL("a.self_cpu_ns", "self CPU A", KS_CELL_TIME, ks_compare_operator, a.host_ns, NOT_THERE),
    REAL("a.self_device_ns", "self GPU A", KS_CELL_TIME, ks_compare_operator, a.device_ns,
         NOT_THERE),
    REAL("b.calls", "calls B", KS_CELL_PLAIN, ks_compare_operator, b.calls, NOT_THERE),
    REAL("b.self_cpu_ns", "self CPU B", KS_CELL_TIME, ks_compare_operator, b.host_ns, NOT_THERE),
    REAL("b.self_device_ns", "self GPU B", KS_CELL_TIME, ks_compare_operator, b.device_ns,
         NOT_THERE),
    REAL("change.self_cpu_ns", "CPU change", KS_CELL_TIME_CHANGE, ks_compare_operator,
         host_change_ns, NULL),
    REAL("change.self_device_ns", "GPU change", KS_CELL_TIME_CHANGE, ks_compare_operator,
         device_change_ns, NULL),
    {.key = NULL},
};

const struct ks_list ks_list_compare_operators = {
    .name = "compare_operators",
    .columns = operator_columns,
    .empty = "No run has operators in a step.",
    .row_count = operators_count,
    .row = operators_row,
};

/* ------------------------------------------------------------------ kernels */

static struct ks_cell kernel_kind(const struct ks_view *view, size_t row)
{
    switch (view->comparison->kernels[row].category) {
    case KS_CATEGORY_MEMCPY: return ks_cell_word("memcpy");
    case KS_CATEGORY_MEMSET: return ks_cell_word("memset");
    default: return ks_cell_word("kernel");
    }
}

static struct ks_cell kernel_state(const struct ks_view *view, size_t row)
{
    return ks_cell_word(ks_view_compare_state(view->comparison->kernels[row].state));
}

static const struct ks_column kernel_columns[] = {
    TEXT_MEMBER("name", "kernel", KS_CELL_KERNEL, ks_compare_kernel, name, "it has no name"),
    {.key = "kind",
     .title = "kind",
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_TEXT,
     .cell = kernel_kind},
    {.key = "device",
     .title = "GPU",
     .places = KS_COLUMN_BOTH | KS_COLUMN_VARIES,
     KS_COLUMN_OF(ks_compare_kernel, device),
     .reason = "the runs used different devices: all together"},
    WORD("state", "in", kernel_state),
    REAL("a.calls", "calls A", KS_CELL_PLAIN, ks_compare_kernel, a.calls, NOT_THERE),
    REAL("a.total_ns", "time A", KS_CELL_TIME, ks_compare_kernel, a.device_ns, NOT_THERE),
    REAL("b.calls", "calls B", KS_CELL_PLAIN, ks_compare_kernel, b.calls, NOT_THERE),
    REAL("b.total_ns", "time B", KS_CELL_TIME, ks_compare_kernel, b.device_ns, NOT_THERE),
    REAL("change_ns", "change", KS_CELL_TIME_CHANGE, ks_compare_kernel, change_ns, NULL),
    {.key = NULL},
};

const struct ks_list ks_list_compare_kernels = {
    .name = "compare_kernels",
    .columns = kernel_columns,
    .empty = "No run has GPU work in a step.",
    .row_count = kernels_count,
    .row = kernels_row,
};

/* ------------------------------------------------------------------ memory */

static struct ks_cell memory_device(const struct ks_view *view, size_t row)
{
    int64_t device = view->comparison->memory[row].device;
    return ks_cell_int(device < 0 ? KS_UNKNOWN : device);
}

static struct ks_cell memory_state(const struct ks_view *view, size_t row)
{
    return ks_cell_word(ks_view_compare_state(view->comparison->memory[row].state));
}

#define BYTES(name, heading, cell_unit, member)                                                    \
    {                                                                                              \
        .key = name, .title = heading, .unit = cell_unit, .places = KS_COLUMN_BOTH,                \
        KS_COLUMN_OF(ks_compare_memory, member), .reason = "no memory event of the run says"       \
    }

static const struct ks_column memory_columns[] = {
    {.key = "rank",
     .title = "rank",
     .places = KS_COLUMN_BOTH | KS_COLUMN_VARIES,
     KS_COLUMN_OF(ks_compare_memory, rank),
     .reason = "a run has only one rank, or names none"},
    {.key = "device",
     .title = "GPU",
     .places = KS_COLUMN_BOTH,
     .cell = memory_device,
     .reason = "it is the memory of the host"},
    WORD("state", "in", memory_state),
    BYTES("a.peak_allocated_bytes", "peak A", KS_CELL_BYTES, a_allocated),
    BYTES("a.peak_reserved_bytes", "reserved A", KS_CELL_BYTES, a_reserved),
    BYTES("a.growth_bytes_per_step", "growth A", KS_CELL_BYTES, a_growth),
    BYTES("b.peak_allocated_bytes", "peak B", KS_CELL_BYTES, b_allocated),
    BYTES("b.peak_reserved_bytes", "reserved B", KS_CELL_BYTES, b_reserved),
    BYTES("b.growth_bytes_per_step", "growth B", KS_CELL_BYTES, b_growth),
    BYTES("change.peak_allocated_bytes", "change", KS_CELL_BYTES_CHANGE, allocated_change),
    BYTES("change.peak_reserved_bytes", "reserved change", KS_CELL_BYTES_CHANGE, reserved_change),
    {.key = NULL},
};

const struct ks_list ks_list_compare_memory = {
    .name = "compare_memory",
    .columns = memory_columns,
    .empty = "No run was recorded with memory events.",
    .row_count = memory_count,
    .row = memory_row,
};

/* ------------------------------------------------------------------ findings */

static struct ks_cell finding_state(const struct ks_view *view, size_t row)
{
    static const char *const words[] = {"still", "new", "gone"};
    return ks_cell_word(words[view->comparison->findings[row].state]);
}

#define SAVING(name, heading, member)                                                              \
    {                                                                                              \
        .key = name, .title = heading, .unit = KS_CELL_TIME, .places = KS_COLUMN_BOTH,             \
        KS_COLUMN_OF(ks_compare_finding, member), .reason = "not there, or it saves no time"       \
    }
#define NO_PLACE "no place of it is known"

static const struct ks_column finding_columns[] = {
    WORD("state", "state", finding_state),
    TEXT_MEMBER("id", "finding", KS_CELL_PLAIN, ks_compare_finding, id, NULL),
    {.key = "title",
     .title = "title",
     .unit = KS_CELL_NAME,
     .places = KS_COLUMN_JSON,
     .field = KS_FIELD_TEXT,
     KS_COLUMN_OF(ks_compare_finding, title)},
    SAVING("a.saving_low_ns", "saves A", a.low_ns),
    SAVING("a.saving_high_ns", "at most A", a.high_ns),
    REAL("a.share", "share A", KS_CELL_SHARE, ks_compare_finding, a_share, NOT_THERE),
    SAVING("b.saving_low_ns", "saves B", b.low_ns),
    SAVING("b.saving_high_ns", "at most B", b.high_ns),
    REAL("b.share", "share B", KS_CELL_SHARE, ks_compare_finding, b_share, NOT_THERE),
    TEXT_MEMBER("where.operator", "operator", KS_CELL_NAME, ks_compare_finding, operator_name,
                NO_PLACE),
    TEXT_MEMBER("where.file", "file", KS_CELL_NAME, ks_compare_finding, file, NO_PLACE),
    {.key = "where.line",
     .title = "line",
     .places = KS_COLUMN_BOTH,
     KS_COLUMN_OF(ks_compare_finding, line),
     .reason = NO_PLACE},
    {.key = NULL},
};

const struct ks_list ks_list_compare_findings = {
    .name = "compare_findings",
    .columns = finding_columns,
    .empty = "Nothing was found in either run.",
    .row_count = findings_count,
    .row = findings_row,
};

/* ------------------------------------------------------------------ all of them */

const struct ks_list *ks_list_compare_at(size_t index)
{
    static const struct ks_list *const lists[] = {
        &ks_list_compare_recording, &ks_list_compare_parts,  &ks_list_compare_operators,
        &ks_list_compare_kernels,   &ks_list_compare_memory, &ks_list_compare_findings,
    };
    return index < KS_COUNT_OF(lists) ? lists[index] : NULL;
}
