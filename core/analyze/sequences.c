/* A11: kernels that follow each other again and again on a stream (docs/analyses/sequences.md).
 *
 * Sequences of length n are found among those of n - 1: two that overlap in all but their ends make
 * one. Only what occurs twice goes on, so each length is one pass over the kernels, and memory is a
 * few numbers a kernel. */
#include <stdlib.h>

#include "analyze/registry.h"
#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/map.h"
#include "base/text.h"
#include "measure/sum.h"

enum { NAME_MAX_SHOWN = 96, OCCURRENCES_MIN = 2 };

/* A kernel, or a break between kernels that do not follow each other: name 0. */
struct item {
    int64_t start_ns;
    int64_t end_ns;
    uint32_t name;
    uint32_t sequence; /* 1 + group of the current length that begins here, 0: none that repeats */
};

/* A sequence of the current length. */
struct group {
    size_t first;      /* item where it occurs first */
    size_t until;      /* behind the last occurrence that was counted */
    uint32_t parts[2]; /* of the length before: without its last and without its first kernel */
    int64_t count;
    int64_t total_ns;
    int64_t gap_ns;
    bool is_covered; /* a longer one occurs as often */
};

struct groups {
    struct group *list;
    size_t count;
    size_t capacity;
};

struct search {
    struct ks_analyzer *analyzer;
    struct item *items;
    size_t item_count;
    struct groups shorter, current;
    size_t length;
    struct ks_sequence_fact *found;
    size_t found_count;
    size_t found_capacity;
    size_t window_until; /* of the longest: items up to here are in one that was kept */
    int64_t window_count;
};

/* ------------------------------------------------------------------ kernels by stream */

/* Where the rows of a stream are; first how many there are. */
struct layout {
    size_t *begin_of; /* by track of the stream */
    uint32_t track_count;
};

static bool is_kernel(const struct search *search, const struct ks_gpu_scan *scan, size_t i)
{
    return scan->col.category[i] == KS_CATEGORY_KERNEL &&
           !(scan->col.flags[i] & KS_GPU_COMMUNICATION) &&
           ks_step_lookup_keeps_gpu(search->analyzer->facts, scan->col.lane[i],
                                    scan->col.launch_ns[i]);
}

static void place_row(struct search *search, struct layout *layout, const struct ks_gpu_scan *scan,
                      size_t i)
{
    size_t *at = &layout->begin_of[scan->col.stream[i]];
    if (search->items) {
        int64_t start_ns = scan->col.start_ns[i];
        search->items[*at] =
            (struct item){.start_ns = start_ns,
                          .end_ns = ks_sum_add(start_ns, scan->col.dur_ns[i]),
                          .name = is_kernel(search, scan, i) ? scan->col.name[i] : 0};
    }
    ++*at;
}

/* Without items it counts, with them it fills: work that is no kernel breaks a sequence. */
static enum ks_status scan_rows(struct search *search, struct layout *layout, struct ks_err *err)
{
    struct ks_gpu_scan scan;
    enum ks_status status;
    ks_gpu_scan_open(&scan, search->analyzer->trace,
                     KS_COLUMN_BIT(KS_GPU_COL_lane) | KS_COLUMN_BIT(KS_GPU_COL_start_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_dur_ns) | KS_COLUMN_BIT(KS_GPU_COL_launch_ns) |
                         KS_COLUMN_BIT(KS_GPU_COL_stream) | KS_COLUMN_BIT(KS_GPU_COL_name) |
                         KS_COLUMN_BIT(KS_GPU_COL_category) | KS_COLUMN_BIT(KS_GPU_COL_flags),
                     0, ks_trace_rows(search->analyzer->trace, KS_TABLE_gpu));
    while ((status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count; i++) {
            if (ks_category_is_work(scan.col.category[i])) {
                place_row(search, layout, &scan, i);
            }
        }
    }
    ks_gpu_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

/* Numbers of rows become places; a break stands behind the last row of each stream. */
static void lay_out(struct search *search, struct layout *layout)
{
    size_t at = 0;
    for (uint32_t track = 0; track < layout->track_count; track++) {
        size_t count = layout->begin_of[track];
        layout->begin_of[track] = at;
        at += count > 0 ? count + 1 : 0;
    }
    search->item_count = at;
}

static enum ks_status collect(struct search *search, struct ks_err *err)
{
    struct layout layout = {.track_count = ks_trace_track_count(search->analyzer->trace)};
    layout.begin_of = ks_new(&search->analyzer->scratch, size_t, (size_t)layout.track_count + 1);
    if (!layout.begin_of) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep streams: tracks=%u",
                       layout.track_count);
    }
    KS_TRY(scan_rows(search, &layout, err));
    lay_out(search, &layout);
    search->items = ks_alloc(search->item_count + 1, sizeof(*search->items));
    if (!search->items || search->item_count >= UINT32_MAX) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep kernels: count=%zu",
                       search->item_count);
    }
    return scan_rows(search, &layout, err);
}

/* ------------------------------------------------------------------ one length */

static void count_occurrence(struct search *search, struct group *group, size_t first)
{
    if (first < group->until) {
        return; // overlaps the one before
    }
    group->until = first + search->length;
    group->count++;
    int64_t end_ns = search->items[first].start_ns;
    for (size_t i = first; i < first + search->length; i++) {
        const struct item *item = &search->items[i];
        int64_t gap_ns = item->start_ns > end_ns ? ks_sum_sub(item->start_ns, end_ns) : 0;
        group->total_ns = ks_sum_add(group->total_ns, ks_sum_sub(item->end_ns, item->start_ns));
        group->gap_ns = ks_sum_add(group->gap_ns, gap_ns);
        end_ns = item->end_ns > end_ns ? item->end_ns : end_ns;
    }
}

/* The group of a key, a new one if there is none. 0: out of memory. */
static uint32_t find_group(struct search *search, struct ks_map *map, uint32_t left, uint32_t right,
                           size_t first, struct ks_err *err)
{
    struct groups *groups = &search->current;
    if (ks_grow(&groups->list, groups->count, &groups->capacity, sizeof(*groups->list),
                "sequences of kernels", err) != KS_OK) {
        return 0;
    }
    uint64_t *slot = ks_map_put(map, left, right, NULL);
    if (!slot) {
        (void)ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep sequences: count=%zu",
                      groups->count);
        return 0;
    }
    if (*slot == 0) {
        groups->list[groups->count] = (struct group){.first = first, .parts = {left, right}};
        *slot = ++groups->count;
    }
    return (uint32_t)*slot;
}

/* The key of what begins at an item: a name, or the two sequences that it is made of. */
static bool key_at(const struct search *search, size_t i, uint32_t *left, uint32_t *right)
{
    *left = search->length == 1 ? search->items[i].name : search->items[i].sequence;
    *right = 0;
    if (search->length > 1) {
        *right = i + 1 < search->item_count ? search->items[i + 1].sequence : 0;
        return *left != 0 && *right != 0;
    }
    return *left != 0;
}

static enum ks_status find_all(struct search *search, struct ks_map *map, struct ks_err *err)
{
    for (size_t i = 0; i < search->item_count; i++) {
        uint32_t left = 0;
        uint32_t right = 0;
        uint32_t group = 0;
        if (key_at(search, i, &left, &right)) {
            group = find_group(search, map, left, right, i, err);
            if (group == 0) {
                return KS_ERR_NOMEM;
            }
            count_occurrence(search, &search->current.list[group - 1], i);
        }
        search->items[i].sequence = group;
    }
    return KS_OK;
}

/* What occurs once goes on no more. */
static void forget_single(struct search *search)
{
    for (size_t i = 0; i < search->item_count; i++) {
        uint32_t group = search->items[i].sequence;
        if (group != 0 && search->current.list[group - 1].count < OCCURRENCES_MIN) {
            search->items[i].sequence = 0;
        }
    }
}

/* Where a longer one occurs as often, it says all that its parts would. */
static void cover_parts(struct search *search)
{
    for (size_t i = 0; i < search->current.count; i++) {
        const struct group *group = &search->current.list[i];
        for (size_t k = 0; k < KS_COUNT_OF(group->parts); k++) {
            struct group *part = &search->shorter.list[group->parts[k] - 1];
            part->is_covered = part->is_covered || group->count >= part->count;
        }
    }
}

/* ------------------------------------------------------------------ what is shown */

/* Of the windows of a sequence that is longer than the longest, those that follow each other. */
static bool is_inside_window(struct search *search, const struct group *group, size_t length)
{
    if (length < KS_SEQUENCE_MAX) {
        return false;
    }
    if (group->first < search->window_until && group->count == search->window_count) {
        return true;
    }
    search->window_until = group->first + length;
    search->window_count = group->count;
    return false;
}

static enum ks_status keep(struct search *search, const struct group *group, size_t length,
                           struct ks_err *err)
{
    KS_TRY(ks_grow(&search->found, search->found_count, &search->found_capacity,
                   sizeof(*search->found), "sequences of kernels", err));
    struct ks_sequence_fact *fact = &search->found[search->found_count++];
    *fact = (struct ks_sequence_fact){.length = (int64_t)length,
                                      .count = group->count,
                                      .total_ns = group->total_ns,
                                      .gap_ns = group->gap_ns};
    for (size_t i = 0; i < length; i++) {
        fact->kernels[i] = (struct ks_strid){search->items[group->first + i].name};
    }
    return KS_OK;
}

static enum ks_status keep_groups(struct search *search, const struct groups *groups, size_t length,
                                  struct ks_err *err)
{
    for (size_t i = 0; length > 1 && i < groups->count; i++) {
        const struct group *group = &groups->list[i];
        if (group->count >= OCCURRENCES_MIN && !group->is_covered &&
            !is_inside_window(search, group, length)) {
            KS_TRY(keep(search, group, length, err));
        }
    }
    return KS_OK;
}

static enum ks_status search_length(struct search *search, struct ks_err *err)
{
    struct ks_map map;
    ks_map_init(&map);
    search->current.count = 0;
    enum ks_status status = find_all(search, &map, err);
    ks_map_release(&map);
    KS_TRY(status);
    forget_single(search);
    if (search->length > 1) {
        cover_parts(search);
    }
    return keep_groups(search, &search->shorter, search->length - 1, err);
}

static enum ks_status search_all(struct search *search, struct ks_err *err)
{
    for (search->length = 1; search->length <= KS_SEQUENCE_MAX; search->length++) {
        KS_TRY(search_length(search, err));
        struct groups groups = search->shorter;
        search->shorter = search->current;
        search->current = groups;
    }
    return keep_groups(search, &search->shorter, KS_SEQUENCE_MAX, err);
}

/* ------------------------------------------------------------------ results */

/* Kernels that do little but read and write memory, by their names. */
static bool is_fusible(struct ks_str name)
{
    static const char *const parts[] = {
        "elementwise", "reduce_kernel", "oftmax", "oftMax",      "ayer_norm",
        "ayerNorm",    "ms_norm",       "msNorm", "triton_poi_", "triton_red_",
        "triton_per_", "CatArray",      "ropout",
    };
    for (size_t i = 0; i < KS_COUNT_OF(parts); i++) {
        if (ks_str_contains(name, ks_str_from(parts[i]))) {
            return true;
        }
    }
    return false;
}

/* "vectorized_elementwise_kernel" of "void at::native::vectorized_elementwise_kernel<4, ...>(...)":
 * a row shows several names. */
static struct ks_str short_name(struct ks_str name)
{
    struct ks_str nameless = KS_STR("(anonymous namespace)");
    size_t begin = ks_str_starts(name, KS_STR("void ")) ? sizeof("void ") - 1 : 0;
    size_t end = begin;
    while (end < name.len && name.ptr[end] != '<') {
        struct ks_str rest = {name.ptr + end, name.len - end};
        if (ks_str_starts(rest, nameless)) {
            end += nameless.len;
            continue;
        }
        if (name.ptr[end] == '(') {
            break;
        }
        end++;
        begin = name.ptr[end - 1] == ':' ? end : begin;
    }
    bool is_empty = end == begin;
    return is_empty ? name : (struct ks_str){name.ptr + begin, end - begin};
}

static enum ks_status describe(struct search *search, struct ks_sequence_fact *fact,
                               struct ks_err *err)
{
    struct ks_text text;
    ks_text_init(&text);
    fact->is_fusible = true;
    for (size_t i = 0; i < (size_t)fact->length; i++) {
        struct ks_str name = ks_trace_str(search->analyzer->trace, fact->kernels[i]);
        fact->is_fusible = fact->is_fusible && is_fusible(name);
        name = short_name(name);
        bool is_long = name.len > NAME_MAX_SHOWN;
        ks_text_append_str(&text, i > 0 ? KS_STR(" > ") : KS_STR(""));
        ks_text_append(&text, name.ptr, is_long ? NAME_MAX_SHOWN : name.len);
        ks_text_append_str(&text, is_long ? KS_STR("...") : KS_STR(""));
    }
    char *copy = text.failed ? NULL : ks_arena_copy(search->analyzer->results, text.ptr, text.len);
    fact->text = (struct ks_str){copy, text.len};
    ks_text_release(&text);
    return copy ? KS_OK : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot name sequences");
}

static int compare_facts(const void *left, const void *right, void *trace)
{
    const struct ks_sequence_fact *a = left;
    const struct ks_sequence_fact *b = right;
    int64_t ns_a = ks_sum_add(a->total_ns, a->gap_ns);
    int64_t ns_b = ks_sum_add(b->total_ns, b->gap_ns);
    if (ns_a != ns_b) {
        return ns_a > ns_b ? -1 : 1;
    }
    if (a->length != b->length) {
        return a->length > b->length ? -1 : 1;
    }
    int order = 0;
    for (size_t i = 0; i < (size_t)a->length && order == 0; i++) {
        order =
            ks_str_compare(ks_trace_str(trace, a->kernels[i]), ks_trace_str(trace, b->kernels[i]));
    }
    return order;
}

static enum ks_status publish(struct search *search, struct ks_err *err)
{
    struct ks_facts *facts = search->analyzer->facts;
    size_t count =
        search->found_count < KS_SEQUENCE_ROWS_MAX ? search->found_count : KS_SEQUENCE_ROWS_MAX;
    if (count > 0) {
        qsort_r(search->found, search->found_count, sizeof(*search->found), compare_facts,
                (void *)(uintptr_t)search->analyzer->trace);
    }
    facts->sequences = ks_new(search->analyzer->results, struct ks_sequence_fact, count + 1);
    if (!facts->sequences) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep sequences: count=%zu", count);
    }
    for (size_t i = 0; i < count; i++) {
        facts->sequences[i] = search->found[i];
        KS_TRY(describe(search, &facts->sequences[i], err));
    }
    facts->sequence_count = count;
    return KS_OK;
}

static enum ks_status compute(struct search *search, struct ks_err *err)
{
    KS_TRY(collect(search, err));
    KS_TRY(search_all(search, err));
    return publish(search, err);
}

enum ks_status ks_sequences_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct search search = {.analyzer = analyzer};
    if (!analyzer->facts->has_gpu) {
        return KS_OK;
    }
    enum ks_status status = compute(&search, err);
    ks_free(search.items);
    ks_free(search.shorter.list);
    ks_free(search.current.list);
    ks_free(search.found);
    return status;
}
