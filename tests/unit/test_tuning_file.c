/* Goal: what `kscope tune` wrote is read back as it was, and whatever else lies there is no tuning.
 * Method: one document with everything in it, there and back; the same cut after each byte. */
#include "cmocka_all.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "read/tuning_file.h"

enum { BYTES_MAX = 64 * 1024 };

struct sink {
    size_t len;
    char bytes[BYTES_MAX];
};

static struct sink first, second;
static char folder[64];
static char path[96];

static bool keep(void *user, const char *bytes, size_t size)
{
    struct sink *sink = user;
    assert_true(sink->len + size < BYTES_MAX);
    memcpy(sink->bytes + sink->len, bytes, size);
    sink->len += size;
    return true;
}

static void write_document(const struct ks_tuning *tuning, struct sink *sink)
{
    struct ks_tuning_style style = {.format = KS_TUNING_JSON};
    struct ks_err err = {0};
    sink->len = 0;
    assert_int_equal(ks_tuning_write(tuning, &style, keep, sink, &err), KS_OK);
}

static void put(const char *bytes, size_t len)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static void fill(struct ks_tuning *tuning)
{
    *tuning = (struct ks_tuning){
        .script = "train.py --name \"a b\"",
        .torch = "2.11.0",
        .device = "cuda",
        .is_deterministic = true,
        .try_count = 2,
        .left_count = 2,
        .base = "pin=1",
        .setting = "pin=1,precision=bf16,workers=4",
        .end = KS_TUNING_OUT_OF_TIME,
        .seconds = 12.5,
        .processes = 7,
    };
    tuning->tries[0] = (struct ks_tuning_try){
        .change = "workers=4",
        .fate = KS_TUNING_KEPT,
        .verdict = KS_TRIAL_FASTER,
        .ratio = {0.5, 0.25, 0.8},
        .before_ns = 2e6,
        .after_ns = 1e6,
        .rounds = 9,
        .before_bytes = 1000,
        .after_bytes = 2000,
        .reason = "faster",
    };
    tuning->tries[1] = (struct ks_tuning_try){
        .change = "precision=fp16",
        .fate = KS_TUNING_WRONG,
        .difference = (double)INFINITY,
        .tolerance = 0.05,
        .reason = "loss 2 is nan and was 0.5",
    };
    tuning->whole = tuning->tries[0];
    tuning->left[0] = (struct ks_tuning_left){"sync.host", true, "a line waits"};
    tuning->left[1] = (struct ks_tuning_left){"cudnn", false, "nothing is convolved"};
}

static void test_there_and_back(void **state)
{
    (void)state;
    static struct ks_tuning tuning;
    struct ks_tuning *got = NULL;
    struct ks_arena arena;
    ks_arena_init(&arena);
    fill(&tuning);
    write_document(&tuning, &first);
    put(first.bytes, first.len);
    assert_int_equal(ks_tuning_file_read(folder, &arena, &got), KS_OK);
    write_document(got, &second);
    assert_int_equal(first.len, second.len);
    assert_memory_equal(first.bytes, second.bytes, first.len);
    assert_string_equal(got->setting, tuning.setting);
    assert_string_equal(got->base, tuning.base);
    assert_int_equal(got->tries[1].fate, KS_TUNING_WRONG);
    ks_arena_release(&arena);
}

/* Words of the document are found again by the names that they are written by. */
static void test_each_word_comes_back(void **state)
{
    (void)state;
    static struct ks_tuning tuning;
    struct ks_tuning *got = NULL;
    struct ks_arena arena;
    ks_arena_init(&arena);
    tuning.try_count = KS_TUNING_TRIES_MAX;
    for (size_t i = 0; i < KS_TUNING_TRIES_MAX; i++) {
        struct ks_tuning_try *try = &tuning.tries[i];
        snprintf(try->change, sizeof(try->change), "entry.gain=%zu", i);
        try->fate = (enum ks_tuning_fate)(i % (KS_TUNING_REFUSED + 1));
        try->verdict = (enum ks_trial_verdict)(i % (KS_TRIAL_SLOWER + 1));
        try->rounds = i + 1;
    }
    for (int end = KS_TUNING_DONE; end <= KS_TUNING_INTERRUPTED; end++) {
        tuning.end = (enum ks_tuning_end)end;
        write_document(&tuning, &first);
        put(first.bytes, first.len);
        assert_int_equal(ks_tuning_file_read(folder, &arena, &got), KS_OK);
        assert_int_equal(got->end, end);
    }
    assert_int_equal(got->try_count, KS_TUNING_TRIES_MAX);
    for (size_t i = 0; i < KS_TUNING_TRIES_MAX; i++) {
        assert_string_equal(got->tries[i].change, tuning.tries[i].change);
        assert_int_equal(got->tries[i].fate, tuning.tries[i].fate);
        assert_int_equal(got->tries[i].verdict, tuning.tries[i].verdict);
    }
    ks_arena_release(&arena);
}

static void test_more_tries_than_there_is_room_for(void **state)
{
    (void)state;
    struct ks_tuning *got = NULL;
    struct ks_arena arena;
    ks_arena_init(&arena);
    size_t len = (size_t)snprintf(first.bytes, BYTES_MAX,
                                  "{\"schema\": \"kinetoscope.tune/1\", \"tries\": [{}");
    for (size_t i = 0; i < 2 * (size_t)KS_TUNING_TRIES_MAX; i++) {
        len += (size_t)snprintf(first.bytes + len, BYTES_MAX - len, ", {\"change\": \"a=%zu\"}", i);
    }
    len += (size_t)snprintf(first.bytes + len, BYTES_MAX - len, "], \"seconds\": 2.5}");
    put(first.bytes, len);
    assert_int_equal(ks_tuning_file_read(folder, &arena, &got), KS_OK);
    assert_int_equal(got->try_count, KS_TUNING_TRIES_MAX);
    assert_string_equal(got->tries[KS_TUNING_TRIES_MAX - 1].change, "a=62");
    assert_true(got->seconds == 2.5);
    ks_arena_release(&arena);
}

static void test_cut_documents_are_none(void **state)
{
    (void)state;
    static struct ks_tuning tuning;
    fill(&tuning);
    write_document(&tuning, &first);
    for (size_t len = 0; len + 2 < first.len; len += 7) {
        struct ks_tuning *got = NULL;
        struct ks_arena arena;
        ks_arena_init(&arena);
        put(first.bytes, len);
        assert_int_equal(ks_tuning_file_read(folder, &arena, &got), KS_END);
        ks_arena_release(&arena);
    }
}

static void check_none(const char *text)
{
    struct ks_tuning *got = NULL;
    struct ks_arena arena;
    ks_arena_init(&arena);
    put(text, strlen(text));
    assert_int_equal(ks_tuning_file_read(folder, &arena, &got), KS_END);
    ks_arena_release(&arena);
}

static void test_other_documents_are_none(void **state)
{
    (void)state;
    check_none("{}");
    check_none("[]");
    check_none("null");
    check_none("{\"schema\": \"kinetoscope.report/1\"}");
    check_none("{\"schema\": 3, \"tries\": [1, {}, []]}");
    (void)unlink(path);
    struct ks_tuning *got = NULL;
    assert_int_equal(ks_tuning_file_read(folder, NULL, &got), KS_END);
    assert_int_equal(ks_tuning_file_read("nowhere", NULL, &got), KS_END);
}

static void test_odd_values_are_taken_for_none(void **state)
{
    (void)state;
    static const char text[] =
        "{\"schema\": \"kinetoscope.tune/1\", \"setting\": {}, \"tries\": [{}, 4, "
        "{\"speedup\": null, \"rounds\": -3, \"fate\": \"happy\"}], \"left_out\": 9, "
        "\"whole\": \"x\"}";
    struct ks_tuning *got = NULL;
    struct ks_arena arena;
    ks_arena_init(&arena);
    put(text, strlen(text));
    assert_int_equal(ks_tuning_file_read(folder, &arena, &got), KS_OK);
    assert_int_equal(got->try_count, 3);
    assert_int_equal(got->tries[2].rounds, 0);
    assert_int_equal(got->tries[2].fate, KS_TUNING_FAILED);
    assert_string_equal(got->setting, "");
    write_document(got, &second);
    ks_arena_release(&arena);
}

int main(void)
{
    snprintf(folder, sizeof(folder), "test_tuning_file_XXXXXX");
    if (!mkdtemp(folder)) {
        return 1;
    }
    snprintf(path, sizeof(path), "%s/%s", folder, KS_TUNING_FILE_NAME);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_each_word_comes_back),
        cmocka_unit_test(test_more_tries_than_there_is_room_for),
        cmocka_unit_test(test_cut_documents_are_none),
        cmocka_unit_test(test_odd_values_are_taken_for_none),
        cmocka_unit_test(test_other_documents_are_none),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    (void)rmdir(folder);
    return failed;
}
