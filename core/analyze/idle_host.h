/* What the host did in parts of idle intervals (docs/analyses/idle.md). All rows of the threads of
 * a source pass once; for each thread that is asked about, sums by state are kept up to now, so
 * that a part is the difference of two of them. Memory: one entry a thread, and the profiler's own
 * intervals. */
#ifndef KS_ANALYZE_IDLE_HOST_H
#define KS_ANALYZE_IDLE_HOST_H

#include "analyze/idle_gaps.h"
#include "analyze/registry.h"

struct ks_idle_thread;
struct ks_idle_wake;

/* The profiler worked; the host's clock stands still. */
struct ks_idle_stop {
    int64_t start_ns;
    int64_t end_ns;
    int64_t before_ns; /* sum of the stops before this one */
};

/* What the threads behind a quiet one do: that of the steps, and those that run backward(). */
struct ks_idle_backers;

struct ks_idle_host {
    struct ks_analyzer *analyzer;
    uint32_t source;
    bool is_device;       /* no GPU works: the threads themselves are what is busy or idle */
    uint32_t main_thread; /* track; 0: the source has no thread */
    uint32_t *index_of;   /* by track: 1 + index of the thread; shared by all sources */
    struct ks_idle_thread *threads;
    size_t thread_count;
    struct ks_idle_backers *backers;
    struct ks_idle_stop *stops;
    size_t stop_count;
    size_t stop_capacity;
    struct ks_idle_wake *wakes; /* binary heap, the earliest first */
    size_t wake_count;
};

/* Takes the threads of a source; memory from the analyzer's scratch. `index_of` has a zeroed entry
 * for each track. */
enum ks_status ks_idle_host_init(struct ks_idle_host *host, struct ks_analyzer *analyzer,
                                 uint32_t source, uint32_t *index_of, struct ks_err *err)
    KS_MUST_CHECK;
void ks_idle_host_release(struct ks_idle_host *host);
bool ks_idle_host_has(const struct ks_idle_host *host, uint32_t track);
/* Divides the parts, whose threads it has, and adds to their sinks. `slot_count`: slots in use. */
enum ks_status ks_idle_host_divide(struct ks_idle_host *host, const struct ks_idle_gaps *gaps,
                                   size_t slot_count, struct ks_err *err) KS_MUST_CHECK;

#endif
