/* Goal: whichever allocation fails while memory snapshots are read, compared and written, the
 * public API gives KS_ERR_NOMEM and leaves nothing behind; whichever write is refused, KS_ERR_IO.
 * Method: count those of a good run over two small snapshots, then fail each of them. */
#include <kscope/kscope.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cmocka_all.h"
#include "fail_each.h"

enum { SIDES = 2 };

/* Opcodes of a snapshot, with texts in quotes and numbers behind '#': a block with a stack and a
 * category and a free one, a trace with an allocation that is kept and two that are freed, a new
 * segment, and no memory in between. FILE is what both snapshots do not have in common. */
static const char *const parts[] = {
    "}('categories']'grad'a'segments']}('address'#4096'total_size'#1024'blocks'](",
    "}('size'#512'address'#4096'state''active_allocated''category'#0",
    "'frames']}('filename''FILE''line'#7'name''f'uau",
    "}('size'#512ueua'device_traces'](](",
    "}('action''segment_alloc''addr'#4096'size'#512'time_us'#16u",
    "}('action''alloc''addr'#4096'size'#512'time_us'#17u",
    "}('action''alloc''addr'#4608'size'#512'time_us'#18u",
    "}('action''free''addr'#4608'size'#512'time_us'#19u",
    "}('action''oom''size'#512'device_free'#0'time_us'#20u",
    "}('action''alloc''addr'#4608'size'#512'time_us'#21u",
    "}('action''free''addr'#4608'size'#512'time_us'#22uee",
    "'allocator_settings'}'a'#1s'external_annotations'](",
    "}('stage''END''name''Optimizer.step#''time_us'#18u",
    "}('stage''END''name''Optimizer.step#''time_us'#21ueu.",
};

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

static enum ks_status read_and_write(const void *style, struct ks_err *err)
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

static const struct ks_memory_style styles[] = {
    {.format = KS_MEMORY_SCREEN, .colour = true},
    {.format = KS_MEMORY_JSON},
    {.format = KS_MEMORY_FOLDED},
};

static void test_allocations(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(styles) / sizeof(styles[0]); i++) {
        fail_each_allocation(read_and_write, &styles[i], 40);
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

/* Writes the bytes that a part stands for. */
static void write_part(FILE *file, const char *part, const char *name)
{
    while (*part) {
        if (*part == '\'') {
            size_t len = strcspn(part + 1, "'");
            bool is_name = len == 4 && memcmp(part + 1, "FILE", len) == 0;
            fprintf(file, "\x8c%c%.*s", (int)len, (int)len, is_name ? name : part + 1);
            part += len + 2;
        } else if (*part == '#') {
            char *end = NULL;
            int32_t number = (int32_t)strtol(part + 1, &end, 10);
            fputc('J', file);
            fwrite(&number, sizeof(number), 1, file);
            part = end;
        } else {
            fputc(*part++, file);
        }
    }
}

static int write_files(void **state)
{
    (void)state;
    static const char *const names[SIDES] = {"a.py", "b.py"};
    for (size_t i = 0; i < SIDES; i++) {
        int fd = mkstemp(paths[i]);
        FILE *file = fd >= 0 ? fdopen(fd, "wb") : NULL;
        if (!file) {
            return -1;
        }
        fwrite("\x80\x04", 2, 1, file);
        for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
            write_part(file, parts[k], names[i]);
        }
        if (fclose(file) != 0) {
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
