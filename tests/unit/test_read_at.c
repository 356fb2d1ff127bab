/* Goal: parts of files are read whole, as far as the file goes. Method: a file in memory. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/read_at.h"
#include "cmocka_all.h"

static void test_parts(void **state)
{
    (void)state;
    char text[8] = "";
    int fd = memfd_create("part", MFD_CLOEXEC);
    assert_int_equal(write(fd, "0123456789", 10), 10);
    assert_int_equal(ks_read_at(fd, text, 4, 3), 4);
    assert_memory_equal(text, "3456", 5);
    assert_int_equal(ks_read_at(fd, text, 4, 8), 2); /* the file ends */
    assert_memory_equal(text, "8956", 5);
    assert_int_equal(ks_read_at(fd, text, 4, 20), 0);
    assert_int_equal(ks_read_at(fd, text, 0, 0), 0);
    assert_int_equal(close(fd), 0);
}

static void test_no_file(void **state)
{
    (void)state;
    char text[4];
    errno = 0;
    assert_int_equal(ks_read_at(-1, text, 4, 0), -1);
    assert_int_equal(errno, EBADF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
