/* Goal: findings come out in the order of what to do first, what they promise together fits into
 * the step, and share and confidence follow from what is left. Method: rules and findings by hand,
 * in a step of 1000 ns. */
#include "advise/findings.h"

#include <math.h>
#include <string.h>

#include "cmocka_all.h"

static const struct ks_rule time_a = {.id = "time.a", .title = "a", .impact = KS_IMPACT_TIME};
static const struct ks_rule time_b = {.id = "time.b", .title = "b", .impact = KS_IMPACT_TIME};
static const struct ks_rule time_c = {.id = "time.c", .title = "c", .impact = KS_IMPACT_TIME};
static const struct ks_rule memory = {.id = "memory", .title = "m", .impact = KS_IMPACT_MEMORY};
static const struct ks_rule risk = {.id = "risk", .title = "r", .impact = KS_IMPACT_RISK};

/* Three steps: the mean is 1000 ns. */
static const struct ks_facts facts = {.step_ns_total = 3001, .complete_step_count = 3};
static const struct ks_facts no_steps = {0};

static struct ks_findings f;

static void start(void)
{
    f = (struct ks_findings){0};
    ks_arena_init(&f.arena);
}

static void add_to(const struct ks_facts *to, const struct ks_finding *finding)
{
    struct ks_err err = {0};
    assert_int_equal(ks_findings_add(&f, to, finding, &err), KS_OK);
}

static struct ks_finding finding_of(const struct ks_rule *rule, int64_t low_ns, int64_t high_ns)
{
    return (struct ks_finding){.rule = rule,
                               .saving = {low_ns, high_ns},
                               .saving_in_trace = {low_ns, high_ns},
                               .bytes = KS_UNKNOWN,
                               .steps_until_oom = KS_UNKNOWN,
                               .where.rank = KS_UNKNOWN};
}

static void add(const struct ks_rule *rule, const char *group, int64_t low_ns, int64_t high_ns)
{
    struct ks_finding finding = finding_of(rule, low_ns, high_ns);
    finding.group = group;
    add_to(&facts, &finding);
}

static void settle(void)
{
    ks_findings_settle(&f, &facts);
}

static void check(size_t index, const struct ks_rule *rule, int64_t low_ns, int64_t high_ns)
{
    assert_true(index < f.count);
    const struct ks_finding *finding = &f.list[index];
    assert_string_equal(finding->rule->id, rule->id);
    assert_int_equal(finding->saving.low_ns, low_ns);
    assert_int_equal(finding->saving.high_ns, high_ns);
    double middle_ns = (double)(low_ns + (high_ns - low_ns) / 2);
    assert_true(fabs(finding->share - middle_ns / 1000) < 1e-12);
}

static void end(size_t count)
{
    assert_int_equal(f.count, count);
    ks_findings_release(&f);
}

/* Nobody saves more of a step without the profiler than there is of it. */
static void test_no_more_than_the_unprofiled_step(void **state)
{
    (void)state;
    struct ks_facts timed = facts;
    struct ks_finding finding = finding_of(&time_a, 500, 900);
    timed.mean_step.unprofiled_most_ns = 400;
    start();
    add_to(&timed, &finding);
    assert_int_equal(f.list[0].saving.low_ns, 400);
    assert_int_equal(f.list[0].saving.high_ns, 400);
    assert_int_equal(f.list[0].saving_in_trace.low_ns, 500);
    assert_int_equal(f.list[0].saving_in_trace.high_ns, 900);
    timed.mean_step.unprofiled_most_ns = 2000; /* a machine that was busier then */
    finding = finding_of(&time_b, 500, 1200);
    add_to(&timed, &finding);
    assert_int_equal(f.list[1].saving.high_ns, 1000);
    end(2);
}

static void test_order(void **state)
{
    (void)state;
    start();
    add(&time_a, NULL, 100, 120);
    add(&time_b, NULL, 0, 300); // the middle decides, not the low end
    add(&time_c, NULL, 20, 40);
    add(&risk, NULL, 0, 0);
    struct ks_finding far = finding_of(&memory, 0, 0);
    far.steps_until_oom = 10000;
    add_to(&facts, &far);
    struct ks_finding near = far;
    near.steps_until_oom = 9999;
    near.group = "near";
    add_to(&facts, &near);
    settle();
    check(0, &memory, 0, 0);
    assert_int_equal(f.list[0].steps_until_oom, 9999);
    check(1, &time_b, 0, 300);
    check(2, &time_a, 100, 120);
    check(3, &memory, 0, 0); // time of less than 5 % comes behind risks
    check(4, &risk, 0, 0);
    check(5, &time_c, 20, 40);
    end(6);
}

/* What a graph would repair comes behind what hinders one, however much it saves, but not behind
 * what is not worth a note. */
static void test_graphs_come_last(void **state)
{
    (void)state;
    static const struct ks_rule wanting = {.id = "wanting", .title = "w", .wants_graphs = true};
    static const struct ks_rule hinders_b = {.id = "b", .title = "b", .hinders_graphs = true};
    static const struct ks_rule hinders_c = {.id = "c", .title = "c", .hinders_graphs = true};
    start();
    add(&wanting, "1", 400, 400);
    add(&time_a, "2", 300, 300);
    add(&hinders_b, "3", 100, 100);
    add(&time_b, "4", 60, 60);
    add(&hinders_c, "5", 20, 20); /* under 5 % */
    settle();
    check(0, &time_a, 300, 300);
    check(1, &hinders_b, 100, 100);
    check(2, &wanting, 400, 400);
    check(3, &time_b, 60, 60);
    check(4, &hinders_c, 20, 20);
    end(5);
    start();
    add(&hinders_b, "1", 200, 200); /* it comes first anyway */
    add(&wanting, "2", 100, 100);
    settle();
    check(0, &hinders_b, 200, 200);
    check(1, &wanting, 100, 100);
    end(2);
}

static void test_order_of_equals(void **state)
{
    (void)state;
    start();
    add(&time_b, "1", 100, 100);
    struct ks_finding of_rank = finding_of(&time_a, 100, 100);
    of_rank.where.rank = 3;
    of_rank.group = "2";
    add_to(&facts, &of_rank);
    of_rank.where.rank = 1;
    of_rank.group = "3";
    add_to(&facts, &of_rank);
    settle();
    check(0, &time_a, 100, 100);
    assert_int_equal(f.list[0].where.rank, 1);
    assert_int_equal(f.list[1].where.rank, 3);
    check(2, &time_b, 100, 100);
    end(3);
}

/* Exactly 5 % is worth having before a risk. */
static void test_share_of_note(void **state)
{
    (void)state;
    start();
    add(&risk, NULL, 0, 0);
    add(&time_a, NULL, 50, 50);
    add(&time_b, NULL, 49, 49);
    settle();
    check(0, &time_a, 50, 50);
    check(1, &risk, 0, 0);
    check(2, &time_b, 49, 49);
    end(3);
}

/* All high ends together are no more than the step; what is left with nothing is gone. */
static void test_cut(void **state)
{
    (void)state;
    start();
    add(&time_a, NULL, 300, 900);
    add(&time_b, NULL, 150, 400);
    add(&time_c, NULL, 100, 100);
    struct ks_check checks[] = {
        {.rule = &time_b, .state = KS_CHECK_FOUND, .reason = ""},
        {.rule = &time_c, .state = KS_CHECK_FOUND, .reason = ""},
    };
    f.checks = checks;
    f.check_count = KS_COUNT_OF(checks);
    assert_int_equal(f.list[1].confidence, KS_CONFIDENCE_MEDIUM);
    settle();
    check(0, &time_a, 300, 900);
    check(1, &time_b, 100, 100);
    assert_int_equal(f.list[1].confidence, KS_CONFIDENCE_HIGH);
    assert_int_equal(f.list[1].saving_in_trace.low_ns, 100);
    assert_int_equal(f.list[1].saving_in_trace.high_ns, 100);
    assert_int_equal(checks[0].state, KS_CHECK_FOUND);
    assert_int_equal(checks[1].state, KS_CHECK_FINE);
    assert_true(strlen(checks[1].reason) > 0);
    end(2);

    start(); // the first may take all
    add(&time_a, NULL, 0, 1000);
    add(&time_b, NULL, 10, 500);
    settle();
    check(0, &time_a, 0, 1000);
    end(1);

    start(); // exactly the step
    add(&time_a, NULL, 600, 600);
    add(&time_b, NULL, 400, 400);
    settle();
    check(1, &time_b, 400, 400);
    end(2);
}

/* The saving in the trace has a step of its own to fit into. */
static void test_cut_in_trace(void **state)
{
    (void)state;
    start();
    struct ks_finding first = finding_of(&time_a, 400, 400);
    first.saving_in_trace = (struct ks_saving){800, 900};
    struct ks_finding second = finding_of(&time_b, 300, 300);
    second.saving_in_trace = (struct ks_saving){50, 300};
    add_to(&facts, &second);
    add_to(&facts, &first);
    settle();
    check(0, &time_a, 400, 400);
    check(1, &time_b, 300, 300);
    assert_int_equal(f.list[1].saving_in_trace.low_ns, 50);
    assert_int_equal(f.list[1].saving_in_trace.high_ns, 100);
    end(2);
}

/* Only the first of a group takes from the step. */
static void test_groups(void **state)
{
    (void)state;
    start();
    add(&time_a, "input", 500, 600);
    add(&time_b, "input", 400, 600);
    add(&time_c, NULL, 300, 400);
    settle();
    check(0, &time_a, 500, 600);
    check(1, &time_b, 400, 600);
    check(2, &time_c, 300, 400);
    assert_true(f.list[0].is_primary);
    assert_false(f.list[1].is_primary);
    assert_true(f.list[2].is_primary);
    assert_string_equal(f.list[2].group, "time.c");
    end(3);

    start(); // a group whose first is dropped is dropped, but for its risks
    add(&time_a, NULL, 1000, 1000);
    add(&time_b, "group", 500, 500);
    add(&time_c, "group", 400, 400);
    add(&risk, "group", 0, 0);
    settle();
    check(0, &time_a, 1000, 1000);
    check(1, &risk, 0, 0);
    assert_true(f.list[1].is_primary);
    end(2);
}

static void check_confidence(int64_t low_ns, int64_t high_ns, enum ks_confidence confidence)
{
    start();
    add(&time_a, NULL, low_ns, high_ns);
    assert_int_equal(f.list[0].confidence, confidence);
    settle();
    assert_int_equal(f.list[0].confidence, confidence);
    end(1);
}

static void test_confidence(void **state)
{
    (void)state;
    check_confidence(100, 100, KS_CONFIDENCE_HIGH);
    check_confidence(100, 150, KS_CONFIDENCE_HIGH);
    check_confidence(100, 151, KS_CONFIDENCE_MEDIUM);
    check_confidence(100, 300, KS_CONFIDENCE_MEDIUM);
    check_confidence(100, 301, KS_CONFIDENCE_LOW);
    check_confidence(0, 1, KS_CONFIDENCE_LOW);
}

/* Each alone is within the step and not below nothing; nothing at all is no finding. */
static void test_bounds(void **state)
{
    (void)state;
    start();
    add(&time_a, NULL, -50, 1500);
    check(0, &time_a, 0, 1000);
    add(&time_b, NULL, 2000, 1500);
    check(1, &time_b, 1000, 1000);
    end(2);

    start();
    add(&time_a, NULL, -2, -1);
    settle();
    end(0);

    start(); // without steps nothing is known to be too much
    struct ks_finding finding = finding_of(&time_a, 5000, 6000);
    add_to(&no_steps, &finding);
    ks_findings_settle(&f, &no_steps);
    assert_int_equal(f.list[0].saving.high_ns, 6000);
    assert_true(f.list[0].share == 0);
    assert_true(f.list[0].is_primary);
    end(1);
}

/* ------------------------------------------------------------------ noise */

static struct ks_facts noisy(double noise)
{
    struct ks_facts uneven = facts;
    uneven.step_noise = noise;
    return uneven;
}

static void check_saving(size_t index, int64_t low_ns, int64_t high_ns)
{
    assert_true(index < f.count);
    assert_int_equal(f.list[index].saving.low_ns, low_ns);
    assert_int_equal(f.list[index].saving.high_ns, high_ns);
}

/* Of 1000 a saving of 200 to 300 leaves 750: 0.1 of the root of 1000^2 + 750^2 is 125. */
static void test_noise_opens_a_saving(void **state)
{
    (void)state;
    struct ks_facts uneven = noisy(0.1);
    struct ks_finding finding = finding_of(&time_a, 200, 300);
    start();
    add_to(&uneven, &finding);
    ks_findings_settle(&f, &uneven);
    check_saving(0, 75, 425);
    assert_true(fabs(f.list[0].share - 0.25) < 1e-12); /* what is known of it is the same */
    assert_int_equal(f.list[0].confidence, KS_CONFIDENCE_LOW);
    assert_int_equal(f.list[0].saving_in_trace.low_ns, 200);
    ks_findings_settle(&f, &uneven); /* once more is no more of it */
    check_saving(0, 75, 425);
    end(1);
}

/* However uneven steps are, 0.15 counts; what cannot be saved is not promised. */
static void test_noise_has_bounds(void **state)
{
    (void)state;
    struct ks_facts uneven = noisy(3);
    struct ks_finding large = finding_of(&time_a, 900, 950);
    struct ks_finding small = finding_of(&time_b, 20, 40);
    uneven.mean_step.unprofiled_most_ns = 980;
    start();
    add_to(&uneven, &large);
    add_to(&uneven, &small);
    ks_findings_settle(&f, &uneven);
    /* 0.15 of the root of 980^2 + 55^2; of the last 10 of the recorded step the first takes all. */
    check_saving(0, 900 - 147, 960);
    check_saving(1, 0, 40);
    end(2);
}

/* Property: high ends of what is added up fit into the step, and no low end is above its high. */
static void test_noise_keeps_sums_within_the_step(void **state)
{
    (void)state;
    static const struct ks_rule *const rules[] = {&time_a, &time_b, &time_c};
    uint32_t seed = 1;
    for (int round = 0; round < 500; round++) {
        struct ks_facts uneven = noisy((double)(seed % 40) / 100);
        int64_t sum_ns = 0;
        start();
        for (size_t i = 0; i < KS_COUNT_OF(rules); i++) {
            seed = seed * 1664525u + 1013904223u;
            int64_t low_ns = seed >> 8 & 511;
            struct ks_finding finding = finding_of(rules[i], low_ns, low_ns + (seed >> 20 & 511));
            add_to(&uneven, &finding);
        }
        ks_findings_settle(&f, &uneven);
        for (size_t i = 0; i < f.count; i++) {
            const struct ks_saving *saving = &f.list[i].saving;
            assert_true(saving->low_ns >= 0 && saving->low_ns <= saving->high_ns);
            sum_ns += f.list[i].is_primary ? saving->high_ns : 0;
        }
        assert_true(sum_ns <= 1000);
        ks_findings_release(&f);
    }
}

static void check_severity(struct ks_finding finding, enum ks_severity want)
{
    start();
    add_to(&facts, &finding);
    settle();
    assert_int_equal(ks_finding_severity(&f.list[0]), want);
    ks_findings_release(&f);
}

static void test_severity(void **state)
{
    (void)state;
    check_severity(finding_of(&time_a, 40, 58), KS_FINDING_LOW);
    check_severity(finding_of(&time_a, 40, 60), KS_FINDING_MEDIUM);
    check_severity(finding_of(&time_a, 180, 218), KS_FINDING_MEDIUM);
    check_severity(finding_of(&time_a, 180, 220), KS_FINDING_HIGH);
    check_severity(finding_of(&risk, 0, 0), KS_FINDING_MEDIUM);
    struct ks_finding growth = finding_of(&memory, 0, 0);
    growth.steps_until_oom = 10000;
    check_severity(growth, KS_FINDING_MEDIUM);
    growth.steps_until_oom = 9999;
    check_severity(growth, KS_FINDING_HIGH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_more_than_the_unprofiled_step),
        cmocka_unit_test(test_noise_opens_a_saving),
        cmocka_unit_test(test_noise_has_bounds),
        cmocka_unit_test(test_noise_keeps_sums_within_the_step),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_graphs_come_last),
        cmocka_unit_test(test_order_of_equals),
        cmocka_unit_test(test_share_of_note),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_cut_in_trace),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_confidence),
        cmocka_unit_test(test_severity),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
