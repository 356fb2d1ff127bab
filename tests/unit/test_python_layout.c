/* Goal: interpreters whose stacks we cannot read are refused with a sentence, the others known.
 * Method: versions, and heads of a 3.13 runtime by hand. */
#include "capture/sampler/python_layout.h"

#include <string.h>

#include "cmocka_all.h"

enum { VERSION_3_13 = 0x030D00F0, WORDS = 73 };

static struct {
    char cookie[8];
    uint64_t words[WORDS - 1];
} runtime;

static void check(uint32_t version, const char *want)
{
    struct ks_python_layout layout;
    char reason[KS_PYTHON_REASON_SIZE] = "";
    bool is_found = ks_python_layout_find(version, (uintptr_t)&runtime, 1, &layout, reason);
    assert_true(is_found == (want == NULL));
    if (want) {
        assert_non_null(strstr(reason, want));
    }
}

static void test_versions(void **state)
{
    (void)state;
    check(0x030A0DF0, "3.11, 3.12 and 3.13 only");
    check(0x030B07F0, NULL);
    check(0x030B00F0, NULL);
    check(0x030C01F0, NULL);
    check(0x030E00F0, "3.11, 3.12 and 3.13 only");
    check(0x040000F0, "3.11, 3.12 and 3.13 only");
}

static void test_heads_of_3_13(void **state)
{
    (void)state;
    memset(&runtime, 0, sizeof(runtime));
    check(VERSION_3_13, "does not tell");
    memcpy(runtime.cookie, "xdebugpy", sizeof(runtime.cookie));
    check(VERSION_3_13, "does not tell");
    runtime.words[0] = VERSION_3_13;
    check(VERSION_3_13, NULL);
    runtime.words[1] = 1;
    check(VERSION_3_13, "free-threaded");
    runtime.words[1] = 0;
    runtime.words[22] = 1 << 20; // where a thread state would have its frame
    check(VERSION_3_13, "where we do not look");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_heads_of_3_13),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
