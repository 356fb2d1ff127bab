/* Goal: files fall into runs by rank, world size and time, and windows of a rank are numbered.
 * Method: sources without rows whose fields are set by hand, one line each. */
#include "read/runs.h"

#include <stdio.h>

#include "cmocka_all.h"

static void check_rank(const char *path, int64_t rank)
{
    assert_int_equal(ks_rank_from_name(ks_str_from(path)), rank);
}

static void test_rank_from_name(void **state)
{
    (void)state;
    check_rank("rank3.pt.trace.json", 3);
    check_rank("trace_rank_12.json.gz", 12);
    check_rank("/data/run/worker-rank-0.json", 0);
    check_rank("x.rank.7.json", 7);
    check_rank("rank_1_of_rank_8.json", 1);
    check_rank("rank007.json", 7);
    check_rank("rank.json", -1);
    check_rank("ranks3.json", -1);
    check_rank("frank3.json", -1);
    check_rank("frank_rank4", 4);
    check_rank("rank", -1);
    check_rank("rank_", -1);
    check_rank("/rank5/trace.json", -1);
    check_rank("", -1);
    check_rank("rank999999999999999999.json", 999999999);
}

struct file {
    const char *path;
    int64_t rank, world;
    int64_t base_ns; /* -1: no base */
    int64_t start_ns, end_ns;
    bool is_left_out;
    int64_t want_rank, want_run, want_cycle;
    unsigned want_unaligned;
    int64_t pid;
    int64_t parent_pid; /* not 0: of a recording */
};

static void check(const struct file *files, size_t count, int64_t want_runs)
{
    struct ks_trace_builder *builder = NULL;
    struct ks_err err = {0};
    assert_int_equal(ks_trace_builder_create(NULL, &builder, &err), KS_OK);
    for (size_t i = 0; i < count; i++) {
        struct ks_source *s = NULL;
        assert_int_equal(
            ks_trace_builder_source_open(builder, ks_str_from(files[i].path), &s, &err), KS_OK);
        assert_int_equal(ks_trace_builder_source_close(builder, &err), KS_OK);
        s->rank = files[i].rank;
        s->world_size = files[i].world;
        s->pid = files[i].pid;
        s->is_recording = files[i].parent_pid != 0;
        s->parent_pid = files[i].parent_pid;
        s->has_base = files[i].base_ns >= 0;
        s->base_ns = s->has_base ? files[i].base_ns : 0;
        s->start_ns = files[i].start_ns;
        s->end_ns = files[i].end_ns;
        s->run = files[i].is_left_out ? -1 : 0;
    }
    int64_t runs = -1;
    assert_int_equal(ks_runs_assign(builder, &runs, &err), KS_OK);
    assert_int_equal(runs, want_runs);
    for (size_t i = 0; i < count; i++) {
        const struct ks_source *s = ks_trace_builder_source(builder, (uint32_t)i);
        assert_int_equal(s->rank, files[i].want_rank);
        assert_int_equal(s->run, files[i].is_left_out ? -1 : files[i].want_run);
        assert_int_equal(s->cycle, files[i].want_cycle);
        assert_int_equal(s->counts[KS_STAT_unaligned_clock], files[i].want_unaligned);
        bool was_guessed = files[i].rank < 0 && files[i].want_rank >= 0;
        assert_int_equal(s->counts[KS_STAT_rank_guessed], was_guessed && files[i].parent_pid == 0);
    }
    ks_trace_builder_destroy(builder);
}

#define CHECK(files, runs) check(files, KS_COUNT_OF(files), runs)

enum { BASE = 1000000 };

static void test_ranks(void **state)
{
    (void)state;
    /* Ranks of one run overlap in time; names give the ranks that the files do not. */
    static const struct file FILES[] = {
        {"a.json", 0, 2, BASE, 0, 100, false, 0, 1, 0, 0, 0, 0},
        {"b.json", 1, 2, BASE, 50, 150, false, 1, 1, 0, 0, 0, 0},
        {"rank2.json", -1, -1, BASE, 20, 120, false, 2, 1, 0, 0, 0, 0},
    };
    CHECK(FILES, 1);
}

static void test_cycles(void **state)
{
    (void)state;
    static const struct file FILES[] = {
        {"late.json", 0, 1, BASE, 300, 400, false, 0, 1, 2, 0, 0, 0},
        {"first.json", 0, 1, BASE, 0, 100, false, 0, 1, 0, 0, 0, 0},
        {"next.json", 0, 1, BASE, 100, 200, false, 0, 1, 1, 0, 0, 0}, // touching is following
        {"other rank.json", 1, 1, BASE, 300, 400, false, 1, 1, 0, 0, 0, 0},
    };
    CHECK(FILES, 1);
}

static void test_several_runs(void **state)
{
    (void)state;
    static const struct file FILES[] = {
        {"a.json", 0, 2, BASE, 0, 100, false, 0, 1, 0, 0, 0, 0},
        {"again.json", 0, 2, BASE, 50, 150, false, 0, 2, 0, 0, 0, 0},  // same rank at the same time
        {"world.json", 1, 4, BASE, 500, 600, false, 1, 3, 0, 0, 0, 0}, // another world size
        {"b.json", 1, 2, BASE, 0, 100, false, 1, 1, 0, 0, 0, 0},
    };
    CHECK(FILES, 3);
}

static void test_two_processes(void **state)
{
    (void)state;
    /* Recordings of two programs follow one another, and are no windows of one run. */
    static const struct file FILES[] = {
        {"a.json", 0, 1, BASE, 0, 100, false, 0, 1, 0, 0, 7, 0},
        {"b.json", 0, 1, BASE, 200, 300, false, 0, 2, 0, 0, 8, 0},
        {"c.json", 0, 1, BASE, 400, 500, false, 0, 1, 1, 0, 7, 0},
    };
    CHECK(FILES, 2);
}

static void test_other_bases(void **state)
{
    (void)state;
    /* Two files of one rank, from processes with different bases: real time decides. */
    static const struct file FILES[] = {
        {"a.json", 0, -1, BASE, 0, 100, false, 0, 1, 1, 0, 0, 0},
        {"b.json", 0, -1, BASE - 500, 0, 100, false, 0, 1, 0, 0, 0, 0},
    };
    CHECK(FILES, 1);
}

static void test_without_clock(void **state)
{
    (void)state;
    static const struct file ONE[] = {{"a.json", -1, -1, -1, 0, 100, false, -1, 1, 0, 0, 0, 0}};
    CHECK(ONE, 1); // alone, nothing is there to be aligned with
    static const struct file BESIDE_JUNK[] = {
        {"a.json", -1, -1, -1, 0, 100, false, -1, 1, 0, 0, 0, 0},
        {"package.json", -1, -1, -1, KS_TIME_NONE, KS_TIME_NONE, true, -1, 0, 0, 0, 0, 0},
    };
    CHECK(BESIDE_JUNK, 1);
    static const struct file TWO[] = {
        {"rank0.json", -1, -1, -1, 0, 100, false, 0, 1, 0, 1, 0, 0},
        {"rank1.json", -1, -1, BASE, 0, 100, false, 1, 1, 0, 0, 0, 0},
    };
    CHECK(TWO, 1);
    static const struct file EPOCH[] = {
        {"rank0.json", -1, -1, -1, 1700000000000000000, 1700000000000000100, false, 0, 1, 0, 0, 0,
         0},
        {"rank1.json", -1, -1, -1, 1700000000000000000, 1700000000000000100, false, 1, 1, 0, 0, 0,
         0},
    };
    CHECK(EPOCH, 1);
}

static void test_without_events(void **state)
{
    (void)state;
    static const struct file FILES[] = {
        {"a.json", 0, 1, BASE, KS_TIME_NONE, KS_TIME_NONE, false, 0, 1, 0, 0, 0, 0},
        {"b.json", 0, 1, BASE, 0, 10, false, 0, 1, 0, 0, 0, 0},
        {"c.json", -7, 1, BASE, 0, 10, false, -1, 1, 0, 0, 0, 0}, // a negative rank is none
    };
    CHECK(FILES, 1);
}

static void test_recordings(void **state)
{
    (void)state;
    /* They lie beside the traces of their process at the same time, and are no windows. */
    static const struct file BESIDE[] = {
        {"rec", -1, -1, BASE, 0, 900, false, 0, 1, 0, 0, 7, 1},
        {"a.json", 0, 2, BASE, 100, 200, false, 0, 1, 0, 0, 7, 0},
        {"b.json", 0, 2, BASE, 300, 400, false, 0, 1, 1, 0, 7, 0},
        {"worker", -1, -1, BASE + 5, 0, 900, false, 0, 1, 0, 0, 70, 7},
        {"of worker", -1, -1, BASE + 9, 0, 900, false, 0, 1, 0, 0, 71, 70},
        {"rank 1", 1, 2, BASE, 0, 900, false, 1, 1, 0, 0, 8, 1},
    };
    CHECK(BESIDE, 1);
    /* Each to its own process, whatever came first. */
    static const struct file TWO[] = {
        {"rec of b", -1, -1, BASE, 0, 900, false, 0, 2, 0, 0, 8, 1},
        {"a.json", 0, 1, BASE, 0, 100, false, 0, 1, 0, 0, 7, 0},
        {"b.json", 0, 1, BASE, 200, 300, false, 0, 2, 0, 0, 8, 0},
        {"rec of a", 0, 1, BASE + 1, 0, 900, false, 0, 1, 0, 0, 7, 1},
    };
    CHECK(TWO, 2);
    /* Without traces: programs that have nothing to do with one another are runs of their own. */
    static const struct file ALONE[] = {
        {"one", -1, -1, BASE, 0, 100, false, -1, 1, 0, 0, 7, 1},
        {"child", -1, -1, BASE + 3, 0, 100, false, -1, 1, 0, 0, 9, 7},
        {"two", -1, -1, BASE + 4, 0, 100, false, -1, 2, 0, 0, 8, 1},
        {"world", 3, 4, BASE + 5, 0, 100, false, 3, 1, 0, 0, 20, 1},
        {"other world", 4, 8, BASE + 6, 0, 100, false, 4, 2, 0, 0, 21, 1},
    };
    CHECK(ALONE, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rank_from_name), cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_cycles),         cmocka_unit_test(test_several_runs),
        cmocka_unit_test(test_two_processes),  cmocka_unit_test(test_recordings),
        cmocka_unit_test(test_other_bases),    cmocka_unit_test(test_without_clock),
        cmocka_unit_test(test_without_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
