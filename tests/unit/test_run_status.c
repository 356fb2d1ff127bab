/* Goal: a status file is read as the recorder wrote it, and nothing else is taken for one.
 * Method: documents by hand; each prefix of a good one; files of every kind in one folder. */
#include "read/run_status.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cmocka_all.h"
#include "read/reader.h"

static const char GOOD[] = "{\n\"schema\": \"kinetoscope.run/1\",\n\"pid\": 41,\n\"rank\": 3,\n"
                           "\"argv\": [\"a\\\"]\", \"{\"],\n\"state\": \"recording\",\n"
                           "\"explanation\": \"one\\ntwo \\u00e9\",\n"
                           "\"traces\": [\"x.gz\", \"y.gz\"],\n\"window_closed_ns\": [5, 9],\n"
                           "\"steps_seen\": 12,\n\"window\": {\"wait\": 5},\n"
                           "\"unprofiled_step_ns\": [10, 30, 20],\n"
                           "\"unprofiled_step_after_ns\": [7, null, -1, 0, 8]\n}\n";

static bool parse(const char *text, size_t len, struct ks_run_status *out)
{
    char *copy = ks_alloc(len + KS_WINDOW_PAD, 1); /* exact, so that a sanitizer sees more */
    assert_non_null(copy);
    memcpy(copy, text, len);
    bool is_good = ks_run_status_parse((struct ks_str){copy, len}, out) == KS_OK;
    ks_free(copy);
    return is_good;
}

static void test_good(void **state)
{
    (void)state;
    static struct ks_run_status status;
    assert_true(parse(GOOD, sizeof(GOOD) - 1, &status));
    assert_int_equal(status.process.pid, 41);
    assert_int_equal(status.process.rank, 3);
    assert_int_equal(status.process.state, KS_RUN_RECORDING);
    assert_int_equal(status.process.steps_seen, 12);
    assert_int_equal(status.process.window_closed_ns, 9);
    assert_string_equal(status.process.explanation, "one two \xc3\xa9");
    assert_int_equal(status.before.count, 3);
    assert_int_equal(status.after.count, 2); /* what is no duration is left out */
    assert_int_equal(status.process.after_time_count, 2);
}

static void test_step_time(void **state)
{
    (void)state;
    static struct ks_run_status status;
    assert_true(parse(GOOD, sizeof(GOOD) - 1, &status));
    assert_int_equal(ks_run_status_step_ns(&status), 10); /* 7 8 10 20 30: too few before */
    static const char BEFORE[] =
        "{\"schema\": \"kinetoscope.run/1\", \"unprofiled_step_ns\": [5, 1, 4, 2, 3], "
        "\"unprofiled_step_after_ns\": [90, 90, 90, 90, 90, 90, 90]}";
    assert_true(parse(BEFORE, sizeof(BEFORE) - 1, &status));
    assert_int_equal(ks_run_status_step_ns(&status), 3);
    static const char NONE[] = "{\"schema\": \"kinetoscope.run/1\"}";
    assert_true(parse(NONE, sizeof(NONE) - 1, &status));
    assert_int_equal(ks_run_status_step_ns(&status), 0);
    assert_int_equal(status.process.rank, -1);
    assert_int_equal(status.process.state, KS_RUN_UNKNOWN);
}

/* One in three lasts 60 longer than 40, the other 70; 59 is not long. */
/* Half of the distance between the third and the sixth of eight. */
static void test_spread(void **state)
{
    (void)state;
    struct ks_step_times times = {.count = 8, .list = {900, 10, 30, 20, 60, 50, 40, 1}};
    assert_int_equal(ks_step_times_spread(&times), (50 - 20) / 2);
    assert_int_equal(times.list[0], 900); /* their order stays */
    times.count = 7;
    assert_int_equal(ks_step_times_spread(&times), 0);
}

static void test_stalls(void **state)
{
    (void)state;
    int64_t period = -1;
    static struct ks_run_status status;
    static const char STALLS[] =
        "{\"schema\": \"kinetoscope.run/1\", \"unprofiled_step_after_ns\": "
        "[40, 40, 100, 40, 59, 110, 40, 9223372036854775807, 40]}";
    assert_true(parse(STALLS, sizeof(STALLS) - 1, &status));
    assert_int_equal(status.after.count, 8); /* as long as this is no step */
    assert_int_equal(ks_step_times_stall(&status.after, &period), 65);
    assert_int_equal(period, 3);
    assert_int_equal(ks_step_times_stall(&status.before, &period), 0);
    assert_int_equal(period, 0);
    static const char NOISE[] = /* 40 is no stall where others last 500 longer */
        "{\"schema\": \"kinetoscope.run/1\", \"unprofiled_step_after_ns\": "
        "[20, 520, 20, 40, 520, 20, 20, 520, 20]}";
    assert_true(parse(NOISE, sizeof(NOISE) - 1, &status));
    assert_int_equal(ks_step_times_stall(&status.after, &period), 500);
    assert_int_equal(period, 3);
    static const char TWO[] = /* 40 is 1.5 times as long as 20, and no stall either */
        "{\"schema\": \"kinetoscope.run/1\", \"unprofiled_step_after_ns\": "
        "[20, 520, 40, 20, 40, 540, 20, 20, 40, 20, 20]}";
    assert_true(parse(TWO, sizeof(TWO) - 1, &status));
    assert_int_equal(ks_step_times_stall(&status.after, &period), 510);
    assert_int_equal(period, 4);
    static const char UNEVEN[] =
        "{\"schema\": \"kinetoscope.run/1\", \"unprofiled_step_after_ns\": "
        "[20, 520, 20, 20, 520, 20, 520, 20, 20]}";
    assert_true(parse(UNEVEN, sizeof(UNEVEN) - 1, &status));
    assert_int_equal(ks_step_times_stall(&status.after, &period), 500);
    assert_int_equal(period, 0);
}

static void test_cut(void **state)
{
    (void)state;
    static struct ks_run_status status;
    for (size_t len = 0; len + 2 < sizeof(GOOD) - 1; len++) {
        assert_false(parse(GOOD, len, &status));
    }
}

static void refuse(const char *text)
{
    static struct ks_run_status status;
    assert_false(parse(text, strlen(text), &status));
}

static void test_foreign(void **state)
{
    (void)state;
    refuse("{}");
    refuse("[1]");
    refuse("\x7f"
           "ELF");
    refuse("{\"pid\": 1}");
    refuse("{\"schema\": \"kinetoscope.run/2\"}");
    refuse("{\"schema\": [\"kinetoscope.run/1\"]}");
    refuse("{\"schema\": \"kinetoscope.run/1\", \"traces\": [\"a\"}");
}

/* ------------------------------------------------------------------ files */

static char root[64];

static void put(const char *name, const char *text, size_t len)
{
    char path[192];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static bool read_one(const char *name)
{
    static struct ks_run_status status;
    int dir_fd = open(root, O_RDONLY | O_DIRECTORY);
    assert_true(dir_fd >= 0);
    bool is_good = ks_run_status_read(dir_fd, name, &status) == KS_OK;
    close(dir_fd);
    return is_good;
}

static void test_files(void **state)
{
    (void)state;
    char path[192];
    static char huge[2 * 1024 * 1024];
    memset(huge, ' ', sizeof(huge));
    memcpy(huge, GOOD, sizeof(GOOD) - 1);
    put("good", GOOD, sizeof(GOOD) - 1);
    put("huge", huge, sizeof(huge));
    put("empty", "", 0);
    snprintf(path, sizeof(path), "%s/link", root);
    assert_int_equal(symlink("good", path), 0);
    snprintf(path, sizeof(path), "%s/pipe", root);
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(path, sizeof(path), "%s/folder", root);
    assert_int_equal(mkdir(path, 0700), 0);

    assert_true(read_one("good"));
    static const char *const refused[] = {"huge", "empty", "link", "pipe", "folder", "missing"};
    for (size_t i = 0; i < KS_COUNT_OF(refused); i++) {
        assert_false(read_one(refused[i]));
    }
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/ks_test_run_status_XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    static const char *const names[] = {"good", "huge", "empty", "link", "pipe"};
    char path[192];
    for (size_t i = 0; i < KS_COUNT_OF(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", root, names[i]);
        (void)unlink(path);
    }
    snprintf(path, sizeof(path), "%s/folder", root);
    (void)rmdir(path);
    return rmdir(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),   cmocka_unit_test(test_step_time),
        cmocka_unit_test(test_spread), cmocka_unit_test(test_stalls),
        cmocka_unit_test(test_cut),    cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
