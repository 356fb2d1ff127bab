/* A2, A19: the steps of each source and their true duration (docs/analyses/steps.md).
 *
 * One scan over the host rows collects what can define steps, step_spans.c chooses, one scan over
 * the GPU rows gives each step the work that was launched in it. The true steps of a source are
 * then laid end to end: each lasts until its own GPU work is done.
 */
#include "analyze/registry.h"
#include "analyze/step_lookup.h"
#include "analyze/step_spans.h"
#include "base/err.h"
#include "base/map.h"
#include "measure/sum.h"

/* All that is known of one source while its steps are built. */
struct draft {
    struct ks_step_candidates candidates;
    struct ks_step_spans spans;
    enum ks_step_source found_by;
    bool by_gpu_time;
    struct ks_step *steps;
    int64_t before_ns; /* end of the work launched before the first step; KS_UNKNOWN: none */
};

static void widen(struct ks_step_candidates *candidates, int64_t start_ns, int64_t end_ns)
{
    candidates->start_ns = start_ns < candidates->start_ns ? start_ns : candidates->start_ns;
    candidates->end_ns = end_ns > candidates->end_ns ? end_ns : candidates->end_ns;
}

static int64_t step_number(struct ks_str name)
{
    int64_t number = 0;
    for (size_t i = KS_STR("ProfilerStep#").len; i < name.len; i++) {
        number = ks_sum_add(ks_sum_scale(number, 10), name.ptr[i] - '0');
    }
    return number;
}

static enum ks_status note_span(struct ks_analyzer *analyzer, struct ks_step_candidates *candidates,
                                const struct ks_slice_scan *scan, size_t i, unsigned name_flags,
                                struct ks_err *err)
{
    struct ks_step_span span = {.start_ns = scan->col.start_ns[i],
                                .end_ns = ks_sum_add(scan->col.start_ns[i], scan->col.dur_ns[i]),
                                .tokens = KS_UNKNOWN,
                                .name = scan->col.name[i],
                                .thread = scan->col.lane[i],
                                .kind = KS_STEP_OTHER,
                                .is_complete = !(scan->col.flags[i] & KS_SLICE_UNFINISHED)};
    struct ks_str name = ks_trace_str(analyzer->trace, (struct ks_strid){span.name});
    if (name_flags & KS_NAME_PROFILER_STEP) {
        span.number = step_number(name);
        return ks_step_spans_add(&candidates->profiler, &span, err);
    }
    if (name_flags & KS_NAME_MARK) {
        return ks_step_spans_add(&candidates->mark, &span, err);
    }
    if (name_flags & KS_NAME_ENGINE) {
        ks_step_spans_describe_engine(name, &span);
        return ks_step_spans_add(&candidates->engine, &span, err);
    }
    if (name_flags & KS_NAME_OPTIMIZER) {
        return ks_step_spans_add(&candidates->optimizer, &span, err);
    }
    return KS_OK;
}

static enum ks_status collect_lane(struct ks_analyzer *analyzer, const struct ks_lane *lane,
                                   struct ks_step_candidates *candidates, struct ks_err *err)
{
    enum { WANTED = KS_NAME_PROFILER_STEP | KS_NAME_MARK | KS_NAME_ENGINE | KS_NAME_OPTIMIZER };
    struct ks_slice_scan scan;
    enum ks_status status;
    ks_slice_scan_open(&scan, analyzer->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_lane) | KS_COLUMN_BIT(KS_SLICE_COL_start_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) | KS_COLUMN_BIT(KS_SLICE_COL_name) |
                           KS_COLUMN_BIT(KS_SLICE_COL_category) | KS_COLUMN_BIT(KS_SLICE_COL_flags),
                       lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            uint8_t category = scan.col.category[i];
            if (category == KS_CATEGORY_TRACE || category == KS_CATEGORY_OVERHEAD) {
                continue;
            }
            widen(candidates, scan.col.start_ns[i],
                  ks_sum_add(scan.col.start_ns[i], scan.col.dur_ns[i]));
            if (category != KS_CATEGORY_USER_ANNOTATION && category != KS_CATEGORY_CPU_OP) {
                continue;
            }
            unsigned flags = ks_row_names_get(&analyzer->names, scan.col.name[i]);
            if (KS_UNLIKELY(flags & WANTED)) {
                status = note_span(analyzer, candidates, &scan, i, flags, err);
            }
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status collect_host(struct ks_analyzer *analyzer, struct draft *drafts,
                                   struct ks_err *err)
{
    size_t count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(analyzer->trace, KS_TABLE_slice, &count);
    for (size_t i = 0; i < count; i++) {
        uint32_t source = ks_trace_track(analyzer->trace, lanes[i].track)->source;
        KS_TRY(collect_lane(analyzer, &lanes[i], &drafts[source].candidates, err));
    }
    for (uint32_t i = 0; i < ks_trace_source_count(analyzer->trace); i++) {
        struct ks_step_candidates *candidates = &drafts[i].candidates;
        ks_step_spans_sort(&candidates->profiler);
        ks_step_spans_sort(&candidates->mark);
        ks_step_spans_sort(&candidates->optimizer);
    }
    return KS_OK;
}

/* ------------------------------------------------------------ GPU rows */

static enum ks_status visit_gpu(struct ks_analyzer *analyzer, struct draft *drafts,
                                void (*visit)(struct draft *draft, int64_t start_ns, int64_t end_ns,
                                              int64_t launch_ns),
                                struct ks_err *err)
{
    size_t lane_count = 0;
    const struct ks_lane *lanes = ks_trace_lanes(analyzer->trace, KS_TABLE_gpu, &lane_count);
    const struct ks_scope *scope = &analyzer->facts->scope;
    for (size_t lane = 0; lane < lane_count; lane++) {
        const struct ks_track *device = ks_trace_track(analyzer->trace, lanes[lane].track);
        if (scope->device_given && device->number != scope->device) {
            continue;
        }
        struct ks_gpu_scan scan;
        enum ks_status status;
        ks_gpu_scan_open(&scan, analyzer->trace,
                         KS_COLUMN_BIT(KS_GPU_COL_start_ns) | KS_COLUMN_BIT(KS_GPU_COL_dur_ns) |
                             KS_COLUMN_BIT(KS_GPU_COL_launch_ns) |
                             KS_COLUMN_BIT(KS_GPU_COL_category),
                         lanes[lane].row_begin, lanes[lane].row_end);
        while ((status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
            for (size_t i = 0; i < scan.count; i++) {
                if (ks_category_is_work(scan.col.category[i])) {
                    visit(&drafts[device->source], scan.col.start_ns[i],
                          ks_sum_add(scan.col.start_ns[i], scan.col.dur_ns[i]),
                          scan.col.launch_ns[i]);
                }
            }
        }
        ks_gpu_scan_close(&scan);
        if (status != KS_END) {
            return status;
        }
    }
    return KS_OK;
}

static void widen_by_gpu(struct draft *draft, int64_t start_ns, int64_t end_ns, int64_t launch_ns)
{
    (void)launch_ns;
    widen(&draft->candidates, start_ns, end_ns);
}

/* Step that a piece of GPU work belongs to, or NULL. */
static struct ks_step *owner(const struct draft *draft, int64_t start_ns, int64_t launch_ns)
{
    int64_t at_ns = draft->by_gpu_time ? start_ns : launch_ns;
    if (at_ns == KS_TIME_NONE) {
        return NULL;
    }
    size_t index = ks_step_lookup(draft->steps, draft->spans.count, at_ns);
    return index < draft->spans.count ? &draft->steps[index] : NULL;
}

static void give_to_step(struct draft *draft, int64_t start_ns, int64_t end_ns, int64_t launch_ns)
{
    struct ks_step *step = owner(draft, start_ns, launch_ns);
    if (!step) {
        return;
    }
    if (step->gpu_start_ns == KS_UNKNOWN || start_ns < step->gpu_start_ns) {
        step->gpu_start_ns = start_ns;
    }
    if (step->gpu_end_ns == KS_UNKNOWN || end_ns > step->gpu_end_ns) {
        step->gpu_end_ns = end_ns;
    }
}

/* Work of no step that is done before the first step's own work starts was asked for before the
 * recording: the device is not free for the first step until then. */
static void note_before(struct draft *draft, int64_t start_ns, int64_t end_ns, int64_t launch_ns)
{
    if (draft->spans.count == 0 || owner(draft, start_ns, launch_ns)) {
        return;
    }
    int64_t first_ns = draft->steps[0].gpu_start_ns;
    if (first_ns != KS_UNKNOWN && end_ns <= first_ns && end_ns > draft->before_ns) {
        draft->before_ns = end_ns;
    }
}

/* ------------------------------------------------------------ true steps */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* True end of a step that starts at `start_ns`. */
static int64_t true_end(const struct ks_step *step, int64_t start_ns)
{
    int64_t end_ns = ks_sum_add(step->host_start_ns, step->host_ns);
    if (step->gpu_end_ns != KS_UNKNOWN) {
        end_ns = later(end_ns, step->gpu_end_ns);
    }
    return later(end_ns, start_ns);
}

/* When the first step begins: not before the device is done with earlier work, but then all steps
 * together would be shorter than the host took for them if that work was only a queue that the
 * host let run empty meanwhile: they are not. */
static int64_t first_start(const struct draft *draft)
{
    const struct ks_step *steps = draft->steps;
    int64_t host_start_ns = steps[0].host_start_ns;
    if (draft->before_ns == KS_UNKNOWN || draft->before_ns <= host_start_ns) {
        return host_start_ns;
    }
    int64_t end_ns = draft->before_ns;
    int64_t host_end_ns = host_start_ns;
    for (size_t i = 0; i < draft->spans.count; i++) {
        end_ns = true_end(&steps[i], later(end_ns, steps[i].host_start_ns));
        host_end_ns = later(host_end_ns, ks_sum_add(steps[i].host_start_ns, steps[i].host_ns));
    }
    int64_t latest_ns = ks_sum_sub(end_ns, ks_sum_sub(host_end_ns, host_start_ns));
    return later(host_start_ns, latest_ns < draft->before_ns ? latest_ns : draft->before_ns);
}

static void lay_end_to_end(struct draft *draft)
{
    int64_t free_ns = draft->spans.count > 0 ? first_start(draft) : 0;
    for (size_t i = 0; i < draft->spans.count; i++) {
        struct ks_step *step = &draft->steps[i];
        step->start_ns = later(free_ns, step->host_start_ns);
        free_ns = true_end(step, step->start_ns);
        step->dur_ns = ks_sum_sub(free_ns, step->start_ns);
    }
}

/* 0-based number of the first step of a source within its rank: cycles of a rank go on counting.
 * `counts`: steps by rank, of the sources before this one. */
static enum ks_status take_index(const struct ks_source *file, size_t step_count,
                                 struct ks_map *counts, uint32_t *index, struct ks_err *err)
{
    *index = 0;
    if (file->rank < 0) {
        return KS_OK;
    }
    uint64_t *count = ks_map_put(counts, (uint64_t)file->rank, 0, NULL);
    if (!count) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep steps: count=%zu", step_count);
    }
    *index = (uint32_t)*count;
    *count += step_count;
    return KS_OK;
}

static enum ks_status draw_steps(struct ks_analyzer *analyzer, struct draft *drafts,
                                 uint32_t source, struct ks_map *counts, struct ks_err *err)
{
    struct draft *draft = &drafts[source];
    draft->steps = ks_new(&analyzer->scratch, struct ks_step, draft->spans.count + 1);
    if (!draft->steps) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep steps: count=%zu",
                       draft->spans.count);
    }
    uint32_t index = 0;
    const struct ks_source *file = ks_trace_source(analyzer->trace, source);
    KS_TRY(take_index(file, draft->spans.count, counts, &index, err));
    for (size_t i = 0; i < draft->spans.count; i++) {
        const struct ks_step_span *span = &draft->spans.items[i];
        bool is_cut = file->has_cut_step && span->number == file->cut_step;
        draft->steps[i] = (struct ks_step){.number = span->number,
                                           .index = index + (uint32_t)i,
                                           .name = {span->name},
                                           .source = source,
                                           .thread = span->thread,
                                           .kind = span->kind,
                                           .found_by = draft->found_by,
                                           .is_complete = span->is_complete && !is_cut,
                                           .host_start_ns = span->start_ns,
                                           .host_ns = ks_sum_sub(span->end_ns, span->start_ns),
                                           .gpu_start_ns = KS_UNKNOWN,
                                           .gpu_end_ns = KS_UNKNOWN,
                                           .tokens = span->tokens,
                                           .samples = KS_UNKNOWN};
        /* The spans themselves are no work of the step. */
        analyzer->names.flags[span->name] |=
            draft->found_by == KS_STEPS_OPTIMIZER || span->name == 0 ? 0 : KS_NAME_STEP;
    }
    return KS_OK;
}

static bool is_kept(const struct ks_scope *scope, const struct ks_step *step)
{
    return !scope->step_range_given ||
           (step->number >= scope->step_first && step->number <= scope->step_last);
}

static enum ks_status publish(struct ks_analyzer *analyzer, const struct draft *drafts,
                              struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    uint32_t source_count = ks_trace_source_count(analyzer->trace);
    size_t total = 0;
    for (uint32_t i = 0; i < source_count; i++) {
        total += drafts[i].spans.count;
    }
    facts->steps = ks_new(&facts->arena, struct ks_step, total + 1);
    facts->step_ranges = ks_new(&facts->arena, struct ks_step_range, source_count + 1);
    facts->step_spans = ks_new(&facts->arena, struct ks_step_span_fact, total + 1);
    facts->step_span_ranges = ks_new(&facts->arena, struct ks_step_range, source_count + 1);
    if (!facts->steps || !facts->step_ranges || !facts->step_spans || !facts->step_span_ranges) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep steps: count=%zu", total);
    }
    size_t span_count = 0;
    for (uint32_t source = 0; source < source_count; source++) {
        const struct draft *draft = &drafts[source];
        facts->step_ranges[source].begin = facts->step_count;
        facts->step_span_ranges[source] =
            (struct ks_step_range){span_count, span_count + draft->spans.count};
        for (size_t i = 0; i < draft->spans.count; i++) {
            const struct ks_step *step = &draft->steps[i];
            facts->step_spans[span_count++] = (struct ks_step_span_fact){
                step->host_start_ns, ks_sum_add(step->host_start_ns, step->host_ns)};
            if (!is_kept(&facts->scope, step)) {
                continue;
            }
            facts->steps[facts->step_count++] = *step;
            if (step->is_complete) {
                facts->step_ns_total = ks_sum_add(facts->step_ns_total, step->dur_ns);
                facts->complete_step_count++;
            }
        }
        facts->step_ranges[source].end = facts->step_count;
        if (draft->spans.count > 0 &&
            (facts->step_source == KS_STEPS_NONE || draft->found_by < facts->step_source)) {
            facts->step_source = draft->found_by;
        }
    }
    facts->step_span_count = span_count;
    return KS_OK;
}

static enum ks_status choose_steps(struct ks_analyzer *analyzer, struct draft *drafts,
                                   struct ks_err *err)
{
    struct ks_map counts;
    ks_map_init(&counts);
    enum ks_status status = KS_OK;
    for (uint32_t i = 0; i < ks_trace_source_count(analyzer->trace) && status == KS_OK; i++) {
        struct draft *draft = &drafts[i];
        if (ks_trace_source(analyzer->trace, i)->is_recording) {
            continue; // it lies beside traces, or holds no work of torch
        }
        status = ks_step_spans_choose(analyzer, &draft->candidates, &draft->spans, &draft->found_by,
                                      &draft->by_gpu_time, err);
        if (status == KS_OK) {
            status = draw_steps(analyzer, drafts, i, &counts, err);
        }
    }
    ks_map_release(&counts);
    return status;
}

static enum ks_status find_steps(struct ks_analyzer *analyzer, struct draft *drafts,
                                 struct ks_err *err)
{
    uint32_t source_count = ks_trace_source_count(analyzer->trace);
    KS_TRY(collect_host(analyzer, drafts, err));
    KS_TRY(visit_gpu(analyzer, drafts, widen_by_gpu, err));
    KS_TRY(choose_steps(analyzer, drafts, err));
    KS_TRY(visit_gpu(analyzer, drafts, give_to_step, err));
    KS_TRY(visit_gpu(analyzer, drafts, note_before, err));
    for (uint32_t i = 0; i < source_count; i++) {
        lay_end_to_end(&drafts[i]);
    }
    return publish(analyzer, drafts, err);
}

enum ks_status ks_steps_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    uint32_t count = ks_trace_source_count(analyzer->trace);
    struct draft *drafts = ks_new(&analyzer->scratch, struct draft, count + 1);
    if (!drafts) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep steps: sources=%u", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        drafts[i].candidates.source = i;
        drafts[i].candidates.start_ns = INT64_MAX;
        drafts[i].candidates.end_ns = INT64_MIN;
        drafts[i].before_ns = KS_UNKNOWN;
    }
    enum ks_status status = find_steps(analyzer, drafts, err);
    for (uint32_t i = 0; i < count; i++) {
        ks_step_spans_release(&drafts[i].candidates.profiler);
        ks_step_spans_release(&drafts[i].candidates.mark);
        ks_step_spans_release(&drafts[i].candidates.engine);
        ks_step_spans_release(&drafts[i].candidates.optimizer);
        ks_step_spans_release(&drafts[i].spans);
    }
    return status;
}
