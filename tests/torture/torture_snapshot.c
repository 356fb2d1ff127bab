/* Goal: whichever allocation fails while memory snapshots are read, compared and written, the public
 * API gives KS_ERR_NOMEM and leaves nothing behind; whichever write is refused, KS_ERR_IO. Method:
 * count those of a good run over two small snapshots, then fail each of them. */
#include <kscope/kscope.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cmocka_all.h"

enum { SIDES = 2 };

/* Opcodes of a snapshot, with a text in place of each '$': a block with a stack and a category, a
 * trace with an allocation that is freed, one that is not, a new segment, and no memory. */
#define TEXT(text) "\x8c" text
#define BLOCK(name)                                                                                \
    "}(" TEXT("\x04size") "M\x00\x02" TEXT("\x07"                                                  \
                                           "address") "M\x00\x10" TEXT("\x05state")                \
        TEXT("\x10"                                                                                \
             "active_allocated") TEXT("\x08"                                                       \
                                      "category") "K\x00" TEXT("\x06"                              \
                                                               "frames") "]}(" TEXT("\x08"         \
                                                                                    "filename")    \
            TEXT("\x04" name) TEXT("\x04line") "K\x07" TEXT("\x04name") TEXT("\x01"                \
                                                                             "f") "uau"
#define EVENT(kind, place)                                                                         \
    "}(" TEXT("\x06"                                                                               \
              "action") kind TEXT("\x04"                                                           \
                                  "addr") "M\x00" place                                            \
        TEXT("\x04size") "M\x00\x02" TEXT("\x07time_us") "K" place TEXT("\x0b"                     \
                                                                        "device_free") "K\x00"     \
                                                                                       "u"
#define SNAPSHOT(name)                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                        \
    "\x80\x04}(" TEXT(                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                        \
        "\x0a"                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                \
        "categories") "]" TEXT("\x04grad") "a" TEXT("\x08segments") "]}(" TEXT("\x07"                                                                                                                                                                                                                                                                                                                                                                                                                                                                                         \
                                                                               "address") "M\x00"                                                                                                                                                                                                                                                                                                                                                                                                                                                                             \
                                                                                          "\x10" TEXT("\x0atotal_size") "M\x00\x04" TEXT("\x06"                                                                                                                                                                                                                                                                                                                                                                                                                               \
                                                                                                                                         "blocks") "](" BLOCK(name) "}(" TEXT("\x04size") "M\x00\x02"                                                                                                                                                                                                                                                                                                                                                                         \
                                                                                                                                                                                          "ueua" TEXT(                                                                                                                                                                                                                                                                                                                                                                        \
                                                                                                                                                                                              "\x0d"                                                                                                                                                                                                                                                                                                                                                                          \
                                                                                                                                                                                              "device_traces") "](](" EVENT(TEXT("\x0dsegment_alloc"),                                                                                                                                                                                                                                                                                                                        \
                                                                                                                                                                                                                            "\x10") EVENT(TEXT("\x05"                                                                                                                                                                                                                                                                                                                         \
                                                                                                                                                                                                                                               "alloc"),                                                                                                                                                                                                                                                                                                                      \
                                                                                                                                                                                                                                          "\x10") EVENT(TEXT("\x05"                                                                                                                                                                                                                                                                                                           \
                                                                                                                                                                                                                                                             "alloc"),                                                                                                                                                                                                                                                                                                        \
                                                                                                                                                                                                                                                        "\x12") EVENT(TEXT("\x04"                                                                                                                                                                                                                                                                                             \
                                                                                                                                                                                                                                                                           "free"),                                                                                                                                                                                                                                                                                           \
                                                                                                                                                                                                                                                                      "\x12") EVENT(TEXT("\x03oom"), "\x13") EVENT(TEXT("\x05"                                                                                                                                                                                                                                                \
                                                                                                                                                                                                                                                                                                                        "alloc"),                                                                                                                                                                                                                                             \
                                                                                                                                                                                                                                                                                                                   "\x12") EVENT(TEXT("\x04"                                                                                                                                                                                                                                  \
                                                                                                                                                                                                                                                                                                                                      "free"),                                                                                                                                                                                                                                \
                                                                                                                                                                                                                                                                                                                                 "\x12") "ee" TEXT("\x12"                                                                                                                                                                                                                     \
                                                                                                                                                                                                                                                                                                                                                   "allocator_settings") "}" TEXT("\x01"                                                                                                                                                                                      \
                                                                                                                                                                                                                                                                                                                                                                                  "a") "K\x01s" TEXT("\x14"                                                                                                                                                                   \
                                                                                                                                                                                                                                                                                                                                                                                                     "external_annotations") "](}(" TEXT("\x05stage") TEXT("\x03"                                                                                                             \
                                                                                                                                                                                                                                                                                                                                                                                                                                                           "END") TEXT("\x04name") TEXT("\x0fOptimizer.step#") TEXT("\x07time_us") "K\x12"                                    \
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                   "u}(" TEXT(                                \
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                       "\x05stage")                           \
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                       TEXT(                                  \
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                           "\x03"                             \
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                           "END")                             \
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                           TEXT(                              \
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                               "\x04name")                    \
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                               TEXT(                          \
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                   "\x0fOptimizer.step#")     \
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                   TEXT(                      \
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                       "\x07time_us") "K\x13" \
                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                                      "ueu."

static const char first[] = SNAPSHOT("a.py");
static const char second[] = SNAPSHOT("b.py");
static char paths[SIDES][40] = {"/tmp/kscope-torture-XXXXXX", "/tmp/kscope-torture-XXXXXX"};

static bool count_bytes(void *user, const char *bytes, size_t size)
{
    (void)bytes;
    *(size_t *)user += size;
    return true;
}

static enum ks_status open_both(struct ks_memory **memory, struct ks_err *err)
{
    const char *const names[SIDES] = {paths[0], paths[1]};
    const struct ks_memory_options options = {
        .paths = names,
        .path_count = SIDES,
        .asked_bytes = 4096,
    };
    size_t failed = 0;
    return ks_memory_open(&options, memory, &failed, err);
}

static enum ks_status read_and_write(const struct ks_memory_style *style, struct ks_err *err)
{
    struct ks_memory *memory = NULL;
    size_t size = 0;
    enum ks_status status = open_both(&memory, err);
    if (status != KS_OK) {
        assert_null(memory);
        return status;
    }
    status = ks_memory_write(memory, style, count_bytes, &size, err);
    assert_true(status != KS_OK || size > 0);
    ks_memory_close(memory);
    return status;
}

static void fail_each(const struct ks_memory_style *style, bool for_ever)
{
    struct ks_err err = {0};
    ks_alloc_fail_at(0, false);
    assert_int_equal(read_and_write(style, &err), KS_OK);
    int64_t calls = ks_alloc_calls();
    int64_t live = ks_alloc_live();
    assert_true(calls > 40);
    for (int64_t at = 1; at <= calls; at++) {
        err = (struct ks_err){0};
        ks_alloc_fail_at(at, for_ever);
        enum ks_status status = read_and_write(style, &err);
        ks_alloc_fail_at(0, false);
        assert_int_equal(status, KS_ERR_NOMEM);
        assert_int_equal(err.status, KS_ERR_NOMEM);
        assert_non_null(strstr(err.message, "Cannot "));
        assert_int_equal(ks_alloc_live(), live);
    }
}

static const struct ks_memory_style styles[] = {
    {.format = KS_MEMORY_SCREEN, .colour = true},
    {.format = KS_MEMORY_JSON},
    {.format = KS_MEMORY_FOLDED},
};

static void test_allocations(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++) {
        fail_each(&styles[i], false);
        fail_each(&styles[i], true);
    }
}

/* Takes as many calls as `user` says. */
static bool refuse_later(void *user, const char *bytes, size_t size)
{
    (void)bytes;
    (void)size;
    int *left = user;
    return (*left)-- > 0;
}

static void test_refused_writes(void **state)
{
    (void)state;
    struct ks_memory *memory = NULL;
    struct ks_err err = {0};
    assert_int_equal(open_both(&memory, &err), KS_OK);
    for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++) {
        enum ks_status status = KS_ERR_IO;
        for (int taken = 0; status != KS_OK; taken++) {
            int left = taken;
            status = ks_memory_write(memory, &styles[i], refuse_later, &left, &err);
            assert_true(status == KS_OK || status == KS_ERR_IO);
            assert_true(taken < 1000);
        }
    }
    ks_memory_close(memory);
    ks_memory_close(NULL);
}

static int write_files(void **state)
{
    (void)state;
    const char *const texts[SIDES] = {first, second};
    for (size_t i = 0; i < SIDES; i++) {
        int fd = mkstemp(paths[i]);
        ssize_t size = (ssize_t)sizeof(first) - 1;
        if (fd < 0 || write(fd, texts[i], (size_t)size) != size || close(fd) != 0) {
            return -1;
        }
    }
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    return unlink(paths[0]) | unlink(paths[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_refused_writes),
    };
    return cmocka_run_group_tests(tests, write_files, remove_files);
}
