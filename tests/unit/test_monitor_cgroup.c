/* Goal: the monitor in the program and that of `kscope run` say the same of the control group.
 * Method: both look at the one that this test is in, whatever it is. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "capture/monitor/group_source.h"
#include "cmocka_all.h"
#include "launch/cgroup.h"

static struct ks_look look;

/* -1: it is not there. */
static double found(enum ks_metric metric)
{
    for (uint32_t i = 0; i < look.count; i++) {
        if (look.values[i].series == (uint32_t)metric) {
            return look.values[i].value;
        }
    }
    return -1;
}

static void test_both_agree(void **state)
{
    (void)state;
    char cpu[KS_CGROUP_PATH_SIZE];
    char memory[KS_CGROUP_PATH_SIZE];
    struct ks_cgroup theirs;
    struct ks_group_source source;
    ks_group_source_open(&source, "");
    look.now_ns = 1;
    ks_group_source_look(&source, &look);
    ks_group_source_close(&source);
    ks_cgroup_find(getpid(), cpu, memory);
    ks_cgroup_read(cpu, memory, &theirs);
    double used = found(KS_METRIC_GROUP_MEMORY);
    assert_int_equal(used < 0, theirs.memory_bytes < 0);
    /* Other programs of the group come and go. */
    assert_true(fabs(used - (double)theirs.memory_bytes) <= 0.2 * used + (1 << 20));
    assert_true(found(KS_METRIC_GROUP_MEMORY_LIMIT) == (double)theirs.memory_max_bytes);
    double quota = found(KS_METRIC_GROUP_CPU_LIMIT);
    assert_int_equal(quota < 0, theirs.cpu_quota_us < 0);
    assert_true(quota < 0 ||
                quota == 100 * (double)theirs.cpu_quota_us / (double)theirs.cpu_period_us);
    assert_int_equal(source.has_periods, theirs.period_count >= 0);
    assert_true(!source.has_periods || source.periods <= (uint64_t)theirs.period_count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_both_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
