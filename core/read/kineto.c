#include "read/kineto.h"

#include <ctype.h>

#include "base/alloc.h"
#include "base/err.h"

/* What one step over the document came to. */
enum progress { PROGRESS_GO, PROGRESS_MORE, PROGRESS_ERROR };

enum ks_status kineto_count(struct kineto *k, enum ks_stat stat, int64_t offset, struct ks_err *err)
{
    const struct ks_stat_info *info = ks_stat_info(stat);
    k->to.source->counts[stat]++;
    if (k->to.strict && info->severity != KS_SEVERITY_INFO) {
        return ks_fail(err, KS_ERR_FORMAT, offset, "Cannot accept damaged input: fault=%s",
                       info->name);
    }
    return KS_OK;
}

enum ks_status kineto_count_faults(struct kineto *k, const struct ks_json_cursor *c,
                                   struct ks_err *err)
{
    const struct ks_json_faults *f = &c->faults;
    uint64_t *counts = k->to.source->counts;
    counts[KS_STAT_repaired_strings] += f->strings;
    counts[KS_STAT_non_finite_numbers] += f->non_finite;
    counts[KS_STAT_syntax_repaired] += f->syntax;
    if (k->to.strict && f->first) {
        return ks_fail(err, KS_ERR_FORMAT, kineto_offset(k, f->first),
                       "Cannot accept damaged input: fault=%s",
                       f->strings  ? "repaired_strings"
                       : f->syntax ? "syntax_repaired"
                                   : "non_finite_numbers");
    }
    return KS_OK;
}

static enum progress give(enum ks_status status)
{
    return status == KS_OK ? PROGRESS_GO : PROGRESS_ERROR;
}

static void enter(struct kineto *k, enum kineto_place inside, enum kineto_place back)
{
    k->levels[k->depth++] = back;
    k->place = inside;
}

static void leave(struct kineto *k)
{
    k->place = k->levels[--k->depth];
}

/* ---- damage inside the list of events */

/* Moves the cursor to the next event, or to the end of the list. */
static enum progress resync(struct kineto *k, struct ks_json_cursor *c, bool is_last)
{
    if (kineto_find_event(k, c, is_last) != KS_JSON_OK) {
        return PROGRESS_MORE;
    }
    k->is_resyncing = false;
    k->place = *c->at == '{' ? PLACE_EVENTS_FIRST : PLACE_EVENTS;
    return PROGRESS_GO;
}

/* The text at the cursor is no event and no separator: goes on at the next event. */
static enum progress skip_damage(struct kineto *k, struct ks_json_cursor *c, const char *fault,
                                 const char *from, struct ks_err *err)
{
    if (kineto_count(k, KS_STAT_text_skipped, kineto_offset(k, fault), err) != KS_OK) {
        return PROGRESS_ERROR;
    }
    k->solid_before = k->place == PLACE_EVENTS ? '}' : from[-1];
    c->at = from;
    k->is_resyncing = true;
    return PROGRESS_GO;
}

/* ---- events */

static enum progress emit_event(struct kineto *k, struct ks_json_cursor *c,
                                const struct kineto_event *event, struct ks_err *err)
{
    k->place = PLACE_EVENTS;
    k->has_damaged_text = c->faults.strings > 0;
    if (kineto_count_faults(k, c, err) != KS_OK) {
        return PROGRESS_ERROR;
    }
    return give(kineto_emit(k, event, c->at, err));
}

/* An "event" that holds a list of events itself (traces put inside traces). Below the deepest level
 * that is followed, its events are taken as if they stood in this list. */
static enum progress enter_nested(struct kineto *k, struct ks_json_cursor *c, struct ks_err *err)
{
    if (kineto_count_faults(k, c, err) != KS_OK ||
        kineto_count(k, KS_STAT_nested_trace_events, kineto_offset(k, c->at), err) != KS_OK) {
        return PROGRESS_ERROR;
    }
    ks_json_blanks(c);
    if (k->depth + 2 > KINETO_LEVELS_MAX) {
        return skip_damage(k, c, c->at, c->at + 1, err);
    }
    k->place = PLACE_EVENTS;
    enter(k, PLACE_OBJECT, PLACE_EVENTS);
    enter(k, *c->at == '[' ? PLACE_EVENTS_FIRST : PLACE_OBJECT_FIRST, PLACE_OBJECT);
    c->at++;
    return PROGRESS_GO;
}

/* ---- reading once more */

/* Names with bare quotes in them are what breaks most damaged traces. An item that could not be
 * read is read once more with quotes that end a string only where JSON goes on behind them. How far
 * such a guess looks is bounded, and so is the sum of guesses that came to nothing: reading stays
 * linear for any input. */
enum { GUESS_BYTES_MAX = 256 * 1024, GUESS_RATIO = 4 };

/* Reads one item from the cursor on into `item`. */
typedef enum ks_json (*item_cb)(struct kineto *k, struct ks_json_cursor *c, void *item);

static enum ks_json parse_again(struct kineto *k, struct ks_json_cursor *c, bool is_last,
                                item_cb parse, void *item)
{
    const char *start = c->at;
    const char *end = c->end;
    if (k->guessed_bytes > GUESS_BYTES_MAX + kineto_offset(k, start) * GUESS_RATIO) {
        return KS_JSON_BAD;
    }
    bool is_bounded = end - start > GUESS_BYTES_MAX;
    const char *stop = is_bounded ? start + GUESS_BYTES_MAX : end;
    c->end = stop;
    c->is_open = is_bounded || !is_last;
    c->lenient_quotes = true;
    c->faults = (struct ks_json_faults){0};
    enum ks_json step = parse(k, c, item);
    c->lenient_quotes = false;
    c->is_open = !is_last;
    c->end = end;
    if (step == KS_JSON_MORE && !is_bounded && !is_last) {
        return KS_JSON_MORE;
    }
    if (step == KS_JSON_OK && c->at <= stop) {
        return KS_JSON_OK;
    }
    k->guessed_bytes += (step == KS_JSON_MORE || c->at > stop ? stop : c->at) - start;
    return KS_JSON_BAD;
}

static enum ks_json parse_event(struct kineto *k, struct ks_json_cursor *c, void *item)
{
    struct kineto_event *event = item;
    enum ks_json step = kineto_event_parse(k, c, event);
    event->has_guessed_quotes = true;
    return step == KS_JSON_OK && event->has_trace_events ? KS_JSON_BAD : step;
}

static enum progress take_event(struct kineto *k, struct ks_json_cursor *c, bool is_last,
                                struct ks_err *err)
{
    const char *start = c->at;
    struct kineto_event event;
    c->faults = (struct ks_json_faults){0};
    enum ks_json step = kineto_event_parse(k, c, &event);
    if (KS_LIKELY(step == KS_JSON_OK)) {
        return event.has_trace_events ? enter_nested(k, c, err) : emit_event(k, c, &event, err);
    }
    const char *fault = c->at;
    if (step == KS_JSON_BAD && k->to.strict) {
        /* What could be repaired comes first when it stands first. */
        return kineto_count_faults(k, c, err) == KS_OK ? skip_damage(k, c, fault, start + 1, err)
                                                       : PROGRESS_ERROR;
    }
    c->at = start;
    if (step == KS_JSON_BAD) {
        step = parse_again(k, c, is_last, parse_event, &event);
        if (step == KS_JSON_OK) {
            return emit_event(k, c, &event, err);
        }
    }
    if (step == KS_JSON_MORE) {
        c->at = start;
        return PROGRESS_MORE;
    }
    return skip_damage(k, c, fault, start + 1, err);
}

/* At the brace of an event, unless others read it. */
static enum progress start_event(struct kineto *k, struct ks_json_cursor *c, bool is_last,
                                 struct ks_err *err)
{
    if (KS_UNLIKELY(kineto_offset(k, c->at) >= k->stop_offset)) {
        k->has_stopped = true;
        return PROGRESS_MORE;
    }
    return take_event(k, c, is_last, err);
}

/* Something in the list that is no object. */
static enum progress take_non_event(struct kineto *k, struct ks_json_cursor *c, struct ks_err *err)
{
    const char *start = c->at;
    c->faults = (struct ks_json_faults){0};
    enum ks_json step = ks_json_skip(c);
    if (step == KS_JSON_MORE) {
        c->at = start;
        return PROGRESS_MORE;
    }
    if (step == KS_JSON_BAD) {
        return k->to.strict && kineto_count_faults(k, c, err) != KS_OK
                   ? PROGRESS_ERROR
                   : skip_damage(k, c, c->at, start + 1, err);
    }
    k->place = PLACE_EVENTS;
    return give(kineto_count(k, KS_STAT_not_an_event, kineto_offset(k, start), err));
}

static enum progress repair_syntax(struct kineto *k, const char *place, struct ks_err *err)
{
    return give(kineto_count(k, KS_STAT_syntax_repaired, kineto_offset(k, place), err));
}

/* Behind an event: a comma, the end of the list, or an event whose comma is missing. */
static enum progress after_event(struct kineto *k, struct ks_json_cursor *c, char ch, bool is_last,
                                 struct ks_err *err)
{
    if (ch == ',') {
        c->at++;
        k->place = PLACE_EVENTS_COMMA;
        ks_json_blanks(c);
        return KS_LIKELY(*c->at == '{') ? start_event(k, c, is_last, err) : PROGRESS_GO;
    }
    if (ch == ']') {
        c->at++;
        leave(k);
        return PROGRESS_GO;
    }
    if (ch == '{') {
        k->place = PLACE_EVENTS_FIRST;
        return repair_syntax(k, c->at, err);
    }
    if (ch == '}' && !k->is_array_form) { // the list's own bracket is missing
        leave(k);
        return repair_syntax(k, c->at, err);
    }
    return skip_damage(k, c, c->at, c->at, err);
}

static enum progress step_events(struct kineto *k, struct ks_json_cursor *c, bool is_last,
                                 struct ks_err *err)
{
    char ch;
    if (ks_json_peek(c, &ch) != KS_JSON_OK) {
        return PROGRESS_MORE;
    }
    if (k->place == PLACE_EVENTS) {
        return after_event(k, c, ch, is_last, err);
    }
    if (ch == '{') {
        return start_event(k, c, is_last, err);
    }
    if (ch == ']' || ch == ',' || ch == '}') {
        bool is_empty_list = k->place == PLACE_EVENTS_FIRST && ch == ']';
        k->place = PLACE_EVENTS;
        return is_empty_list ? PROGRESS_GO : repair_syntax(k, c->at, err);
    }
    return take_non_event(k, c, err);
}

/* ---- the document around the events */

static bool is_event_key(struct ks_str key)
{
    return ks_str_equal(key, KS_STR("ph")) || ks_str_equal(key, KS_STR("ts")) ||
           ks_str_equal(key, KS_STR("pid")) || ks_str_equal(key, KS_STR("tid")) ||
           ks_str_equal(key, KS_STR("cat")) || ks_str_equal(key, KS_STR("name"));
}

/* Damaged metadata is given up until the next known key. */
static enum progress skip_meta(struct kineto *k, struct ks_json_cursor *c, const char *fault,
                               struct ks_err *err)
{
    if (kineto_count(k, KS_STAT_text_skipped, kineto_offset(k, fault), err) != KS_OK) {
        return PROGRESS_ERROR;
    }
    c->at = fault;
    k->is_skipping_meta = true;
    return PROGRESS_GO;
}

static enum progress find_member(struct kineto *k, struct ks_json_cursor *c, bool is_last)
{
    if (kineto_find_member(k, c, is_last) != KS_JSON_OK) {
        return PROGRESS_MORE;
    }
    k->is_skipping_meta = false;
    k->is_depth_unsure = true;
    k->place = PLACE_OBJECT_FIRST;
    return PROGRESS_GO;
}

/* Value of the key traceEvents: a list, or an object that holds it one level down. */
static enum progress enter_events(struct kineto *k, struct ks_json_cursor *c, char ch,
                                  struct ks_err *err)
{
    if (k->depth == KINETO_LEVELS_MAX) {
        ks_fail(err, KS_ERR_LIMIT, kineto_offset(k, c->at), "Cannot follow traceEvents: depth=%d",
                k->depth);
        return PROGRESS_ERROR;
    }
    bool is_list = ch == '[';
    k->saw_events |= is_list;
    enter(k, is_list ? PLACE_EVENTS_FIRST : PLACE_OBJECT_FIRST, PLACE_OBJECT);
    c->at++;
    return is_list
               ? PROGRESS_GO
               : give(kineto_count(k, KS_STAT_nested_trace_events, kineto_offset(k, c->at), err));
}

static enum ks_json parse_meta(struct kineto *k, struct ks_json_cursor *c, void *item)
{
    struct ks_json_str key;
    (void)item;
    enum ks_json step = ks_json_key(c, &key);
    return step == KS_JSON_OK ? kineto_meta_parse(k, c, (struct ks_str){key.ptr, key.len}) : step;
}

static enum progress take_member(struct kineto *k, struct ks_json_cursor *c, bool is_last,
                                 struct ks_err *err)
{
    const char *start = c->at;
    struct ks_json_str raw;
    c->faults = (struct ks_json_faults){0};
    enum ks_json step = ks_json_key(c, &raw);
    struct ks_str key = step == KS_JSON_OK ? (struct ks_str){raw.ptr, raw.len} : KS_STR("");
    char ch = '\0';
    if (step == KS_JSON_OK) {
        step = ks_json_peek(c, &ch);
    }
    if (step == KS_JSON_OK && ks_str_equal(key, KS_STR("traceEvents")) &&
        (ch == '[' || ch == '{')) {
        return enter_events(k, c, ch, err);
    }
    if (step == KS_JSON_OK) {
        step = kineto_meta_parse(k, c, key);
    }
    const char *fault = c->at;
    if (step == KS_JSON_BAD && k->to.strict && kineto_count_faults(k, c, err) != KS_OK) {
        return PROGRESS_ERROR;
    }
    if (step == KS_JSON_BAD && !k->to.strict) {
        c->at = start;
        step = parse_again(k, c, is_last, parse_meta, NULL);
    }
    if (step == KS_JSON_OK) {
        k->place = PLACE_OBJECT;
        return give(kineto_count_faults(k, c, err));
    }
    if (step == KS_JSON_BAD) {
        return skip_meta(k, c, fault, err);
    }
    c->at = start;
    return PROGRESS_MORE;
}

static enum progress step_object(struct kineto *k, struct ks_json_cursor *c, bool is_last,
                                 struct ks_err *err)
{
    const char *start = c->at;
    char ch;
    if (ks_json_peek(c, &ch) != KS_JSON_OK) {
        return PROGRESS_MORE;
    }
    if (ch == '}') {
        c->at++;
        enum ks_json step = ks_json_peek(c, &ch);
        bool is_unsure = k->is_depth_unsure && k->depth == 1;
        if (is_unsure && step == KS_JSON_MORE && !is_last) {
            c->at = start;
            return PROGRESS_MORE;
        }
        if (is_unsure && step == KS_JSON_OK && (ch == ',' || ch == '}')) {
            k->place = PLACE_OBJECT; // it ends an object whose begin was damaged
            return PROGRESS_GO;
        }
        leave(k);
        return PROGRESS_GO;
    }
    if (k->place == PLACE_OBJECT_FIRST) {
        return take_member(k, c, is_last, err);
    }
    if (ch == '"') { // the comma is missing
        k->place = PLACE_OBJECT_FIRST;
        return repair_syntax(k, c->at, err);
    }
    if (ch != ',') {
        return skip_meta(k, c, c->at, err);
    }
    c->at++;
    if (ks_json_peek(c, &ch) != KS_JSON_OK) {
        c->at = start;
        return PROGRESS_MORE;
    }
    if (ch == '}') {
        return repair_syntax(k, c->at, err);
    }
    enum progress progress = take_member(k, c, is_last, err);
    if (progress == PROGRESS_MORE) {
        c->at = start; // the comma comes again with the member
    }
    return progress;
}

/* Is the brace at the cursor an event's own, because the bracket before it is missing? It is when
 * the object reads as an event. */
static enum ks_json starts_with_event(struct kineto *k, const struct ks_json_cursor *c,
                                      bool *is_event)
{
    struct ks_json_cursor look = *c;
    struct ks_json_str key;
    look.at++;
    enum ks_json step = ks_json_key(&look, &key);
    *is_event = step == KS_JSON_OK && is_event_key((struct ks_str){key.ptr, key.len});
    if (!*is_event) {
        return step;
    }
    struct kineto_event event;
    look.at = c->at;
    step = kineto_event_parse(k, &look, &event);
    *is_event = step == KS_JSON_OK && event.phase != '\0' && !event.has_trace_events;
    return step;
}

static enum progress step_start(struct kineto *k, struct ks_json_cursor *c, bool is_last,
                                struct ks_err *err)
{
    static const char MARK[] = "\xEF\xBB\xBF"; // byte order mark of UTF-8
    if (k->window_offset == 0 && c->at == k->window_ptr && *c->at == MARK[0]) {
        if (c->end - c->at < 3 && !is_last) {
            return PROGRESS_MORE;
        }
        c->at += strncmp(c->at, MARK, 3) == 0 ? 3 : 0;
    }
    char ch;
    if (ks_json_peek(c, &ch) != KS_JSON_OK) {
        return PROGRESS_MORE;
    }
    if (ch != '{' && ch != '[') {
        ks_fail(err, KS_ERR_FORMAT, kineto_offset(k, c->at),
                "Cannot read trace: neither a JSON object nor an array");
        return PROGRESS_ERROR;
    }
    bool is_event = false;
    if (ch == '{' && starts_with_event(k, c, &is_event) == KS_JSON_MORE && !is_last) {
        return PROGRESS_MORE;
    }
    k->is_array_form = ch == '[' || is_event;
    k->saw_events = k->is_array_form;
    enter(k, k->is_array_form ? PLACE_EVENTS_FIRST : PLACE_OBJECT_FIRST, PLACE_DONE);
    if (is_event) {
        return repair_syntax(k, c->at, err);
    }
    c->at++;
    return PROGRESS_GO;
}

static enum progress step_done(struct kineto *k, struct ks_json_cursor *c, struct ks_err *err)
{
    char ch;
    if (ks_json_peek(c, &ch) != KS_JSON_OK) {
        return PROGRESS_MORE;
    }
    enum progress progress = PROGRESS_GO;
    if (!k->saw_trailing) {
        k->saw_trailing = true;
        progress = give(kineto_count(k, KS_STAT_trailing_bytes, kineto_offset(k, c->at), err));
    }
    c->at = c->end;
    return progress;
}

static enum progress step(struct kineto *k, struct ks_json_cursor *c, bool is_last,
                          struct ks_err *err)
{
    if (KS_UNLIKELY(k->is_resyncing)) {
        return resync(k, c, is_last);
    }
    if (KS_UNLIKELY(k->is_skipping_meta)) {
        return find_member(k, c, is_last);
    }
    switch (k->place) {
    case PLACE_EVENTS_FIRST:
    case PLACE_EVENTS_COMMA:
    case PLACE_EVENTS: return step_events(k, c, is_last, err);
    case PLACE_OBJECT_FIRST:
    case PLACE_OBJECT: return step_object(k, c, is_last, err);
    case PLACE_START: return step_start(k, c, is_last, err);
    case PLACE_DONE: break;
    }
    return step_done(k, c, err);
}

/* ---- the reader */

static const char *past_digits(const char *p, const char *end)
{
    while (p < end && isdigit((unsigned char)*p)) {
        p++;
    }
    return p;
}

/* Development builds of March 2024 wrote nanoseconds behind the point without leading zeros. One
 * number cannot tell, the head of a file can: a writer that pads writes three digits always, one
 * that trims zeros never ends in one; short fractions beside ".120" are neither. Those builds
 * counted from 1970, so only times of 16 digits are looked at. */
static bool head_is_unpadded(struct ks_str head)
{
    static const char KEY[] = "\"ts\":";
    enum { EPOCH_DIGITS = 16 };
    bool has_short = false;
    bool has_full_zero = false;
    const char *end = head.ptr + head.len;
    for (const char *p = head.ptr; p < end; p++) {
        p = memmem(p, (size_t)(end - p), KEY, sizeof(KEY) - 1);
        if (!p) {
            break;
        }
        p += sizeof(KEY) - 1;
        while (p < end && *p == ' ') {
            p++;
        }
        const char *point = past_digits(p, end);
        if (point - p < EPOCH_DIGITS || point == end || *point != '.') {
            continue;
        }
        p = past_digits(point + 1, end);
        ptrdiff_t digits = p - point - 1;
        if (p < end && digits > 0 && (*p == ',' || *p == '\n' || *p == ' ' || *p == '}')) {
            has_full_zero |= digits == 3 && p[-1] == '0';
            /* ".0" is how Python writes a whole number. */
            has_short |= digits < 3 && !(digits == 1 && p[-1] == '0');
        }
    }
    return has_short && has_full_zero;
}

static bool kineto_sniff(struct ks_str head)
{
    size_t at = ks_str_starts(head, KS_STR("\xEF\xBB\xBF")) ? 3 : 0;
    while (at < head.len && isspace((unsigned char)head.ptr[at])) {
        at++;
    }
    return at < head.len && (head.ptr[at] == '{' || head.ptr[at] == '[');
}

void kineto_destroy(void *state)
{
    struct kineto *k = state;
    if (!k) {
        return;
    }
    kineto_frames_release(&k->begun);
    kineto_frames_release(&k->async);
    ks_text_release(&k->scratch);
    kineto_shapes_release(&k->shapes);
    ks_free(k);
}

enum ks_status kineto_create(const struct ks_reader_context *context, struct kineto **out,
                             struct ks_err *err)
{
    struct kineto *k = ks_alloc(1, sizeof(*k));
    if (!k) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot start reader: out of memory");
    }
    k->to = *context;
    k->stop_offset = INT64_MAX;
    k->scan_array = context->strict ? NULL : ks_scan_array_choose();
    kineto_layout_init(&k->layout);
    ks_text_init(&k->scratch);
    kineto_shapes_init(&k->shapes);
    ks_map_init(&k->begun.tops);
    ks_map_init(&k->begun.named);
    ks_map_init(&k->async.tops);
    ks_map_init(&k->async.named);
    enum ks_status status =
        ks_trace_builder_intern(context->builder, KS_STR("aten::conv2d"), &k->conv2d, err);
    if (status != KS_OK) {
        kineto_destroy(k);
        return status;
    }
    *out = k;
    return KS_OK;
}

static enum ks_status kineto_open(const struct ks_reader_context *context, struct ks_str head,
                                  void **state, struct ks_err *err)
{
    struct kineto *k = NULL;
    KS_TRY(kineto_create(context, &k, err));
    k->is_unpadded = head_is_unpadded(head);
    enum ks_status status = k->is_unpadded ? kineto_count(k, KS_STAT_time_unpadded, 0, err) : KS_OK;
    if (status != KS_OK) {
        kineto_destroy(k);
        return status;
    }
    *state = k;
    return KS_OK;
}

static enum ks_status kineto_push(void *state, const struct ks_window *window, size_t *used,
                                  struct ks_err *err)
{
    struct kineto *k = state;
    struct ks_json_cursor c = {.at = window->ptr,
                               .end = window->ptr + window->size,
                               .is_open = !window->is_last,
                               .is_exact = k->to.strict};
    struct ks_err local = {0};
    k->window_ptr = window->ptr;
    k->window_offset = window->offset;
    enum progress progress = PROGRESS_GO;
    while (progress == PROGRESS_GO) {
        progress = step(k, &c, window->is_last, &local);
    }
    if (progress == PROGRESS_ERROR) {
        if (err) {
            *err = local;
        }
        return local.status;
    }
    *used = (size_t)(c.at - window->ptr);
    return KS_OK;
}

/* The input ended at `size`, with `left` bytes of an unfinished item before it. */
static enum ks_status count_cut(struct kineto *k, int64_t size, int64_t left, struct ks_err *err)
{
    if (k->place == PLACE_DONE) {
        return KS_OK;
    }
    bool is_in_events = k->place == PLACE_EVENTS_FIRST || k->place == PLACE_EVENTS_COMMA;
    if (left > 0 && is_in_events && !k->is_resyncing) {
        return kineto_count(k, KS_STAT_partial_event, size - left, err);
    }
    if (k->is_skipping_meta) { // counted already; the end of the document went with it
        return KS_OK;
    }
    /* Chrome's array form may leave its bracket open. */
    bool is_open_array = k->is_array_form && k->depth == 1;
    return kineto_count(k, is_open_array ? KS_STAT_syntax_repaired : KS_STAT_unterminated, size,
                        err);
}

/* A base that puts events outside the times that can be told is no base. */
static enum ks_status check_base(struct kineto *k, struct ks_err *err)
{
    struct ks_source *s = k->to.source;
    int64_t end_ns = s->end_ns > 0 ? s->end_ns : 0;
    if (s->base_ns >= 0 && s->base_ns <= KS_TIME_MAX_NS - end_ns) {
        return KS_OK;
    }
    s->base_ns = 0;
    s->has_base = false;
    return kineto_count(k, KS_STAT_time_out_of_range, KS_NO_OFFSET, err);
}

static enum ks_status kineto_finish(void *state, int64_t size, int64_t left, struct ks_err *err)
{
    struct kineto *k = state;
    if (!k->saw_events) {
        return ks_fail(err, KS_ERR_FORMAT, KS_NO_OFFSET,
                       "Cannot find traceEvents: not a Kineto or Chrome trace");
    }
    KS_TRY(count_cut(k, size, left, err));
    KS_TRY(kineto_close_open(k, err));
    return check_base(k, err);
}

const struct ks_reader ks_reader_kineto = {
    .name = "kineto-json",
    .sniff = kineto_sniff,
    .open = kineto_open,
    .push = kineto_push,
    .finish = kineto_finish,
    .close = kineto_destroy,
    .parts = &kineto_parts,
};
