/* Compiling inside of steps: how long, which functions how often, and for which shapes
 * (docs/analyses/compiles.md). One pass over the host rows.
 *
 * The compiler of torch leaves marks: rows that span a phase ("dynamo_timed"), and, in newer
 * releases, rows that name the compile id ("0/6": function 0, compiled for the seventh time). From
 * the first to the last mark of an id a thread compiles. What is around a mark and can only run
 * compiled code (CompiledFunction) tunes its kernels. */
#include <stdlib.h>

#include "analyze/lane_sweep.h"
#include "analyze/registry.h"
#include "analyze/shapes.h"
#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

enum {
    OPEN_MAX = 16,                /* ids that a thread compiles in one step at the same time */
    IDS_MAX = 256,                /* that are told apart; more only count as marks */
    JOINED_NS_MAX = 50 * 1000000, /* what lies between two marks of one compilation at most */
    LOOKUP_NS_MIN = 20 * 1000000, /* compiled code that is there is found in some 50 us */
};

enum mark {
    MARK_UNKNOWN,
    MARK_NONE,
    MARK_PHASE,
    MARK_ENTRY,  /* the phase around all others of a function */
    MARK_LOOKUP, /* compiled code is looked for */
    MARK_REGION,
    MARK_FUNCTION,
};

struct span {
    int64_t start_ns;
    int64_t end_ns;
    size_t step; /* index into all steps */
    bool is_sure;
};

struct id {
    int64_t function;
    int64_t attempt;
};

struct compiling { /* an id that a thread is at */
    struct span span;
    struct id id;
};

struct walk {
    struct ks_analyzer *analyzer;
    struct ks_step_range range;
    uint8_t *marks; /* by string id */
    struct span *spans;
    size_t span_count;
    size_t span_capacity;
    uint64_t *rows_of; /* by step */
    uint32_t *dims_of; /* by step: shapes of the first compiled function */
    struct ks_compile_fact *fact;
    uint64_t entries;
    struct id ids[IDS_MAX]; /* of the source */
    size_t id_count;
    uint64_t ids_seen; /* of all sources */

    /* The thread that is read. */
    struct compiling open[OPEN_MAX];
    size_t open_count;
    struct span region; /* outermost row that runs compiled code */
    bool is_region_kept;
    int64_t lookup_end_ns; /* nothing but operators since; INT64_MIN: no lookup */
};

/* ------------------------------------------------------------ marks */

static struct ks_str text_of(const struct walk *walk, uint32_t name)
{
    return ks_trace_str(walk->analyzer->trace, (struct ks_strid){name});
}

static enum mark classify(struct ks_str name)
{
    if (ks_str_contains(name, KS_STR("dynamo_timed"))) {
        bool is_entry = ks_str_contains(name, KS_STR("compile_inner")) ||
                        ks_str_contains(name, KS_STR("entire_frame_compile"));
        return is_entry ? MARK_ENTRY : MARK_PHASE;
    }
    if (ks_str_contains(name, KS_STR("compile_id="))) {
        return MARK_PHASE;
    }
    if (ks_str_equal(name, KS_STR("TorchDynamo Cache Lookup"))) {
        return MARK_LOOKUP;
    }
    if (ks_str_equal(name, KS_STR("CompiledFunction"))) {
        return MARK_FUNCTION;
    }
    return ks_str_starts(name, KS_STR("Torch-Compiled Region")) ||
                   ks_str_starts(name, KS_STR("## Call CompiledFxGraph")) ||
                   ks_str_starts(name, KS_STR("CompiledFunction"))
               ? MARK_REGION
               : MARK_NONE;
}

static enum mark mark_of(struct walk *walk, uint32_t name)
{
    if (walk->marks[name] == MARK_UNKNOWN) {
        walk->marks[name] = (uint8_t)classify(text_of(walk, name));
    }
    return (enum mark)walk->marks[name];
}

/* "0/6" from `at` on; -1, -1 without. */
static struct id read_number_pair(struct ks_str name, size_t at)
{
    struct id id;
    if (!ks_shape_read_number(name, &at, &id.function) || at >= name.len || name.ptr[at++] != '/' ||
        !ks_shape_read_number(name, &at, &id.attempt)) {
        return (struct id){-1, -1};
    }
    return id;
}

static struct id read_id(struct ks_str name)
{
    struct ks_str key = KS_STR("compile_id=");
    const char *found = memmem(name.ptr, name.len, key.ptr, key.len);
    return read_number_pair(name, found ? (size_t)(found - name.ptr) + key.len : name.len);
}

static bool is_same(const struct id *a, const struct id *b)
{
    return a->function == b->function && a->attempt == b->attempt;
}

static void note_id(struct walk *walk, struct id id)
{
    for (size_t i = 0; i < walk->id_count; i++) {
        if (is_same(&walk->ids[i], &id)) {
            return;
        }
    }
    if (walk->id_count < IDS_MAX) {
        walk->ids[walk->id_count++] = id;
        walk->ids_seen++;
    }
    if (id.attempt > walk->fact->attempts_max) {
        walk->fact->attempts_max = id.attempt;
    }
}

/* ------------------------------------------------------------ spans */

static enum ks_status add_span(struct walk *walk, const struct span *span, struct ks_err *err)
{
    KS_TRY(ks_grow(&walk->spans, walk->span_count, &walk->span_capacity, sizeof(*walk->spans),
                   "compilations", err));
    walk->spans[walk->span_count++] = *span;
    return KS_OK;
}

static enum ks_status close_all(struct walk *walk, struct ks_err *err)
{
    for (size_t i = 0; i < walk->open_count; i++) {
        KS_TRY(add_span(walk, &walk->open[i].span, err));
    }
    walk->open_count = 0;
    return KS_OK;
}

static enum ks_status note_mark(struct walk *walk, const struct span *mark, uint32_t name,
                                struct ks_err *err)
{
    struct id id = read_id(text_of(walk, name));
    if (mark->start_ns < walk->region.end_ns && !walk->is_region_kept) {
        walk->is_region_kept = true;
        KS_TRY(add_span(walk, &walk->region, err));
    }
    if (walk->open_count > 0 && walk->open[0].span.step != mark->step) {
        KS_TRY(close_all(walk, err));
    }
    if (id.attempt < 0) {
        return add_span(walk, mark, err);
    }
    note_id(walk, id);
    for (size_t i = 0; i < walk->open_count; i++) {
        struct compiling *open = &walk->open[i];
        if (is_same(&open->id, &id)) {
            open->span.end_ns = mark->end_ns > open->span.end_ns ? mark->end_ns : open->span.end_ns;
            return KS_OK;
        }
    }
    if (walk->open_count == OPEN_MAX) {
        return add_span(walk, mark, err);
    }
    walk->open[walk->open_count++] = (struct compiling){*mark, id};
    return KS_OK;
}

/* Where the compiler leaves no marks: the time from looking for compiled code to running some. */
static enum ks_status note_region(struct walk *walk, const struct span *region, uint32_t name,
                                  struct ks_err *err)
{
    struct ks_str key = KS_STR("Torch-Compiled Region: ");
    struct ks_str text = text_of(walk, name);
    struct span span = {walk->lookup_end_ns, region->start_ns, region->step, true};
    bool is_long = walk->lookup_end_ns != INT64_MIN &&
                   ks_sum_sub(region->start_ns, walk->lookup_end_ns) >= LOOKUP_NS_MIN;
    walk->lookup_end_ns = INT64_MIN;
    if (!is_long || !ks_str_starts(text, key)) {
        return KS_OK;
    }
    struct id id = read_number_pair(text, key.len);
    if (id.attempt >= 0) {
        note_id(walk, id);
    }
    return add_span(walk, &span, err);
}

static enum ks_status note_row(struct walk *walk, const struct ks_slice_scan *scan, size_t i,
                               struct ks_err *err)
{
    uint8_t category = scan->col.category[i];
    if (category != KS_CATEGORY_USER_ANNOTATION && category != KS_CATEGORY_CPU_OP) {
        return KS_OK;
    }
    int64_t start_ns = scan->col.start_ns[i];
    const struct ks_facts *facts = walk->analyzer->facts;
    size_t count = walk->range.end - walk->range.begin;
    size_t step = ks_step_lookup(facts->steps + walk->range.begin, count, start_ns);
    if (step == count || !facts->steps[walk->range.begin + step].is_complete) {
        return KS_OK;
    }
    step += walk->range.begin;
    walk->rows_of[step]++;
    enum mark mark = mark_of(walk, scan->col.name[i]);
    struct span span = {start_ns, ks_sum_add(start_ns, scan->col.dur_ns[i]), step, false};
    if (mark == MARK_FUNCTION && walk->dims_of[step] == 0) {
        walk->dims_of[step] = scan->col.dims[i];
    }
    if (mark == MARK_LOOKUP) {
        walk->lookup_end_ns = span.end_ns;
    }
    if (mark == MARK_REGION) {
        KS_TRY(note_region(walk, &span, scan->col.name[i], err));
    }
    if ((mark == MARK_FUNCTION || mark == MARK_REGION) && start_ns >= walk->region.end_ns) {
        walk->region = span;
        walk->is_region_kept = scan->col.dur_ns[i] >= LOOKUP_NS_MIN;
        if (walk->is_region_kept) {
            KS_TRY(add_span(walk, &span, err));
        }
    }
    span.is_sure = true;
    walk->entries += mark == MARK_ENTRY;
    return mark == MARK_PHASE || mark == MARK_ENTRY ? note_mark(walk, &span, scan->col.name[i], err)
                                                    : KS_OK;
}

static enum ks_status scan_lane(struct walk *walk, const struct ks_lane *lane, struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status;
    walk->region = (struct span){.end_ns = INT64_MIN};
    walk->is_region_kept = true;
    walk->lookup_end_ns = INT64_MIN;
    ks_slice_scan_open(&scan, walk->analyzer->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_name) | KS_COLUMN_BIT(KS_SLICE_COL_dims) |
                           KS_COLUMN_BIT(KS_SLICE_COL_category),
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
    KS_TRY(status == KS_END ? KS_OK : status);
    return close_all(walk, err);
}

/* ------------------------------------------------------------ results */

static int compare_spans(const void *left, const void *right)
{
    const struct span *a = left;
    const struct span *b = right;
    if (a->step != b->step) {
        return a->step < b->step ? -1 : 1;
    }
    if (a->start_ns != b->start_ns) {
        return a->start_ns < b->start_ns ? -1 : 1;
    }
    return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

/* Length of the spans of a step together, inside of the step; pauses of up to `joined_ns` count. */
static int64_t length_of(const struct walk *walk, size_t begin, size_t end, bool only_sure,
                         int64_t joined_ns)
{
    const struct ks_step *step = &walk->analyzer->facts->steps[walk->spans[begin].step];
    int64_t step_end_ns = ks_sum_add(step->start_ns, step->dur_ns);
    int64_t until_ns = INT64_MIN;
    int64_t sum_ns = 0;
    for (size_t i = begin; i < end; i++) {
        const struct span *span = &walk->spans[i];
        if (only_sure && !span->is_sure) {
            continue;
        }
        int64_t end_ns = span->end_ns < step_end_ns ? span->end_ns : step_end_ns;
        int64_t start_ns = span->start_ns > step->start_ns ? span->start_ns : step->start_ns;
        bool is_joined = until_ns != INT64_MIN && ks_sum_sub(start_ns, until_ns) <= joined_ns;
        int64_t from_ns = is_joined || start_ns < until_ns ? until_ns : start_ns;
        if (end_ns > from_ns) {
            sum_ns = ks_sum_add(sum_ns, ks_sum_sub(end_ns, from_ns));
            until_ns = end_ns;
        }
    }
    return sum_ns;
}

static void add_steps(struct walk *walk)
{
    const struct ks_facts *facts = walk->analyzer->facts;
    struct ks_compile_fact *fact = walk->fact;
    int64_t steps = (int64_t)facts->complete_step_count;
    for (size_t begin = 0, end; begin < walk->span_count; begin = end) {
        size_t step = walk->spans[begin].step;
        for (end = begin; end < walk->span_count && walk->spans[end].step == step; end++) {
        }
        int64_t sure_ns = length_of(walk, begin, end, true, 0);
        if (sure_ns == 0) {
            continue; /* a long call, and nothing says that it compiled */
        }
        int64_t row_ns = facts->sources[facts->steps[step].source].row_cost_ns;
        fact->sure_ns = ks_sum_add(fact->sure_ns, sure_ns);
        fact->most_ns =
            ks_sum_add(fact->most_ns, length_of(walk, begin, end, false, JOINED_NS_MAX));
        fact->recording_ns =
            ks_sum_add(fact->recording_ns, ks_sum_scale((int64_t)walk->rows_of[step], row_ns));
        fact->steps_with++;
        if (fact->step_count < KS_SITE_STEPS_MAX) {
            fact->steps[fact->step_count++] = facts->steps[step].number;
        }
    }
    fact->sure_ns /= steps;
    fact->most_ns /= steps;
    fact->recording_ns /= steps;
    uint64_t compiles = walk->entries > walk->ids_seen ? walk->entries : walk->ids_seen;
    fact->compiles = (double)compiles / (double)steps;
}

/* Two steps whose first compiled function has inputs of different shapes. */
static void find_shapes(struct walk *walk)
{
    const struct ks_facts *facts = walk->analyzer->facts;
    for (size_t i = 0; i < facts->step_count; i++) {
        uint32_t dims = walk->dims_of[i];
        if (dims != 0 && walk->fact->dims[0].v == 0) {
            walk->fact->dims[0] = (struct ks_strid){dims};
        } else if (dims != 0 && walk->fact->dims[0].v != dims && walk->fact->dims[1].v == 0) {
            walk->fact->dims[1] = (struct ks_strid){dims};
        }
    }
}

static enum ks_status scan_all(struct walk *walk, struct ks_err *err)
{
    for (uint32_t source = 0; source < ks_trace_source_count(walk->analyzer->trace); source++) {
        size_t count = 0;
        const struct ks_lane *lanes =
            ks_lane_sweep_lanes(walk->analyzer->trace, KS_TABLE_slice, source, &count);
        walk->range = walk->analyzer->facts->step_ranges[source];
        walk->id_count = 0;
        for (size_t i = 0; i < count; i++) {
            KS_TRY(scan_lane(walk, &lanes[i], err));
        }
    }
    return KS_OK;
}

enum ks_status ks_compiles_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    struct ks_arena *scratch = &analyzer->scratch;
    size_t name_count = (size_t)ks_trace_str_count(analyzer->trace) + 1;
    struct walk walk = {.analyzer = analyzer, .fact = &facts->compiles};
    *walk.fact = (struct ks_compile_fact){.attempts_max = -1};
    if (facts->complete_step_count == 0) {
        return KS_OK;
    }
    walk.marks = ks_new(scratch, uint8_t, name_count);
    walk.rows_of = ks_new(scratch, uint64_t, facts->step_count + 1);
    walk.dims_of = ks_new(scratch, uint32_t, facts->step_count + 1);
    enum ks_status status = walk.marks && walk.rows_of && walk.dims_of
                                ? scan_all(&walk, err)
                                : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET,
                                          "Cannot look for compiling: names=%zu", name_count);
    if (status == KS_OK && walk.span_count > 0) {
        qsort(walk.spans, walk.span_count, sizeof(*walk.spans), compare_spans);
        add_steps(&walk);
        find_shapes(&walk);
    }
    ks_free(walk.spans);
    return status;
}
