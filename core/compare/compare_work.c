/* Operators and kernels of two runs, matched by name: what a mean complete step of one rank does of
 * each. Kernels are also told apart by device when both runs used the same ones. Ids of strings are
 * the trace's own, so that each name of A is looked up once in the pool of B. */
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/map.h"
#include "compare/compare_impl.h"
#include "measure/sum.h"

/* What a row is found by: ids of strings of one trace. */
struct key {
    uint32_t name;
    uint32_t shapes;
    uint32_t kind; /* of operators: kind, and whether it is a folded step; of kernels: category */
    int64_t device;
};

/* An operator or kernel of one side, in all steps that count. */
struct row {
    struct key key;
    struct ks_str name;
    struct ks_str shapes;
    int64_t calls;
    int64_t host_ns;
    int64_t device_ns;
    double steps; /* to divide by */
    bool is_matched;
};

struct table {
    const struct ks_trace *trace;
    struct row *rows;
    size_t count;
    struct ks_map index; /* 1 + place of a key */
};

enum { FOLDED_STEP = 8 };

static uint64_t *find_slot(struct table *table, const struct key *key)
{
    return ks_map_put(&table->index, (uint64_t)key->kind << 32 | key->name,
                      (uint64_t)key->device << 32 ^ key->shapes, NULL);
}

/* The row of a key, a new one when there is none; NULL: no memory. There is room for all. */
static struct row *row_of(struct table *table, const struct key *key)
{
    uint64_t *slot = find_slot(table, key);
    if (!slot) {
        return NULL;
    }
    if (*slot == 0) {
        table->rows[table->count] = (struct row){.key = *key};
        *slot = ++table->count;
    }
    return &table->rows[*slot - 1];
}

/* The same key in ids of the other trace; false: it does not know these texts. */
static bool translate(const struct row *row, const struct ks_trace *other, struct key *key)
{
    *key = row->key;
    if (key->name != 0) {
        key->name = ks_trace_str_find(other, row->name).v;
    }
    if (key->shapes != 0) {
        key->shapes = ks_trace_str_find(other, row->shapes).v;
    }
    return (key->name != 0) == (row->key.name != 0) && (key->shapes != 0) == (row->key.shapes != 0);
}

static struct row *find_row(const struct table *table, const struct key *key)
{
    const uint64_t *slot = ks_map_find(&table->index, (uint64_t)key->kind << 32 | key->name,
                                       (uint64_t)key->device << 32 ^ key->shapes);
    return slot && *slot != 0 ? &table->rows[*slot - 1] : NULL;
}

static enum ks_status table_init(struct table *table, const struct ks_trace *trace, size_t count,
                                 struct ks_arena *arena, struct ks_err *err)
{
    *table = (struct table){.trace = trace, .rows = ks_new(arena, struct row, count + 1)};
    ks_map_init(&table->index);
    return table->rows ? KS_OK : ks_compare_no_memory(err);
}

/* ------------------------------------------------------------------ filling */

static enum ks_status take_operators(struct table *table, const struct ks_facts *work,
                                     struct ks_err *err)
{
    for (size_t i = 0; i < work->operator_count; i++) {
        const struct ks_operator_fact *op = &work->operators[i];
        struct key key = {.name = op->is_folded_step ? 0 : op->name.v,
                          .shapes = op->shapes.v,
                          .kind = (uint32_t)op->kind + (op->is_folded_step ? FOLDED_STEP : 0)};
        struct row *row = row_of(table, &key);
        if (!row) {
            return ks_compare_no_memory(err);
        }
        row->name = ks_operator_label(work, op);
        row->shapes = ks_trace_str(work->trace, op->shapes);
        row->calls = ks_sum_add(row->calls, op->calls);
        row->host_ns = ks_sum_add(row->host_ns, op->self_cpu_ns);
        row->device_ns = ks_sum_add(row->device_ns, op->self_device_ns);
        row->steps = (double)work->step_count;
    }
    return KS_OK;
}

/* By number of a device: 1 + the steps that count of the ranks that have it. */
static enum ks_status count_device_steps(const struct ks_facts *facts, const struct ks_facts *work,
                                         struct ks_map *steps, struct ks_err *err)
{
    for (size_t i = 0; i < facts->device_count; i++) {
        const struct ks_device_fact *device = &facts->devices[i];
        struct ks_step_range range = work->step_ranges[device->source];
        bool is_new = false;
        uint64_t *count = ks_map_put(steps, (uint64_t)device->device, 0, &is_new);
        if (!count) {
            return ks_compare_no_memory(err);
        }
        *count += range.end - range.begin + is_new;
    }
    return KS_OK;
}

/* `device_steps` NULL: devices are not told apart. */
static enum ks_status take_kernels(struct table *table, const struct ks_facts *work,
                                   const struct ks_map *device_steps, struct ks_err *err)
{
    for (size_t i = 0; i < work->kernel_count; i++) {
        const struct ks_kernel_fact *kernel = &work->kernels[i];
        struct key key = {.name = kernel->name.v,
                          .kind = (uint32_t)kernel->category,
                          .device = device_steps ? kernel->device : KS_UNKNOWN};
        struct row *row = row_of(table, &key);
        if (!row) {
            return ks_compare_no_memory(err);
        }
        row->name = ks_trace_str(work->trace, kernel->name);
        row->calls = ks_sum_add(row->calls, kernel->calls);
        row->device_ns = ks_sum_add(row->device_ns, kernel->total_ns);
        const uint64_t *steps =
            device_steps ? ks_map_find(device_steps, (uint64_t)kernel->device, 0) : NULL;
        row->steps = steps ? (double)(*steps - 1) : (double)work->step_count;
    }
    return KS_OK;
}

/* Does each of the devices that worked stand in the map? */
static bool are_devices_in(const struct ks_facts *facts, const struct ks_map *devices)
{
    for (size_t i = 0; i < facts->device_count; i++) {
        if (!ks_map_find(devices, (uint64_t)facts->devices[i].device, 0)) {
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ matching */

static struct ks_compare_use use_of(const struct row *row)
{
    if (!row || row->steps <= 0) {
        return (struct ks_compare_use){(double)NAN, (double)NAN, (double)NAN};
    }
    return (struct ks_compare_use){(double)row->calls / row->steps,
                                   (double)row->host_ns / row->steps,
                                   (double)row->device_ns / row->steps};
}

static double or_zero(double value)
{
    return isnan(value) ? 0 : value;
}

/* What a pair of rows becomes; one of them may be NULL. */
typedef enum ks_status (*take_pair)(struct ks_comparison *out, const struct row *a,
                                    const struct row *b, struct ks_err *err);

static enum ks_status match(struct table *a, struct table *b, take_pair take,
                            struct ks_comparison *out, struct ks_err *err)
{
    for (size_t i = 0; i < a->count; i++) {
        struct key key;
        struct row *other = NULL;
        if (translate(&a->rows[i], b->trace, &key)) {
            other = find_row(b, &key);
        }
        if (other) {
            other->is_matched = true;
        }
        KS_TRY(take(out, &a->rows[i], other, err));
    }
    for (size_t i = 0; i < b->count; i++) {
        if (!b->rows[i].is_matched) {
            KS_TRY(take(out, NULL, &b->rows[i], err));
        }
    }
    return KS_OK;
}

static enum ks_compare_state state_of(const struct row *a, const struct row *b)
{
    return !a ? KS_COMPARE_NEW : !b ? KS_COMPARE_GONE : KS_COMPARE_BOTH;
}

static enum ks_status take_operator(struct ks_comparison *out, const struct row *a,
                                    const struct row *b, struct ks_err *err)
{
    const struct row *row = b ? b : a;
    struct ks_compare_operator *op = &out->operators[out->operator_count++];
    *op = (struct ks_compare_operator){.kind = (enum ks_operator_kind)(row->key.kind % FOLDED_STEP),
                                       .state = state_of(a, b),
                                       .a = use_of(a),
                                       .b = use_of(b)};
    op->host_change_ns = or_zero(op->b.host_ns) - or_zero(op->a.host_ns);
    op->device_change_ns = or_zero(op->b.device_ns) - or_zero(op->a.device_ns);
    if (out->is_by_shape) {
        KS_TRY(ks_compare_copy(out, row->shapes, &op->shapes, err));
    }
    return ks_compare_copy(out, row->name, &op->name, err);
}

static enum ks_status take_kernel(struct ks_comparison *out, const struct row *a,
                                  const struct row *b, struct ks_err *err)
{
    const struct row *row = b ? b : a;
    struct ks_compare_kernel *kernel = &out->kernels[out->kernel_count++];
    *kernel = (struct ks_compare_kernel){.category = (enum ks_category)row->key.kind,
                                         .device = row->key.device,
                                         .state = state_of(a, b),
                                         .a = use_of(a),
                                         .b = use_of(b)};
    kernel->change_ns = or_zero(kernel->b.device_ns) - or_zero(kernel->a.device_ns);
    return row->key.name == 0 ? KS_OK : ks_compare_copy(out, row->name, &kernel->name, err);
}

/* ------------------------------------------------------------------ order */

static int descending(double a, double b)
{
    return (a < b) - (a > b);
}

static int compare_operators(const void *left, const void *right)
{
    const struct ks_compare_operator *a = left;
    const struct ks_compare_operator *b = right;
    int order = descending(fabs(a->host_change_ns) + fabs(a->device_change_ns),
                           fabs(b->host_change_ns) + fabs(b->device_change_ns));
    if (order == 0) {
        order = ks_str_compare(a->name, b->name);
    }
    if (order == 0 && a->kind != b->kind) {
        order = a->kind < b->kind ? -1 : 1;
    }
    return order ? order : ks_str_compare(a->shapes, b->shapes);
}

static int compare_kernels(const void *left, const void *right)
{
    const struct ks_compare_kernel *a = left;
    const struct ks_compare_kernel *b = right;
    int order = descending(fabs(a->change_ns), fabs(b->change_ns));
    if (order == 0) {
        order = ks_str_compare(a->name, b->name);
    }
    if (order == 0 && a->category != b->category) {
        order = a->category < b->category ? -1 : 1;
    }
    return order ? order : (a->device > b->device) - (a->device < b->device);
}

/* ------------------------------------------------------------------ both */

/* What is released whatever happens. */
struct work {
    struct ks_facts counted[KS_COMPARE_SIDES];
    struct ks_map device_steps[KS_COMPARE_SIDES];
    struct table operators[KS_COMPARE_SIDES];
    struct table kernels[KS_COMPARE_SIDES];
};

static enum ks_status fill_tables(const struct ks_compare_input sides[KS_COMPARE_SIDES],
                                  struct work *work, struct ks_comparison *out, struct ks_err *err)
{
    bool by_device = are_devices_in(sides[KS_COMPARE_A].facts, &work->device_steps[KS_COMPARE_B]) &&
                     are_devices_in(sides[KS_COMPARE_B].facts, &work->device_steps[KS_COMPARE_A]);
    for (size_t side = 0; side < KS_COMPARE_SIDES; side++) {
        const struct ks_facts *counted = &work->counted[side];
        struct table *operators = &work->operators[side];
        struct table *kernels = &work->kernels[side];
        const struct ks_trace *trace = sides[side].trace;
        KS_TRY(table_init(operators, trace, counted->operator_count, &out->arena, err));
        KS_TRY(table_init(kernels, trace, counted->kernel_count, &out->arena, err));
        KS_TRY(take_operators(operators, counted, err));
        KS_TRY(take_kernels(kernels, counted, by_device ? &work->device_steps[side] : NULL, err));
    }
    return KS_OK;
}

static enum ks_status compare_tables(struct work *work, struct ks_comparison *out,
                                     struct ks_err *err)
{
    const struct ks_facts *counted = work->counted;
    size_t operator_count = counted[0].operator_count + counted[1].operator_count;
    size_t kernel_count = counted[0].kernel_count + counted[1].kernel_count;
    out->operators = ks_new(&out->arena, struct ks_compare_operator, operator_count + 1);
    out->kernels = ks_new(&out->arena, struct ks_compare_kernel, kernel_count + 1);
    if (!out->operators || !out->kernels) {
        return ks_compare_no_memory(err);
    }
    KS_TRY(match(&work->operators[KS_COMPARE_A], &work->operators[KS_COMPARE_B], take_operator, out,
                 err));
    KS_TRY(
        match(&work->kernels[KS_COMPARE_A], &work->kernels[KS_COMPARE_B], take_kernel, out, err));
    qsort(out->operators, out->operator_count, sizeof(*out->operators), compare_operators);
    qsort(out->kernels, out->kernel_count, sizeof(*out->kernels), compare_kernels);
    return KS_OK;
}

static enum ks_status count_work(const struct ks_compare_input sides[KS_COMPARE_SIDES],
                                 struct work *work, bool by_shape, struct ks_err *err)
{
    for (size_t side = 0; side < KS_COMPARE_SIDES; side++) {
        struct ks_facts *counted = &work->counted[side];
        ks_map_init(&work->device_steps[side]);
        KS_TRY(ks_facts_count_work(sides[side].facts, by_shape, counted, err));
        KS_TRY(count_device_steps(sides[side].facts, counted, &work->device_steps[side], err));
    }
    return KS_OK;
}

static void release(struct work *work)
{
    for (size_t side = 0; side < KS_COMPARE_SIDES; side++) {
        ks_map_release(&work->operators[side].index);
        ks_map_release(&work->kernels[side].index);
        ks_map_release(&work->device_steps[side]);
        ks_facts_release(&work->counted[side]);
    }
}

enum ks_status ks_compare_work(const struct ks_compare_input sides[KS_COMPARE_SIDES],
                               struct ks_comparison *out, struct ks_err *err)
{
    struct work work = {0};
    enum ks_status status = count_work(sides, &work, out->is_by_shape, err);
    if (status == KS_OK) {
        status = fill_tables(sides, &work, out, err);
    }
    if (status == KS_OK) {
        status = compare_tables(&work, out, err);
    }
    release(&work);
    return status;
}
