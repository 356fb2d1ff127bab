#include "export/event_head.h"

bool ks_event_key_is(const struct ks_json_str *key, const char *word)
{
    return key->len == strlen(word) && memcmp(key->ptr, word, key->len) == 0;
}

static enum ks_json take_text(struct ks_json_cursor *c, struct ks_str *out)
{
    struct ks_json_str text = {0};
    ks_json_blanks(c);
    enum ks_json step = *c->at == '"' ? ks_json_string(c, &text) : ks_json_skip(c);
    *out = (struct ks_str){text.ptr, text.len};
    return step;
}

/* A number, also in quotes; else `*out` stays as it is. */
static enum ks_json take_number(struct ks_json_cursor *c, int64_t *out)
{
    int64_t value = 0;
    bool found = false;
    enum ks_json step = ks_json_int(c, &value, &found);
    *out = step == KS_JSON_OK && found ? value : *out;
    return step;
}

static enum ks_json take_arg(struct ks_json_cursor *c, const struct ks_json_str *key,
                             struct ks_event_head *head)
{
    if (ks_event_key_is(key, "correlation")) {
        return take_number(c, &head->correlation);
    }
    if (ks_event_key_is(key, "External id") || ks_event_key_is(key, "external id")) {
        return take_number(c, &head->ext_id);
    }
    return ks_json_skip(c);
}

typedef enum ks_json (*member_cb)(struct ks_json_cursor *c, const struct ks_json_str *key,
                                  struct ks_event_head *head);

static enum ks_json each_member(struct ks_json_cursor *c, member_cb take,
                                struct ks_event_head *head)
{
    c->at++;
    ks_json_blanks(c);
    if (*c->at == '}') {
        c->at++;
        return KS_JSON_OK;
    }
    enum ks_json step = KS_JSON_OK;
    for (bool more = true; more && step == KS_JSON_OK;) {
        struct ks_json_str key;
        step = ks_json_key(c, &key);
        step = step == KS_JSON_OK ? take(c, &key, head) : step;
        step = step == KS_JSON_OK ? ks_json_next(c, '}', &more) : step;
    }
    return step;
}

static enum ks_json take_args(struct ks_json_cursor *c, struct ks_event_head *head)
{
    ks_json_blanks(c);
    return *c->at == '{' ? each_member(c, take_arg, head) : ks_json_skip(c);
}

static enum ks_json take_member(struct ks_json_cursor *c, const struct ks_json_str *key,
                                struct ks_event_head *head)
{
    struct ks_str text;
    bool found = false;
    if (ks_event_key_is(key, "ph")) {
        enum ks_json step = take_text(c, &text);
        head->phase = text.len == 1 ? text.ptr[0] : '?';
        return step;
    }
    if (ks_event_key_is(key, "cat")) {
        return take_text(c, &head->cat);
    }
    if (ks_event_key_is(key, "name")) {
        return take_text(c, &head->name);
    }
    if (ks_event_key_is(key, "ts")) {
        return ks_json_time(c, &head->start_ns, &head->has_time);
    }
    if (ks_event_key_is(key, "dur")) {
        enum ks_json step = ks_json_time(c, &head->dur_ns, &found);
        head->dur_ns = found && head->dur_ns > 0 ? head->dur_ns : 0;
        return step;
    }
    if (ks_event_key_is(key, "id")) {
        return take_number(c, &head->id);
    }
    head->is_trace |= ks_event_key_is(key, "traceEvents");
    return ks_event_key_is(key, "args") ? take_args(c, head) : ks_json_skip(c);
}

/* The same without a look into the arguments. */
static enum ks_json take_outer(struct ks_json_cursor *c, const struct ks_json_str *key,
                               struct ks_event_head *head)
{
    return ks_event_key_is(key, "args") ? ks_json_skip(c) : take_member(c, key, head);
}

bool ks_event_head_parse(struct ks_json_cursor cursor, bool wants_args, struct ks_event_head *head)
{
    *head = (struct ks_event_head){.id = -1, .correlation = -1, .ext_id = -1};
    enum ks_json step = each_member(&cursor, wants_args ? take_member : take_outer, head);
    head->category = ks_category_find(head->cat);
    return step == KS_JSON_OK;
}
