/* Collectives of complete steps: which of them belong together on all ranks, who waits for whom,
 * what compute does not hide, and how small they are (docs/analyses/collectives.md).
 *
 * Two passes over the GPU rows of a source that has collectives: one collects them, the next takes
 * out of each the time in which kernels run. A collective of a step is matched by the number of the
 * step, its group and its place among those of the group; what a rank did before its first step has
 * no partner and no part in this. Clocks of ranks may differ: only durations are compared. */
#include "analyze/collectives.h"

#include <string.h>

#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/map.h"
#include "measure/sum.h"

/* ------------------------------------------------------------ collecting */

static int64_t element_bytes(struct ks_str dtype)
{
    static const struct {
        const char *name;
        int64_t bytes;
    } sizes[] = {{"Double", 8},   {"Long", 8}, {"Float", 4},  {"Int", 4},
                 {"BFloat16", 2}, {"Half", 2}, {"Short", 2},  {"Byte", 1},
                 {"Char", 1},     {"Bool", 1}, {"Float8", 1}, {"ComplexFloat", 8}};
    struct ks_str prefix = KS_STR("c10::");
    if (ks_str_starts(dtype, prefix)) {
        dtype = (struct ks_str){dtype.ptr + prefix.len, dtype.len - prefix.len};
    }
    for (size_t i = 0; i < KS_COUNT_OF(sizes); i++) {
        struct ks_str name = ks_str_from(sizes[i].name);
        bool is_float8 = i == KS_COUNT_OF(sizes) - 2;
        if (is_float8 ? ks_str_starts(dtype, name) : ks_str_equal(dtype, name)) {
            return sizes[i].bytes;
        }
    }
    return -1;
}

/* What a rank puts in, or gets if that is more. */
static int64_t payload_of(const struct ks_trace *trace, uint32_t collective)
{
    if (collective == 0) {
        return -1;
    }
    const struct ks_collective *meta = ks_trace_collective(trace, collective);
    int64_t elements =
        meta->in_elements > meta->out_elements ? meta->in_elements : meta->out_elements;
    int64_t bytes = element_bytes(ks_trace_str(trace, meta->dtype));
    return elements < 0 || bytes < 0 ? -1 : ks_sum_scale(elements, bytes);
}

/* Complete step that launched it, or the number of all steps. */
static size_t step_of(const struct ks_collective_list *list, int64_t launch_ns)
{
    const struct ks_facts *facts = list->analyzer->facts;
    struct ks_step_range range = facts->step_ranges[list->source];
    size_t count = range.end - range.begin;
    size_t step = launch_ns == KS_TIME_NONE
                      ? count
                      : ks_step_lookup(facts->steps + range.begin, count, launch_ns);
    bool is_kept = step < count && facts->steps[range.begin + step].is_complete;
    return is_kept ? range.begin + step : facts->step_count;
}

static enum ks_status add_row(struct ks_collective_list *list, const struct ks_gpu_scan *scan,
                              size_t i, struct ks_err *err)
{
    size_t step = step_of(list, scan->col.launch_ns[i]);
    if (step == list->analyzer->facts->step_count) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&list->items, list->count, &list->capacity, sizeof(*list->items), "collectives",
                   err));
    list->items[list->count++] = (struct ks_collective_row){
        .source = list->source,
        .device = scan->col.lane[i],
        .thread = scan->col.launch_lane[i],
        .meta = scan->col.collective[i],
        .step = step,
        .launch_ns = scan->col.launch_ns[i],
        .start_ns = scan->col.start_ns[i],
        .end_ns = ks_sum_add(scan->col.start_ns[i], scan->col.dur_ns[i]),
        .least_ns = -1,
        .bytes = payload_of(list->analyzer->trace, scan->col.collective[i])};
    return KS_OK;
}

/* Is called for each work row of the lane; some row may fail. */
typedef enum ks_status note_row(struct ks_collective_list *list, const struct ks_gpu_scan *scan,
                                size_t i, struct ks_err *err);

static enum ks_status scan_lane(struct ks_collective_list *list, const struct ks_lane *lane,
                                note_row *note, struct ks_err *err)
{
    struct ks_gpu_scan scan;
    enum ks_status status;
    ks_gpu_scan_open(&scan, list->analyzer->trace,
                     KS_COLUMN_BIT(KS_GPU_COL_lane) | KS_COLUMN_BIT(KS_GPU_COL_start_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_dur_ns) | KS_COLUMN_BIT(KS_GPU_COL_launch_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_launch_lane) |
                         KS_COLUMN_BIT(KS_GPU_COL_collective) | KS_COLUMN_BIT(KS_GPU_COL_category) |
                         KS_COLUMN_BIT(KS_GPU_COL_flags),
                     lane->row_begin, lane->row_end);
    while ((status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            if (scan.col.category[i] == KS_CATEGORY_KERNEL) {
                status = note(list, &scan, i, err);
            }
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_gpu_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status note_collective(struct ks_collective_list *list,
                                      const struct ks_gpu_scan *scan, size_t i, struct ks_err *err)
{
    return scan->col.flags[i] & KS_GPU_COMMUNICATION ? add_row(list, scan, i, err) : KS_OK;
}

/* ------------------------------------------------------------ what compute hides */

/* Takes [from, to) out of the collectives of the device; calls come in order, and do not overlap.
 * Those that may run are kept apart, so that one that never ends costs the others nothing. */
static enum ks_status hide(struct ks_collective_list *list, int64_t from_ns, int64_t to_ns,
                           struct ks_err *err)
{
    for (; list->next < list->count && list->items[list->next].start_ns < to_ns; list->next++) {
        KS_TRY(ks_grow(&list->running, list->running_count, &list->running_capacity,
                       sizeof(*list->running), "collectives", err));
        list->running[list->running_count++] = list->next;
    }
    for (size_t i = 0; i < list->running_count;) {
        struct ks_collective_row *row = &list->items[list->running[i]];
        int64_t begin_ns = row->start_ns > from_ns ? row->start_ns : from_ns;
        int64_t end_ns = row->end_ns < to_ns ? row->end_ns : to_ns;
        row->hidden_ns += end_ns > begin_ns ? end_ns - begin_ns : 0;
        if (row->end_ns <= to_ns) {
            list->running[i] = list->running[--list->running_count];
        } else {
            i++;
        }
    }
    return KS_OK;
}

static enum ks_status note_kernel(struct ks_collective_list *list, const struct ks_gpu_scan *scan,
                                  size_t i, struct ks_err *err)
{
    if (scan->col.flags[i] & KS_GPU_COMMUNICATION) {
        return KS_OK;
    }
    int64_t start_ns = scan->col.start_ns[i];
    int64_t end_ns = ks_sum_add(start_ns, scan->col.dur_ns[i]);
    int64_t from_ns = start_ns > list->busy_until_ns ? start_ns : list->busy_until_ns;
    if (end_ns <= from_ns) {
        return KS_OK;
    }
    KS_TRY(hide(list, from_ns, end_ns, err));
    list->busy_until_ns = end_ns;
    size_t step = step_of(list, scan->col.launch_ns[i]);
    list->compute_ns[step] = ks_sum_add(list->compute_ns[step], end_ns - from_ns);
    return KS_OK;
}

static enum ks_status collect_source(struct ks_collective_list *list, struct ks_err *err)
{
    size_t lane_count = 0;
    const struct ks_lane *lanes =
        ks_lane_sweep_lanes(list->analyzer->trace, KS_TABLE_gpu, list->source, &lane_count);
    for (size_t i = 0; i < lane_count; i++) {
        size_t before = list->count;
        KS_TRY(scan_lane(list, &lanes[i], note_collective, err));
        if (list->count > before) {
            list->next = before;
            list->running_count = 0;
            list->busy_until_ns = INT64_MIN;
            KS_TRY(scan_lane(list, &lanes[i], note_kernel, err));
        }
    }
    return KS_OK;
}

/* ------------------------------------------------------------ matching */

/* Collectives of all ranks that are one. */
struct slot {
    int64_t least_ns;
    int64_t bytes;
    uint32_t members;
    bool is_odd; /* they differ in size: no partners */
};

struct slots {
    struct ks_map index;  /* (step number and group, place) to 1 + index */
    struct ks_map places; /* (step of a source, group) to the number seen so far */
    struct slot *items;
    size_t count;
    size_t capacity;
};

static uint64_t group_of(const struct ks_trace *trace, const struct ks_collective_row *row)
{
    return row->meta ? ks_trace_collective(trace, row->meta)->group.v : 0;
}

static enum ks_status find_slot(struct slots *slots, const struct ks_facts *facts,
                                struct ks_collective_row *row, struct ks_err *err)
{
    uint64_t group = group_of(facts->trace, row);
    uint64_t *place = ks_map_put(&slots->places, (uint64_t)row->step, group, NULL);
    uint64_t ordinal = place ? (*place)++ : 0;
    uint64_t number = (uint64_t)facts->steps[row->step].number;
    uint64_t *at = place ? ks_map_put(&slots->index, number << 32 | group, ordinal, NULL) : NULL;
    if (!at) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot match collectives: count=%zu",
                       slots->count);
    }
    if (*at == 0) {
        KS_TRY(ks_grow(&slots->items, slots->count, &slots->capacity, sizeof(*slots->items),
                       "collectives", err));
        slots->items[slots->count++] = (struct slot){.least_ns = INT64_MAX, .bytes = row->bytes};
        *at = slots->count;
    }
    row->slot = (size_t)*at - 1;
    struct slot *slot = &slots->items[row->slot];
    int64_t dur_ns = row->end_ns - row->start_ns;
    slot->members++;
    slot->is_odd = slot->is_odd || slot->bytes != row->bytes;
    slot->least_ns = dur_ns < slot->least_ns ? dur_ns : slot->least_ns;
    return KS_OK;
}

static uint32_t members_wanted(const struct ks_trace *trace, const struct ks_collective_row *row)
{
    int64_t size = row->meta ? ks_trace_collective(trace, row->meta)->group_size : -1;
    return size > 0 && size <= UINT32_MAX ? (uint32_t)size : ks_trace_source_count(trace);
}

/* Where all members of a group are seen, the shortest one waited for nobody: it came last. */
static enum ks_status match_in(struct ks_collective_list *list, struct slots *slots,
                               struct ks_err *err)
{
    const struct ks_facts *facts = list->analyzer->facts;
    for (size_t i = 0; i < list->count; i++) {
        KS_TRY(find_slot(slots, facts, &list->items[i], err));
    }
    for (size_t i = 0; i < list->count; i++) {
        struct ks_collective_row *row = &list->items[i];
        const struct slot *slot = &slots->items[row->slot];
        uint32_t wanted = members_wanted(facts->trace, row);
        if (!slot->is_odd && wanted > 1 && slot->members == wanted) {
            row->least_ns = slot->least_ns;
        }
    }
    return KS_OK;
}

static enum ks_status match(struct ks_collective_list *list, struct ks_err *err)
{
    struct slots slots = {0};
    ks_map_init(&slots.index);
    ks_map_init(&slots.places);
    enum ks_status status = match_in(list, &slots, err);
    ks_map_release(&slots.index);
    ks_map_release(&slots.places);
    ks_free(slots.items);
    return status;
}

/* ------------------------------------------------------------ all */

static enum ks_status collect(struct ks_collective_list *list, struct ks_err *err)
{
    uint32_t sources = ks_trace_source_count(list->analyzer->trace);
    for (list->source = 0; list->source < sources; list->source++) {
        KS_TRY(collect_source(list, err));
    }
    const struct ks_facts *facts = list->analyzer->facts;
    if (list->count == 0) {
        bool is_on_host = !facts->has_gpu && facts->complete_step_count > 0;
        return is_on_host ? ks_collectives_look_at_host(list, err) : KS_OK;
    }
    KS_TRY(match(list, err));
    KS_TRY(ks_collectives_compare_ranks(list, err));
    KS_TRY(ks_collectives_look_at_gradients(list, err));
    return ks_collectives_look_at_shards(list, err);
}

enum ks_status ks_collectives_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    size_t steps = analyzer->facts->step_count;
    struct ks_collective_list list = {
        .analyzer = analyzer,
        .compute_ns = ks_new(&analyzer->scratch, int64_t, steps + 1),
    };
    enum ks_status status = list.compute_ns
                                ? collect(&list, err)
                                : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET,
                                          "Cannot look at collectives: steps=%zu", steps);
    ks_free(list.items);
    ks_free(list.running);
    return status;
}
