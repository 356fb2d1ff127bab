/* Tokenizing on the thread of the steps: Python frames that cut text into tokens, in stretches in
 * which no operator, call or loader runs (docs/analyses/tokenizing.md). The rows of the thread pass
 * once; memory: the frames that are open, and a number for each string. */
#include "analyze/frame_names.h"
#include "analyze/registry.h"
#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

enum { STRETCH_NS_MIN = 200 * 1000 }; /* as of host.python_gap */

enum {
    NAME_UNSEEN,
    NAME_OTHER,
    NAME_USER,
    NAME_TOKENIZES,
    NAME_TOKENIZES_USER,
    NAME_BACKWARD, /* waits for operators that run on another thread */
};

struct open_frame {
    int64_t end_ns;
    uint32_t name;
    bool is_user;
};

struct tokens {
    struct ks_analyzer *analyzer;
    uint32_t source;
    uint8_t *classes;  /* by string id */
    int64_t *place_ns; /* by string id: tokenizing below this frame */
    struct open_frame *frames;
    size_t frame_count;
    size_t frame_capacity;
    int64_t covered_ns; /* end of all operators, calls and loaders so far */
    int64_t from_ns;    /* frame that tokenizes, the outermost one ... */
    int64_t until_ns;
    uint32_t place;   /* ... and where it is called or stands */
    int64_t spent_ns; /* by frames that ended, in the stretch that is open */
    struct ks_tokenize_fact sums;
};

/* ------------------------------------------------------------ names */

static bool is_one_of(struct ks_str text, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (ks_str_equal(text, ks_str_from(list[i]))) {
            return true;
        }
    }
    return false;
}

static bool has_one_of(struct ks_str text, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (ks_str_contains(text, ks_str_from(list[i]))) {
            return true;
        }
    }
    return false;
}

static bool tokenizes(const struct ks_frame *frame, struct ks_str name)
{
    static const char *const functions[] = {
        "encode",       "encode_plus",        "batch_encode_plus", "encode_batch", "_encode_plus",
        "batch_encode", "_batch_encode_plus", "encode_ordinary",   "encode_text",  "encode_texts"};
    static const char *const libraries[] = {"tokeniz", "tiktoken", "sentencepiece"};
    static const char *const built_in[] = {"tokenizers.Tokenizer", "tiktoken", "CoreBPE",
                                           "SentencePieceProcessor"};
    switch (frame->kind) {
    case KS_FRAME_NONE:
        return ks_str_starts(name, KS_STR("<built-in")) &&
               has_one_of(name, built_in, KS_COUNT_OF(built_in));
    case KS_FRAME_LIBRARY:
        return has_one_of(frame->file, libraries, KS_COUNT_OF(libraries)) &&
               (is_one_of(frame->function, functions, KS_COUNT_OF(functions)) ||
                ks_str_equal(frame->function, KS_STR("__call__")) ||
                ks_str_contains(frame->function, KS_STR("tokenize")));
    case KS_FRAME_USER:
        return is_one_of(frame->function, functions, KS_COUNT_OF(functions)) ||
               ks_str_contains(frame->function, KS_STR("tokenize")) ||
               (ks_str_equal(frame->function, KS_STR("__call__")) &&
                ks_str_contains(frame->file, KS_STR("tokeniz")));
    case KS_FRAME_TORCH: break;
    }
    return false;
}

static unsigned class_of(struct tokens *t, uint32_t name)
{
    uint8_t *class = &t->classes[name];
    if (*class == NAME_UNSEEN) {
        struct ks_str text = ks_trace_str(t->analyzer->trace, (struct ks_strid){name});
        struct ks_frame frame = ks_frame_parse(text);
        bool is_user = frame.kind == KS_FRAME_USER;
        bool is_it = tokenizes(&frame, text);
        bool is_backward = ks_str_starts(text, KS_STR("<built-in method run_backward"));
        *class = is_backward ? NAME_BACKWARD
                 : is_it     ? (is_user ? NAME_TOKENIZES_USER : NAME_TOKENIZES)
                             : (is_user ? NAME_USER : NAME_OTHER);
    }
    return *class;
}

/* ------------------------------------------------------------ stretches */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Time of the frame that tokenizes inside of the open stretch, up to `until_ns`. */
static void spend(struct tokens *t, int64_t until_ns)
{
    int64_t from_ns = later(t->from_ns, t->covered_ns);
    until_ns = until_ns < t->until_ns ? until_ns : t->until_ns;
    if (until_ns > from_ns) {
        t->spent_ns = ks_sum_add(t->spent_ns, until_ns - from_ns);
        t->place_ns[t->place] = ks_sum_add(t->place_ns[t->place], until_ns - from_ns);
        t->from_ns = until_ns;
    }
}

/* Something runs from `start_ns` on that ends the stretch before it. */
static void cover(struct tokens *t, int64_t start_ns, int64_t end_ns)
{
    if (start_ns > t->covered_ns) {
        spend(t, start_ns);
        int64_t stretch_ns = ks_sum_sub(start_ns, t->covered_ns);
        bool is_in_step = ks_step_lookup_host(t->analyzer->facts, t->source, t->covered_ns);
        if (stretch_ns >= STRETCH_NS_MIN && is_in_step) {
            t->sums.code_ns = ks_sum_add(t->sums.code_ns, stretch_ns);
            t->sums.tokenize_ns = ks_sum_add(t->sums.tokenize_ns, t->spent_ns);
        }
        t->spent_ns = 0;
    }
    t->covered_ns = later(t->covered_ns, end_ns);
}

/* ------------------------------------------------------------ frames */

/* The program's innermost frame around, or the one that tokenizes. */
static uint32_t place_of(const struct tokens *t, uint32_t name)
{
    for (size_t i = t->frame_count; i-- > 0;) {
        if (t->frames[i].is_user) {
            return t->frames[i].name;
        }
    }
    return name;
}

static enum ks_status note_frame(struct tokens *t, int64_t start_ns, int64_t end_ns, uint32_t name,
                                 struct ks_err *err)
{
    unsigned class = class_of(t, name);
    if (class == NAME_BACKWARD) {
        cover(t, start_ns, end_ns);
    }
    while (t->frame_count > 0 && t->frames[t->frame_count - 1].end_ns <= start_ns) {
        t->frame_count--;
    }
    KS_TRY(ks_grow(&t->frames, t->frame_count, &t->frame_capacity, sizeof(*t->frames),
                   "open frames", err));
    t->frames[t->frame_count++] =
        (struct open_frame){end_ns, name, class == NAME_USER || class == NAME_TOKENIZES_USER};
    bool is_outermost = start_ns >= t->until_ns;
    if ((class == NAME_TOKENIZES || class == NAME_TOKENIZES_USER) && is_outermost) {
        spend(t, t->until_ns);
        t->from_ns = start_ns;
        t->until_ns = end_ns;
        t->place = place_of(t, name);
        t->sums.calls++;
    }
    return KS_OK;
}

static enum ks_status note_row(struct tokens *t, const struct ks_slice_scan *scan, size_t i,
                               struct ks_err *err)
{
    int64_t start_ns = scan->col.start_ns[i];
    int64_t end_ns = ks_sum_add(start_ns, scan->col.dur_ns[i]);
    unsigned flags = 0;
    switch (scan->col.category[i]) {
    case KS_CATEGORY_PYTHON: return note_frame(t, start_ns, end_ns, scan->col.name[i], err);
    case KS_CATEGORY_CPU_OP:
    case KS_CATEGORY_USER_ANNOTATION:
        flags = ks_row_names_get(&t->analyzer->names, scan->col.name[i]);
        if (flags & KS_NAME_STEP) {
            cover(t, start_ns, start_ns); // a stretch belongs to one step
        } else if (scan->col.category[i] == KS_CATEGORY_CPU_OP || (flags & KS_NAME_LOADER)) {
            cover(t, start_ns, end_ns);
        }
        return KS_OK;
    case KS_CATEGORY_RUNTIME:
    case KS_CATEGORY_DRIVER: cover(t, start_ns, end_ns); return KS_OK;
    default: return KS_OK;
    }
}

static enum ks_status walk(struct tokens *t, const struct ks_lane *lane, struct ks_err *err)
{
    struct ks_slice_scan scan;
    enum ks_status status;
    t->covered_ns = t->until_ns = INT64_MIN;
    t->from_ns = INT64_MIN;
    t->frame_count = 0;
    ks_slice_scan_open(&scan, t->analyzer->trace,
                       KS_COLUMN_BIT(KS_SLICE_COL_start_ns) | KS_COLUMN_BIT(KS_SLICE_COL_dur_ns) |
                           KS_COLUMN_BIT(KS_SLICE_COL_name) | KS_COLUMN_BIT(KS_SLICE_COL_category),
                       lane->row_begin, lane->row_end);
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count && status == KS_OK; i++) {
            status = note_row(t, &scan, i, err);
        }
        if (status != KS_OK) {
            break;
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

/* ------------------------------------------------------------ results */

static enum ks_status keep_place(struct ks_facts *facts, struct ks_tokenize_fact *fact,
                                 struct ks_err *err)
{
    const char *file = ks_arena_copy(&facts->arena, fact->file.ptr, fact->file.len);
    const char *function = ks_arena_copy(&facts->arena, fact->function.ptr, fact->function.len);
    if (!file || !function) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep the place of tokenizing");
    }
    fact->file.ptr = file;
    fact->function.ptr = function;
    facts->tokenizing = *fact;
    return KS_OK;
}

static enum ks_status publish(struct tokens *t, struct ks_err *err)
{
    const struct ks_trace *trace = t->analyzer->trace;
    uint32_t most = 0;
    for (uint32_t i = 1; i <= ks_trace_str_count(trace); i++) {
        most = t->place_ns[i] > t->place_ns[most] ? i : most;
    }
    struct ks_frame frame = ks_frame_parse(ks_trace_str(trace, (struct ks_strid){most}));
    bool has_place = most > 0 && frame.kind != KS_FRAME_NONE;
    t->sums.file = has_place ? frame.file : KS_STR("");
    t->sums.function = has_place ? frame.function : KS_STR("");
    t->sums.line = has_place ? frame.line : KS_UNKNOWN;
    t->sums.is_known = true;
    return keep_place(t->analyzer->facts, &t->sums, err);
}

static enum ks_status walk_sources(struct tokens *t, struct ks_err *err)
{
    struct ks_analyzer *analyzer = t->analyzer;
    size_t strings = (size_t)ks_trace_str_count(analyzer->trace) + 1;
    t->classes = ks_new(&analyzer->scratch, uint8_t, strings);
    t->place_ns = ks_new(&analyzer->scratch, int64_t, strings);
    if (!t->classes || !t->place_ns) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot look for tokenizing");
    }
    for (uint32_t i = 0; i < ks_trace_source_count(analyzer->trace); i++) {
        uint32_t thread = ks_step_lookup_thread(analyzer->facts, i);
        const struct ks_lane *lane =
            thread ? ks_trace_lane_find(analyzer->trace, KS_TABLE_slice, thread) : NULL;
        t->source = i;
        if (lane) {
            KS_TRY(walk(t, lane, err));
        }
    }
    return publish(t, err);
}

enum ks_status ks_tokenizing_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct ks_facts *facts = analyzer->facts;
    struct tokens tokens = {.analyzer = analyzer};
    if (analyzer->framed) {
        struct ks_tokenize_fact found = analyzer->framed->tokenizing;
        return keep_place(facts, &found, err);
    }
    if (!facts->has_frames) {
        return KS_OK;
    }
    enum ks_status status = walk_sources(&tokens, err);
    ks_free(tokens.frames);
    return status;
}
