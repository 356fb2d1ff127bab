/* A sealed trace as text that people can read and tests can compare: one line a source, track, row
 * and collective. Strings stand in it as texts, never as ids; columns that say nothing are left
 * out. */
#ifndef KS_TESTS_DUMP_TRACE_H
#define KS_TESTS_DUMP_TRACE_H

#include "base/text.h"
#include "store/trace.h"

/* Appends to `out`; ks_text.failed says when memory ran out. */
enum ks_status dump_trace(const struct ks_trace *trace, struct ks_text *out, struct ks_err *err)
    KS_MUST_CHECK;
/* The counters of a source that are not zero: " name=count" each. */
void dump_counts(const struct ks_source *source, struct ks_text *out);

#endif
