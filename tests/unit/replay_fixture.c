#include "replay_fixture.h"

#include <math.h>
#include <string.h>

#include "cmocka_all.h"

struct facts_fixture f;

const struct ks_replay_change unchanged = KS_REPLAY_UNCHANGED;

void add_host(int64_t at, const struct host_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct host_row row = rows[i];
        row.start_ns = (row.start_ns + at) * US;
        row.dur_ns *= US;
        facts_fixture_host(&f, &row, 1);
    }
}

void add_device(int64_t at, const struct device_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct device_row row = rows[i];
        row.start_ns = (row.start_ns + at) * US;
        row.dur_ns *= US;
        facts_fixture_device(&f, &row, 1);
    }
}

void add_steps(layout *add, int64_t period)
{
    static const char *const names[STEPS] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"};
    for (int64_t i = 0; i < STEPS; i++) {
        int64_t at = i * period;
        HOST({1, NOTE, names[i], 0, period});
        add(at, 1 + i * 1000);
    }
}

void gpu_bound(int64_t at, int64_t corr)
{
    int64_t late = at / 100 * 21;
    HOST({1, CALL, "cudaLaunchKernel", 10, 2, .corr = corr});
    DEVICE({0, 7, KERNEL, "gemm", 20 + late, 120, corr});
}

void example(int64_t at, int64_t corr)
{
    HOST({1, OP, "aten::mm", 10, 10}, {1, CALL, "cudaLaunchKernel", 12, 2, .corr = corr},
         {1, OP, "aten::sum", 30, 6}, {1, CALL, "cudaLaunchKernel", 32, 2, .corr = corr + 1},
         {1, OP, "aten::item", 50, 30}, {1, OP, "aten::_local_scalar_dense", 52, 26},
         {1, CALL, "cudaMemcpyAsync", 54, 2, .corr = corr + 2},
         {1, CALL, "cudaStreamSynchronize", 58, 12}, {1, OP, "aten::add", 88, 6},
         {1, CALL, "cudaLaunchKernel", 90, 2, .corr = corr + 3});
    DEVICE({0, 7, KERNEL, "gemm", 20, 20, corr}, {0, 7, KERNEL, "reduce", 42, 4, corr + 1},
           {0, 7, MEMCPY, "Memcpy DtoH (Device -> Pageable)", 60, 2, corr + 2, .bytes = 4},
           {0, 7, KERNEL, "add", 96, 10, corr + 3});
}

double run_us(const struct ks_replay *replay, struct ks_replay_change change)
{
    struct ks_err err = {0};
    double step_ns = -1;
    assert_non_null(replay);
    assert_int_equal(ks_replay_run(replay, &change, &step_ns, &err), KS_OK);
    return step_ns / US;
}

void check_run(struct ks_replay_change change, double want_us)
{
    double got_us = run_us(f.facts.replays[0], change);
    if (fabs(got_us - want_us) > 1e-6) {
        fail_msg("replayed %.6f us, wanted %.6f us", got_us, want_us);
    }
}

void check_layout_under(layout *add, int64_t period, struct ks_replay_change change, double want_us)
{
    facts_fixture_init(&f, 0, 0);
    add_steps(add, period);
    facts_fixture_compute(&f, NULL);
    check_run(change, want_us);
    facts_fixture_release(&f);
}

struct found found;

static void copy_text(char *to, size_t size, struct ks_str text)
{
    assert_true(text.len < size);
    memcpy(to, text.ptr, text.len);
    to[text.len] = '\0';
}

void run_rule(enum rule_case kind, const char *id)
{
    struct ks_findings findings = {0};
    facts_fixture_advise(&f, &findings);
    const struct ks_finding *finding = rule_case(&findings, id, kind);
    found = (struct found){0};
    if (finding) {
        found.saving = finding->saving;
        found.cause = finding->cause;
        copy_text(found.op, sizeof(found.op), ks_trace_str(f.trace, finding->where.op));
        copy_text(found.text, sizeof(found.text), ks_str_from(finding->fix_text));
        assert_true(found.saving.low_ns <= found.saving.high_ns);
        assert_true(found.saving.high_ns <= f.facts.mean_step.step_ns);
    }
    ks_findings_release(&findings);
    facts_fixture_release(&f);
}

void check_saving_us(int64_t low_from, int64_t low_to, int64_t high_from, int64_t high_to)
{
    assert_true(found.saving.low_ns >= low_from * US && found.saving.low_ns <= low_to * US);
    assert_true(found.saving.high_ns >= high_from * US && found.saving.high_ns <= high_to * US);
}
