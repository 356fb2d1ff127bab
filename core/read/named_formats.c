/* Files of PyTorch that lie beside traces and look like them, but hold no timeline: they are named
 * as what they are instead of being misread. */
#include <ctype.h>

#include "base/err.h"
#include "read/reader.h"

static struct ks_str skip_blanks(struct ks_str s)
{
    while (s.len > 0 && isspace((unsigned char)*s.ptr)) {
        s.ptr++;
        s.len--;
    }
    return s;
}

/* ExecutionTraceObserver: {"schema": "1.0.2-chakra.0.0.4", "pid": ..., "nodes": [...]}. */
static bool sniff_execution_trace(struct ks_str head)
{
    return ks_str_starts(skip_blanks(head), KS_STR("{")) &&
           ks_str_contains(head, KS_STR("\"schema\"")) &&
           ks_str_contains(head, KS_STR("\"nodes\"")) &&
           !ks_str_contains(head, KS_STR("\"traceEvents\"")) &&
           !ks_str_contains(head, KS_STR("\"schemaVersion\""));
}

static enum ks_status open_execution_trace(const struct ks_reader_context *context,
                                           struct ks_str head, void **state, struct ks_err *err)
{
    (void)context;
    (void)head;
    (void)state;
    return ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                   "Cannot report on an execution trace: it holds the operator graph without "
                   "times; record the run with torch.profiler");
}

/* export_memory_timeline: [[time, action, bytes, category], ...] or [[times], [[sizes], ...]]. */
static bool sniff_memory_timeline(struct ks_str head)
{
    struct ks_str s = skip_blanks(head);
    if (!ks_str_starts(s, KS_STR("["))) {
        return false;
    }
    s = skip_blanks((struct ks_str){s.ptr + 1, s.len - 1});
    return ks_str_starts(s, KS_STR("["));
}

static enum ks_status open_memory_timeline(const struct ks_reader_context *context,
                                           struct ks_str head, void **state, struct ks_err *err)
{
    (void)context;
    (void)head;
    (void)state;
    return ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                   "Cannot report on a memory timeline: it holds sizes without operators; record "
                   "the run with torch.profiler and profile_memory=True");
}

static void close_nothing(void *state)
{
    (void)state;
}

const struct ks_reader ks_reader_execution_trace = {
    .name = "execution-trace",
    .sniff = sniff_execution_trace,
    .open = open_execution_trace,
    .close = close_nothing,
};

const struct ks_reader ks_reader_memory_timeline = {
    .name = "memory-timeline",
    .sniff = sniff_memory_timeline,
    .open = open_memory_timeline,
    .close = close_nothing,
};
