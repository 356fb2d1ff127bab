/* What decides whether an event is kept: the members that filters look at, taken from its text. */
#ifndef KS_EXPORT_EVENT_HEAD_H
#define KS_EXPORT_EVENT_HEAD_H

#include "read/json_cursor.h"
#include "store/category.h"

struct ks_event_head {
    char phase; /* 0: none */
    enum ks_category category;
    struct ks_str cat;  /* raw */
    struct ks_str name; /* raw */
    bool is_trace;      /* no event, but a whole trace with events of its own */
    bool has_time;
    int64_t start_ns;
    int64_t dur_ns;
    int64_t id;          /* of flows; -1 none */
    int64_t correlation; /* -1 none */
    int64_t ext_id;      /* -1 none */
};

/* `cursor` stands at the brace of an event that was read once already. False: it is no event. */
bool ks_event_head_parse(struct ks_json_cursor cursor, bool wants_args, struct ks_event_head *head);
bool ks_event_key_is(const struct ks_json_str *key, const char *word);

#endif
