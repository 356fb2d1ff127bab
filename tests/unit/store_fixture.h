/* Random traces for the tests of the store: the same rows go to a builder and to whoever wants to
 * calculate by hand what sealing must make of them. */
#ifndef KS_TESTS_STORE_FIXTURE_H
#define KS_TESTS_STORE_FIXTURE_H

#include "base/text.h"
#include "store/builder.h"

enum { FIXTURE_SOURCES = 3, FIXTURE_THREADS = 4, FIXTURE_DEVICES = 2, FIXTURE_STREAMS = 3 };

/* Lanes and streams of the rows are small numbers; fixture_build maps them to tracks. Slice lane
 * and mark lane: thread; gpu lane: device; memory lane: process. `aux`, `ext_id`, `addr` and
 * `value` hold the order of arrival in their table. */
struct fixture_source {
    int64_t base_ns;
    int64_t run;
    struct ks_slice_row *slices;
    struct ks_gpu_row *gpus;
    struct ks_memory_row *memories;
    struct ks_mark_row *marks;
    size_t slice_count, gpu_count, memory_count, mark_count;
};

struct fixture {
    struct fixture_source sources[FIXTURE_SOURCES];
};

/* About `rows` slices in each source; ends the test when memory runs out. */
void fixture_init(struct fixture *fixture, uint64_t seed, size_t rows);
void fixture_release(struct fixture *fixture);

/* Builds and seals; every failure of the store is handed on, and nothing is left then. */
enum ks_status fixture_build(const struct fixture *fixture, const struct ks_trace_options *options,
                             int64_t run, struct ks_trace **out, struct ks_err *err);

/* Everything that can be seen of a trace, as bytes: equal traces give equal text. */
enum ks_status fixture_dump(const struct ks_trace *trace, struct ks_text *out, struct ks_err *err);

/* Names that fixture_build gives to slices: calls, which launch something, and others. */
const char *fixture_name(size_t index);
enum { FIXTURE_NAMES = 12 };

#endif
