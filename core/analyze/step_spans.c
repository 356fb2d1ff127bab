#include "analyze/step_spans.h"

#include <stdlib.h>

#include "analyze/lane_sweep.h"
#include "analyze/sequence_period.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/map.h"
#include "measure/sum.h"

enum { REPEATS_MIN = 3, KERNELS_PER_PERIOD_MIN = 2 };

enum ks_status ks_step_spans_add(struct ks_step_spans *spans, const struct ks_step_span *span,
                                 struct ks_err *err)
{
    KS_TRY(ks_grow(&spans->items, spans->count, &spans->capacity, sizeof(*span), "steps", err));
    spans->items[spans->count++] = *span;
    return KS_OK;
}

void ks_step_spans_release(struct ks_step_spans *spans)
{
    ks_free(spans->items);
    *spans = (struct ks_step_spans){0};
}

static int compare_spans(const void *left, const void *right)
{
    const struct ks_step_span *a = left;
    const struct ks_step_span *b = right;
    if (a->start_ns != b->start_ns) {
        return a->start_ns < b->start_ns ? -1 : 1;
    }
    if (a->end_ns != b->end_ns) {
        return a->end_ns > b->end_ns ? -1 : 1;
    }
    if (a->thread != b->thread) {
        return a->thread < b->thread ? -1 : 1;
    }
    return a->number < b->number ? -1 : a->number > b->number;
}

void ks_step_spans_sort(struct ks_step_spans *spans)
{
    if (spans->count > 1) {
        qsort(spans->items, spans->count, sizeof(*spans->items), compare_spans);
    }
}

/* ------------------------------------------------------------ names of inference engines */

/* Digits that follow `key` in the text, or KS_UNKNOWN. */
static int64_t number_after(struct ks_str text, struct ks_str key)
{
    const char *found = text.len ? memmem(text.ptr, text.len, key.ptr, key.len) : NULL;
    if (!found) {
        return KS_UNKNOWN;
    }
    const char *end = text.ptr + text.len;
    int64_t value = KS_UNKNOWN;
    for (const char *p = found + key.len; p < end && *p >= '0' && *p <= '9'; p++) {
        int64_t before = value == KS_UNKNOWN ? 0 : value;
        value = ks_sum_add(ks_sum_scale(before, 10), *p - '0');
    }
    return value;
}

/* "execute_context_2(512)_generation_3(3)": 2 sequences with 512 prompt tokens, 3 with 3 new. */
static void describe_vllm(struct ks_str name, struct ks_step_span *span)
{
    int64_t prompts = number_after(name, KS_STR("execute_context_"));
    int64_t decodes = number_after(name, KS_STR("_generation_"));
    const char *open = memchr(name.ptr, '(', name.len);
    struct ks_str rest = {open ? open : name.ptr, open ? (size_t)(name.ptr + name.len - open) : 0};
    int64_t prompt_tokens = number_after(rest, KS_STR("("));
    const char *last = memrchr(name.ptr, '(', name.len);
    struct ks_str end = {last ? last : name.ptr, last ? (size_t)(name.ptr + name.len - last) : 0};
    int64_t new_tokens = number_after(end, KS_STR("("));
    bool has_prompts = prompts != KS_UNKNOWN && prompts > 0;
    bool has_decodes = decodes != KS_UNKNOWN && decodes > 0;
    span->kind = has_prompts ? (has_decodes ? KS_STEP_MIXED : KS_STEP_PREFILL)
                             : (has_decodes ? KS_STEP_DECODE : KS_STEP_OTHER);
    if (prompt_tokens != KS_UNKNOWN && new_tokens != KS_UNKNOWN && last != open) {
        span->tokens = ks_sum_add(prompt_tokens, new_tokens);
    }
}

static void describe_sglang(struct ks_str name, struct ks_step_span *span)
{
    if (ks_str_contains(name, KS_STR("MIXED"))) {
        span->kind = KS_STEP_MIXED;
    } else if (ks_str_starts(name, KS_STR("decode[")) || ks_str_contains(name, KS_STR("DECODE"))) {
        span->kind = KS_STEP_DECODE;
    } else if (ks_str_starts(name, KS_STR("prefill[")) || ks_str_contains(name, KS_STR("EXTEND"))) {
        span->kind = KS_STEP_PREFILL;
    } else {
        span->kind = KS_STEP_OTHER;
    }
    span->tokens = number_after(name, KS_STR("toks="));
    if (span->tokens == KS_UNKNOWN && span->kind == KS_STEP_DECODE) {
        span->tokens = number_after(name, KS_STR("bs=")); /* a token for each sequence */
    }
}

void ks_step_spans_describe_engine(struct ks_str name, struct ks_step_span *span)
{
    span->tokens = KS_UNKNOWN;
    if (ks_str_starts(name, KS_STR("execute_context_"))) {
        describe_vllm(name, span);
    } else {
        describe_sglang(name, span);
    }
}

/* ------------------------------------------------------------ each way to find steps */

static enum ks_status copy_spans(const struct ks_step_spans *from, bool numbers_given,
                                 struct ks_step_spans *out, struct ks_err *err)
{
    for (size_t i = 0; i < from->count; i++) {
        struct ks_step_span span = from->items[i];
        if (!numbers_given) {
            span.number = (int64_t)i;
        }
        KS_TRY(ks_step_spans_add(out, &span, err));
    }
    return KS_OK;
}

/* Engine spans can be nested (a step around its prefill): the outer ones count. */
static enum ks_status keep_outer(struct ks_step_spans *spans, struct ks_step_spans *out,
                                 struct ks_err *err)
{
    ks_step_spans_sort(spans);
    int64_t end_ns = INT64_MIN;
    for (size_t i = 0; i < spans->count; i++) {
        struct ks_step_span span = spans->items[i];
        if (span.start_ns >= end_ns) {
            span.number = (int64_t)out->count;
            KS_TRY(ks_step_spans_add(out, &span, err));
            end_ns = span.end_ns;
        }
    }
    return KS_OK;
}

static enum ks_status find_gpu_engine(struct ks_analyzer *analyzer, uint32_t source,
                                      struct ks_step_spans *out, struct ks_err *err)
{
    size_t lane_count = 0;
    const struct ks_lane *lanes =
        ks_lane_sweep_lanes(analyzer->trace, KS_TABLE_gpu, source, &lane_count);
    if (lane_count == 0) {
        return KS_OK;
    }
    struct ks_step_spans found = {0};
    struct ks_gpu_scan scan;
    enum ks_status status;
    ks_gpu_scan_open(&scan, analyzer->trace,
                     KS_COLUMN_BIT(KS_GPU_COL_start_ns) | KS_COLUMN_BIT(KS_GPU_COL_dur_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_name) | KS_COLUMN_BIT(KS_GPU_COL_category),
                     lanes[0].row_begin, lanes[lane_count - 1].row_end);
    while ((status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            uint32_t name = scan.col.name[i];
            if (scan.col.category[i] != KS_CATEGORY_GPU_ANNOTATION ||
                !(ks_row_names_get(&analyzer->names, name) & KS_NAME_ENGINE)) {
                continue;
            }
            struct ks_step_span span = {.start_ns = scan.col.start_ns[i],
                                        .end_ns =
                                            ks_sum_add(scan.col.start_ns[i], scan.col.dur_ns[i]),
                                        .name = name,
                                        .is_complete = true};
            ks_step_spans_describe_engine(ks_trace_str(analyzer->trace, (struct ks_strid){name}),
                                          &span);
            status = ks_step_spans_add(&found, &span, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_gpu_scan_close(&scan);
    if (status == KS_END) {
        status = keep_outer(&found, out, err);
    }
    ks_step_spans_release(&found);
    return status;
}

/* Of several optimizers the one that steps least often ends a training step; ties: the last. */
static enum ks_status slowest_optimizer(const struct ks_step_spans *spans, uint32_t *best,
                                        size_t *best_count, struct ks_err *err)
{
    struct ks_map counts;
    ks_map_init(&counts);
    uint64_t *slot = NULL;
    *best = 0;
    *best_count = 0;
    for (size_t i = 0; i < spans->count; i++) {
        slot = ks_map_put(&counts, spans->items[i].name, 0, NULL);
        if (!slot) {
            ks_map_release(&counts);
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot count optimizers");
        }
        ++*slot;
    }
    for (size_t i = 0; i < spans->count; i++) {
        size_t mine = (size_t)*ks_map_find(&counts, spans->items[i].name, 0);
        if (*best_count == 0 || mine <= *best_count) {
            *best = spans->items[i].name;
            *best_count = mine;
        }
    }
    ks_map_release(&counts);
    return KS_OK;
}

/* A step lasts from the end of one optimizer step to the end of the next. */
static enum ks_status cut_at_optimizer(const struct ks_step_candidates *candidates,
                                       struct ks_step_spans *out, struct ks_err *err)
{
    size_t count = 0;
    uint32_t name = 0;
    KS_TRY(slowest_optimizer(&candidates->optimizer, &name, &count, err));
    if (count < 2) {
        return KS_OK;
    }
    int64_t start_ns = candidates->start_ns;
    for (size_t i = 0; i < candidates->optimizer.count; i++) {
        const struct ks_step_span *step = &candidates->optimizer.items[i];
        if (step->name != name || step->end_ns <= start_ns) {
            continue; /* another optimizer, or one that steps inside the last */
        }
        struct ks_step_span span = {.start_ns = start_ns,
                                    .end_ns = step->end_ns,
                                    .number = (int64_t)out->count,
                                    .tokens = KS_UNKNOWN,
                                    .name = name,
                                    .thread = step->thread,
                                    .kind = KS_STEP_TRAIN,
                                    .is_complete = out->count > 0};
        KS_TRY(ks_step_spans_add(out, &span, err));
        start_ns = step->end_ns;
    }
    return KS_OK;
}

/* "train_step 12": a word for a step, and its number. All others have the same stem. */
static bool is_numbered(struct ks_str name, struct ks_str *stem)
{
    static const struct ks_str words[] = {{"step", 4}, {"iter", 4}, {"iteration", 9}, {"batch", 5}};
    size_t len = name.len;
    while (len > 0 && name.ptr[len - 1] >= '0' && name.ptr[len - 1] <= '9') {
        len--;
    }
    *stem = (struct ks_str){name.ptr, len};
    bool has_number = len < name.len;
    while (len > 0 && memchr(" _-#:=", name.ptr[len - 1], 6)) {
        len--;
    }
    for (size_t i = 0; has_number && i < KS_COUNT_OF(words); i++) {
        struct ks_str end = {name.ptr + len - words[i].len, words[i].len};
        if (len >= words[i].len && ks_str_equal_nocase(end, words[i])) {
            return true;
        }
    }
    return false;
}

/* The same number for annotations that can be the same step again and again: those of one name, or
 * of one stem (FNV-1a, above all ids of names). */
static uint64_t family_of(const struct ks_analyzer *analyzer, uint32_t name)
{
    struct ks_str stem;
    if (!is_numbered(ks_trace_str(analyzer->trace, (struct ks_strid){name}), &stem)) {
        return name;
    }
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < stem.len; i++) {
        hash = (hash ^ (unsigned char)stem.ptr[i]) * 0x100000001b3;
    }
    return hash | (uint64_t)1 << 63;
}

struct top_name {
    uint32_t lane;
    uint64_t family;
    int64_t count;
    int64_t dur_ns;
    int64_t lane_span_ns;
};

struct top_search {
    struct top_name *names;
    size_t count;
    size_t capacity;
    struct ks_map index; /* (lane, family) -> 1 + index */
};

static enum ks_status note_top(struct top_search *search, uint32_t lane, uint64_t family,
                               int64_t dur_ns, struct ks_err *err)
{
    bool added = false;
    uint64_t *slot = ks_map_put(&search->index, lane, family, &added);
    if (slot && added) {
        if (search->count == search->capacity) {
            size_t capacity = search->capacity ? 2 * search->capacity : 16;
            void *names = ks_realloc(search->names, capacity, sizeof(*search->names));
            slot = names ? slot : NULL;
            search->names = names ? names : search->names;
            search->capacity = names ? capacity : search->capacity;
        }
        if (slot) {
            search->names[search->count++] = (struct top_name){.lane = lane, .family = family};
            *slot = search->count;
        }
    }
    if (!slot) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot count annotations: count=%zu",
                       search->count);
    }
    struct top_name *top = &search->names[*slot - 1];
    top->count++;
    top->dur_ns = ks_sum_add(top->dur_ns, dur_ns);
    return KS_OK;
}

/* Calls `note` or adds spans of `wanted` (when given) for the top-level annotations of a lane. */
static enum ks_status walk_top(struct ks_analyzer *analyzer, const struct ks_lane *lane,
                               const struct top_name *wanted, struct top_search *search,
                               struct ks_step_spans *out, struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status;
    size_t first = search ? search->count : 0;
    int64_t lane_start_ns = INT64_MAX;
    int64_t lane_end_ns = INT64_MIN;
    int64_t end_ns = INT64_MIN;
    ks_slice_scan_open(&scan, analyzer->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_name) | KS_COLUMN_BIT(KS_SLICE_COL_category),
                       lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            int64_t start_ns = scan.col.start_ns[i];
            int64_t row_end_ns = ks_sum_add(start_ns, scan.col.dur_ns[i]);
            uint32_t name = scan.col.name[i];
            lane_start_ns = start_ns < lane_start_ns ? start_ns : lane_start_ns;
            lane_end_ns = row_end_ns > lane_end_ns ? row_end_ns : lane_end_ns;
            if (scan.col.category[i] != KS_CATEGORY_USER_ANNOTATION || start_ns < end_ns ||
                (ks_row_names_get(&analyzer->names, name) & (KS_NAME_LOADER | KS_NAME_OPTIMIZER))) {
                continue;
            }
            end_ns = row_end_ns;
            uint64_t family = family_of(analyzer, name);
            if (search) {
                status = note_top(search, lane->track, family, scan.col.dur_ns[i], err);
            } else if (family == wanted->family) {
                struct ks_step_span span = {.start_ns = start_ns,
                                            .end_ns = row_end_ns,
                                            .number = (int64_t)out->count,
                                            .tokens = KS_UNKNOWN,
                                            .name = name,
                                            .thread = lane->track,
                                            .kind = KS_STEP_OTHER,
                                            .is_complete = true};
                status = ks_step_spans_add(out, &span, err);
            }
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    for (size_t i = first; search && i < search->count; i++) {
        search->names[i].lane_span_ns = ks_sum_sub(lane_end_ns, lane_start_ns);
    }
    return status == KS_END ? KS_OK : status;
}

static const struct top_name *best_top(const struct top_search *search)
{
    const struct top_name *best = NULL;
    for (size_t i = 0; i < search->count; i++) {
        const struct top_name *top = &search->names[i];
        if (top->count >= REPEATS_MIN && top->dur_ns >= top->lane_span_ns / 2 &&
            (!best || top->dur_ns > best->dur_ns)) {
            best = top;
        }
    }
    return best;
}

static enum ks_status find_top_spans(struct ks_analyzer *analyzer, uint32_t source,
                                     struct ks_step_spans *out, struct ks_err *err)
{
    struct top_search search = {0};
    ks_map_init(&search.index);
    size_t lane_count = 0;
    const struct ks_lane *lanes =
        ks_lane_sweep_lanes(analyzer->trace, KS_TABLE_slice, source, &lane_count);
    enum ks_status status = KS_OK;
    for (size_t i = 0; i < lane_count && status == KS_OK; i++) {
        if (ks_trace_track(analyzer->trace, lanes[i].track)->kind == KS_TRACK_THREAD) {
            status = walk_top(analyzer, &lanes[i], NULL, &search, out, err);
        }
    }
    const struct top_name *best = best_top(&search);
    if (status == KS_OK && best) {
        const struct ks_lane *lane =
            ks_trace_lane_find(analyzer->trace, KS_TABLE_slice, best->lane);
        status = walk_top(analyzer, lane, best, NULL, out, err);
    }
    ks_map_release(&search.index);
    ks_free(search.names);
    return status;
}

/* A launch or a piece of GPU work in a sequence: what it is, and when the host asked for it. */
struct sequence {
    uint32_t *symbols;
    int64_t *times_ns;
    size_t count;
    size_t capacity;
};

static enum ks_status add_symbol(struct sequence *sequence, uint32_t symbol, int64_t time_ns,
                                 struct ks_err *err)
{
    if (sequence->count == sequence->capacity) {
        size_t capacity = sequence->capacity ? 2 * sequence->capacity : 256;
        uint32_t *symbols = ks_realloc(sequence->symbols, capacity, sizeof(*symbols));
        sequence->symbols = symbols ? symbols : sequence->symbols;
        int64_t *times_ns = ks_realloc(sequence->times_ns, capacity, sizeof(*times_ns));
        sequence->times_ns = times_ns ? times_ns : sequence->times_ns;
        if (!symbols || !times_ns) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep launches: count=%zu",
                           sequence->count);
        }
        sequence->capacity = capacity;
    }
    sequence->symbols[sequence->count] = symbol;
    sequence->times_ns[sequence->count++] = time_ns;
    return KS_OK;
}

/* Where in the loop a step begins: behind the longest pause between two launches. */
static size_t find_phase(const struct sequence *sequence, const struct ks_sequence_period *loop)
{
    size_t best = 0;
    int64_t pause_ns_max = INT64_MIN;
    for (size_t i = 0; i < loop->period; i++) {
        size_t at = loop->begin + loop->period + i;
        int64_t pause_ns = ks_sum_sub(sequence->times_ns[at], sequence->times_ns[at - 1]);
        if (pause_ns > pause_ns_max) {
            pause_ns_max = pause_ns;
            best = i;
        }
    }
    return best;
}

static enum ks_status cut_sequence(const struct sequence *sequence, size_t period_min,
                                   struct ks_step_spans *out, struct ks_err *err)
{
    uint32_t *links = ks_alloc(sequence->count + 1, sizeof(*links));
    if (!links) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot search a period: count=%zu",
                       sequence->count);
    }
    struct ks_sequence_period loop;
    bool found =
        ks_sequence_period_find(sequence->symbols, sequence->count, period_min, links, &loop);
    ks_free(links);
    if (!found) {
        return KS_OK;
    }
    size_t at = loop.begin + find_phase(sequence, &loop);
    for (; at + loop.period <= loop.end; at += loop.period) {
        size_t next = at + loop.period;
        int64_t last_ns = sequence->times_ns[next - 1];
        struct ks_step_span span = {.start_ns = sequence->times_ns[at],
                                    .end_ns = next < sequence->count ? sequence->times_ns[next]
                                                                     : ks_sum_add(last_ns, 1),
                                    .number = (int64_t)out->count,
                                    .tokens = KS_UNKNOWN,
                                    .kind = KS_STEP_OTHER,
                                    .is_complete = true};
        if (span.end_ns > span.start_ns) {
            KS_TRY(ks_step_spans_add(out, &span, err));
        }
    }
    return KS_OK;
}

static enum ks_status collect_graphs(struct ks_analyzer *analyzer, uint32_t source,
                                     struct sequence *sequence, struct ks_err *err)
{
    size_t lane_count = 0;
    const struct ks_lane *lanes =
        ks_lane_sweep_lanes(analyzer->trace, KS_TABLE_link, source, &lane_count);
    if (lane_count == 0) {
        return KS_OK;
    }
    struct ks_link_scan scan;
    enum ks_status status;
    ks_link_scan_open(&scan, analyzer->trace,
                      KS_COLUMN_BIT(KS_LINK_COL_start_ns) | KS_COLUMN_BIT(KS_LINK_COL_gpu_count) |
                          KS_COLUMN_BIT(KS_LINK_COL_kind),
                      lanes[0].row_begin, lanes[lane_count - 1].row_end);
    while ((status = ks_link_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            if (scan.col.kind[i] == KS_LINK_GRAPH) {
                status = add_symbol(sequence, scan.col.gpu_count[i], scan.col.start_ns[i], err);
            }
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_link_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status collect_kernels(struct ks_analyzer *analyzer, uint32_t source,
                                      struct sequence *sequence, struct ks_err *err)
{
    size_t lane_count = 0;
    const struct ks_lane *lanes =
        ks_lane_sweep_lanes(analyzer->trace, KS_TABLE_gpu, source, &lane_count);
    if (lane_count == 0) {
        return KS_OK;
    }
    struct ks_gpu_scan scan;
    enum ks_status status;
    ks_gpu_scan_open(&scan, analyzer->trace,
                     KS_COLUMN_BIT(KS_GPU_COL_start_ns) | KS_COLUMN_BIT(KS_GPU_COL_launch_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_name) | KS_COLUMN_BIT(KS_GPU_COL_category),
                     lanes[0].row_begin, lanes[0].row_end);
    while ((status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            if (ks_category_is_work(scan.col.category[i])) {
                int64_t launch_ns = scan.col.launch_ns[i];
                int64_t time_ns = launch_ns == KS_TIME_NONE ? scan.col.start_ns[i] : launch_ns;
                status = add_symbol(sequence, scan.col.name[i], time_ns, err);
            }
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_gpu_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status find_loop(struct ks_analyzer *analyzer, uint32_t source, bool is_graph,
                                struct ks_step_spans *out, struct ks_err *err)
{
    struct sequence sequence = {0};
    enum ks_status status = is_graph ? collect_graphs(analyzer, source, &sequence, err)
                                     : collect_kernels(analyzer, source, &sequence, err);
    if (status == KS_OK) {
        status = cut_sequence(&sequence, is_graph ? 1 : KERNELS_PER_PERIOD_MIN, out, err);
    }
    ks_free(sequence.symbols);
    ks_free(sequence.times_ns);
    return status;
}

static enum ks_status take_window(const struct ks_step_candidates *candidates,
                                  struct ks_step_spans *out, struct ks_err *err)
{
    if (candidates->start_ns > candidates->end_ns) {
        return KS_OK;
    }
    struct ks_step_span span = {.start_ns = candidates->start_ns,
                                .end_ns = candidates->end_ns,
                                .tokens = KS_UNKNOWN,
                                .kind = KS_STEP_OTHER,
                                .is_complete = true};
    return ks_step_spans_add(out, &span, err);
}

static enum ks_status try_source(struct ks_analyzer *analyzer,
                                 struct ks_step_candidates *candidates, enum ks_step_source way,
                                 struct ks_step_spans *out, bool *by_gpu_time, struct ks_err *err)
{
    switch (way) {
    case KS_STEPS_PROFILER: return copy_spans(&candidates->profiler, true, out, err);
    case KS_STEPS_MARK: return copy_spans(&candidates->mark, false, out, err);
    case KS_STEPS_ENGINE:
        if (candidates->engine.count > 0) {
            return keep_outer(&candidates->engine, out, err);
        }
        *by_gpu_time = true;
        return find_gpu_engine(analyzer, candidates->source, out, err);
    case KS_STEPS_OPTIMIZER: return cut_at_optimizer(candidates, out, err);
    case KS_STEPS_TOP_SPAN: return find_top_spans(analyzer, candidates->source, out, err);
    case KS_STEPS_GRAPH: return find_loop(analyzer, candidates->source, true, out, err);
    case KS_STEPS_PERIOD: return find_loop(analyzer, candidates->source, false, out, err);
    case KS_STEPS_WINDOW: *by_gpu_time = true; return take_window(candidates, out, err);
    case KS_STEPS_NONE: break;
    }
    return KS_OK;
}

enum ks_status ks_step_spans_choose(struct ks_analyzer *analyzer,
                                    struct ks_step_candidates *candidates,
                                    struct ks_step_spans *out, enum ks_step_source *found_by,
                                    bool *by_gpu_time, struct ks_err *err)
{
    *found_by = KS_STEPS_NONE;
    for (int way = KS_STEPS_PROFILER; way <= KS_STEPS_WINDOW; way++) {
        *by_gpu_time = false;
        KS_TRY(try_source(analyzer, candidates, (enum ks_step_source)way, out, by_gpu_time, err));
        if (out->count > 0) {
            *found_by = (enum ks_step_source)way;
            ks_step_spans_sort(out);
            return KS_OK;
        }
    }
    return KS_OK;
}
