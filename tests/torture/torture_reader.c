/* Goal: a read that runs out of memory, or whose file gives errors, ends with the right status,
 * leaves nothing behind and never gives half a trace for a whole one. Method: a document with every
 * kind of event, plain and compressed; each allocation fails once, and for ever; each read() fails,
 * is interrupted, or is short. read() is replaced at link time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/text.h"
#include "cmocka_all.h"
#include "dump_trace.h"
#include "every_event.h"
#include "read/read.h"
#include "recording_bytes.h"

/* How the replaced read() behaves. */
static struct {
    int64_t calls;
    int64_t fail_at; /* 0: never */
    int error;       /* what that call fails with */
    size_t size_max; /* most bytes of one call */
} reads;

ssize_t __real_read(int fd, void *bytes, size_t size);
ssize_t __wrap_read(int fd, void *bytes, size_t size);

ssize_t __wrap_read(int fd, void *bytes, size_t size)
{
    reads.calls++;
    if (reads.calls == reads.fail_at) {
        errno = reads.error;
        return -1;
    }
    return __real_read(fd, bytes, size < reads.size_max ? size : reads.size_max);
}

static void reset_reads(void)
{
    reads.calls = 0;
    reads.fail_at = 0;
    reads.size_max = SIZE_MAX;
}

/* PARTS is read by several threads, ZSTD is decompressed by a second one. */
enum { PLAIN, GZIP, ZSTD, DAMAGED, PARTS, RECORDING, KINDS };

static char paths[KINDS][64];

static int write_file(int kind, const char *bytes, size_t size)
{
    (void)snprintf(paths[kind], sizeof(paths[kind]), "/tmp/ks_torture_%d_%d", (int)getpid(), kind);
    FILE *file = fopen(paths[kind], "wb");
    return file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0 ? 0 : -1;
}

/* Events enough for three parts of a few small windows. */
static int write_parts(void)
{
    static char text[16384];
    size_t len = (size_t)sprintf(text, "{\"traceEvents\": [");
    for (int i = 0; i < 60; i++) {
        len += (size_t)sprintf(text + len,
                               "%s{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"op%d\", "
                               "\"pid\": 1, \"tid\": %d, \"ts\": %d.000, \"dur\": 1.000}",
                               i > 0 ? ", " : "", i % 7, i % 3, i);
    }
    len += (size_t)sprintf(text + len, "]}");
    return write_file(PARTS, text, len);
}

static int write_recording(void)
{
    struct recording_bytes recording;
    recording_bytes_everything(&recording);
    int failed = write_file(RECORDING, recording.bytes.ptr, recording.bytes.len);
    recording_bytes_release(&recording);
    return failed;
}

static int write_files(void **state)
{
    (void)state;
    reset_reads();
    size_t size = sizeof(EVERYTHING) - 1;
    static char packed[16384];
    int failed = write_file(PLAIN, EVERYTHING, size);
    z_stream z = {.next_in = (Bytef *)(uintptr_t)EVERYTHING,
                  .avail_in = (unsigned)size,
                  .next_out = (Bytef *)packed,
                  .avail_out = sizeof(packed)};
    failed |= deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    failed |= deflate(&z, Z_FINISH) != Z_STREAM_END;
    failed |= write_file(GZIP, packed, z.total_out);
    failed |= deflateEnd(&z);
    size_t len = ZSTD_compress(packed, sizeof(packed), EVERYTHING, size, 3);
    failed |= ZSTD_isError(len) || write_file(ZSTD, packed, len);
    /* Strings to be repaired, an event that is read twice, events left open. */
    static const char BROKEN[] =
        "{\"INFO\": [\"a \"b\" c\"], \"traceEvents\": [{\"ph\": \"X\", \"ts\": 1, \"dur\": 1, "
        "\"name\": \"a\xff\", \"args\": {\"Input Dims\": [[1,2]], \"Input type\": [\"\xff\"]}}, "
        "{\"ph\": \"B\", \"name\": \"o\", \"ts\": 2}, {\"ph\": \"b\", \"id\": \"x\", \"ts\": 3}, "
        "{\"ph\": \"X\", \"ts\": 4, \"dur\": 1, \"name\": \"a\"b\"}, {\"ph\": \"X\" ";
    return failed | write_file(DAMAGED, BROKEN, sizeof(BROKEN) - 1) | write_parts() |
           write_recording();
}

static int remove_files(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        (void)unlink(paths[kind]);
    }
    return 0;
}

/* Reads, seals and describes; the text is empty unless all went well. */
static enum ks_status read_all(int kind, struct ks_text *out, struct ks_err *err)
{
    const char *list[] = {paths[kind]};
    struct ks_read_options options = {.paths = list,
                                      .path_count = 1,
                                      .threads = kind == PARTS  ? 3
                                                 : kind == ZSTD ? 2
                                                                : 1,
                                      .window_bytes = kind == PARTS || kind == ZSTD ? 64 : 0};
    struct ks_trace_options trace_options = {.chunk_rows = 4};
    struct ks_trace_builder *builder = NULL;
    KS_TRY(ks_trace_builder_create(&trace_options, &builder, err));
    int64_t run = 0;
    enum ks_status status = ks_read_paths(&options, builder, &run, err);
    if (status != KS_OK) {
        ks_trace_builder_destroy(builder);
        return status;
    }
    struct ks_trace *trace = NULL;
    KS_TRY(ks_trace_builder_seal(builder, run, &trace, err));
    status = dump_trace(trace, out, err);
    ks_trace_destroy(trace);
    return out->failed ? ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot describe") : status;
}

/* What the kind gives when nothing fails. */
static void read_good(int kind, struct ks_text *good)
{
    struct ks_err err = {0};
    ks_text_init(good);
    reset_reads();
    ks_alloc_fail_at(0, false);
    assert_int_equal(read_all(kind, good, &err), KS_OK);
}

static bool is_same(const struct ks_text *a, const struct ks_text *b)
{
    return a->len == b->len && memcmp(a->ptr, b->ptr, a->len) == 0;
}

/* The lines from the first row on: metadata may be given up for want of memory, rows never. */
static bool has_same_rows(const struct ks_text *a, const struct ks_text *b)
{
    const char *x = memmem(a->ptr, a->len, "\ntrack ", 7);
    const char *y = memmem(b->ptr, b->len, "\ntrack ", 7);
    assert_true(x && y);
    size_t len = a->len - (size_t)(x - a->ptr);
    return len == b->len - (size_t)(y - b->ptr) && memcmp(x, y, len) == 0;
}

static void check_allocations(int kind, bool for_ever)
{
    struct ks_text good;
    read_good(kind, &good);
    int64_t live = ks_alloc_live();
    bool is_over = false;
    int64_t failed = 0;
    for (int64_t at = 1; !is_over; at++) {
        struct ks_text got;
        struct ks_err err = {0};
        ks_text_init(&got);
        ks_alloc_fail_at(at, for_ever);
        enum ks_status status = read_all(kind, &got, &err);
        is_over = ks_alloc_calls() < at; // the scenario asks for no more memory than that
        ks_alloc_fail_at(0, false);
        assert_true(status == KS_OK || status == KS_ERR_NOMEM);
        assert_int_equal(status, status == KS_OK ? KS_OK : err.status);
        assert_true(status != KS_OK || has_same_rows(&got, &good));
        assert_true(status == KS_OK || err.message[0] != '\0');
        ks_text_release(&got);
        assert_int_equal(ks_alloc_live(), live);
        failed += status != KS_OK;
    }
    assert_true(failed > 20);
    ks_text_release(&good);
}

static void test_allocations(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        check_allocations(kind, false);
        check_allocations(kind, true);
    }
}

/* Each read() fails once: an error is told, an interruption is not noticed. */
static void test_failing_reads(void **state)
{
    (void)state;
    static const int ERRORS[] = {EIO, EISDIR, EAGAIN, ESTALE, EINTR};
    for (int kind = 0; kind < KINDS; kind++) {
        struct ks_text good;
        read_good(kind, &good);
        int64_t live = ks_alloc_live();
        int64_t calls = reads.calls;
        assert_true(calls >= 2);
        for (size_t e = 0; e < KS_COUNT_OF(ERRORS); e++) {
            for (int64_t at = 1; at <= calls; at++) {
                struct ks_text got;
                struct ks_err err = {0};
                ks_text_init(&got);
                reset_reads();
                reads.fail_at = at;
                reads.error = ERRORS[e];
                enum ks_status status = read_all(kind, &got, &err);
                if (ERRORS[e] == EINTR) {
                    assert_int_equal(status, KS_OK);
                    assert_true(is_same(&got, &good));
                } else {
                    assert_int_equal(status, KS_ERR_IO);
                    assert_non_null(strstr(err.message, paths[kind]));
                    assert_non_null(strstr(err.message, strerror(ERRORS[e])));
                }
                ks_text_release(&got);
                assert_int_equal(ks_alloc_live(), live);
            }
        }
        ks_text_release(&good);
    }
}

static void test_short_reads(void **state)
{
    (void)state;
    static const size_t SIZES[] = {1, 2, 3, 5, 100, 1000};
    for (int kind = 0; kind < KINDS; kind++) {
        struct ks_text good;
        read_good(kind, &good);
        for (size_t i = 0; i < KS_COUNT_OF(SIZES); i++) {
            struct ks_text got;
            struct ks_err err = {0};
            ks_text_init(&got);
            reset_reads();
            reads.size_max = SIZES[i];
            assert_int_equal(read_all(kind, &got, &err), KS_OK);
            assert_true(is_same(&got, &good));
            ks_text_release(&got);
        }
        ks_text_release(&good);
    }
    reset_reads();
}

/* Cut at any byte, a file gives the events before the cut and says that it is cut. */
static void test_cut_files(void **state)
{
    (void)state;
    FILE *file = fopen(paths[GZIP], "rb");
    assert_non_null(file);
    static char bytes[16384];
    size_t size = fread(bytes, 1, sizeof(bytes), file);
    (void)fclose(file);
    int64_t live = ks_alloc_live();
    uint64_t last = 0;
    for (size_t len = 0; len < size; len++) {
        assert_int_equal(write_file(DAMAGED, bytes, len), 0);
        const char *list[] = {paths[DAMAGED]};
        struct ks_read_options options = {.paths = list, .path_count = 1};
        struct ks_trace_builder *builder = NULL;
        struct ks_err err = {0};
        int64_t run = 0;
        assert_int_equal(ks_trace_builder_create(NULL, &builder, &err), KS_OK);
        enum ks_status status = ks_read_paths(&options, builder, &run, &err);
        if (status == KS_OK) {
            const struct ks_source *s = ks_trace_builder_source(builder, 0);
            assert_int_equal(ks_source_status(s), KS_SOURCE_TRUNCATED);
            assert_true(s->counts[KS_STAT_compressed_cut] == 1 && s->events >= last);
            last = s->events;
        } else {
            assert_true(status == KS_ERR_FORMAT && last == 0);
        }
        ks_trace_builder_destroy(builder);
        assert_int_equal(ks_alloc_live(), live);
    }
    assert_true(last > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_failing_reads),
        cmocka_unit_test(test_short_reads),
        cmocka_unit_test(test_cut_files),
    };
    return cmocka_run_group_tests(tests, write_files, remove_files);
}
