/* Goal: what slows a program without a GPU is found, with bounds that follow from the evidence, and
 * nothing is found where the evidence is short of the claim. Method: three steps by hand; the first
 * test is the worked example of docs/analyses/cpu_steps.md. */
#include <stdlib.h>
#include <string.h>

#include "advise/findings.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

#define MS *(int64_t)1000000
#define US *(int64_t)1000

static const char single[] = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
static const char several[] = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
static const char *const names[] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"};

static struct facts_fixture f;
static struct ks_findings findings;

static void compute(void)
{
    facts_fixture_advise(&f, &findings);
}

static void release(void)
{
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

/* Steps of 100 ms: the loader until `wait`, then a pause, then operators until the end. */
static void build(const char *loader, const int64_t pauses_ms[3], int64_t wait_ms,
                  const struct ks_process_use *use)
{
    facts_fixture_init(&f, 0, 0);
    f.source->process = *use;
    for (int64_t i = 0; i < 3; i++) {
        int64_t at = i * 100 MS;
        int64_t from = wait_ms + pauses_ms[i];
        const struct host_row rows[] = {
            {1, NOTE, names[i], at, 100 MS},
            {1, NOTE, loader, at, wait_ms MS},
            {1, OP, "aten::mm", at + from MS, (100 - from) MS},
        };
        facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
    }
    compute();
}

static const struct ks_finding *find(const char *id)
{
    const struct ks_finding *found = NULL;
    for (size_t i = 0; i < findings.count; i++) {
        found = strcmp(findings.list[i].rule->id, id) == 0 ? &findings.list[i] : found;
    }
    return found;
}

static const struct ks_finding *get(const char *id)
{
    return rule_case(&findings, id, RULE_FIRES);
}

static void expect_none(const char *id, enum rule_case kind, enum ks_check_state state,
                        const char *words)
{
    rule_case(&findings, id, kind);
    for (size_t i = 0; i < findings.check_count; i++) {
        if (strcmp(findings.checks[i].rule->id, id) == 0) {
            assert_int_equal(findings.checks[i].state, state);
            assert_non_null(strstr(findings.checks[i].reason, words));
        }
    }
    release();
}

static void expect(const char *id, int64_t low_ns, int64_t high_ns)
{
    const struct ks_finding *finding = get(id);
    assert_int_equal(finding->saving.low_ns, low_ns);
    assert_int_equal(finding->saving.high_ns, high_ns);
    assert_int_equal(finding->where.step_count, 3);
    release();
}

/* ------------------------------------------------------------------ host.python_gap */

static const struct ks_process_use four_cores = {.cores = 4, .threads = 4, .wall_ns = 300 MS};

/* Operators at 10..40, 40.15..60 and 75..100 ms of a step; another thread works 60..70. No
 * operator runs 0..10, 40..40.15 and 70..75: the second is too short to count. */
static void test_worked_example(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    for (int64_t i = 0; i < 3; i++) {
        int64_t at = i * 100 MS;
        const struct host_row rows[] = {
            {1, NOTE, names[i], at, 100 MS},
            {1, OP, "aten::mm", at + 10 MS, 30 MS},
            {1, OP, "aten::mm", at + 40150 US, 19850 US},
            {2, OP, "aten::mm", at + 60 MS, 10 MS},
            {1, OP, "aten::mm", at + 75 MS, 25 MS},
        };
        facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
    }
    compute();
    assert_int_equal(f.facts.cpu_count, 1);
    const struct ks_cpu_fact *cpu = &f.facts.cpus[0];
    assert_int_equal(cpu->step_count, 3);
    assert_int_equal(cpu->step_ns_total, 300 MS);
    assert_int_equal(cpu->quiet_ns_total, 45 MS);
    assert_int_equal(cpu->quiet_ns_median, 15 MS);
    assert_int_equal(cpu->short_ns_total, 450 US);
    assert_int_equal(cpu->data_ns_total, 0);
    expect("host.python_gap", 7500 US, 15 MS); /* cores are not known: as with two */
}

/* 20 ms a step; on four cores a quarter of it may still take its time. */
static void test_gap(void **state)
{
    (void)state;
    build("x", (const int64_t[]){20, 20, 20}, 1, &four_cores);
    expect("host.python_gap", 15750 US, 21 MS);
    build("x", (const int64_t[]){3, 3, 3}, 1, &four_cores);
    expect_none("host.python_gap", RULE_NEAR_MISS, KS_CHECK_FINE, "4.00 of 100.00 ms");
    build("x", (const int64_t[]){1, 60, 1}, 1, &four_cores); /* one pause: another fault */
    expect_none("host.python_gap", RULE_SILENT, KS_CHECK_FINE, "2.00 of 100.00 ms");
    build(single, (const int64_t[]){1, 1, 1}, 50, &four_cores); /* the loader's time is no gap */
    expect_none("host.python_gap", RULE_SILENT, KS_CHECK_FINE, "1.00 of 100.00 ms");
}

/* Steps of 100 ms: 20 ms nothing, then for 40 ms operators of 100 us, 100 us apart, then one until
 * the end. Short stretches are 20 of 50 ms in which the thread runs, so that up to 80 % of the
 * waiting for a core can look like gaps. */
static void test_gap_beside_other_programs(void **state)
{
    (void)state;
    static const struct {
        int64_t wait_ns;
        int64_t low_ns; /* 0: silent */
    } cases[] = {{0, 15 MS}, {15 MS, 12 MS}, {54 MS, 4200 US}, {57 MS, 0}};
    for (size_t i = 0; i < KS_COUNT_OF(cases); i++) {
        facts_fixture_init(&f, 0, 0);
        f.source->process = four_cores;
        f.source->process.thread_run_ns = 150 MS;
        f.source->process.thread_wait_ns = cases[i].wait_ns;
        for (int64_t step = 0; step < 3; step++) {
            const struct host_row rows[] = {{1, NOTE, names[step], step * 100 MS, 100 MS},
                                            {1, OP, "aten::mm", step * 100 MS + 60 MS, 40 MS}};
            facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
            for (int64_t at = 20 MS; at < 60 MS; at += 200 US) {
                FACTS_HOST(&f, {1, OP, "aten::add", step * 100 MS + at, 100 US});
            }
        }
        compute();
        if (cases[i].low_ns > 0) {
            expect("host.python_gap", cases[i].low_ns, 20 MS);
        } else {
            expect_none("host.python_gap", RULE_NEAR_MISS, KS_CHECK_FINE, "4.80 of 100.00 ms");
        }
    }
}

/* ------------------------------------------------------------------ host.periodic_stall */

/* Twelve steps of 100 ms, every third of 300: operators, or the loader, take longer. */
static void build_stalls(const char *name, enum ks_category category)
{
    static const char *const numbered[] = {"ProfilerStep#1",  "ProfilerStep#2",  "ProfilerStep#3",
                                           "ProfilerStep#4",  "ProfilerStep#5",  "ProfilerStep#6",
                                           "ProfilerStep#7",  "ProfilerStep#8",  "ProfilerStep#9",
                                           "ProfilerStep#10", "ProfilerStep#11", "ProfilerStep#12"};
    int64_t at = 0;
    facts_fixture_init(&f, 0, 0);
    for (size_t i = 0; i < KS_COUNT_OF(numbered); i++) {
        int64_t dur_ns = i % 3 == 2 ? 300 MS : i == 6 ? 180 MS : 100 MS; /* one by accident */
        FACTS_HOST(&f, {1, NOTE, numbered[i], at, dur_ns}, {1, OP, "aten::mm", at, 100 MS},
                   {1, category, name, at + 100 MS, dur_ns - 100 MS});
        at += dur_ns;
    }
    compute();
}

/* Of eleven steps behind the first, four take 200 ms more. */
static void test_stall(void **state)
{
    (void)state;
    build_stalls("aten::conv2d", OP);
    const struct ks_finding *finding = get("host.periodic_stall");
    assert_int_equal(finding->saving.low_ns, 800 MS / 11 / 2);
    assert_int_equal(finding->saving.high_ns, 800 MS / 11);
    release();
    build_stalls(several, NOTE);
    expect_none("host.periodic_stall", RULE_SILENT, KS_CHECK_FINE, "no long steps");
}

/* ------------------------------------------------------------------ cpu.oversubscribed */

/* Eight threads on four cores, no workers: the thread runs for 40 % of the time and waits for a
 * core for 30 %; 30 % it is blocked. */
static struct ks_process_use crowded(void)
{
    return (struct ks_process_use){.threads = 8,
                                   .cores = 4,
                                   .local_ranks = 1,
                                   .wall_ns = 300 MS,
                                   .cpu_ns = 1080 MS,
                                   .thread_run_ns = 120 MS,
                                   .thread_wait_ns = 90 MS};
}

static void try_use(const struct ks_process_use *use)
{
    build("x", (const int64_t[]){0, 0, 0}, 1, use);
}

static void test_oversubscribed(void **state)
{
    (void)state;
    struct ks_process_use use = crowded();
    try_use(&use);
    expect("cpu.oversubscribed", 0, 60 MS); /* half as many threads have twice the work each */

    use.thread_run_ns = 30 MS; /* 30 - 10 ms are sure, 90 ms can be */
    try_use(&use);
    assert_non_null(strstr(get("cpu.oversubscribed")->fix_code, "set_num_threads(4)"));
    expect("cpu.oversubscribed", 20 MS, 90 MS);

    use.cpu_ns = 700 MS; /* other programs use the cores as well */
    try_use(&use);
    expect("cpu.oversubscribed", 0, 90 MS);

    use = crowded(); /* four ranks of two threads: none spins past the cores, R may be spinning */
    use.threads = 2;
    use.local_ranks = 4;
    use.cpu_ns = 200 MS; /* of each */
    use.thread_run_ns = 60 MS;
    try_use(&use);
    expect("cpu.oversubscribed", 10 MS, 98 MS);

    use = crowded(); /* workers must go, too */
    use.threads = 4;
    use.workers = 8;
    use.worker_cpu_ns = 900 MS;
    use.cpu_ns = 200 MS;
    try_use(&use);
    assert_non_null(strstr(get("cpu.oversubscribed")->fix_code, "num_workers=3"));
    expect("cpu.oversubscribed", 0, 96 MS);
}

static void test_not_oversubscribed(void **state)
{
    (void)state;
    struct ks_process_use use = crowded();
    use.threads = 4; /* as many as cores: others must be what is waited for */
    try_use(&use);
    expect_none("cpu.oversubscribed", RULE_NEAR_MISS, KS_CHECK_FINE, "30.0%");
    use = crowded();
    use.thread_wait_ns = 14 MS;
    try_use(&use);
    expect_none("cpu.oversubscribed", RULE_NEAR_MISS, KS_CHECK_FINE, "4.7%");
    use = crowded();
    use.threads = 4;
    use.workers = 2;
    use.cpu_ns = 700 MS; /* 2.3 of 4 cores */
    try_use(&use);
    expect_none("cpu.oversubscribed", RULE_NEAR_MISS, KS_CHECK_FINE, "other programs");
    use = crowded();
    use.thread_run_ns = 0;
    try_use(&use);
    expect_none("cpu.oversubscribed", RULE_SILENT, KS_CHECK_COULD_NOT, "kernel does not tell");
    use = (struct ks_process_use){0};
    try_use(&use);
    expect_none("cpu.oversubscribed", RULE_SILENT, KS_CHECK_COULD_NOT, "does not tell of cores");
}

/* ------------------------------------------------------------------ cpu.throttled */

/* Three periods of 100 ms with 1.5 cores; in two of them four threads stand still, for 100 ms of
 * all cores together. */
static struct ks_process_use limited(void)
{
    return (struct ks_process_use){.threads = 4,
                                   .cores = 8,
                                   .local_ranks = 1,
                                   .wall_ns = 300 MS,
                                   .quota_us = 150000,
                                   .period_us = 100000,
                                   .periods = 3,
                                   .throttled = 2,
                                   .throttled_ns = 120 MS};
}

static void test_throttled(void **state)
{
    (void)state;
    struct ks_process_use use = limited();
    try_use(&use);
    assert_non_null(strstr(get("cpu.throttled")->fix_code, "set_num_threads(1)"));
    expect("cpu.throttled", 10 MS, 40 MS);
    use.throttled_ns = 900 MS; /* no longer than two periods, 2/3 of the time */
    try_use(&use);
    expect("cpu.throttled", 66666667, 66666667);
}

static void test_unprofiled_step(void **state)
{
    (void)state;
    struct ks_process_use use = limited();
    facts_fixture_init(&f, 0, 0);
    f.source->process = use;
    f.source->unprofiled_step_ns = 50 MS;
    for (int64_t i = 0; i < 3; i++) {
        const struct host_row rows[] = {{1, NOTE, names[i], i * 100 MS, 100 MS},
                                        {1, OP, "aten::mm", i * 100 MS, 100 MS}};
        facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
    }
    compute();
    assert_int_equal(get("cpu.throttled")->saving_in_trace.high_ns, 40 MS);
    expect("cpu.throttled", 5 MS, 20 MS);
}

static void test_not_throttled(void **state)
{
    (void)state;
    struct ks_process_use use = limited();
    use.throttled_ns = 14 MS;
    try_use(&use);
    expect_none("cpu.throttled", RULE_NEAR_MISS, KS_CHECK_FINE, "4.7%");
    use = limited();
    use.quota_us = use.period_us = 0;
    try_use(&use);
    expect_none("cpu.throttled", RULE_SILENT, KS_CHECK_FINE, "no limit");
    use.wall_ns = 0;
    try_use(&use);
    expect_none("cpu.throttled", RULE_SILENT, KS_CHECK_COULD_NOT, "does not tell of cores");
}

static void add_value(uint32_t track, int64_t ms, const char *name, double value)
{
    struct ks_strid id = {0};
    assert_int_equal(ks_trace_builder_intern(f.builder, ks_str_from(name), &id, NULL), KS_OK);
    struct ks_mark_row row = {.lane = track,
                              .start_ns = ms * 1000000,
                              .value = value,
                              .name = id.v,
                              .flags = KS_MARK_COUNTER};
    assert_int_equal(ks_trace_builder_mark(f.builder, &row, NULL), KS_OK);
}

/* Three steps of 100 ms of a trace that does not come from `kscope run`, and a monitor that looked
 * before the first, in them, and at `last_ms`; with 8 cores. */
static void try_curves(int64_t rank, int64_t last_ms, double last_held)
{
    static const int64_t MS_OF[] = {-100, 100, 200};
    static const double HELD[] = {0, 60, 120};
    struct ks_track_key pid = {.number = 1};
    uint32_t track = 0;
    facts_fixture_init(&f, 0, 0);
    for (int64_t i = 0; i < 3; i++) {
        const struct host_row rows[] = {{1, NOTE, names[i], i * 100 MS, 100 MS},
                                        {1, OP, "aten::mm", i * 100 MS, 100 MS}};
        facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
    }
    facts_fixture_next_rank(&f, rank);
    f.source->is_recording = true;
    assert_int_equal(ks_trace_builder_process(f.builder, pid, &track, NULL), KS_OK);
    for (int64_t i = 0; i < 4; i++) {
        int64_t ms = i < 3 ? MS_OF[i] : last_ms;
        add_value(track, ms, "cgroup.throttled", i < 3 ? HELD[i] : last_held);
        add_value(track, ms, "cgroup.throttled_periods", 50);
        add_value(track, ms, "cgroup.cpu_limit", 150);
        for (int core = 0; core < 8; core++) {
            add_value(track, ms, "cpu.core", 20);
        }
    }
    compute();
}

static void test_throttled_by_curves(void **state)
{
    (void)state;
    try_curves(-1, 400, 300);
    const struct ks_throttle_fact *fact = &f.facts.sources[0].throttle;
    assert_true(fact->held_cores > 1.599 && fact->held_cores < 1.601);
    assert_int_equal(fact->cores, 8);
    assert_int_equal(fact->window_ns, 300 MS);
    assert_null(strstr(get("cpu.throttled")->fix_text, "threads of operators"));
    assert_true(facts_fixture_evidence(get("cpu.throttled"), "quota_cores") == 1.5);
    /* 480 ms of all cores: of eight at least 60, and no more than the 150 of the periods. */
    expect("cpu.throttled", 20 MS, 50 MS);
    try_curves(-1, 110,
               300); /* out of order, and 200 ms of 300 are told of: 90 percent of a core */
    assert_non_null(get("cpu.throttled"));
    release();
}

static void test_curves_that_do_not_tell(void **state)
{
    (void)state;
    try_curves(5, 400, 300); /* of another rank */
    expect_none("cpu.throttled", RULE_SILENT, KS_CHECK_COULD_NOT, "does not tell of cores");
    try_curves(-1, 400, -1); /* a value that cannot be: 200 ms are left */
    assert_non_null(get("cpu.throttled"));
    release();
}

/* ------------------------------------------------------------- cpu.oversubscribed by curves */

/* What the monitor saw, the same at each look; a negative value is not there. */
struct seen {
    double waiting, used, machine, threads, preemptions, limit;
};

static const struct seen crowded_seen = {
    .waiting = 50, .used = 360, .machine = 95, .threads = 12, .preemptions = 400, .limit = -1};

static void add_look(uint32_t track, int64_t ms, const struct seen *seen, double waiting)
{
    const struct {
        const char *name;
        double value;
    } curves[] = {{"pressure.cpu", waiting},
                  {"cpu.process", seen->used},
                  {"cpu.machine", seen->machine},
                  {"cpu.threads", seen->threads},
                  {"cpu.preemptions", seen->preemptions},
                  {"cgroup.cpu_limit", seen->limit}};
    for (size_t i = 0; i < KS_COUNT_OF(curves); i++) {
        if (curves[i].value >= 0) {
            add_value(track, ms, curves[i].name, curves[i].value);
        }
    }
    for (int core = 0; core < 4; core++) {
        add_value(track, ms, "cpu.core", 95);
    }
}

/* Three steps of 100 ms, or none, of the process of the recording behind them. */
static uint32_t begin_crowd(bool has_steps)
{
    struct ks_track_key pid = {.number = 1};
    uint32_t track = 0;
    facts_fixture_init(&f, 0, 0);
    for (int64_t i = 0; i < 3 && has_steps; i++) {
        const struct host_row rows[] = {{1, NOTE, names[i], i * 100 MS, 100 MS},
                                        {1, OP, "aten::mm", i * 100 MS, 100 MS}};
        facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
    }
    if (has_steps) {
        facts_fixture_next_rank(&f, -1);
    }
    f.source->is_recording = true;
    assert_int_equal(ks_trace_builder_process(f.builder, pid, &track, NULL), KS_OK);
    return track;
}

static void try_crowd(struct seen seen)
{
    uint32_t track = begin_crowd(true);
    for (int64_t ms = -100; ms <= 400; ms += 100) {
        add_look(track, ms, &seen, seen.waiting);
    }
    compute();
}

static struct seen with_waiting(double waiting)
{
    struct seen seen = crowded_seen;
    seen.waiting = waiting;
    return seen;
}

static void test_crowd_by_curves(void **state)
{
    (void)state;
    struct seen seen = crowded_seen;
    uint32_t track = begin_crowd(true);
    add_look(track, -100, &seen, 0);
    add_look(track, 100, &seen, 60);
    add_look(track, 200, &seen, 30);
    add_look(track, 400, &seen, 90);
    compute();
    const struct ks_crowd_fact *fact = &f.facts.sources[0].crowd;
    assert_true(fact->waiting_share > 0.599 && fact->waiting_share < 0.601);
    assert_true(fact->machine_cores > 3.799 && fact->machine_cores < 3.801);
    assert_int_equal(fact->cores, 4);
    assert_false(fact->is_alone);
    const struct ks_finding *finding = get("cpu.oversubscribed");
    assert_int_equal(finding->impact, KS_IMPACT_TIME);
    assert_non_null(strstr(finding->fix_code, "set_num_threads(4)"));
    expect("cpu.oversubscribed", 0, 60 MS);
}

static void test_crowd_has_to_be_sure(void **state)
{
    (void)state;
    struct seen seen = with_waiting(25.0);
    try_crowd(seen);
    expect("cpu.oversubscribed", 0, 25 MS);
    try_crowd(with_waiting(24.9));
    expect_none("cpu.oversubscribed", RULE_NEAR_MISS, KS_CHECK_FINE, "24.9%");

    seen = crowded_seen;
    seen.threads = 4; /* one for each core */
    try_crowd(seen);
    expect_none("cpu.oversubscribed", RULE_NEAR_MISS, KS_CHECK_FINE, "50.0%");

    seen = crowded_seen;
    seen.preemptions = 79; /* of 80 */
    try_crowd(seen);
    expect_none("cpu.oversubscribed", RULE_NEAR_MISS, KS_CHECK_FINE, "50.0%");

    seen = crowded_seen;
    seen.used = 300; /* of 380 that are used, 79% */
    try_crowd(seen);
    expect_none("cpu.oversubscribed", RULE_SILENT, KS_CHECK_FINE, "other programs");

    seen = crowded_seen;
    seen.used = 239; /* of four cores, just below 60% */
    seen.machine = 60;
    try_crowd(seen);
    expect_none("cpu.oversubscribed", RULE_SILENT, KS_CHECK_FINE, "other programs");
}

static void test_crowd_within_a_limit(void **state)
{
    (void)state;
    struct seen seen = crowded_seen;
    seen.limit = 250; /* two whole cores */
    try_crowd(seen);
    assert_int_equal(f.facts.sources[0].crowd.cores, 2);
    assert_non_null(strstr(get("cpu.oversubscribed")->fix_code, "set_num_threads(2)"));
    release();
    seen.limit = 50;
    try_crowd(seen);
    assert_int_equal(f.facts.sources[0].crowd.cores, 1);
    release();
}

static void test_crowd_that_curves_do_not_tell(void **state)
{
    (void)state;
    struct seen seen = crowded_seen;
    seen.waiting = -1; /* a kernel without pressure */
    try_crowd(seen);
    expect_none("cpu.oversubscribed", RULE_SILENT, KS_CHECK_COULD_NOT, "does not tell of cores");
    uint32_t track = begin_crowd(true);
    add_look(track, 160, &crowded_seen, 50); /* 140 ms of 300 */
    add_look(track, 400, &crowded_seen, 50);
    compute();
    expect_none("cpu.oversubscribed", RULE_SILENT, KS_CHECK_COULD_NOT, "does not tell of cores");
}

/* A recording without steps: no saving can be said. */
static void test_crowd_alone(void **state)
{
    (void)state;
    uint32_t track = begin_crowd(false);
    for (int64_t ms = 0; ms <= 3000; ms += 500) {
        add_look(track, ms, &crowded_seen, 50);
    }
    compute();
    assert_true(f.facts.sources[0].crowd.is_alone);
    const struct ks_finding *finding = get("cpu.oversubscribed");
    assert_int_equal(finding->impact, KS_IMPACT_RISK);
    assert_int_equal(finding->saving.high_ns, 0);
    release();
    track = begin_crowd(false);
    for (int64_t ms = 0; ms <= 2500; ms += 500) {
        add_look(track, ms, &crowded_seen, 50);
    }
    compute();
    expect_none("cpu.oversubscribed", RULE_SILENT, KS_CHECK_COULD_NOT, "does not tell of cores");
}

/* ------------------------------------------------------------------ cpu.numa */

/* Steps of 100 ms, in 60 of which the GPU idles while code runs. */
static void try_node(int64_t distance, bool has_gpu)
{
    facts_fixture_init(&f, 0, 0);
    f.source->process = (struct ks_process_use){
        .threads = 1, .cores = 4, .wall_ns = 300 MS, .numa_distance = distance, .numa_node = 1};
    for (int64_t i = 0; i < 3; i++) {
        const struct host_row rows[] = {
            {1, NOTE, names[i], i * 100 MS, 100 MS},
            {1, OP, "aten::mm", i * 100 MS + 59 MS, 1 MS},
            {1, CALL, "cudaLaunchKernel", i * 100 MS + 59 MS, 1 MS, .corr = i + 1},
            {1, CALL, "cudaDeviceSynchronize", i * 100 MS + 61 MS, 39 MS},
        };
        const struct device_row kernel = {0, 7, KERNEL, "k", i * 100 MS + 60 MS, 40 MS, i + 1};
        facts_fixture_host(&f, rows, KS_COUNT_OF(rows));
        facts_fixture_device(&f, &kernel, has_gpu ? 1 : 0);
    }
    compute();
}

static void test_numa(void **state)
{
    (void)state;
    try_node(20, true); /* 60 ms less a row that costs 2 us, x 0.3 x 0.5 */
    assert_non_null(strstr(get("cpu.numa")->fix_code, "--cpunodebind=1 --membind=1"));
    expect("cpu.numa", 0, (60 MS - 2000) * 15 / 100);
    try_node(13, true); /* 60 ms x 0.3 x 3/13 = 4.2 ms */
    expect_none("cpu.numa", RULE_NEAR_MISS, KS_CHECK_FINE, "60.00 of 100.00 ms");
    try_node(10, true);
    expect_none("cpu.numa", RULE_SILENT, KS_CHECK_FINE, "on the node of its GPU");
    try_node(0, true);
    expect_none("cpu.numa", RULE_SILENT, KS_CHECK_COULD_NOT, "on which node");
    try_node(20, false);
    expect_none("cpu.numa", RULE_SILENT, KS_CHECK_COULD_NOT, "no GPU");
}

/* Numbers come from the file, and may be any: sums stop, and savings stay within the step. */
static void test_absurd_numbers(void **state)
{
    (void)state;
    struct ks_process_use use = {.threads = INT64_MAX,
                                 .cores = 4,
                                 .local_ranks = INT64_MAX,
                                 .wall_ns = 1,
                                 .cpu_ns = INT64_MAX,
                                 .thread_run_ns = 1,
                                 .thread_wait_ns = INT64_MAX,
                                 .quota_us = 1,
                                 .period_us = INT64_MAX,
                                 .periods = 1,
                                 .throttled = INT64_MAX,
                                 .throttled_ns = INT64_MAX,
                                 .workers = INT64_MAX,
                                 .worker_cpu_ns = INT64_MAX};
    build("x", (const int64_t[]){20, 20, 20}, 1, &use);
    for (size_t i = 0; i < findings.count; i++) {
        assert_in_range(findings.list[i].saving.high_ns, 0, 100 MS);
        assert_in_range(findings.list[i].saving.low_ns, 0, findings.list[i].saving.high_ns);
    }
    assert_null(find("host.python_gap")); /* all of it may be waiting for a core */
    assert_non_null(find("cpu.throttled"));
    release();
}

/* ------------------------------------------------------------------ causes of input.starved */

static void expect_cause(const char *loader, const struct ks_process_use *use, const char *cause)
{
    build(loader, (const int64_t[]){0, 0, 0}, 60, use);
    const struct ks_finding *finding = get("input.starved");
    if (cause) {
        assert_string_equal(finding->cause ? finding->cause : "none", cause);
    } else {
        assert_null(finding->cause);
    }
    release();
}

static void test_causes_in_process(void **state)
{
    (void)state;
    struct ks_process_use use = {.cores = 4, .wall_ns = 300 MS, .loader_ns = 180 MS};
    use.loader_cpu_ns = 80 MS;
    expect_cause(single, &use, "storage");
    use.loader_cpu_ns = 100 MS;
    expect_cause(single, &use, "decode");
    use.loader_cpu_ns = 50 MS; /* half of the running time it waits for a core: 100 of 180 ms */
    use.thread_run_ns = 50 MS;
    use.thread_wait_ns = 50 MS;
    expect_cause(single, &use, "decode");
}

static void test_causes_of_workers(void **state)
{
    (void)state;
    struct ks_process_use use = {.cores = 8, .wall_ns = 300 MS, .loader_ns = 180 MS, .workers = 2};
    use.worker_cpu_ns = 60 MS; /* 10 % of two workers' time */
    expect_cause(several, &use, "storage");
    use.worker_wait_ns = 300 MS; /* they would run, if there was a core */
    expect_cause(several, &use, "decode");
    use.worker_wait_ns = 0;
    use.worker_cpu_ns = 200 MS;
    expect_cause(several, &use, NULL);
    use.worker_cpu_ns = 400 MS;
    expect_cause(several, &use, "decode");
    use.loader_cpu_ns = 90 MS;
    expect_cause(several, &use, "ipc");
}

/* Workers that use the cores already: more of them are no repair. */
static void test_full_cores(void **state)
{
    (void)state;
    struct ks_process_use use = {.cores = 2, .wall_ns = 300 MS, .loader_ns = 180 MS, .workers = 8};
    use.worker_cpu_ns = 400 MS;
    build(several, (const int64_t[]){0, 0, 0}, 60, &use);
    const struct ks_finding *finding = get("input.starved");
    assert_string_equal(finding->cause ? finding->cause : "none", "decode");
    assert_int_equal(finding->saving.low_ns, 0);
    assert_non_null(strstr(finding->fix_text, "already use all cores"));
    assert_null(finding->fix_code);
    release();
}

/* ------------------------------------------------------------ how many workers */

static void expect_code(const char *loader, int64_t wait_ms, const struct ks_process_use *use,
                        const char *code)
{
    build(loader, (const int64_t[]){0, 0, 0}, wait_ms, use);
    const struct ks_finding *finding = get("input.starved");
    if (code) {
        assert_non_null(finding->fix_code);
        assert_non_null(strstr(finding->fix_code, code));
    } else {
        assert_null(finding->fix_code);
    }
    release();
}

/* A batch takes 60 ms beside 40 ms of work: three workers keep up, 2.5 times as many do. */
static void test_number_of_workers(void **state)
{
    (void)state;
    struct ks_process_use use = {.cores = 8, .wall_ns = 300 MS, .loader_ns = 180 MS};
    use.loader_cpu_ns = 170 MS; /* decode */
    expect_code(single, 60, &use, "num_workers=3,");
    use.cores = 2;
    expect_code(single, 60, &use, "num_workers=2,");
    use.local_ranks = 2;
    expect_code(single, 60, &use, "num_workers=1,");
    use.loader_cpu_ns = 0; /* storage: workers that wait share a core */
    expect_code(single, 60, &use, "num_workers=3,");
    use = (struct ks_process_use){0}; /* nothing is known of the machine */
    expect_code(single, 60, &use, "num_workers=min(3, os.cpu_count())");
    expect_code(several, 60, &use, "num_workers=min(3 * num_workers, os.cpu_count())");
    use = (struct ks_process_use){.cores = 8, .wall_ns = 300 MS, .loader_ns = 180 MS, .workers = 2};
    use.worker_cpu_ns = 400 MS;
    expect_code(several, 60, &use, "num_workers=5,");
    use.cores = 4;
    use.worker_cpu_ns = 330 MS;
    expect_code(several, 60, &use, "num_workers=4,");
    use.workers = 4; /* as many as cores, and there is nothing that would help */
    use.worker_cpu_ns = 700 MS;
    expect_code(several, 60, &use, NULL);
    use.workers = INT64_MAX;
    use.worker_cpu_ns = 0;
    expect_code(several, 60, &use, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example),
        cmocka_unit_test(test_gap),
        cmocka_unit_test(test_oversubscribed),
        cmocka_unit_test(test_not_oversubscribed),
        cmocka_unit_test(test_throttled),
        cmocka_unit_test(test_unprofiled_step),
        cmocka_unit_test(test_throttled_by_curves),
        cmocka_unit_test(test_crowd_by_curves),
        cmocka_unit_test(test_crowd_has_to_be_sure),
        cmocka_unit_test(test_crowd_within_a_limit),
        cmocka_unit_test(test_crowd_that_curves_do_not_tell),
        cmocka_unit_test(test_crowd_alone),
        cmocka_unit_test(test_curves_that_do_not_tell),
        cmocka_unit_test(test_not_throttled),
        cmocka_unit_test(test_numa),
        cmocka_unit_test(test_absurd_numbers),
        cmocka_unit_test(test_causes_in_process),
        cmocka_unit_test(test_causes_of_workers),
        cmocka_unit_test(test_full_cores),
        cmocka_unit_test(test_stall),
        cmocka_unit_test(test_number_of_workers),
        cmocka_unit_test(test_gap_beside_other_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
