/* Where to go on behind damage. Every byte is looked at once, whatever the windows are: what the
 * decision needs from bytes that are gone is kept in `solid_before`, and how far it looks ahead is
 * bounded. */
#include "read/kineto.h"

enum { LOOK_AHEAD_MAX = 256 }; // blanks and one key

/* Keys that stand beside traceEvents and nowhere inside an event. */
static const char *const MEMBER_KEYS[] = {
    "traceEvents",
    "baseTimeNanoseconds",
    "distributedInfo",
    "displayTimeUnit",
    "traceName",
    "deviceProperties",
    "schemaVersion",
    "trace_id",
    "with_stack",
    "record_shapes",
    "profile_memory",
    "with_flops",
    "with_modules",
    "host_name",
    "INFO",
    "WARNING",
};

static const char *const EVENT_KEYS[] = {"ph", "name", "cat", "ts", "pid", "tid", "dur", "id"};

/* Text ahead of the cursor. When it ends because the window does, the answer needs more bytes. */
struct look {
    const char *at;
    const char *end;
    bool is_open; /* more bytes may follow `end` */
};

static struct look look_from(const struct ks_json_cursor *c, const char *at, bool is_last)
{
    bool is_far = c->end - at >= LOOK_AHEAD_MAX;
    return (struct look){at, is_far ? at + LOOK_AHEAD_MAX : c->end, !is_far && !is_last};
}

/* The next character behind blanks; '\0' at the end. */
static char look_solid(struct look *l)
{
    while (l->at < l->end &&
           (*l->at == ' ' || *l->at == '\n' || *l->at == '\t' || *l->at == '\r')) {
        l->at++;
    }
    return l->at < l->end ? *l->at : '\0';
}

/* Behind an opening quote: is this one of the keys? */
static bool look_key(struct look *l, const char *const *keys, size_t count)
{
    size_t left = (size_t)(l->end - l->at);
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(keys[i]);
        if (left > len && l->at[len] == '"' && memcmp(l->at, keys[i], len) == 0) {
            l->at += len + 1;
            return true;
        }
    }
    /* A cut key is none yet; a whole one that is not in the list never will be. */
    const char *quote = memchr(l->at, '"', left);
    l->at = quote ? quote : l->end;
    return false;
}

static enum ks_json verdict(const struct look *l, bool is_found)
{
    return is_found ? KS_JSON_OK : l->is_open && l->at >= l->end ? KS_JSON_MORE : KS_JSON_BAD;
}

/* Is this the brace of an event, not of its args? OK: yes, BAD: no. An event follows an item or
 * opens the list; one that begins with ph, as most do, stands anywhere: writers run into one
 * another. */
static enum ks_json is_event(struct look l, char before)
{
    l.at++;
    bool is_after_item = before == ',' || before == '[' || before == '}';
    if (look_solid(&l) != '"') {
        return verdict(&l, false);
    }
    l.at++;
    return verdict(&l, look_key(&l, EVENT_KEYS, is_after_item ? KS_COUNT_OF(EVENT_KEYS) : 1));
}

/* Behind a comma or brace: a key of the document, with its colon? */
static enum ks_json is_member(struct look l)
{
    if (look_solid(&l) != '"') {
        return verdict(&l, false);
    }
    l.at++;
    bool is_known = look_key(&l, MEMBER_KEYS, KS_COUNT_OF(MEMBER_KEYS));
    return verdict(&l, is_known && look_solid(&l) == ':');
}

/* Is this the bracket behind the last event? Only the document's own text may follow. */
static enum ks_json is_list_end(struct look l, bool is_array_form)
{
    l.at++;
    char ch = look_solid(&l);
    if (is_array_form) {
        return verdict(&l, ch == '\0' && !l.is_open && l.at >= l.end);
    }
    if (ch == ',') {
        l.at++;
        return is_member(l);
    }
    if (ch != '}') {
        return verdict(&l, false);
    }
    l.at++;
    return verdict(&l, look_solid(&l) == '\0' && !l.is_open && l.at >= l.end);
}

/* Last byte before p that is no blank. */
static char solid_before(const struct kineto *k, const char *begin, const char *p)
{
    while (p > begin && (p[-1] == ' ' || p[-1] == '\n' || p[-1] == '\t' || p[-1] == '\r')) {
        p--;
    }
    return p > begin ? p[-1] : k->solid_before;
}

static const char *find_byte(const char *p, const char *end, char ch)
{
    const char *found = p < end ? memchr(p, ch, (size_t)(end - p)) : NULL;
    return found ? found : end;
}

/* Stops at p: what stands before it is done with. */
static enum ks_json stop_at(struct kineto *k, struct ks_json_cursor *c, const char *p,
                            enum ks_json step)
{
    k->solid_before = solid_before(k, c->at, p);
    c->at = p;
    return step;
}

enum ks_json kineto_find_event(struct kineto *k, struct ks_json_cursor *c, bool is_last)
{
    const char *brace = find_byte(c->at, c->end, '{');
    const char *bracket = find_byte(c->at, c->end, ']');
    while (brace < c->end || bracket < c->end) {
        const char *p = brace < bracket ? brace : bracket;
        struct look look = look_from(c, p, is_last);
        enum ks_json step = p == brace ? is_event(look, solid_before(k, c->at, p))
                                       : is_list_end(look, k->is_array_form);
        if (step != KS_JSON_BAD) {
            return stop_at(k, c, p, step);
        }
        if (p == brace) {
            brace = find_byte(brace + 1, c->end, '{');
        } else {
            bracket = find_byte(bracket + 1, c->end, ']');
        }
    }
    return stop_at(k, c, c->end, KS_JSON_MORE);
}

enum ks_json kineto_find_member(struct kineto *k, struct ks_json_cursor *c, bool is_last)
{
    for (const char *p = find_byte(c->at, c->end, '"'); p < c->end;
         p = find_byte(p + 1, c->end, '"')) {
        enum ks_json step = is_member(look_from(c, p, is_last));
        if (step != KS_JSON_BAD) {
            return stop_at(k, c, p, step);
        }
    }
    return stop_at(k, c, c->end, KS_JSON_MORE);
}
