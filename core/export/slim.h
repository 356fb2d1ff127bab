/* Hands on the text of one trace file, all of it or a part: what is kept keeps its bytes, with
 * unknown keys and arguments and in its order, unless something is to be taken out of it. Events
 * that were damaged come out as strict JSON. */
#ifndef KS_EXPORT_SLIM_H
#define KS_EXPORT_SLIM_H

#include "base/log.h"
#include "base/map.h"
#include "store/category.h"

/* Which events are kept. Zero: all. Metadata events (ph M) and events without a time always are. */
struct ks_slim_pick {
    const char *keep; /* categories, separated by commas; NULL: any */
    const char *drop; /* the same for those that go; NULL: none */
    bool has_time;    /* only what overlaps [from_ns, to_ns), in the file's own time */
    bool is_steps;    /* ... on the host; GPU work only when it was launched there */
    int64_t from_ns;
    int64_t to_ns;
    struct ks_map correlations; /* (1, correlation) of the calls that were made there */
    struct ks_map ext_ids;      /* (1, External id) of the annotations that began there */
};

struct ks_slim {
    struct ks_slim_pick pick;
    bool strict;
    bool drop_args; /* arguments that only shapes and FLOPs need */
    bool anonymize;
    const struct ks_log *log;
    struct ks_progress *progress; /* NULL: nobody asks */
};

/* Errors: those of ks_trace_text_walk. */
enum ks_status ks_slim_write(const char *path, const struct ks_slim *slim, ks_write_cb write,
                             void *user, struct ks_err *err) KS_MUST_CHECK;

#endif
