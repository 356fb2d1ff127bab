#include "export/trace_text.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/progress.h"
#include "read/input.h"
#include "read/reader.h"

enum { WINDOW_START = 1024 * 1024, GUESS_BYTES_MAX = 256 * 1024, GUESS_RATIO = 4 };

static const size_t WINDOW_MAX = (size_t)64 * 1024 * 1024;

enum place {
    PLACE_START,
    PLACE_MEMBER,       /* where a key may stand */
    PLACE_AFTER_MEMBER, /* where a comma or the end of the document may */
    PLACE_EVENT,
    PLACE_AFTER_EVENT,
    PLACE_LOST, /* in damaged events: looks for the next one */
    PLACE_LOST_MEMBER,
    PLACE_DONE,
};

/* What one step came to. */
enum step { STEP_GO, STEP_MORE, STEP_ERROR };

struct walker {
    const struct ks_text_visitor *visitor;
    void *user;
    struct ks_text_damage *damage;
    bool strict;
    bool is_object;
    bool is_in_events;
    bool saw_events;
    enum place place;
    struct ks_input *input;
    char *buf;
    size_t capacity;
    size_t len;
    int64_t offset; /* of buf */
    bool at_end;
    int64_t guessed_bytes; /* read once more in vain */
    enum ks_status status; /* of STEP_ERROR */
    struct ks_err *err;
};

static enum step give(struct walker *w, enum ks_status status)
{
    w->status = status;
    return status == KS_OK ? STEP_GO : STEP_ERROR;
}

static int64_t offset_of(const struct walker *w, const char *at)
{
    return w->offset + (at - w->buf);
}

static enum step note(struct walker *w, int64_t *count, const char *at)
{
    (*count)++;
    if (w->strict) {
        return give(w, ks_fail(w->err, KS_ERR_FORMAT, offset_of(w, at),
                               "Cannot accept damaged input: it is no strict JSON here"));
    }
    return STEP_GO;
}

/* ------------------------------------------------------------------ one item */

/* Takes the value at the cursor into the item. `*is_lost`: it cannot be read. */
static enum ks_json take_value(struct walker *w, struct ks_json_cursor *c,
                               struct ks_text_item *item, bool *is_lost)
{
    const char *start = c->at;
    *is_lost = false;
    for (int attempt = 0; attempt < 2; attempt++) {
        c->at = start;
        c->faults = (struct ks_json_faults){0};
        item->cursor = *c;
        enum ks_json step = ks_json_skip(c);
        if (step == KS_JSON_OK && c->at <= c->end) {
            const struct ks_json_faults *f = &c->faults;
            item->text = (struct ks_str){start, (size_t)(c->at - start)};
            item->needs_repair = c->lenient_quotes || f->strings || f->non_finite || f->syntax;
            item->offset = offset_of(w, start);
            c->lenient_quotes = false;
            return KS_JSON_OK;
        }
        if (step == KS_JSON_MORE && (!c->lenient_quotes || c->end - start < GUESS_BYTES_MAX)) {
            c->at = start;
            c->lenient_quotes = false;
            return KS_JSON_MORE;
        }
        w->guessed_bytes += c->lenient_quotes ? c->at - start : 0;
        if (w->guessed_bytes > GUESS_BYTES_MAX + offset_of(w, start) * GUESS_RATIO) {
            break;
        }
        c->lenient_quotes = true;
    }
    c->at = start;
    c->lenient_quotes = false;
    *is_lost = true;
    return KS_JSON_OK;
}

static enum step lose(struct walker *w, struct ks_json_cursor *c, const char *fault)
{
    enum step step = note(w, &w->damage->lost, fault);
    c->at = fault + (*fault != '\0');
    w->place = w->is_in_events ? PLACE_LOST : PLACE_LOST_MEMBER;
    return step;
}

/* ------------------------------------------------------------------ events */

static enum step end_events(struct walker *w)
{
    w->is_in_events = false;
    w->place = w->is_object ? PLACE_AFTER_MEMBER : PLACE_DONE;
    return give(w, w->visitor->events_end(w->user, w->err));
}

static enum step take_event(struct walker *w, struct ks_json_cursor *c)
{
    struct ks_text_item item = {0};
    const char *start = c->at;
    bool is_event = *start == '{';
    bool is_lost;
    if (take_value(w, c, &item, &is_lost) == KS_JSON_MORE) {
        return STEP_MORE;
    }
    if (is_lost || !is_event) { /* a number or text among the events is left out, too */
        if (is_lost) {
            return lose(w, c, start);
        }
        w->place = PLACE_AFTER_EVENT;
        return note(w, &w->damage->lost, start);
    }
    w->place = PLACE_AFTER_EVENT;
    if (item.needs_repair && note(w, &w->damage->repaired, start) != STEP_GO) {
        return STEP_ERROR;
    }
    return give(w, w->visitor->event(w->user, &item, w->err));
}

static enum step step_event(struct walker *w, struct ks_json_cursor *c, char ch)
{
    bool is_after = w->place == PLACE_AFTER_EVENT;
    if (ch == ']') {
        c->at++;
        return end_events(w);
    }
    if (ch == ',') {
        c->at++;
        w->place = PLACE_EVENT;
        return is_after ? STEP_GO : note(w, &w->damage->repaired, c->at);
    }
    if (ch == '}' && w->is_object) { /* the list's own bracket is missing */
        enum step step = note(w, &w->damage->repaired, c->at);
        return step == STEP_GO ? end_events(w) : step;
    }
    if (is_after && ch != '{') {
        return lose(w, c, c->at);
    }
    if (is_after && note(w, &w->damage->repaired, c->at) != STEP_GO) {
        return STEP_ERROR; /* the comma is missing */
    }
    return take_event(w, c);
}

static bool starts_event(const struct ks_json_cursor *c, const char *at)
{
    static const char *const keys[] = {"ph", "name", "cat", "ts", "pid", "tid", "args"};
    struct ks_json_cursor look = *c;
    struct ks_json_str key;
    look.at = at + 1;
    ks_json_blanks(&look);
    if (*look.at != '"' || ks_json_key(&look, &key) != KS_JSON_OK) {
        return false;
    }
    for (size_t i = 0; i < KS_COUNT_OF(keys); i++) {
        if (ks_str_equal((struct ks_str){key.ptr, key.len}, ks_str_from(keys[i]))) {
            return true;
        }
    }
    return false;
}

/* The bracket that ends the list: the document ends behind it, or goes on with a key. */
static bool ends_list(const struct ks_json_cursor *c, const char *at)
{
    struct ks_json_cursor look = *c;
    look.at = at + 1;
    ks_json_blanks(&look);
    if (*look.at == '}') {
        return true;
    }
    bool has_comma = *look.at == ',';
    look.at += has_comma;
    ks_json_blanks(&look);
    struct ks_json_str key;
    return has_comma && *look.at == '"' && ks_json_key(&look, &key) == KS_JSON_OK;
}

enum { LOOK_AHEAD = 256 }; /* what it takes to tell an event's begin */

static enum step step_lost(struct walker *w, struct ks_json_cursor *c)
{
    for (; c->at < c->end; c->at++) {
        if (!w->at_end && c->end - c->at < LOOK_AHEAD) {
            return STEP_MORE;
        }
        if (*c->at == '{' && starts_event(c, c->at)) {
            w->place = PLACE_EVENT;
            return STEP_GO;
        }
        if (*c->at == ']' && ends_list(c, c->at)) {
            w->place = PLACE_AFTER_EVENT;
            return STEP_GO;
        }
    }
    return STEP_MORE;
}

/* ------------------------------------------------------------------ the document */

static enum step begin_events(struct walker *w, struct ks_json_cursor *c)
{
    c->at++;
    w->is_in_events = w->saw_events = true;
    w->place = PLACE_EVENT;
    return give(w, w->visitor->events_begin(w->user, w->err));
}

static enum step step_member(struct walker *w, struct ks_json_cursor *c, char ch)
{
    const char *start = c->at;
    struct ks_text_item item = {0};
    bool is_lost = ch != '"';
    if (ch == '}') {
        c->at++;
        w->place = PLACE_DONE;
        return give(w, w->visitor->end(w->user, w->err));
    }
    c->faults = (struct ks_json_faults){0};
    enum ks_json step = is_lost ? KS_JSON_BAD : ks_json_key(c, &item.key);
    bool has_bad_key = c->faults.strings > 0;
    if (step == KS_JSON_OK) {
        step = ks_json_peek(c, &ch);
    }
    bool is_events = step == KS_JSON_OK && item.key.len == strlen("traceEvents") &&
                     memcmp(item.key.ptr, "traceEvents", item.key.len) == 0;
    if (is_events && ch == '[') {
        return begin_events(w, c);
    }
    if (is_events && ch == '{') {
        return give(w, ks_fail(w->err, KS_ERR_UNSUPPORTED, offset_of(w, c->at),
                               "Cannot hand on a trace inside a trace"));
    }
    if (step == KS_JSON_OK) {
        step = take_value(w, c, &item, &is_lost);
    }
    if (step == KS_JSON_MORE) {
        c->at = start;
        return STEP_MORE;
    }
    if (step == KS_JSON_BAD || is_lost) {
        return lose(w, c, start);
    }
    item.needs_repair |= has_bad_key;
    w->place = PLACE_AFTER_MEMBER;
    if (item.needs_repair && note(w, &w->damage->repaired, start) != STEP_GO) {
        return STEP_ERROR;
    }
    return give(w, w->visitor->member(w->user, &item, w->err));
}

static enum step step_after_member(struct walker *w, struct ks_json_cursor *c, char ch)
{
    w->place = PLACE_MEMBER;
    if (ch == ',') {
        c->at++;
        return STEP_GO;
    }
    return ch == '}'   ? STEP_GO
           : ch == '"' ? note(w, &w->damage->repaired, c->at)
                       : lose(w, c, c->at);
}

/* Damaged metadata is given up until the events; behind them, to the end. */
static enum step step_lost_member(struct walker *w, struct ks_json_cursor *c)
{
    static const char key[] = "\"traceEvents\"";
    const char *found =
        w->saw_events ? NULL : memmem(c->at, (size_t)(c->end - c->at), key, sizeof(key) - 1);
    if (found) {
        c->at = found;
        w->place = PLACE_MEMBER;
        return STEP_GO;
    }
    ptrdiff_t left = c->end - c->at;
    c->at += left > (ptrdiff_t)sizeof(key) ? left - (ptrdiff_t)sizeof(key) : 0;
    return STEP_MORE;
}

static enum step step_start(struct walker *w, struct ks_json_cursor *c, char ch)
{
    if (ch != '{' && ch != '[') {
        return give(w, ks_fail(w->err, KS_ERR_FORMAT, offset_of(w, c->at),
                               "Cannot hand on text: it is no Kineto or Chrome trace"));
    }
    w->is_object = ch == '{';
    w->status = w->visitor->begin(w->user, w->is_object, w->err);
    if (w->status != KS_OK) {
        return STEP_ERROR;
    }
    if (!w->is_object) {
        return begin_events(w, c);
    }
    c->at++;
    w->place = PLACE_MEMBER;
    return STEP_GO;
}

static enum step step_once(struct walker *w, struct ks_json_cursor *c)
{
    static const char mark[] = "\xEF\xBB\xBF"; /* of UTF-8 */
    if (w->place == PLACE_START && w->offset == 0 && c->at == w->buf &&
        memcmp(c->at, mark, sizeof(mark) - 1) == 0) {
        c->at += sizeof(mark) - 1;
    }
    if (w->place == PLACE_LOST) {
        return step_lost(w, c);
    }
    if (w->place == PLACE_LOST_MEMBER) {
        return step_lost_member(w, c);
    }
    char ch = '\0';
    if (w->place == PLACE_DONE || ks_json_peek(c, &ch) != KS_JSON_OK) {
        return STEP_MORE;
    }
    switch (w->place) {
    case PLACE_START: return step_start(w, c, ch);
    case PLACE_MEMBER: return step_member(w, c, ch);
    case PLACE_AFTER_MEMBER: return step_after_member(w, c, ch);
    default: return step_event(w, c, ch);
    }
}

/* ------------------------------------------------------------------ the window */

static enum ks_status grow(struct walker *w, size_t capacity)
{
    if (capacity > WINDOW_MAX) {
        return ks_fail(w->err, KS_ERR_LIMIT, w->offset,
                       "Cannot hand on: one value is longer than %zu bytes", WINDOW_MAX);
    }
    char *buf = ks_realloc(w->buf, 1, capacity + KS_WINDOW_PAD);
    if (!buf) {
        return ks_fail(w->err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot read: window of %zu bytes",
                       capacity);
    }
    w->buf = buf;
    w->capacity = capacity;
    return KS_OK;
}

static enum ks_status fill(struct walker *w)
{
    while (w->len < w->capacity && !w->at_end) {
        size_t got = 0;
        KS_TRY(ks_input_read(w->input, w->buf + w->len, w->capacity - w->len, &got, w->err));
        w->len += got;
        w->at_end = got == 0;
    }
    memset(w->buf + w->len, 0, KS_WINDOW_PAD);
    return KS_OK;
}

/* What is still open when the input ends. */
static enum ks_status close_open(struct walker *w)
{
    bool is_whole = w->place == PLACE_DONE;
    w->damage->is_cut |= !is_whole || ks_input_damage(w->input) != KS_INPUT_WHOLE;
    if (w->strict && w->damage->is_cut) {
        return ks_fail(w->err, KS_ERR_FORMAT, w->offset + (int64_t)w->len,
                       "Cannot accept damaged input: it ends early");
    }
    if (w->place == PLACE_START || !w->saw_events) {
        return ks_fail(w->err, KS_ERR_FORMAT, KS_NO_OFFSET,
                       "Cannot find traceEvents: not a Kineto or Chrome trace");
    }
    if (w->is_in_events) {
        KS_TRY(w->visitor->events_end(w->user, w->err));
    }
    return is_whole && w->is_object ? KS_OK : w->visitor->end(w->user, w->err);
}

static enum ks_status walk(struct walker *w)
{
    KS_TRY(grow(w, WINDOW_START));
    for (;;) {
        KS_TRY(fill(w));
        struct ks_json_cursor c = {
            .at = w->buf, .end = w->buf + w->len, .is_open = !w->at_end, .is_exact = true};
        enum step step = STEP_GO;
        while (step == STEP_GO) {
            step = step_once(w, &c);
        }
        if (step == STEP_ERROR) {
            return w->status;
        }
        size_t used = w->place == PLACE_DONE ? w->len : (size_t)(c.at - w->buf);
        memmove(w->buf, w->buf + used, w->len - used);
        w->len -= used;
        w->offset += (int64_t)used;
        if (w->at_end) {
            return close_open(w);
        }
        if (used == 0) {
            KS_TRY(grow(w, w->capacity * 2));
        }
    }
}

enum ks_status ks_trace_text_walk(const struct ks_text_source *source,
                                  const struct ks_text_visitor *visitor, void *user,
                                  struct ks_text_damage *damage, struct ks_err *err)
{
    struct walker w = {
        .visitor = visitor, .user = user, .damage = damage, .strict = source->strict, .err = err};
    KS_TRY(ks_input_open(source->path, &w.input, err));
    uint64_t size = 0;
    if (ks_input_size(source->path, &size)) {
        ks_progress_add_total(source->progress, size);
    }
    ks_input_count(w.input, source->progress);
    enum ks_status status = walk(&w);
    ks_input_close(w.input);
    ks_free(w.buf);
    return status;
}
