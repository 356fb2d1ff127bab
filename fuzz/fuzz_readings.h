/* One document, read twice: as a whole, and in windows or strictly. What must hold, beside what
 * sanitizers see: windows change nothing; what strict reading accepts, it reads the same, and
 * nothing was repaired in it; strings are UTF-8; no duration is negative; rows are sorted. */
#ifndef KS_FUZZ_FUZZ_READINGS_H
#define KS_FUZZ_FUZZ_READINGS_H

#include <stdio.h>

#include "base/err.h"
#include "check_sealed.h"
#include "dump_trace.h"
#include "read_bytes.h"

/* Infinite numbers are the one thing that is counted and yet legal: "inf" in quotes, 1e999. */
static inline bool is_undamaged(const struct ks_source *source)
{
    for (int i = 0; i < KS_STAT_COUNT; i++) {
        bool is_damage = ks_stat_info((enum ks_stat)i)->severity != KS_SEVERITY_INFO;
        if (is_damage && i != KS_STAT_non_finite_numbers && source->counts[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Reads and looks; `out` NULL: does not describe. The text is empty when the document is
 * refused. */
static inline enum ks_status describe(struct ks_str bytes, const struct read_bytes_options *options,
                                      struct ks_text *out, struct ks_err *err)
{
    struct ks_trace *trace = NULL;
    enum ks_status status = read_bytes(bytes, options, &trace, err);
    if (status != KS_OK) {
        KS_ASSERT(err->status == status && err->message[0] != '\0');
        KS_ASSERT(err->offset >= KS_NO_OFFSET && err->offset <= (int64_t)bytes.len);
        return status;
    }
    check_sealed(trace);
    KS_ASSERT(!options->strict || is_undamaged(ks_trace_source(trace, 0)));
    if (out) {
        status = dump_trace(trace, out, err);
        KS_ASSERT(status == KS_OK && !out->failed);
    }
    ks_trace_destroy(trace);
    return KS_OK;
}

static inline void check_same(const struct ks_text *a, const struct ks_text *b)
{
    bool is_same = a->len == b->len && (a->len == 0 || memcmp(a->ptr, b->ptr, a->len) == 0);
    if (!is_same) { // a person will look at this run
        fprintf(stderr, "---- first\n%.*s---- second\n%.*s", (int)a->len, a->ptr, (int)b->len,
                b->ptr);
    }
    KS_ASSERT(is_same);
}

/* `window` 0: strictly instead. */
static inline void compare_readings(struct ks_str bytes, uint32_t chunk_rows, size_t window)
{
    struct read_bytes_options options[2] = {
        {.chunk_rows = chunk_rows},
        {.chunk_rows = chunk_rows, .strict = window == 0, .window = window},
    };
    struct ks_text texts[2];
    struct ks_err errs[2] = {0};
    enum ks_status status[2];
    for (int i = 0; i < 2; i++) {
        ks_text_init(&texts[i]);
        status[i] = describe(bytes, &options[i], &texts[i], &errs[i]);
    }
    KS_ASSERT(options[1].strict ? status[0] == KS_OK || status[1] != KS_OK
                                : status[0] == status[1]);
    if (status[1] == KS_OK) {
        check_same(&texts[0], &texts[1]);
    }
    for (int i = 0; i < 2; i++) {
        ks_text_release(&texts[i]);
    }
}

#endif
