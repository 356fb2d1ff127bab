/* Goal: what is told of a run while it goes on is calculated rightly, fits any terminal, and text
 * from the folder cannot act there. Method: documents, lines and ranks by hand, whose figures can
 * be checked in the head; one picture of hostile texts in every width and height. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/text.h"
#include "cmocka_all.h"
#include "read/reader.h"
#include "read/run_machine.h"
#include "read/run_status.h"
#include "show/live_picture.h"
#include "show/plain.h"

#define S "000000000" /* nanoseconds of a second */

static void assert_near(double got, double wanted)
{
    assert_true(fabs(got - wanted) < 1e-9);
}

/* ------------------------------------------------------------------ pace */

static void tell(const char *members, struct ks_live_rank *out)
{
    static struct ks_run_status status;
    char text[2048];
    int len = snprintf(text, sizeof(text), "{\"schema\": \"kinetoscope.run/1\", %s}", members);
    char *copy = ks_alloc((size_t)len + KS_WINDOW_PAD, 1);
    assert_non_null(copy);
    memcpy(copy, text, (size_t)len);
    assert_int_equal(ks_run_status_parse((struct ks_str){copy, (size_t)len}, &status), KS_OK);
    ks_run_status_tell(&status, out);
    ks_free(copy);
}

/* Points at 1, 3, 5 and 15 s: the last ten seconds are those from the third point on. */
static void test_pace(void **state)
{
    (void)state;
    struct ks_live_rank rank;
    tell("\"steps_seen\": 240, \"pace_steps\": [1, 21, 41, 241], "
         "\"pace_ns\": [1" S ", 3" S ", 5" S ", 15" S "]",
         &rank);
    assert_int_equal(rank.rate_count, 3);
    assert_near(rank.rates[0], 10.0);
    assert_near(rank.rates[2], 20.0);
    assert_near(rank.steps_per_s, 20.0);
    assert_int_equal(rank.last_step_ns, 15000000000LL);
    tell("\"pace_steps\": [1, 3, 9], \"pace_ns\": [1" S ", 2" S ", 5" S "]", &rank);
    assert_near(rank.steps_per_s, 2.0); /* all of it is within ten seconds */
    tell("\"pace_steps\": [1, 5], \"pace_ns\": [1" S ", 101" S "]", &rank);
    assert_near(rank.steps_per_s, 0.04); /* a step in 25 s: since the point before */
}

/* What cannot be a pace is none: no infinity, no step backwards. */
static void test_pace_that_is_none(void **state)
{
    (void)state;
    static const char *const none[] = {
        "\"pid\": 1",
        "\"pace_steps\": [5], \"pace_ns\": [1" S "]",
        "\"pace_steps\": [5, 6], \"pace_ns\": [1" S "]",
        "\"pace_steps\": [5, 6], \"pace_ns\": [2" S ", 2" S "]",
        "\"pace_steps\": [5, 6], \"pace_ns\": [2" S ", 1" S "]",
        "\"pace_steps\": [6, 6], \"pace_ns\": [1" S ", 2" S "]",
        "\"pace_steps\": [1, null], \"pace_ns\": [1" S ", 2" S "]",
        "\"pace_steps\": [1, 9223372036854775807], \"pace_ns\": [1" S ", 2" S "]",
        "\"pace_steps\": [-9223372036854775807, 5], \"pace_ns\": [1" S ", 2" S "]",
        "\"pace_steps\": \"x\", \"pace_ns\": {}",
    };
    for (size_t i = 0; i < KS_COUNT_OF(none); i++) {
        struct ks_live_rank rank;
        tell(none[i], &rank);
        assert_true(isnan(rank.steps_per_s));
        assert_int_equal(rank.rate_count, 0);
    }
    /* A restart: only what follows it counts. */
    struct ks_live_rank rank;
    tell("\"pace_steps\": [70, 90, 1, 5], \"pace_ns\": [1" S ", 2" S ", 3" S ", 4" S "]", &rank);
    assert_int_equal(rank.rate_count, 1);
    assert_near(rank.steps_per_s, 4.0);
}

/* Of a longer list its end is taken. */
static void test_long_pace(void **state)
{
    (void)state;
    struct ks_text text;
    struct ks_live_rank rank;
    ks_text_init(&text);
    for (int round = 0; round < 2; round++) {
        ks_text_printf(&text, "%s\"%s\": [", round ? "], " : "", round ? "pace_ns" : "pace_steps");
        for (int i = 1; i <= 60; i++) {
            ks_text_printf(&text, "%s%d%s", i > 1 ? "," : "", i, round ? S : "");
        }
    }
    ks_text_append(&text, "]", 2);
    tell(text.ptr, &rank);
    assert_int_equal(rank.rate_count, KS_LIVE_RATES_MAX);
    assert_near(rank.rates[KS_LIVE_RATES_MAX - 1], 1.0);
    assert_int_equal(rank.last_step_ns, 60000000000LL);
    ks_text_release(&text);
}

static void test_words(void **state)
{
    (void)state;
    struct ks_live_rank rank;
    tell("\"argv\": [\"train.py\", 5, \"--name\", \"a\\nb\"], \"is_over\": true, "
         "\"unprofiled_step_ns\": [10, 10, 10, 30, 30, 30, 50, 50]",
         &rank);
    assert_string_equal(rank.program, "train.py  --name a b");
    assert_true(rank.is_over);
    assert_int_equal(rank.step_ns, 30);
    assert_int_equal(rank.step_spread_ns, (30 - 10) / 2);
    char argv[1200] = "\"argv\": [\"";
    memset(argv + strlen(argv), 'x', 1000);
    memcpy(argv + 1010, "\", \"y\"]", 8);
    tell(argv, &rank);
    assert_int_equal(strlen(rank.program), KS_LIVE_PROGRAM_SIZE - 1);
}

/* ------------------------------------------------------------------ the monitor */

static bool parse(const char *text, struct ks_live_machine *out)
{
    size_t len = strlen(text);
    char *copy = ks_alloc(len + KS_WINDOW_PAD, 1);
    assert_non_null(copy);
    memcpy(copy, text, len);
    bool is_good = ks_run_machine_parse((struct ks_str){copy, len}, out);
    ks_free(copy);
    return is_good;
}

#define FIRST "{\"time_ns\": 9" S ", \"interval_ns\": 2" S ", \"cpu_percent\": 5.0}\n"
#define BEFORE                                                                                     \
    "{\"time_ns\": 20" S ", \"cgroup_periods\": 100, \"cgroup_throttled\": 40, "                   \
    "\"cgroup_throttled_ns\": 7}\n"
#define LAST                                                                                       \
    "{\"time_ns\": 21" S ", \"interval_ns\": 1" S ", \"cpu_percent\": 152.5, "                     \
    "\"machine_cpu_percent\": null, \"rss_bytes\": 4096, \"cgroup_periods\": 110, "                \
    "\"cgroup_throttled\": 45, \"cgroup_throttled_ns\": 17, \"gpus\": [{\"index\": 3, "            \
    "\"busy_percent\": 97, \"memory_bytes\": 5, \"power_mw\": null}, {\"index\": 4}], "            \
    "\"processes\": [{\"cpu_percent\": 1}]}\n"

static void test_machine(void **state)
{
    (void)state;
    struct ks_live_machine machine;
    assert_true(parse(FIRST BEFORE LAST, &machine));
    assert_int_equal(machine.began_ns, 7000000000LL);
    assert_int_equal(machine.time_ns, 21000000000LL);
    assert_near(machine.cpu_percent, 152.5);
    assert_true(isnan(machine.machine_cpu_percent));
    assert_int_equal(machine.rss_bytes, 4096);
    assert_int_equal(machine.cgroup_memory_max_bytes, -1);
    assert_int_equal(machine.periods, 10);
    assert_int_equal(machine.throttled, 5);
    assert_int_equal(machine.throttled_ns, 10);
    assert_int_equal(machine.gpu_count, 2);
    assert_int_equal(machine.gpus[0].busy_percent, 97);
    assert_int_equal(machine.gpus[0].memory_bytes, 5);
    assert_int_equal(machine.gpus[0].power_mw, -1);
    assert_int_equal(machine.gpus[1].index, 4);
    assert_int_equal(machine.gpus[1].busy_percent, -1);
}

static void test_torn_lines(void **state)
{
    (void)state;
    struct ks_live_machine machine;
    assert_false(parse("", &machine));
    assert_false(parse("\n\n", &machine));
    assert_false(parse("{\"time_ns\": 1", &machine));
    assert_false(parse("[1]\nnull\n", &machine));
    assert_true(parse(LAST "{\"time_ns\": 99", &machine)); /* half a line is none */
    assert_int_equal(machine.time_ns, 21000000000LL);
    assert_int_equal(machine.throttled, -1); /* nothing to compare with */
    assert_true(parse(FIRST "{\"gpus\": [{\"index\": }\n", &machine));
    assert_int_equal(machine.time_ns, 9000000000LL);
    assert_true(parse("{\"x\": 1}\n" LAST, &machine));
    assert_int_equal(machine.began_ns, -1);
    for (size_t cut = 0; cut < sizeof(BEFORE LAST) - 1; cut++) { /* each prefix: no fault */
        char text[sizeof(BEFORE LAST)];
        memcpy(text, BEFORE LAST, cut);
        text[cut] = '\0';
        assert_int_equal(parse(text, &machine), cut >= sizeof(BEFORE) - 1);
    }
}

/* ------------------------------------------------------------------ ranks */

static struct ks_live_rank rank_of(int64_t rank, uint64_t steps, bool is_running, double pace)
{
    return (struct ks_live_rank){.process = {.rank = rank,
                                             .pid = rank + 100,
                                             .state = KS_RUN_WAITING,
                                             .steps_seen = steps,
                                             .is_running = is_running},
                                 .steps_per_s = pace};
}

static void test_chosen_ranks(void **state)
{
    (void)state;
    const struct ks_live_rank list[] = {
        rank_of(0, 0, true, (double)NAN), /* torchrun itself */
        rank_of(0, 9, true, 2.0),         /* rank 0 */
        rank_of(1, 7, false, 3.0),        /* before a restart */
        rank_of(1, 5, true, 3.0),
        rank_of(2, 0, true, (double)NAN), /* hangs before its first step */
        rank_of(3, 4, true, 1.0),
        rank_of(3, 4, true, 1.5), /* side by side */
    };
    const struct ks_live_rank *all[KS_COUNT_OF(list)];
    const struct ks_live_rank *chosen[KS_COUNT_OF(list)];
    const struct ks_live_rank *sorted[KS_COUNT_OF(list)];
    for (size_t i = 0; i < KS_COUNT_OF(list); i++) {
        all[i] = &list[i];
    }
    size_t count = ks_live_choose_ranks(all, KS_COUNT_OF(list), chosen);
    assert_int_equal(count, 5);
    assert_ptr_equal(chosen[0], &list[1]);
    assert_ptr_equal(chosen[1], &list[3]);
    assert_ptr_equal(chosen[2], &list[4]);
    size_t paced = ks_live_sort_by_pace(chosen, count, sorted);
    struct ks_live_picture picture = {.ranks = chosen,
                                      .rank_count = count,
                                      .by_pace = sorted,
                                      .paced_count = paced,
                                      .now_ns = 5000};
    struct ks_live_sum sum;
    ks_live_sum_up(&picture, &sum);
    assert_int_equal(paced, 4);
    assert_ptr_equal(sum.slowest, &list[5]);
    assert_ptr_equal(sum.median, &list[6]); /* 1.0 1.5 2.0 3.0: the lower one in the middle */
    assert_ptr_equal(sum.fastest, &list[3]);
    assert_int_equal(sum.steps, 9);
    assert_int_equal(sum.state_counts[KS_RUN_WAITING], 5);
    assert_int_equal(sum.dur_ns, 0); /* nobody knows when it began */
}

static void test_duration(void **state)
{
    (void)state;
    struct ks_live_machine machine = {.began_ns = 1000, .time_ns = 4000};
    struct ks_live_picture picture = {.machine = &machine, .now_ns = 9000};
    struct ks_live_sum sum;
    ks_live_sum_up(&picture, &sum);
    assert_int_equal(sum.dur_ns, 8000);
    picture.state = KS_LIVE_OVER; /* then until it was last seen */
    ks_live_sum_up(&picture, &sum);
    assert_int_equal(sum.dur_ns, 3000);
    machine.began_ns = 99999; /* a clock was set */
    ks_live_sum_up(&picture, &sum);
    assert_int_equal(sum.dur_ns, 0);
}

/* ------------------------------------------------------------------ pictures */

static bool append(void *user, const char *bytes, size_t size)
{
    ks_text_append(user, bytes, size);
    return true;
}

static void make_hostile(struct ks_live_rank *rank, struct ks_live_machine *machine)
{
    *rank = rank_of(0, 123456789, false, 0.00012345);
    rank->process.state = KS_RUN_OFF;
    rank->step_ns = 123456789;
    rank->step_spread_ns = 12345;
    rank->rate_count = KS_LIVE_RATES_MAX;
    for (size_t i = 0; i < KS_LIVE_RATES_MAX; i++) {
        rank->rates[i] = (double)i;
    }
    snprintf(rank->program, sizeof(rank->program), "train\033]0;x\a.py \xe2\x80\xae \xff%0200d", 7);
    snprintf(rank->process.explanation, sizeof(rank->process.explanation),
             "\033[2J gone \xc2\x9b"
             "31m %0300d ends",
             7);
    *machine = (struct ks_live_machine){.began_ns = 1,
                                        .time_ns = 2,
                                        .process_count = 1000000,
                                        .threads = INT64_MAX,
                                        .cpu_percent = 1e300,
                                        .machine_cpu_percent = 100.0,
                                        .rss_bytes = INT64_MAX,
                                        .machine_available_bytes = 1,
                                        .machine_total_bytes = INT64_MAX,
                                        .cgroup_memory_bytes = INT64_MAX,
                                        .cgroup_memory_max_bytes = 1,
                                        .cgroup_cpu_quota_us = 1,
                                        .cgroup_cpu_period_us = INT64_MAX,
                                        .periods = 1,
                                        .throttled = INT64_MAX,
                                        .gpu_count = KS_LIVE_GPUS_MAX};
    for (size_t i = 0; i < KS_LIVE_GPUS_MAX; i++) {
        machine->gpus[i] = (struct ks_live_gpu){.index = INT64_MAX,
                                                .busy_percent = INT64_MAX,
                                                .memory_bytes = INT64_MAX,
                                                .memory_total_bytes = 1,
                                                .sm_mhz = INT64_MAX,
                                                .sm_mhz_max = INT64_MAX,
                                                .reasons = -1 & INT64_MAX,
                                                .temperature_c = INT64_MAX,
                                                .power_mw = INT64_MAX};
    }
}

/* No byte below a blank but the line feed, no C1 control, no line wider than the terminal. */
static void check_lines(const struct ks_text *text, size_t width, size_t height)
{
    size_t lines = 0;
    for (size_t from = 0; from < text->len; lines++) {
        const char *feed = memchr(text->ptr + from, '\n', text->len - from);
        assert_non_null(feed);
        struct ks_str line = {text->ptr + from, (size_t)(feed - text->ptr) - from};
        for (size_t i = 0; i < line.len; i++) {
            assert_true((unsigned char)line.ptr[i] >= 0x20 && line.ptr[i] != 0x7f);
            assert_false(line.ptr[i] == '\xc2' && (unsigned char)line.ptr[i + 1] < 0xa0);
        }
        assert_true(ks_plain_width(line) <= width);
        from += line.len + 1;
    }
    assert_true(height == 0 || lines <= height);
}

static void test_every_width(void **state)
{
    (void)state;
    struct ks_live_machine machine;
    struct ks_live_rank rank;
    make_hostile(&rank, &machine);
    const struct ks_live_rank *list[] = {&rank, &rank, &rank};
    for (size_t i = 0; i < 3 * 2 * 200; i++) {
        struct ks_live_style style = {
            .width = 24 + i / 6, .ascii = i % 2 == 0, .height = i % 5 == 0 ? 10 : 0};
        struct ks_live_picture picture = {.path = "a\rb",
                                          .now_ns = INT64_MAX,
                                          .state = (enum ks_live_state)(i % 3),
                                          .ranks = list,
                                          .rank_count = 1 + i % 3,
                                          .by_pace = list,
                                          .paced_count = 1 + i % 3,
                                          .machine = &machine,
                                          .window = 5,
                                          .report_failure = i % 2 ? "Cannot \033[0m read" : ""};
        struct ks_text text;
        ks_text_init(&text);
        assert_int_equal(ks_live_write_screen(&picture, &style, append, &text, NULL), KS_OK);
        check_lines(&text, style.width, style.height);
        ks_text_release(&text);
    }
}

static void test_json_is_one_line(void **state)
{
    (void)state;
    struct ks_live_machine machine;
    struct ks_live_rank rank;
    make_hostile(&rank, &machine);
    const struct ks_live_rank *list[] = {&rank};
    struct ks_live_picture picture = {
        .path = "a\nb", .ranks = list, .rank_count = 1, .machine = &machine, .report_failure = ""};
    struct ks_text text;
    ks_text_init(&text);
    assert_int_equal(ks_live_write_json(&picture, append, &text, NULL), KS_OK);
    assert_ptr_equal(memchr(text.ptr, '\n', text.len), text.ptr + text.len - 1);
    assert_null(memchr(text.ptr, '\033', text.len));
    ks_text_release(&text);
}

static bool refuse(void *user, const char *bytes, size_t size)
{
    (void)user;
    (void)bytes;
    (void)size;
    return false;
}

static void test_reader_that_stops(void **state)
{
    (void)state;
    struct ks_live_picture picture = {.path = "x", .report_failure = ""};
    struct ks_live_style style = {0};
    assert_int_equal(ks_live_write_screen(&picture, &style, refuse, NULL, NULL), KS_ERR_IO);
    assert_int_equal(ks_live_write_json(&picture, refuse, NULL, NULL), KS_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pace),
        cmocka_unit_test(test_pace_that_is_none),
        cmocka_unit_test(test_long_pace),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_machine),
        cmocka_unit_test(test_torn_lines),
        cmocka_unit_test(test_chosen_ranks),
        cmocka_unit_test(test_duration),
        cmocka_unit_test(test_every_width),
        cmocka_unit_test(test_json_is_one_line),
        cmocka_unit_test(test_reader_that_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
