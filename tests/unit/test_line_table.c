/* Goal: units of code get their lines from the interpreter's table. Method: tables by hand, one for
 * each kind of entry, and tables that end too early. */
#include "capture/sampler/line_table.h"

#include "cmocka_all.h"

static void check(const uint8_t *table, size_t size, int64_t unit, uint32_t line)
{
    assert_int_equal(ks_line_table_find(table, size, 10, unit), line);
}

static void test_entry_kinds(void **state)
{
    (void)state;
    static const uint8_t TABLE[] = {
        0x80 | 0 << 3 | 1,  0x00,              // 2 units, short form: line 10
        0x80 | 11 << 3 | 0, 0x01,        0x02, // 1 unit, one line on: 11
        0x80 | 12 << 3 | 0, 0x01,        0x02, // 1 unit, two lines on: 13
        0x80 | 13 << 3 | 7, 0x05,              // 8 units, -2 lines: 11
        0x80 | 15 << 3 | 0,                    // 1 unit without a place
        0x80 | 14 << 3 | 0, 0x40 | 0x10, 0x02, 0x01, 0x41, 0x01, 0x05, // 1 unit, 72 lines on: 83
    };
    check(TABLE, sizeof(TABLE), -1, 10);
    check(TABLE, sizeof(TABLE), 0, 10);
    check(TABLE, sizeof(TABLE), 1, 10);
    check(TABLE, sizeof(TABLE), 2, 11);
    check(TABLE, sizeof(TABLE), 3, 13);
    check(TABLE, sizeof(TABLE), 4, 11);
    check(TABLE, sizeof(TABLE), 11, 11);
    check(TABLE, sizeof(TABLE), 12, 0);
    check(TABLE, sizeof(TABLE), 13, 83);
    check(TABLE, sizeof(TABLE), 14, 0);
}

static void test_tables_that_end_early(void **state)
{
    (void)state;
    static const uint8_t CUT[] = {0x80 | 14 << 3, 0x40};
    static const uint8_t ENDLESS[] = {0x80 | 13 << 3, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f,
                                      0x7f,           0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f};
    static const uint8_t BELOW_ZERO[] = {0x80 | 13 << 3, 0x3f};
    check(CUT, sizeof(CUT), 0, 10);
    check(CUT, sizeof(CUT), 1, 0);
    check(ENDLESS, sizeof(ENDLESS), 0, 0);
    check(BELOW_ZERO, sizeof(BELOW_ZERO), 0, 0);
    check(CUT, 0, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entry_kinds),
        cmocka_unit_test(test_tables_that_end_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
