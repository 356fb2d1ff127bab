#include "export/slim.h"

#include "base/err.h"
#include "export/pseudonyms.h"
#include "export/rewrite.h"
#include "export/trace_text.h"
#include "measure/sum.h"

#define KS_LOG_DOMAIN "export"

struct slimmer {
    const struct ks_slim *slim;
    struct ks_sink sink;
    struct ks_rewrite rewrite;
    struct ks_pseudonyms names;
    bool is_object;
    bool has_members;
    bool has_events; /* in the list under way */
    bool is_picky;   /* some events may go */
};

/* ------------------------------------------------------------------ what is kept */

/* Is the category one of the list, by its own text or by today's name of what it is? */
static bool is_listed(const char *list, const struct ks_event_head *head)
{
    struct ks_str today = ks_str_from(ks_category_name(head->category));
    bool has_name = head->category != KS_CATEGORY_NONE &&
                    head->category != KS_CATEGORY_OTHER_HOST &&
                    head->category != KS_CATEGORY_GPU_OTHER;
    for (const char *at = list; *at;) {
        size_t len = strcspn(at, ",");
        struct ks_str word = {at, len};
        if (len > 0 && (ks_str_equal_nocase(word, head->cat) ||
                        (has_name && ks_str_equal_nocase(word, today)))) {
            return true;
        }
        at += len + (at[len] == ',');
    }
    return false;
}

static bool has_id(const struct ks_map *ids, int64_t id)
{
    return id >= 0 && ks_map_find(ids, 1, (uint64_t)id) != NULL;
}

static bool begins_inside(const struct ks_slim_pick *pick, const struct ks_event_head *head)
{
    return head->start_ns >= pick->from_ns && head->start_ns < pick->to_ns;
}

/* A span of no length is where it begins. */
static bool overlaps(const struct ks_slim_pick *pick, const struct ks_event_head *head)
{
    int64_t end_ns = ks_sum_add(head->start_ns, head->dur_ns);
    return begins_inside(pick, head) || (head->start_ns < pick->from_ns && end_ns > pick->from_ns);
}

/* Steps hold what the host began in them, what the GPU did of that, and Python frames around it. */
static bool is_of_steps(const struct ks_slim_pick *pick, const struct ks_event_head *head)
{
    bool is_flow = head->phase == 's' || head->phase == 't' || head->phase == 'f';
    if (is_flow && ks_str_equal(head->cat, KS_STR("ac2g"))) {
        return has_id(&pick->correlations, head->id);
    }
    if (head->phase == 'X' && head->category == KS_CATEGORY_PYTHON) {
        return overlaps(pick, head);
    }
    if (head->phase != 'X' || !ks_category_is_gpu(head->category)) {
        return begins_inside(pick, head);
    }
    if (head->category == KS_CATEGORY_GPU_ANNOTATION) {
        return has_id(&pick->ext_ids, head->ext_id);
    }
    return has_id(&pick->correlations, head->correlation);
}

static bool is_kept(const struct ks_slim_pick *pick, const struct ks_event_head *head)
{
    if (head->phase == 'M') {
        return true;
    }
    if ((pick->keep && !is_listed(pick->keep, head)) ||
        (pick->drop && is_listed(pick->drop, head))) {
        return false;
    }
    if (!pick->has_time || !head->has_time) {
        return true;
    }
    return pick->is_steps       ? is_of_steps(pick, head)
           : head->phase == 'X' ? overlaps(pick, head)
                                : begins_inside(pick, head);
}

/* ------------------------------------------------------------------ the visitor */

static enum ks_status status_of(struct slimmer *s, struct ks_err *err)
{
    if (s->rewrite.status != KS_OK) {
        return s->rewrite.status;
    }
    return s->sink.failed
               ? ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot write export: the receiver stopped")
               : KS_OK;
}

static enum ks_status begin(void *user, bool is_object, struct ks_err *err)
{
    struct slimmer *s = user;
    s->is_object = is_object;
    ks_sink_text(&s->sink, is_object ? "{" : "");
    return status_of(s, err);
}

static const char *before_member(const struct slimmer *s)
{
    return s->has_members ? ",\n" : "\n";
}

static enum ks_status member(void *user, const struct ks_text_item *item, struct ks_err *err)
{
    struct slimmer *s = user;
    s->rewrite.err = err;
    if (s->slim->anonymize || item->needs_repair) {
        s->has_members |=
            ks_rewrite_member(&s->rewrite, &item->key, item->cursor, before_member(s));
        return status_of(s, err);
    }
    ks_sink_text(&s->sink, before_member(s));
    s->has_members = true;
    ks_sink_text(&s->sink, "\"");
    ks_sink_put(&s->sink, item->key.ptr, item->key.len);
    ks_sink_text(&s->sink, "\": ");
    ks_sink_put(&s->sink, item->text.ptr, item->text.len);
    return status_of(s, err);
}

static enum ks_status events_begin(void *user, struct ks_err *err)
{
    struct slimmer *s = user;
    if (s->is_object) {
        ks_sink_text(&s->sink, before_member(s));
        ks_sink_text(&s->sink, "\"traceEvents\": ");
        s->has_members = true;
    }
    ks_sink_text(&s->sink, "[");
    s->has_events = false;
    return status_of(s, err);
}

static enum ks_status event(void *user, const struct ks_text_item *item, struct ks_err *err)
{
    struct slimmer *s = user;
    const struct ks_slim *slim = s->slim;
    bool is_changed = slim->drop_args || slim->anonymize;
    struct ks_event_head head = {0};
    if (s->is_picky || is_changed) {
        bool is_event = ks_event_head_parse(item->cursor, slim->pick.is_steps, &head);
        if (head.is_trace) {
            return ks_fail(err, KS_ERR_UNSUPPORTED, item->offset,
                           "Cannot choose from a trace inside a trace");
        }
        if (s->is_picky && is_event && !is_kept(&slim->pick, &head)) {
            return KS_OK;
        }
    }
    ks_sink_text(&s->sink, s->has_events ? ",\n" : "\n");
    s->has_events = true;
    s->rewrite.err = err;
    if (is_changed || item->needs_repair) {
        ks_rewrite_event(&s->rewrite, item->cursor, &head);
    } else {
        ks_sink_put(&s->sink, item->text.ptr, item->text.len);
    }
    return status_of(s, err);
}

static enum ks_status events_end(void *user, struct ks_err *err)
{
    struct slimmer *s = user;
    ks_sink_text(&s->sink, "\n]");
    return status_of(s, err);
}

static enum ks_status end(void *user, struct ks_err *err)
{
    struct slimmer *s = user;
    ks_sink_text(&s->sink, s->is_object ? "\n}\n" : "\n");
    return status_of(s, err);
}

static void say_damage(const struct slimmer *s, const struct ks_text_damage *damage)
{
    const struct ks_log *log = s->slim->log;
    if (damage->repaired > 0) {
        KS_LOG(log, KS_LOG_WARN, "repaired %lld places of the text", (long long)damage->repaired);
    }
    if (damage->lost > 0) {
        KS_LOG(log, KS_LOG_WARN, "left out damaged text at %lld places", (long long)damage->lost);
    }
    if (damage->is_cut) {
        KS_LOG(log, KS_LOG_WARN, "the input ends early");
    }
    if (s->slim->anonymize && s->rewrite.dropped_count > 0) {
        KS_LOG(log, KS_LOG_WARN, "left out %lld values in which names could hide",
               (long long)s->rewrite.dropped_count);
    }
}

enum ks_status ks_slim_write(const char *path, const struct ks_slim *slim, ks_write_cb write,
                             void *user, struct ks_err *err)
{
    static const struct ks_text_visitor visitor = {begin, member,     events_begin,
                                                   event, events_end, end};
    struct slimmer s = {.slim = slim, .rewrite = {.drop_args = slim->drop_args}};
    s.is_picky = slim->pick.keep || slim->pick.drop || slim->pick.has_time;
    s.rewrite.sink = &s.sink;
    s.rewrite.names = slim->anonymize ? &s.names : NULL;
    ks_text_init(&s.rewrite.scratch);
    ks_sink_init(&s.sink, write, user);
    struct ks_text_damage damage = {0};
    const struct ks_text_source source = {path, slim->strict, slim->progress};
    enum ks_status status = ks_pseudonyms_init(&s.names, err);
    if (status == KS_OK) {
        status = ks_trace_text_walk(&source, &visitor, &s, &damage, err);
    }
    if (status == KS_OK) {
        status = ks_sink_finish(&s.sink, err);
    }
    if (status == KS_OK) {
        say_damage(&s, &damage);
    }
    ks_pseudonyms_release(&s.names);
    ks_text_release(&s.rewrite.scratch);
    return status;
}
