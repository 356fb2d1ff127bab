/* Goal: busy, idle, overlap and the parts of a step are lengths of sets of moments. Method: the
 * worked examples by hand; random traces against twins that mark single ns cells; the same result
 * for any chunk size. */
#include <math.h>
#include <string.h>

#include "cmocka_all.h"
#include "facts_fixture.h"
#include "numbers.h"

static struct facts_fixture f;

#define HOST(...) FACTS_HOST(&f, __VA_ARGS__)
#define DEVICE(...) FACTS_DEVICE(&f, __VA_ARGS__)

/* docs/analyses/devices.md */
static void test_worked_example(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    DEVICE({0, 7, KERNEL, "gemm", 0, 100, .blocks_per_sm = 0.5, .occupancy = 0.25},
           {0, 20, KERNEL, "ncclDevKernel_AllReduce", 60, 80, .blocks_per_sm = 0.25},
           {0, 7, MEMCPY, "Memcpy HtoD (Pageable -> Device)", 150, 10, .bytes = 4000},
           {0, 7, KERNEL, "end", 200, 0}, {1, 7, KERNEL, "other", 0, 5},
           {0, 7, KS_CATEGORY_GPU_SYNC, "Event Sync", 0, 900});
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.device_count, 2);
    const struct ks_device_fact *device = &f.facts.devices[0];
    assert_int_equal(device->span_ns, 200);
    assert_int_equal(device->busy_ns, 150);
    assert_int_equal(device->idle_ns, 50);
    assert_int_equal(device->kernel_sum_ns, 180);
    assert_int_equal(device->work_sum_ns, 190);
    assert_int_equal(device->compute_ns, 100);
    assert_int_equal(device->comm_ns, 80);
    assert_int_equal(device->exposed_comm_ns, 40);
    assert_int_equal(device->memcpy_ns, 10);
    assert_true(fabs(device->sm_efficiency - (60 * 0.5 + 40 * 0.75 + 40 * 0.25) / 200) < 1e-9);
    assert_true(fabs(device->occupancy - 0.25) < 1e-6);
    assert_int_equal(f.facts.stream_count, 3);
    assert_int_equal(f.facts.streams[0].stream, 7);
    assert_int_equal(f.facts.streams[0].busy_ns, 110);
    assert_int_equal(f.facts.streams[0].gap_ns, 90);
    facts_fixture_release(&f);
}

/* docs/analyses/breakdown.md */
static void test_breakdown_by_hand(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    HOST({1, NOTE, "ProfilerStep#1", 0, 100},
         {1, NOTE, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 30},
         {1, OP, "aten::rand", 5, 10}, {1, OP, "aten::mm", 40, 30},
         {1, CALL, "cudaLaunchKernel", 45, 10, .corr = 1}, {1, PY, "f.py(1): g", 80, 10});
    DEVICE({0, 7, KERNEL, "k", 50, 30, 1}, {0, 7, MEMSET, "Memset (Device)", 75, 10, 1},
           {0, 8, KERNEL, "ncclKernel", 70, 20, 1});
    facts_fixture_compute(&f, NULL);
    static const int64_t want[KS_ROLE_COUNT] = {
        [KS_ROLE_KERNEL] = 30, [KS_ROLE_MEMSET] = 5,      [KS_ROLE_COMMUNICATION] = 5,
        [KS_ROLE_RUNTIME] = 5, [KS_ROLE_DATALOADER] = 30, [KS_ROLE_CPU] = 5,
        [KS_ROLE_OTHER] = 20,
    };
    for (int role = 0; role < KS_ROLE_COUNT; role++) {
        assert_int_equal(f.facts.steps[0].breakdown_ns[role], want[role]);
    }
    facts_fixture_release(&f);
}

/* ------------------------------------------------------------------ twins */

enum { CELLS = 400, ROWS_MAX = 40, STREAMS = 3, STEPS = 3 };

struct scene {
    struct device_row devices[ROWS_MAX];
    size_t device_count;
    struct host_row hosts[ROWS_MAX];
    size_t host_count;
};

static void draw(struct scene *scene, uint64_t seed)
{
    struct numbers numbers = {seed};
    static const enum ks_category works[] = {KERNEL, KERNEL, KERNEL,
                                             MEMCPY, MEMSET, KS_CATEGORY_GPU_ANNOTATION};
    static const char *const work_names[] = {"k", "ncclDevKernel_X", "z"};
    scene->device_count = (size_t)numbers_below(&numbers, ROWS_MAX);
    for (size_t i = 0; i < scene->device_count; i++) {
        scene->devices[i] = (struct device_row){
            .device = (int64_t)numbers_below(&numbers, 2),
            .stream = (int64_t)numbers_below(&numbers, STREAMS),
            .category = works[numbers_below(&numbers, KS_COUNT_OF(works))],
            .name = work_names[numbers_below(&numbers, KS_COUNT_OF(work_names))],
            .start_ns = (int64_t)numbers_below(&numbers, 300),
            .dur_ns = (int64_t)numbers_below(&numbers, 30),
            .blocks_per_sm = (double)numbers_below(&numbers, 5) / 8,
        };
    }
    scene->host_count = 0;
    for (int64_t i = 0; i < STEPS; i++) {
        static const char *const steps[] = {"ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"};
        scene->hosts[scene->host_count++] = (struct host_row){1, NOTE, steps[i], 10 + i * 100, 90};
    }
    static const enum ks_category hosts[] = {OP, CALL, NOTE, PY, OP, KS_CATEGORY_OVERHEAD};
    static const char *const host_names[] = {
        "op", "gloo:all_reduce", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"};
    size_t more = (size_t)numbers_below(&numbers, ROWS_MAX - STEPS);
    for (size_t i = 0; i < more; i++) {
        scene->hosts[scene->host_count++] = (struct host_row){
            1 + (int64_t)numbers_below(&numbers, 3),
            hosts[numbers_below(&numbers, KS_COUNT_OF(hosts))],
            host_names[numbers_below(&numbers, KS_COUNT_OF(host_names))],
            (int64_t)numbers_below(&numbers, 330), (int64_t)numbers_below(&numbers, 40)};
    }
}

static void build(const struct scene *scene, uint32_t chunk_rows)
{
    facts_fixture_init(&f, chunk_rows, 0);
    facts_fixture_device(&f, scene->devices, scene->device_count);
    facts_fixture_host(&f, scene->hosts, scene->host_count);
    facts_fixture_compute(&f, NULL);
}

static bool is_comm(const struct device_row *row)
{
    return row->category == KERNEL && row->name[0] == 'n';
}

/* Does a cell hold work of this device for which `wanted` says yes? */
static bool runs(const struct scene *scene, int64_t device, int64_t stream, int64_t cell,
                 bool (*wanted)(const struct device_row *row))
{
    for (size_t i = 0; i < scene->device_count; i++) {
        const struct device_row *row = &scene->devices[i];
        if (row->device == device && (stream < 0 || row->stream == stream) && wanted(row) &&
            row->start_ns <= cell && cell < row->start_ns + row->dur_ns) {
            return true;
        }
    }
    return false;
}

static bool any_work(const struct device_row *row)
{
    return ks_category_is_work(row->category);
}

static bool any_compute(const struct device_row *row)
{
    return row->category == KERNEL && !is_comm(row);
}

/* Eighths add up without rounding. */
static double share_of_sms(const struct scene *scene, int64_t device, int64_t cell)
{
    double sum = 0;
    for (size_t i = 0; i < scene->device_count; i++) {
        const struct device_row *row = &scene->devices[i];
        bool is_here = row->start_ns <= cell && cell < row->start_ns + row->dur_ns;
        sum += row->device == device && row->category == KERNEL && is_here ? row->blocks_per_sm : 0;
    }
    return sum < 1 ? sum : 1;
}

static void check_sm_efficiency(const struct scene *scene, const struct ks_device_fact *fact)
{
    double sum = 0;
    for (int64_t cell = 0; cell < CELLS; cell++) {
        sum += share_of_sms(scene, fact->device, cell);
    }
    if (sum > 0) {
        assert_true(fabs(fact->sm_efficiency - sum / (double)fact->span_ns) < 1e-9);
    } else {
        assert_true(isnan(fact->sm_efficiency));
    }
}

static void check_device(const struct scene *scene, const struct ks_device_fact *fact)
{
    check_sm_efficiency(scene, fact);
    int64_t busy = 0;
    int64_t compute = 0;
    int64_t comm = 0;
    int64_t exposed = 0;
    for (int64_t cell = 0; cell < CELLS; cell++) {
        bool computes = runs(scene, fact->device, -1, cell, any_compute);
        bool communicates = runs(scene, fact->device, -1, cell, is_comm);
        busy += runs(scene, fact->device, -1, cell, any_work);
        compute += computes;
        comm += communicates;
        exposed += communicates && !computes;
    }
    assert_int_equal(fact->busy_ns, busy);
    assert_int_equal(fact->compute_ns, compute);
    assert_int_equal(fact->comm_ns, comm);
    assert_int_equal(fact->exposed_comm_ns, exposed);
    assert_int_equal(fact->busy_ns + fact->idle_ns, fact->span_ns);
}

static enum ks_role role_of_cell(const struct scene *scene, int64_t cell)
{
    enum ks_role best = KS_ROLE_OTHER;
    for (size_t i = 0; i < scene->device_count; i++) {
        const struct device_row *row = &scene->devices[i];
        if (row->start_ns <= cell && cell < row->start_ns + row->dur_ns && any_work(row)) {
            enum ks_role role = row->category == MEMCPY   ? KS_ROLE_MEMCPY
                                : row->category == MEMSET ? KS_ROLE_MEMSET
                                : is_comm(row)            ? KS_ROLE_COMMUNICATION
                                                          : KS_ROLE_KERNEL;
            best = role < best ? role : best;
        }
    }
    for (size_t i = STEPS; i < scene->host_count; i++) {
        const struct host_row *row = &scene->hosts[i];
        bool is_work = row->category == OP || row->category == NOTE;
        if (row->start_ns <= cell && cell < row->start_ns + row->dur_ns) {
            enum ks_role role = row->category == CALL ? KS_ROLE_RUNTIME
                                : !is_work            ? KS_ROLE_OTHER
                                : row->name[0] == 'g' ? KS_ROLE_COMMUNICATION
                                : row->name[0] == 'e' ? KS_ROLE_DATALOADER
                                                      : KS_ROLE_CPU;
            best = role < best ? role : best;
        }
    }
    return best;
}

static void check_steps(const struct scene *scene)
{
    assert_int_equal(f.facts.step_count, STEPS);
    for (size_t i = 0; i < STEPS; i++) {
        const struct ks_step *step = &f.facts.steps[i];
        int64_t parts[KS_ROLE_COUNT] = {0};
        int64_t start = step->start_ns - f.facts.steps[0].host_start_ns + 10;
        for (int64_t cell = start; cell < start + step->dur_ns; cell++) {
            parts[role_of_cell(scene, cell)]++;
        }
        assert_memory_equal(parts, step->breakdown_ns, sizeof(parts));
    }
}

static void test_against_cells(void **state)
{
    (void)state;
    static const uint32_t chunk_rows[] = {0, 1, 4};
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct scene scene;
        draw(&scene, seed);
        build(&scene, chunk_rows[seed % KS_COUNT_OF(chunk_rows)]);
        for (size_t i = 0; i < f.facts.device_count; i++) {
            check_device(&scene, &f.facts.devices[i]);
        }
        for (size_t i = 0; i < f.facts.stream_count; i++) {
            const struct ks_stream_fact *stream = &f.facts.streams[i];
            int64_t busy = 0;
            for (int64_t cell = 0; cell < CELLS; cell++) {
                busy += runs(&scene, stream->device, stream->stream, cell, any_work);
            }
            assert_int_equal(stream->busy_ns, busy);
        }
        check_steps(&scene);
        facts_fixture_release(&f);
    }
}

/* Each rank's steps hold the rows of its own threads and devices, also when ranks between have
 * none on the one side or the other. */
static void test_ranks(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    f.source->rank = 0;
    enum { RANKS = 6 };
    for (int64_t rank = 0; rank < RANKS; rank++) {
        if (rank > 0) {
            facts_fixture_next_rank(&f, rank);
        }
        HOST({1, NOTE, "ProfilerStep#1", 0, 100});
        if (rank % 2 == 0) {
            HOST({2, OP, "aten::mm", 50, 10 + rank}, {3, OP, "aten::mm", 80, 10});
        }
        if (rank % 3 != 0) {
            DEVICE({0, 7, KERNEL, "k", 10, 20 + rank}, {1, 7, MEMCPY, "Memcpy HtoD", 5, 2});
        }
    }
    facts_fixture_compute(&f, NULL);
    assert_int_equal(f.facts.step_count, RANKS);
    for (int64_t rank = 0; rank < RANKS; rank++) {
        const int64_t *parts = f.facts.steps[rank].breakdown_ns;
        assert_int_equal(parts[KS_ROLE_CPU], rank % 2 == 0 ? 20 + rank : 0);
        assert_int_equal(parts[KS_ROLE_KERNEL], rank % 3 != 0 ? 20 + rank : 0);
        assert_int_equal(parts[KS_ROLE_MEMCPY], rank % 3 != 0 ? 2 : 0);
    }
    facts_fixture_release(&f);
}

/* Rows of one device only, when the scope says so. */
static void test_scope(void **state)
{
    (void)state;
    facts_fixture_init(&f, 0, 0);
    DEVICE({0, 7, KERNEL, "a", 0, 10}, {1, 7, KERNEL, "b", 0, 20});
    struct ks_scope scope = {.device_given = true, .device = 1};
    facts_fixture_compute(&f, &scope);
    assert_int_equal(f.facts.device_count, 1);
    assert_int_equal(f.facts.devices[0].busy_ns, 20);
    assert_int_equal(f.facts.kernel_count, 1);
    facts_fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example), cmocka_unit_test(test_breakdown_by_hand),
        cmocka_unit_test(test_against_cells),  cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
