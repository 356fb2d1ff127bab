/* Goal: reading a profile when memory is short at any moment leaves nothing behind and says so.
 * Method: a profile with each type; each allocation fails, once and for ever. */
#include "fail_each.h"
#include "pstats_bytes.h"
#include "read_bytes.h"

static enum ks_status read_whole(const void *what, struct ks_err *err)
{
    struct ks_str bytes = {PSTATS_BYTES, sizeof(PSTATS_BYTES) - 1};
    return read_bytes(bytes, what, NULL, err);
}

static void test_memory_that_is_short(void **state)
{
    (void)state;
    fail_each_allocation(read_whole, &(struct read_bytes_options){.window = 7}, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_memory_that_is_short)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
