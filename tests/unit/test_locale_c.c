/* Goal: between enter and leave a number has a point, afterwards what it had before. Method: a
 * locale with a comma when the system has one; the one that was set comes back in any case. */
#include "cmocka_all.h"

#include <stdio.h>

#include "base/locale_c.h"

static const char *const COMMA[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8"};

static locale_t comma_locale(void)
{
    for (size_t i = 0; i < sizeof(COMMA) / sizeof(COMMA[0]); i++) {
        locale_t found = newlocale(LC_ALL_MASK, COMMA[i], (locale_t)0);
        if (found) {
            return found;
        }
    }
    return newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0);
}

static void test_point_inside_and_back_outside(void **state)
{
    (void)state;
    locale_t own = comma_locale();
    assert_non_null(own);
    locale_t first = uselocale(own);
    struct ks_locale_c guard;
    ks_locale_c_enter(&guard);
    char text[16];
    snprintf(text, sizeof(text), "%.1f", 47.4);
    assert_string_equal(text, "47.4");
    assert_true(uselocale((locale_t)0) != own);
    ks_locale_c_leave(&guard);
    assert_true(uselocale((locale_t)0) == own);
    uselocale(first);
    freelocale(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_point_inside_and_back_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
