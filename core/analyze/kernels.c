/* A4: kernels, copies and sets by name and device, and copies by kind
 * (docs/analyses/kernels.md). One pass over the GPU rows. They come by device, so that the entry of
 * a row is mostly the last one of its name, and few rows cost hashing. */
#include <math.h>
#include <stdlib.h>

#include "analyze/registry.h"
#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/map.h"
#include "measure/sum.h"

struct entry {
    struct ks_kernel_fact fact;
    double occupancy_weighted;
    double occupancy_ns;
    double occupancy_plain; /* sum and count of samples that lasted 0 ns, if there are no others */
    int64_t occupancy_count;
    int64_t bytes; /* KS_UNKNOWN: no row says */
    int64_t timed_bytes;
    int64_t timed_ns;
    int64_t zero_calls;
};

struct table {
    uint32_t *last_of;   /* by string id: 1 + index of the entry used last, 0 none */
    struct ks_map index; /* (name and category, device) to 1 + index */
    struct entry *entries;
    size_t count;
    size_t capacity;
};

static struct entry *find_entry(struct ks_analyzer *analyzer, struct table *table, uint32_t name,
                                enum ks_category category, int64_t device)
{
    uint32_t last = table->last_of[name];
    if (last != 0) {
        struct entry *entry = &table->entries[last - 1];
        if (entry->fact.category == category && entry->fact.device == device) {
            return entry;
        }
    }
    uint64_t *at =
        ks_map_put(&table->index, name | (uint64_t)category << 32, (uint64_t)device, NULL);
    if (!at) {
        return NULL;
    }
    if (*at != 0) {
        table->last_of[name] = (uint32_t)*at;
        return &table->entries[*at - 1];
    }
    if (table->count == table->capacity) {
        size_t capacity = table->capacity ? 2 * table->capacity : 64;
        void *entries = ks_realloc(table->entries, capacity, sizeof(*table->entries));
        if (!entries) {
            return NULL;
        }
        table->entries = entries;
        table->capacity = capacity;
    }
    struct entry *entry = &table->entries[table->count];
    *entry = (struct entry){
        .fact = {.name = {name},
                 .category = category,
                 .device = device,
                 .min_ns = INT64_MAX,
                 .is_tensor_core = category == KS_CATEGORY_KERNEL &&
                                   ks_row_names_is_tensor_core(&analyzer->names, name)},
        .bytes = KS_UNKNOWN};
    *at = ++table->count;
    table->last_of[name] = (uint32_t)*at;
    return entry;
}

static void note_bytes(struct entry *entry, int64_t bytes, int64_t dur_ns)
{
    entry->zero_calls += dur_ns == 0;
    if (bytes < 0) {
        return;
    }
    entry->bytes = ks_sum_add(entry->bytes == KS_UNKNOWN ? 0 : entry->bytes, bytes);
    if (dur_ns > 0) {
        entry->timed_bytes = ks_sum_add(entry->timed_bytes, bytes);
        entry->timed_ns = ks_sum_add(entry->timed_ns, dur_ns);
    }
}

static void note_occupancy(struct entry *entry, double occupancy, int64_t dur_ns)
{
    if (occupancy >= 0) {
        entry->occupancy_weighted += occupancy * (double)dur_ns;
        entry->occupancy_ns += (double)dur_ns;
        entry->occupancy_plain += occupancy;
        entry->occupancy_count++;
    }
}

static enum ks_status note_row(struct ks_analyzer *analyzer, struct table *table,
                               const struct ks_gpu_scan *scan, size_t i, struct ks_err *err)
{
    uint8_t category = scan->col.category[i];
    uint32_t device = scan->col.lane[i];
    if (!ks_category_is_work(category) ||
        !ks_step_lookup_keeps_gpu(analyzer->facts, device, scan->col.launch_ns[i])) {
        return KS_OK;
    }
    struct entry *entry = find_entry(analyzer, table, scan->col.name[i], category,
                                     ks_trace_track(analyzer->trace, device)->number);
    if (!entry) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep kernels: count=%zu",
                       table->count);
    }
    int64_t dur_ns = scan->col.dur_ns[i];
    struct ks_kernel_fact *fact = &entry->fact;
    fact->calls++;
    fact->total_ns = ks_sum_add(fact->total_ns, dur_ns);
    fact->min_ns = dur_ns < fact->min_ns ? dur_ns : fact->min_ns;
    fact->max_ns = dur_ns > fact->max_ns ? dur_ns : fact->max_ns;
    fact->is_communication = fact->is_communication || (scan->col.flags[i] & KS_GPU_COMMUNICATION);
    if (category == KS_CATEGORY_KERNEL) {
        note_occupancy(entry, (double)scan->col.occupancy[i], dur_ns);
    } else {
        note_bytes(entry, scan->col.bytes[i], dur_ns);
    }
    return KS_OK;
}

/* qsort has no user pointer in the standard; glibc's qsort_r has. */
static int compare_kernels(const void *left, const void *right, void *trace)
{
    const struct ks_kernel_fact *a = left;
    const struct ks_kernel_fact *b = right;
    if (a->total_ns != b->total_ns) {
        return a->total_ns > b->total_ns ? -1 : 1;
    }
    int order = ks_str_compare(ks_trace_str(trace, a->name), ks_trace_str(trace, b->name));
    if (order != 0) {
        return order;
    }
    if (a->category != b->category) {
        return a->category < b->category ? -1 : 1;
    }
    return a->device < b->device ? -1 : a->device > b->device;
}

static int compare_copies(const void *left, const void *right, void *trace)
{
    const struct ks_copy_fact *a = left;
    const struct ks_copy_fact *b = right;
    if (a->total_ns != b->total_ns) {
        return a->total_ns > b->total_ns ? -1 : 1;
    }
    return ks_str_compare(ks_trace_str(trace, a->kind), ks_trace_str(trace, b->kind));
}

static double mean_occupancy(const struct entry *entry)
{
    if (entry->occupancy_ns > 0) {
        return entry->occupancy_weighted / entry->occupancy_ns;
    }
    return entry->occupancy_count > 0 ? entry->occupancy_plain / (double)entry->occupancy_count
                                      : (double)NAN;
}

/* Copies of one kind on all devices are one row. `copy_of`: by string id, 1 + index. */
static void add_copy(struct ks_facts *facts, uint32_t *copy_of, const struct entry *entry)
{
    uint32_t *at = &copy_of[entry->fact.name.v];
    if (*at == 0) {
        facts->copies[facts->copy_count++] =
            (struct ks_copy_fact){.kind = entry->fact.name, .bytes = KS_UNKNOWN};
        *at = (uint32_t)facts->copy_count;
    }
    struct ks_copy_fact *copy = &facts->copies[*at - 1];
    copy->calls = ks_sum_add(copy->calls, entry->fact.calls);
    copy->total_ns = ks_sum_add(copy->total_ns, entry->fact.total_ns);
    copy->timed_bytes = ks_sum_add(copy->timed_bytes, entry->timed_bytes);
    copy->timed_ns = ks_sum_add(copy->timed_ns, entry->timed_ns);
    copy->zero_duration_calls += entry->zero_calls;
    if (entry->bytes != KS_UNKNOWN) {
        copy->bytes = ks_sum_add(copy->bytes == KS_UNKNOWN ? 0 : copy->bytes, entry->bytes);
    }
}

static enum ks_status publish(struct ks_analyzer *analyzer, const struct table *table,
                              struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    facts->kernels = ks_new(&facts->arena, struct ks_kernel_fact, table->count + 1);
    facts->copies = ks_new(&facts->arena, struct ks_copy_fact, table->count + 1);
    uint32_t *copy_of =
        ks_new(&analyzer->scratch, uint32_t, (size_t)ks_trace_str_count(analyzer->trace) + 1);
    if (!facts->kernels || !facts->copies || !copy_of) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep kernels: count=%zu",
                       table->count);
    }
    for (size_t i = 0; i < table->count; i++) {
        struct ks_kernel_fact *fact = &facts->kernels[facts->kernel_count++];
        *fact = table->entries[i].fact;
        fact->occupancy = mean_occupancy(&table->entries[i]);
        if (fact->category == KS_CATEGORY_MEMCPY) {
            add_copy(facts, copy_of, &table->entries[i]);
        }
    }
    qsort_r(facts->kernels, facts->kernel_count, sizeof(*facts->kernels), compare_kernels,
            (void *)(uintptr_t)analyzer->trace);
    qsort_r(facts->copies, facts->copy_count, sizeof(*facts->copies), compare_copies,
            (void *)(uintptr_t)analyzer->trace);
    return KS_OK;
}

static enum ks_status scan_rows(struct ks_analyzer *analyzer, struct table *table,
                                struct ks_err *err)
{
    struct ks_gpu_scan scan;
    enum ks_status status;
    ks_gpu_scan_open(&scan, analyzer->trace,
                     KS_COLUMN_BIT(KS_GPU_COL_lane) | KS_COLUMN_BIT(KS_GPU_COL_dur_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_bytes) | KS_COLUMN_BIT(KS_GPU_COL_launch_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_name) | KS_COLUMN_BIT(KS_GPU_COL_occupancy) |
                         KS_COLUMN_BIT(KS_GPU_COL_category) | KS_COLUMN_BIT(KS_GPU_COL_flags),
                     0, ks_trace_rows(analyzer->trace, KS_TABLE_gpu));
    while ((status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            status = note_row(analyzer, table, &scan, i, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_gpu_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

enum ks_status ks_kernels_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    size_t names = (size_t)ks_trace_str_count(analyzer->trace) + 1;
    struct table table = {.last_of = ks_alloc(names, sizeof(uint32_t))};
    if (!table.last_of) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep kernels: names=%zu", names);
    }
    ks_map_init(&table.index);
    enum ks_status status = scan_rows(analyzer, &table, err);
    if (status == KS_OK) {
        status = publish(analyzer, &table, err);
    }
    ks_map_release(&table.index);
    ks_free(table.last_of);
    ks_free(table.entries);
    return status;
}
