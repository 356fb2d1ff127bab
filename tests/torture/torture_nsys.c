/* Goal: reading an export of Nsight Systems when memory is short at any moment leaves nothing
 * behind, and says so or reads all. Method: a small export; each allocation fails, once and for
 * ever, those of SQLite too, which can do without some of them. */
#include "base/alloc.h"
#include "cmocka_all.h"
#include "read/read.h"
#include "sqlite_memory.h"

static enum ks_status read_export(const char *path, uint64_t *events, struct ks_err *err)
{
    const char *const paths[] = {path};
    struct ks_read_options options = {.paths = paths, .path_count = 1, .threads = 1};
    struct ks_trace_builder *builder = NULL;
    int64_t run = 0;
    *events = 0;
    enum ks_status status = ks_trace_builder_create(NULL, &builder, err);
    if (status == KS_OK) {
        status = ks_read_paths(&options, builder, &run, err);
    }
    for (uint32_t i = 0; status == KS_OK && i < ks_trace_builder_source_count(builder); i++) {
        const struct ks_source *source = ks_trace_builder_source(builder, i);
        *events += source->events + source->counts[KS_STAT_tables_damaged] * 1000;
    }
    ks_trace_builder_destroy(builder);
    return status;
}

static void check(const char *path, bool for_ever)
{
    struct ks_err err = {0};
    uint64_t want = 0;
    ks_alloc_fail_at(0, false);
    assert_int_equal(read_export(path, &want, &err), KS_OK);
    assert_true(want > 30);
    int64_t calls = ks_alloc_calls();
    int64_t live = ks_alloc_live();
    for (int64_t at = 1; at <= calls; at++) {
        uint64_t events = 0;
        err = (struct ks_err){0};
        ks_alloc_fail_at(at, for_ever);
        enum ks_status status = read_export(path, &events, &err);
        ks_alloc_fail_at(0, false);
        assert_int_equal(ks_alloc_live(), live);
        assert_int_equal(status, status == KS_OK ? KS_OK : KS_ERR_NOMEM);
        assert_true(status == KS_ERR_NOMEM || events == want);
    }
}

static void test_memory_that_is_short(void **state)
{
    check(*state, false);
    check(*state, true);
}

int main(int argc, char **argv)
{
    void *path = argc > 1 ? argv[1] : NULL;
    sqlite3_config(SQLITE_CONFIG_MALLOC, &ks_sqlite_memory);
    sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
    sqlite3_initialize();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_memory_that_is_short, path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
