/* The Kineto and Chrome JSON reader, down to sealed tables.
 *
 * The first byte chooses the sizes: rows of a chunk (2 bits), bytes of a window (6 bits). The rest
 * is the document. It is read in small windows; one in so many, by its bytes, as a whole and
 * strictly too, since each reading costs as much as the first. What must hold, beside what
 * sanitizers see: windows change nothing; what strict reading accepts, it reads the same, and
 * nothing was repaired in it; strings are UTF-8; no duration is negative; rows are sorted. */
#include <stdio.h>

#include "base/err.h"
#include "check_sealed.h"
#include "dump_trace.h"
#include "fuzz_share.h"
#include "read_bytes.h"

enum { COMPARED_EVERY = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Infinite numbers are the one thing that is counted and yet legal: "inf" in quotes, 1e999. */
static bool is_undamaged(const struct ks_source *source)
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
static enum ks_status describe(struct ks_str bytes, const struct read_bytes_options *options,
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

static void check_same(const struct ks_text *a, const struct ks_text *b)
{
    bool is_same = a->len == b->len && (a->len == 0 || memcmp(a->ptr, b->ptr, a->len) == 0);
    if (!is_same) { // a person will look at this run
        fprintf(stderr, "---- first\n%.*s---- second\n%.*s", (int)a->len, a->ptr, (int)b->len,
                b->ptr);
    }
    KS_ASSERT(is_same);
}

static void compare_readings(struct ks_str bytes, const struct read_bytes_options *windows)
{
    struct read_bytes_options whole = {.chunk_rows = windows->chunk_rows};
    struct read_bytes_options strict = {.chunk_rows = windows->chunk_rows, .strict = true};
    struct ks_text texts[3];
    struct ks_err errs[3] = {0};
    for (int i = 0; i < 3; i++) {
        ks_text_init(&texts[i]);
    }
    enum ks_status status = describe(bytes, &whole, &texts[0], &errs[0]);
    KS_ASSERT(describe(bytes, windows, &texts[1], &errs[1]) == status);
    check_same(&texts[0], &texts[1]);
    enum ks_status status_strict = describe(bytes, &strict, &texts[2], &errs[2]);
    KS_ASSERT(status == KS_OK || status_strict != KS_OK);
    if (status_strict == KS_OK) {
        check_same(&texts[0], &texts[2]);
    }
    for (int i = 0; i < 3; i++) {
        ks_text_release(&texts[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct ks_str bytes = {(const char *)data + 1, size - 1};
    struct read_bytes_options windows = {.chunk_rows = 2u << (data[0] & 3),
                                         .window = 1 + (data[0] >> 2) * (size_t)3};
    struct ks_err err = {0};
    if (fuzz_is_chosen(data, size, COMPARED_EVERY)) {
        compare_readings(bytes, &windows);
    } else {
        (void)describe(bytes, &windows, NULL, &err);
    }
    return 0;
}
