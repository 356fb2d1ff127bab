/* Goal: waits and copies are counted by their cause and by the line that makes them. Method: the
 * worked examples of docs/analyses/syncs.md and places.md, and one small scene for each rule. */
#include <math.h>

#include "advise/findings.h"
#include "analyze/call_walk.h"
#include "analyze/places.h"
#include "cmocka_all.h"
#include "facts_fixture.h"

static struct facts_fixture f;
static struct facts_fixture framed;

#define HOST(fixture, ...) FACTS_HOST(fixture, __VA_ARGS__)
#define DEVICE(fixture, ...) FACTS_DEVICE(fixture, __VA_ARGS__)

#define BACKWARD "autograd::engine::evaluate_function: MmBackward0"

static void check_text(struct ks_str got, const char *want)
{
    assert_true(ks_str_equal(got, ks_str_from(want)));
}

static void check_names(const struct ks_call_site *site, const char *op, const char *call)
{
    check_text(ks_trace_str(f.trace, site->op), op);
    check_text(ks_trace_str(f.trace, site->call), call);
}

static void check_place(const struct ks_place *place, const char *file, int64_t line)
{
    assert_non_null(place);
    check_text(place->file, file);
    assert_int_equal(place->line, line);
}

/* One step of the example, from `at` on; `frames`: with Python frames. */
static void add_step(struct facts_fixture *fixture, const char *name, int64_t at, int64_t corr,
                     bool frames)
{
    HOST(fixture, {1, NOTE, name, at, 100});
    if (frames) {
        HOST(fixture, {1, PY, "train.py(7): step", at, 90},
             {1, PY, "torch/_tensor.py(5): norm", at + 1, 80},
             {1, PY, "<built-in method item>", at + 2, 70});
    }
    HOST(fixture, {1, OP, "aten::item", at + 10, 30},
         {1, OP, "aten::_local_scalar_dense", at + 12, 26},
         {1, CALL, "cudaMemcpyAsync", at + 14, 2, .corr = corr},
         {1, CALL, "cudaStreamSynchronize", at + 18, 18});
    DEVICE(fixture, {0, 7, KERNEL, "gemm", at + 5, 15},
           {0, 7, MEMCPY, "Memcpy DtoH (Device -> Pageable)", at + 20, 2, corr, .bytes = 4});
}

static void check_example(bool has_place)
{
    assert_int_equal(f.facts.sync_count, 2);
    const struct ks_call_site *item = &f.facts.syncs[0];
    check_names(item, "aten::item", "cudaStreamSynchronize");
    assert_int_equal(item->count, 2);
    assert_int_equal(item->wait_ns, 8);
    assert_int_equal(item->total_ns, 36);
    assert_int_equal(item->operator_ns, 60);
    assert_int_equal(item->complete_operator_ns, 60);
    assert_int_equal(item->steps_with, 2);
    assert_int_equal(item->steps[1], 2);
    assert_int_equal(item->device, 0);
    assert_true(fabs(item->per_step - 1) < 1e-9);
    const struct ks_call_site *all = &f.facts.syncs[1];
    check_names(all, "cudaDeviceSynchronize", "cudaDeviceSynchronize");
    assert_int_equal(all->wait_ns, 0);
    assert_int_equal(all->total_ns, 6);
    assert_true(fabs(all->per_step - 0.5) < 1e-9);
    assert_null(all->place);
    assert_int_equal(f.facts.copy_site_count, 1);
    const struct ks_call_site *copy = &f.facts.copy_sites[0];
    check_names(copy, "aten::item", "cudaMemcpyAsync");
    assert_int_equal(copy->count, 2);
    assert_int_equal(copy->bytes, 8);
    assert_int_equal(copy->device_ns, 4);
    assert_int_equal(copy->total_ns, 4);
    assert_int_equal(copy->operator_ns, 60);
    assert_true(copy->is_pageable);
    if (has_place) {
        check_place(item->place, "train.py", 7);
        check_text(item->place->text, "train.py:7 (step)");
        check_place(copy->place, "train.py", 7);
    } else {
        assert_null(item->place);
        assert_null(copy->place);
    }
}

static void build_example(bool frames)
{
    facts_fixture_init(&f, 0, 0);
    add_step(&f, "ProfilerStep#1", 0, 1, frames);
    add_step(&f, "ProfilerStep#2", 100, 2, frames);
    HOST(&f, {1, CALL, "cudaDeviceSynchronize", 92, 6});
}

/* docs/analyses/syncs.md */
static void test_worked_example(void **state)
{
    (void)state;
    build_example(true);
    facts_fixture_compute(&f, NULL);
    check_example(true);
    facts_fixture_release(&f);
    build_example(false);
    facts_fixture_compute(&f, NULL);
    check_example(false);
    facts_fixture_release(&f);
}

static struct ks_strid id_of(const char *text)
{
    return ks_trace_str_find(f.trace, ks_str_from(text));
}

/* docs/analyses/places.md */
static void test_autograd_thread(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST(&f, {1, NOTE, "ProfilerStep#1", 0, 100}, {1, PY, "train.py(7): step", 1, 90},
         {1, PY, "model.py(20): forward", 2, 10}, {1, PY, "torch/nn/linear.py(3): forward", 3, 8},
         {1, OP, "aten::empty", 4, 1, .seq = 3, .aux = -2},
         {1, OP, "aten::mm", 5, 3, .seq = 3, .aux = -2},
         {1, OP, "aten::sum", 25, 1, .seq = 3, .aux = 1}, /* of backward, though on this thread */
         {1, PY, "torch/_tensor.py(9): backward", 30, 40},
         {1, PY, "<built-in method run_backward of torch._C._EngineBase>", 31, 38},
         {2, OP, BACKWARD, 35, 10, .seq = 3, .aux = 1}, {2, OP, "aten::mm", 36, 5},
         {2, CALL, "cudaLaunchKernel", 37, 1}, {2, OP, BACKWARD, 50, 10, .seq = 9, .aux = 1},
         {2, OP, "aten::add", 51, 5});
    facts_fixture_compute(&f, NULL);
    struct ks_place_match match;
    assert_true(ks_places_find(&f.facts, id_of("aten::mm"), KS_PLACE_OPERATOR, &match));
    check_place(match.place, "model.py", 20);
    assert_int_equal(match.calls, 2);
    assert_true(match.share > 0.99);
    assert_true(ks_places_find(&f.facts, id_of("aten::mm"), KS_PLACE_LAUNCH, &match));
    check_place(match.place, "model.py", 20);
    assert_true(ks_places_find(&f.facts, id_of("aten::add"), KS_PLACE_OPERATOR, &match));
    check_place(match.place, "train.py", 7);
    assert_false(ks_places_find(&f.facts, id_of("aten::add"), KS_PLACE_SYNC, &match));
    facts_fixture_release(&f);
}

/* A backward() inside of another one: what runs meanwhile belongs to the inner call. */
static void test_nested_backward(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST(&f, {1, PY, "train.py(7): step", 0, 90},
         {1, PY, "<built-in method run_backward of torch._C._EngineBase>", 10, 70},
         {1, PY, "penalty.py(3): backward", 20, 30},
         {1, PY, "<built-in method run_backward of torch._C._EngineBase>", 21, 20},
         {2, OP, BACKWARD, 25, 5, .seq = 8, .aux = 1}, {2, OP, "aten::mul", 26, 1},
         {2, OP, BACKWARD, 60, 5, .seq = 9, .aux = 1}, {2, OP, "aten::add", 61, 1});
    facts_fixture_compute(&f, NULL);
    struct ks_place_match match;
    assert_true(ks_places_find(&f.facts, id_of("aten::mul"), KS_PLACE_OPERATOR, &match));
    check_place(match.place, "penalty.py", 3);
    assert_true(ks_places_find(&f.facts, id_of("aten::add"), KS_PLACE_OPERATOR, &match));
    check_place(match.place, "train.py", 7);
    facts_fixture_release(&f);
}

/* The frame above says from which line it was called; libraries stand in where no user's code is;
 * the most frequent place comes first, and a finding takes it only when most calls are from it. */
static void test_lines_and_shares(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST(&f, {1, PY, "train.py(7): step", 0, 90},
         {1, PY, "torch/functional.py(3): norm", 1, 20, .concrete = "train.py:12"},
         {1, OP, "aten::norm", 2, 3}, {1, OP, "aten::norm", 6, 3}, {1, OP, "aten::norm", 30, 3},
         {2, PY, "transformers/trainer.py(5): train", 0, 50}, {2, PY, "torch/x.py(1): f", 1, 9},
         {2, OP, "aten::add", 2, 3}, {3, OP, "aten::add", 2, 3});
    facts_fixture_compute(&f, NULL);
    struct ks_place_match match;
    assert_true(ks_places_find(&f.facts, id_of("aten::norm"), KS_PLACE_OPERATOR, &match));
    check_place(match.place, "train.py", 12);
    assert_true(match.place->is_exact);
    assert_int_equal(match.calls, 2);
    assert_true(fabs(match.share - 2.0 / 3) < 1e-9);
    struct ks_where where = {.line = KS_UNKNOWN};
    ks_findings_set_place(&where, &f.facts, id_of("aten::norm"), KS_PLACE_OPERATOR);
    check_text(where.file, "train.py");
    assert_int_equal(where.line, 12);
    assert_true(ks_places_find(&f.facts, id_of("aten::add"), KS_PLACE_OPERATOR, &match));
    check_place(match.place, "transformers/trainer.py", 5);
    assert_true(match.place->is_library);
    assert_false(match.place->is_exact);
    facts_fixture_release(&f);
}

static void compute_with_places(void)
{
    struct ks_scope all = {0};
    facts_fixture_seal(&f);
    const struct ks_facts_help help = {.framed = &framed.facts};
    assert_int_equal(ks_facts_compute_with(f.trace, &all, &help, &f.facts, NULL), KS_OK);
}

/* Two waits a step at two places; `odd`: the step with frames has a third. */
static void check_second_recording(bool odd)
{
    facts_fixture_init(&framed, 0, 0);
    HOST(&framed, {1, NOTE, "ProfilerStep#9", 1000, 100}, {1, PY, "a.py(1): f", 1000, 20},
         {1, OP, "aten::item", 1001, 5}, {1, CALL, "cudaStreamSynchronize", 1002, 2},
         {1, PY, "b.py(2): g", 1030, 60}, {1, OP, "aten::item", 1031, 5},
         {1, CALL, "cudaStreamSynchronize", 1032, 2});
    if (odd) {
        HOST(&framed, {1, OP, "aten::item", 1041, 5}, {1, CALL, "cudaStreamSynchronize", 1042, 2});
    }
    facts_fixture_compute(&framed, NULL);
    facts_fixture_init(&f, 0, 0);
    HOST(&f, {1, NOTE, "ProfilerStep#1", 0, 100}, {1, OP, "aten::other", 0, 1},
         {1, OP, "aten::item", 10, 5}, {1, CALL, "cudaStreamSynchronize", 11, 4},
         {1, OP, "aten::item", 20, 5}, {1, CALL, "cudaStreamSynchronize", 21, 2});
    compute_with_places();
    facts_fixture_release(&framed); /* what is needed was copied */
    assert_int_equal(f.facts.sync_count, odd ? 1 : 2);
    check_place(f.facts.syncs[0].place, odd ? "b.py" : "a.py", odd ? 2 : 1);
    if (!odd) {
        assert_int_equal(f.facts.syncs[0].total_ns, 4);
        check_place(f.facts.syncs[1].place, "b.py", 2);
    }
    facts_fixture_release(&f);
}

static void test_second_recording(void **state)
{
    (void)state;
    check_second_recording(false);
    check_second_recording(true);
}

/* The first step of a recording may be cut: another one tells the places, and calls a step are
 * those of complete steps. */
static void test_cut_step(void **state)
{
    (void)state;
    facts_fixture_init(&framed, 0, 0);
    HOST(&framed, {1, PY, "a.py(1): f", 50, 20}, {1, CALL, "cudaStreamSynchronize", 60, 2},
         {1, NOTE, "Optimizer.step#SGD.step", 100, 10}, {1, PY, "b.py(2): g", 150, 20},
         {1, CALL, "cudaStreamSynchronize", 160, 5}, {1, NOTE, "Optimizer.step#SGD.step", 200, 10},
         {1, NOTE, "Optimizer.step#SGD.step", 300, 10});
    facts_fixture_compute(&framed, NULL);
    assert_int_equal(framed.facts.step_count, 3);
    assert_false(framed.facts.steps[0].is_complete);
    const struct ks_call_site *sites = framed.facts.syncs;
    check_place(sites[0].place, "b.py", 2);
    assert_true(fabs(sites[0].per_step - 0.5) < 1e-9);
    check_place(sites[1].place, "a.py", 1);
    assert_true(fabs(sites[1].per_step) < 1e-9);
    facts_fixture_init(&f, 0, 0);
    HOST(&f, {1, NOTE, "ProfilerStep#1", 0, 100}, {1, CALL, "cudaStreamSynchronize", 11, 4});
    compute_with_places();
    check_place(f.facts.syncs[0].place, "b.py", 2);
    facts_fixture_release(&framed);
    facts_fixture_release(&f);
}

/* Each rank takes its places from the same rank of the recording with frames. */
static void test_ranks_with_frames(void **state)
{
    (void)state;
    facts_fixture_init(&framed, 0, 0);
    HOST(&framed, {1, NOTE, "ProfilerStep#1", 0, 100}, {1, PY, "a.py(1): f", 10, 50},
         {1, CALL, "cudaStreamSynchronize", 20, 2});
    facts_fixture_next_rank(&framed, 1);
    HOST(&framed, {1, NOTE, "ProfilerStep#1", 0, 100}, {1, PY, "b.py(2): g", 10, 50},
         {1, CALL, "cudaStreamSynchronize", 20, 2});
    facts_fixture_compute(&framed, NULL);
    facts_fixture_init(&f, 0, 0);
    HOST(&f, {1, NOTE, "ProfilerStep#1", 0, 100}, {1, CALL, "cudaStreamSynchronize", 20, 3});
    facts_fixture_next_rank(&f, 1);
    HOST(&f, {1, NOTE, "ProfilerStep#1", 0, 100}, {1, CALL, "cudaStreamSynchronize", 20, 5});
    compute_with_places();
    assert_int_equal(f.facts.sync_count, 2);
    check_place(f.facts.syncs[0].place, "b.py", 2);
    check_place(f.facts.syncs[1].place, "a.py", 1);
    facts_fixture_release(&framed);
    facts_fixture_release(&f);
}

/* What is in no step comes last, however long it takes. */
static void test_outside_of_steps(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST(&f, {1, NOTE, "ProfilerStep#1", 0, 100}, {1, CALL, "cudaStreamSynchronize", 20, 2},
         {1, CALL, "cudaDeviceSynchronize", 200, 90}, {1, CALL, "cudaThreadSynchronize", 300, 80});
    DEVICE(&f, {0, 7, KERNEL, "gemm", 150, 400});
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.sync_count, 3);
    check_names(&f.facts.syncs[0], "cudaStreamSynchronize", "cudaStreamSynchronize");
    check_names(&f.facts.syncs[1], "cudaDeviceSynchronize", "cudaDeviceSynchronize");
    assert_int_equal(f.facts.syncs[1].wait_ns, 90);
    facts_fixture_release(&f);
}

/* Copies of one graph on two devices: no device is theirs. */
static void test_copies_on_two_devices(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST(&f, {1, NOTE, "ProfilerStep#1", 0, 100}, {1, CALL, "cudaGraphLaunch", 10, 5, .corr = 1});
    DEVICE(&f, {0, 7, MEMCPY, "Memcpy DtoD (Device -> Device)", 20, 4, 1, .bytes = 8},
           {1, 7, MEMCPY, "Memcpy DtoD (Device -> Device)", 30, 4, 1, .bytes = 8});
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.copy_site_count, 1);
    assert_int_equal(f.facts.copy_sites[0].count, 2);
    assert_int_equal(f.facts.copy_sites[0].device, KS_UNKNOWN);
    facts_fixture_release(&f);
}

/* Two calls of a thread that begin at one moment: each has its own copy. */
static void test_calls_at_one_moment(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST(&f, {1, NOTE, "ProfilerStep#1", 0, 100}, {1, CALL, "cudaGraphLaunch", 10, 5, .corr = 1},
         {1, CALL, "cudaMemcpyAsync", 10, 0, .corr = 2});
    DEVICE(&f, {0, 7, MEMCPY, "Memcpy DtoD (Device -> Device)", 20, 4, 1, .bytes = 8},
           {0, 7, MEMCPY, "Memcpy HtoD (Pinned -> Device)", 30, 6, 2, .bytes = 16});
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.copy_site_count, 2);
    check_names(&f.facts.copy_sites[0], "cudaMemcpyAsync", "cudaMemcpyAsync");
    assert_int_equal(f.facts.copy_sites[0].count, 1);
    assert_int_equal(f.facts.copy_sites[0].bytes, 16);
    assert_int_equal(f.facts.copy_sites[1].bytes, 8);
    facts_fixture_release(&f);
}

static void check_kinds(const char *call, unsigned kinds)
{
    assert_int_equal(ks_call_kinds_of(ks_row_names_classify(ks_str_from(call))), kinds);
}

static void test_kinds(void **state)
{
    (void)state;
    check_kinds("cudaStreamSynchronize", KS_CALL_SYNC);
    check_kinds("cudaDeviceSynchronize", KS_CALL_SYNC);
    check_kinds("hipEventSynchronize", KS_CALL_SYNC);
    check_kinds("cuCtxSynchronize", KS_CALL_SYNC);
    check_kinds("zeEventHostSynchronize", KS_CALL_SYNC);
    check_kinds("urQueueFinish", KS_CALL_SYNC);
    check_kinds("cudaEventQuery", 0);
    check_kinds("cudaStreamWaitEvent", 0);
    check_kinds("cudaMemcpy", KS_CALL_SYNC | KS_CALL_COPY);
    check_kinds("hipMemcpyWithStream", KS_CALL_SYNC | KS_CALL_COPY);
    check_kinds("cudaMemcpyAsync", KS_CALL_COPY);
    check_kinds("cuMemcpyHtoD_v2", KS_CALL_SYNC | KS_CALL_COPY);
    check_kinds("cuMemcpyHtoDAsync_v2", KS_CALL_COPY);
    check_kinds("cudaLaunchKernel", KS_CALL_LAUNCH);
    check_kinds("cudaGraphLaunch", KS_CALL_LAUNCH | KS_CALL_COPY);
    check_kinds("cudaMalloc", 0);
}

/* An operator with two calls, from two threads in turn, counts its time once. */
static void test_operator_time(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST(&f, {1, NOTE, "ProfilerStep#1", 0, 100}, {1, OP, "aten::item", 10, 50},
         {1, CALL, "cudaStreamSynchronize", 20, 5}, {1, CALL, "cudaStreamSynchronize", 40, 5},
         {2, OP, "aten::item", 10, 60}, {2, CALL, "cudaStreamSynchronize", 30, 5},
         {2, CALL, "cudaStreamSynchronize", 50, 5});
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.sync_count, 1);
    assert_int_equal(f.facts.syncs[0].count, 4);
    assert_int_equal(f.facts.syncs[0].operator_ns, 110);
    facts_fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example),
        cmocka_unit_test(test_autograd_thread),
        cmocka_unit_test(test_nested_backward),
        cmocka_unit_test(test_lines_and_shares),
        cmocka_unit_test(test_second_recording),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_cut_step),
        cmocka_unit_test(test_ranks_with_frames),
        cmocka_unit_test(test_outside_of_steps),
        cmocka_unit_test(test_copies_on_two_devices),
        cmocka_unit_test(test_calls_at_one_moment),
        cmocka_unit_test(test_operator_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
