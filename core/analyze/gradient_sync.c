/* Collectives that sum up gradients: how many, how small, and whether each micro-batch has its own
 * (docs/analyses/collectives.md).
 *
 * On a GPU they reduce, are launched by the autograd engine, which has threads of its own, and
 * belong to a group with which the forward pass reduces nothing: that one splits tensors.
 *
 * Without a GPU the engine uses the thread of the steps, and the calls themselves are rows of it:
 * those outside of the forward passes sum up gradients. What is in their lists is not known. */
#include "analyze/collectives.h"
#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/map.h"
#include "measure/sum.h"

/* Begin of a forward pass of the wrapped model, or of an optimizer's step. */
struct event {
    int64_t start_ns;
    int64_t end_ns;
    int64_t sum; /* bytes of gradients that are summed up until the next one; on the host: calls */
    bool is_optimizer;
};

struct walk {
    struct ks_collective_list *list;
    struct ks_gradient_fact *fact;
    struct ks_map forward; /* (source, group): the forward pass reduces */
    uint32_t *threads;     /* by source: the thread of its steps, which runs forward passes */
    size_t row;            /* first of the source whose windows are judged */
    struct event *events;  /* of one source */
    size_t event_count;
    size_t event_capacity;
};

/* What the trace says of a collective that reduces, else NULL. */
static const struct ks_collective *reducing(const struct walk *walk,
                                            const struct ks_collective_row *row)
{
    const struct ks_trace *trace = walk->list->analyzer->trace;
    const struct ks_collective *meta = row->meta ? ks_trace_collective(trace, row->meta) : NULL;
    bool reduces = meta && ks_str_contains(ks_trace_str(trace, meta->name), KS_STR("reduce"));
    return reduces ? meta : NULL;
}

static bool is_forward(const struct walk *walk, const struct ks_collective_row *row)
{
    return row->thread == walk->threads[row->source];
}

static enum ks_status find_forward_groups(struct walk *walk, struct ks_err *err)
{
    for (size_t i = 0; i < walk->list->count; i++) {
        const struct ks_collective_row *row = &walk->list->items[i];
        const struct ks_collective *meta = reducing(walk, row);
        if (meta && is_forward(walk, row) && row->bytes >= KS_SMALL_BUCKET_BYTES_MIN &&
            !ks_map_put(&walk->forward, row->source, meta->group.v, NULL)) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot look at gradients: count=%zu",
                           walk->list->count);
        }
    }
    return KS_OK;
}

/* What the trace says of a collective that sums up gradients, else NULL. */
static const struct ks_collective *gradient(const struct walk *walk,
                                            const struct ks_collective_row *row)
{
    const struct ks_collective *meta = reducing(walk, row);
    bool is_gradient = meta && !is_forward(walk, row) && row->bytes >= 0 &&
                       !ks_map_find(&walk->forward, row->source, meta->group.v);
    return is_gradient ? meta : NULL;
}

static void add_sizes(struct walk *walk)
{
    struct ks_gradient_fact *fact = walk->fact;
    double steps = (double)walk->list->analyzer->facts->complete_step_count;
    for (size_t i = 0; i < walk->list->count; i++) {
        const struct ks_collective_row *row = &walk->list->items[i];
        const struct ks_collective *meta = gradient(walk, row);
        if (!meta) {
            continue;
        }
        fact->count += 1;
        fact->bytes += (double)row->bytes;
        bool is_fp32 =
            ks_str_equal(ks_trace_str(walk->list->analyzer->trace, meta->dtype), KS_STR("Float"));
        fact->fp32_bytes += is_fp32 ? (double)row->bytes : 0;
        if (row->bytes >= KS_SMALL_BUCKET_BYTES_MIN && row->bytes <= KS_SMALL_BUCKET_BYTES_MAX) {
            int64_t dur_ns = row->end_ns - row->start_ns;
            fact->small += 1;
            fact->small_bytes += (double)row->bytes;
            fact->small_transfer_ns =
                ks_sum_add(fact->small_transfer_ns, row->least_ns >= 0 ? row->least_ns : dur_ns);
        }
    }
    fact->count /= steps;
    fact->bytes /= steps;
    fact->fp32_bytes /= steps;
    fact->small /= steps;
    fact->small_bytes /= steps;
    fact->small_transfer_ns /= (int64_t)steps;
}

/* ------------------------------------------------------------ micro-batches */

/* Without a GPU: a call belongs to the forward pass before it, unless it is part of it. */
static void note_call(struct walk *walk, const struct ks_slice_scan *scan, size_t i)
{
    struct ks_analyzer *analyzer = walk->list->analyzer;
    struct event *event = walk->event_count > 0 ? &walk->events[walk->event_count - 1] : NULL;
    if (analyzer->facts->has_gpu || !event || event->is_optimizer ||
        scan->col.start_ns[i] < event->end_ns) {
        return;
    }
    struct ks_str name = ks_trace_str(analyzer->trace, (struct ks_strid){scan->col.name[i]});
    if (ks_str_starts(name, KS_STR("c10d::allreduce_"))) {
        event->sum++;
        walk->fact->count += 1;
    }
}

static enum ks_status note_row(struct walk *walk, const struct ks_slice_scan *scan, size_t i,
                               struct ks_err *err)
{
    struct ks_analyzer *analyzer = walk->list->analyzer;
    if (scan->col.category[i] != KS_CATEGORY_USER_ANNOTATION &&
        scan->col.category[i] != KS_CATEGORY_CPU_OP) {
        return KS_OK;
    }
    uint32_t name = scan->col.name[i];
    note_call(walk, scan, i);
    bool is_optimizer = ks_row_names_get(&analyzer->names, name) & KS_NAME_OPTIMIZER;
    struct ks_str text = ks_trace_str(analyzer->trace, (struct ks_strid){name});
    if (!is_optimizer && !ks_str_equal(text, KS_STR("DistributedDataParallel.forward"))) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&walk->events, walk->event_count, &walk->event_capacity, sizeof(*walk->events),
                   "forward passes", err));
    walk->events[walk->event_count++] =
        (struct event){.start_ns = scan->col.start_ns[i],
                       .end_ns = ks_sum_add(scan->col.start_ns[i], scan->col.dur_ns[i]),
                       .is_optimizer = is_optimizer};
    return KS_OK;
}

static enum ks_status collect_events(struct walk *walk, uint32_t source, struct ks_err *err)
{
    struct ks_analyzer *analyzer = walk->list->analyzer;
    const struct ks_lane *lane =
        ks_trace_lane_find(analyzer->trace, KS_TABLE_slice, walk->threads[source]);
    struct ks_slice_scan scan;
    enum ks_status status;
    walk->event_count = 0;
    if (!lane) {
        return KS_OK;
    }
    ks_slice_scan_open(&scan, analyzer->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_name) | KS_COLUMN_BIT(KS_SLICE_COL_category),
                       lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            status = note_row(walk, &scan, i, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

/* The last event that begins at the moment or before, NULL none. */
static struct event *event_at(const struct walk *walk, int64_t ns)
{
    size_t begin = 0;
    size_t end = walk->event_count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        bool is_before = walk->events[middle].start_ns <= ns;
        begin = is_before ? middle + 1 : begin;
        end = is_before ? end : middle;
    }
    return begin > 0 ? &walk->events[begin - 1] : NULL;
}

static void add_bytes(struct walk *walk, uint32_t source)
{
    const struct ks_collective_list *list = walk->list;
    for (; walk->row < list->count && list->items[walk->row].source == source; walk->row++) {
        const struct ks_collective_row *row = &list->items[walk->row];
        struct event *event = event_at(walk, row->launch_ns);
        if (event && gradient(walk, row)) {
            event->sum = ks_sum_add(event->sum, row->bytes);
        }
    }
}

/* Forward passes [begin, end), after which an optimizer steps. */
static void judge_window(struct walk *walk, size_t begin, size_t end)
{
    const struct event *events = walk->events;
    int64_t last = 0;
    bool is_even = true;
    int64_t all = 0;
    for (size_t i = begin; i < end; i++) {
        is_even = is_even && (i == begin || events[i].sum == last);
        last = events[i].sum;
        all = ks_sum_add(all, last);
    }
    if (end - begin < 2 || last == 0) {
        return;
    }
    int64_t passes = (int64_t)(end - begin);
    if (is_even) {
        walk->fact->windows++;
        walk->fact->micro_batches =
            passes > walk->fact->micro_batches ? passes : walk->fact->micro_batches;
    } else {
        walk->fact->windows_spared += all == last;
    }
}

static void judge_windows(struct walk *walk)
{
    size_t begin = 0;
    for (size_t i = 0; i < walk->event_count; i++) {
        if (walk->events[i].is_optimizer) {
            judge_window(walk, begin, i);
            begin = i + 1;
        }
    }
}

static enum ks_status find_threads(struct walk *walk, struct ks_err *err)
{
    struct ks_analyzer *analyzer = walk->list->analyzer;
    uint32_t sources = ks_trace_source_count(analyzer->trace);
    walk->threads = ks_new(&analyzer->scratch, uint32_t, sources + 1);
    if (!walk->threads) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot look at gradients: sources=%u",
                       sources);
    }
    for (uint32_t i = 0; i < sources; i++) {
        walk->threads[i] = ks_step_lookup_thread(analyzer->facts, i);
    }
    return KS_OK;
}

/* Calls are counted in the whole recording, so that their number is that of all steps. */
static enum ks_status look_at_host(struct walk *walk, struct ks_err *err)
{
    struct ks_analyzer *analyzer = walk->list->analyzer;
    double steps = (double)analyzer->facts->step_count;
    KS_TRY(find_threads(walk, err));
    for (uint32_t i = 0; i < ks_trace_source_count(analyzer->trace); i++) {
        KS_TRY(collect_events(walk, i, err));
        judge_windows(walk);
    }
    walk->fact->count /= steps;
    return KS_OK;
}

static enum ks_status look(struct walk *walk, struct ks_err *err)
{
    uint32_t sources = ks_trace_source_count(walk->list->analyzer->trace);
    KS_TRY(find_threads(walk, err));
    KS_TRY(find_forward_groups(walk, err));
    add_sizes(walk);
    for (uint32_t i = 0; i < sources && walk->fact->count > 0; i++) {
        KS_TRY(collect_events(walk, i, err));
        add_bytes(walk, i);
        judge_windows(walk);
    }
    return KS_OK;
}

enum ks_status ks_collectives_look_at_gradients(struct ks_collective_list *list, struct ks_err *err)
{
    struct walk walk = {.list = list, .fact = &list->analyzer->facts->comm.gradients};
    ks_map_init(&walk.forward);
    enum ks_status status = look(&walk, err);
    ks_map_release(&walk.forward);
    ks_free(walk.events);
    return status;
}

enum ks_status ks_collectives_look_at_host(struct ks_collective_list *list, struct ks_err *err)
{
    struct walk walk = {.list = list, .fact = &list->analyzer->facts->comm.gradients};
    enum ks_status status = look_at_host(&walk, err);
    ks_free(walk.events);
    return status;
}
