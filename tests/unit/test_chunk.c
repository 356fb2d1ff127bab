/* Goal: chunks keep their bytes, wherever these are, and memory stays within the limit. Method:
 * random create, pin, write, unpin, destroy, with a copy of each chunk beside; then a spill folder
 * that is missing, a full disk (file size limit) and a spill file
 * that cannot be read any more. */
#include "store/chunk.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmocka_all.h"
#include "numbers.h"

enum { CHUNKS_MAX = 40 };

struct twin {
    struct ks_chunk *chunk; /* NULL: free place */
    unsigned char *copy;
    bool is_pinned;
};

static const size_t sizes[] = {1, 100, 4096, 30000, 40000, 65536, 100000, 262144, 524288, 5000000};

static void fill(struct twin *twin, struct numbers *numbers)
{
    for (int i = 0; i < 20; i++) {
        size_t at = (size_t)numbers_below(numbers, twin->chunk->size);
        unsigned char byte = (unsigned char)numbers_next(numbers);
        ((unsigned char *)twin->chunk->ptr)[at] = byte;
        twin->copy[at] = byte;
    }
}

static void check_same(const struct twin *twin)
{
    assert_memory_equal(twin->chunk->ptr, twin->copy, twin->chunk->size);
}

static void step(struct ks_chunk_pool *pool, struct twin *twin, struct numbers *numbers)
{
    if (!twin->chunk) {
        size_t size = sizes[numbers_below(numbers, sizeof(sizes) / sizeof(sizes[0]))];
        assert_int_equal(ks_chunk_create(pool, size, &twin->chunk, NULL), KS_OK);
        twin->copy = calloc(1, size);
        twin->is_pinned = true;
        check_same(twin); // a new chunk is zeroed
        fill(twin, numbers);
        return;
    }
    if (!twin->is_pinned) {
        assert_int_equal(ks_chunk_pin(pool, twin->chunk, NULL), KS_OK);
        twin->is_pinned = true;
    }
    check_same(twin);
    uint64_t action = numbers_below(numbers, 8);
    if (action == 0) {
        ks_chunk_destroy(pool, twin->chunk);
        free(twin->copy);
        twin->copy = NULL;
        twin->chunk = NULL;
    } else if (action < 7) {
        bool wrote = action < 4;
        if (wrote) {
            fill(twin, numbers);
        }
        twin->is_pinned = false;
        ks_chunk_unpin(pool, twin->chunk, wrote);
    }
}

static void check_pool(uint64_t bytes_max, uint64_t seed)
{
    struct numbers numbers = {seed};
    struct twin twins[CHUNKS_MAX] = {0};
    struct ks_chunk_pool *pool = NULL;
    assert_int_equal(ks_chunk_pool_create(bytes_max, &pool, NULL), KS_OK);
    assert_int_equal(ks_chunk_pool_bytes_max(pool), bytes_max);
    for (int i = 0; i < 1500; i++) {
        step(pool, &twins[numbers_below(&numbers, CHUNKS_MAX)], &numbers);
        if (i % 500 == 0) {
            ks_chunk_pool_trim(pool);
        }
    }
    assert_int_equal(ks_chunk_pool_bytes_spilled(pool) > 0, bytes_max > 0);
    for (size_t i = 0; i < CHUNKS_MAX; i++) {
        free(twins[i].copy); // the chunks end with the pool
    }
    ks_chunk_pool_destroy(pool);
}

static void test_random(void **state)
{
    (void)state;
    check_pool(0, 6);
    check_pool(1, 7);
    check_pool(1024 * 1024, 8);
    check_pool(20 * 1024 * 1024, 9);
}

enum { PART = 64 * 1024, PART_COUNT = 64 };

/* Without pins the limit is kept to the byte, and destroyed chunks leave their place to others. */
static void test_limit(void **state)
{
    (void)state;
    struct ks_chunk_pool *pool = NULL;
    struct ks_chunk *chunks[PART_COUNT];
    assert_int_equal(ks_chunk_pool_create(10 * PART, &pool, NULL), KS_OK);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < PART_COUNT; i++) {
            assert_int_equal(ks_chunk_create_raw(pool, PART, &chunks[i], NULL), KS_OK);
            memset(chunks[i]->ptr, (int)i, PART);
            ks_chunk_unpin(pool, chunks[i], true);
        }
        int64_t end = 0;
        for (size_t i = 0; i < PART_COUNT; i++) {
            assert_int_equal(ks_chunk_pin(pool, chunks[i], NULL), KS_OK);
            assert_int_equal(((unsigned char *)chunks[i]->ptr)[PART - 1], i);
            end = chunks[i]->spill_offset > end ? chunks[i]->spill_offset : end;
            ks_chunk_destroy(pool, chunks[i]);
        }
        assert_true(end <= PART_COUNT * PART);
    }
    assert_int_equal(ks_chunk_pool_bytes_peak(pool), 10 * PART);
    ks_chunk_pool_destroy(pool);
}

/* Creates chunks until one fails; gives the status, and keeps all unpinned. */
static enum ks_status create_many(struct ks_chunk_pool *pool, struct ks_chunk **chunks,
                                  size_t *count, struct ks_err *err)
{
    enum ks_status status = KS_OK;
    for (*count = 0; *count < PART_COUNT && status == KS_OK; (*count)++) {
        status = ks_chunk_create(pool, PART, &chunks[*count], err);
        if (status == KS_OK) {
            memset(chunks[*count]->ptr, 1, PART);
            ks_chunk_unpin(pool, chunks[*count], true);
        }
    }
    return status;
}

static void test_no_folder(void **state)
{
    (void)state;
    struct ks_chunk_pool *pool = NULL;
    struct ks_chunk *chunks[PART_COUNT];
    size_t count = 0;
    struct ks_err err;
    char *old = getenv("TMPDIR");
    old = old ? strdup(old) : NULL;
    setenv("TMPDIR", "/does/not/exist", 1);
    assert_int_equal(ks_chunk_pool_create(4 * PART, &pool, NULL), KS_OK);
    assert_int_equal(create_many(pool, chunks, &count, &err), KS_ERR_IO);
    assert_int_equal(count, 5);
    assert_non_null(strstr(err.message, "folder=\"/does/not/exist\""));
    ks_chunk_pool_destroy(pool);
    if (old) {
        setenv("TMPDIR", old, 1);
        free(old);
    } else {
        unsetenv("TMPDIR");
    }
}

static void test_full_disk(void **state)
{
    (void)state;
    struct ks_chunk_pool *pool = NULL;
    struct ks_chunk *chunks[PART_COUNT];
    size_t count = 0;
    struct ks_err err;
    struct rlimit old;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    struct rlimit small = {8 * PART, old.rlim_max};
    assert_int_equal(ks_chunk_pool_create(4 * PART, &pool, NULL), KS_OK);
    setrlimit(RLIMIT_FSIZE, &small);
    enum ks_status status = create_many(pool, chunks, &count, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(status, KS_ERR_IO);
    assert_int_equal(count, 13);
    /* Nothing is lost: what was written before can still be read. */
    assert_int_equal(ks_chunk_pin(pool, chunks[0], &err), KS_OK);
    ks_chunk_pool_destroy(pool);
}

/* The spill file has no name: it is the deleted one among the open files. */
static int find_spill_file(void)
{
    for (int fd = 3; fd < 100; fd++) {
        struct stat info;
        if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink == 0 &&
            info.st_size >= PART) {
            return fd;
        }
    }
    return -1;
}

static void test_unreadable(void **state)
{
    (void)state;
    struct ks_chunk_pool *pool = NULL;
    struct ks_chunk *chunks[PART_COUNT];
    size_t count = 0;
    struct ks_err err;
    assert_int_equal(ks_chunk_pool_create(4 * PART, &pool, NULL), KS_OK);
    assert_int_equal(create_many(pool, chunks, &count, &err), KS_OK);
    int fd = find_spill_file();
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    int write_only = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_int_equal(dup2(write_only, fd), fd);
    close(write_only);
    assert_int_equal(ks_chunk_pin(pool, chunks[0], &err), KS_ERR_IO);
    assert_int_equal(ks_chunk_pin(pool, chunks[0], &err), KS_ERR_IO); // and again: not half there
    ks_chunk_destroy(pool, chunks[0]);
    ks_chunk_destroy(pool, NULL);
    ks_chunk_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),     cmocka_unit_test(test_limit),
        cmocka_unit_test(test_no_folder),  cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_unreadable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
