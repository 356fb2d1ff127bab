/* Goal: values of a pickle come out as they went in, whatever the window, and what is refused says
 * where. Method: pickles by hand, each read with windows of every size up to its own. */
#include "read/pickle.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cmocka_all.h"

static struct ks_strpool *strings;
static int fd = -1;

static enum ks_status read_with(const char *bytes, size_t size, size_t window,
                                struct ks_pickle **out, struct ks_err *err)
{
    struct ks_feed feed = {.fd = fd};
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    assert_int_equal(pwrite(fd, bytes, size, 0), size);
    assert_int_equal(ks_feed_init(&feed, window, err), KS_OK);
    enum ks_status status = ks_pickle_read(&feed, strings, 1 << 20, out, err);
    ks_feed_release(&feed);
    return status;
}

static void check_refused(const char *bytes, size_t size, enum ks_status status, int64_t offset)
{
    for (size_t window = 1; window <= size + 1; window++) {
        struct ks_pickle *pickle = NULL;
        struct ks_err err = {0};
        int64_t live = ks_alloc_live();
        assert_int_equal(read_with(bytes, size, window, &pickle, &err), status);
        assert_int_equal(err.offset, offset);
        assert_null(pickle);
        assert_int_equal(ks_alloc_live(), live);
    }
}

#define REFUSED(literal, status, offset) check_refused(literal, sizeof(literal) - 1, status, offset)

static void test_refused(void **state)
{
    (void)state;
    REFUSED("", KS_ERR_FORMAT, 0);
    REFUSED("cos\nsystem\n.", KS_ERR_FORMAT, 0);
    REFUSED("\x80\x04}\x93.", KS_ERR_FORMAT, 3);
    REFUSED("\x80\x06}.", KS_ERR_UNSUPPORTED, 0);
    REFUSED("\x80\x04\x8c\x05"
            "abc",
            KS_ERR_FORMAT, 7);
    REFUSED("\x80\x04X\x00\x00\x00\x02"
            "abc",
            KS_ERR_LIMIT, 2);
    REFUSED("\x80\x02]q\x05.", KS_ERR_FORMAT, 3);
    REFUSED("\x80\x02]q\x00h\x01.", KS_ERR_FORMAT, 5);
    REFUSED("\x80\x02(0.", KS_ERR_FORMAT, 3);
    REFUSED("\x80\x02](a.", KS_ERR_FORMAT, 4);
    REFUSED("\x80\x02\x85.", KS_ERR_FORMAT, 2);
}

#define LIST_BYTES                                                                                 \
    "\x80\x05\x95\x00\x00\x00\x00\x00\x00\x00\x00(K\xff"                                           \
    "M\xff\xff"                                                                                    \
    "J\xff\xff\xff\xff"                                                                            \
    "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"                                                     \
    "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00"                                                 \
    "\x8a\x01\x80"                                                                                 \
    "\x8a\x00"                                                                                     \
    "G\x3f\xf8\x00\x00\x00\x00\x00\x00"                                                            \
    "N\x88\x89"                                                                                    \
    "\x8c\x02hi\x94h\x00"                                                                          \
    "C\x02no"                                                                                      \
    "\x85"                                                                                         \
    "K\x01K\x02\x86"                                                                               \
    "}(\x8c\x01kK\x07\x8c\x01kK\x08u"                                                              \
    "l."

static struct ks_pickle_value item(const struct ks_pickle *p, size_t index)
{
    return ks_pickle_item(p, ks_pickle_root(p), index);
}

static void check_int(const struct ks_pickle *p, size_t index, int64_t expected)
{
    int64_t number = 0;
    assert_true(ks_pickle_int(p, item(p, index), &number));
    assert_true(number == expected);
}

static void check_numbers(const struct ks_pickle *p)
{
    uint64_t large = 0;
    int64_t number = 0;
    double real = 0.0;
    check_int(p, 0, 255);
    check_int(p, 1, 65535);
    check_int(p, 2, -1);
    check_int(p, 3, INT64_MAX);
    assert_false(ks_pickle_int(p, item(p, 4), &number));
    assert_true(ks_pickle_unsigned(p, item(p, 4), &large) && large == UINT64_MAX);
    assert_false(ks_pickle_unsigned(p, item(p, 2), &large));
    check_int(p, 5, -128);
    check_int(p, 6, 0);
    assert_true(ks_pickle_real(p, item(p, 7), &real) && real > 1.4 && real < 1.6);
}

static void check_values(const struct ks_pickle *p)
{
    struct ks_pickle_value value;
    int64_t number = 0;
    struct ks_strid key = ks_strpool_find(strings, KS_STR("k"));
    assert_int_equal(ks_pickle_count(p, ks_pickle_root(p)), 16);
    check_numbers(p);
    assert_int_equal(ks_pickle_kind(item(p, 8)), KS_PICKLE_NONE);
    assert_true(ks_pickle_bool(item(p, 9)));
    assert_false(ks_pickle_bool(item(p, 10)));
    assert_true(ks_str_equal(ks_strpool_get(strings, ks_pickle_str(item(p, 11))), KS_STR("hi")));
    assert_int_equal(item(p, 12).v, item(p, 11).v);
    assert_int_equal(ks_pickle_kind(ks_pickle_item(p, item(p, 13), 0)), KS_PICKLE_OTHER);
    assert_int_equal(ks_pickle_count(p, item(p, 14)), 2);
    assert_true(ks_pickle_find(p, item(p, 15), key, &value));
    assert_true(ks_pickle_int(p, value, &number) && number == 8); /* the last one counts */
    assert_false(ks_pickle_find(p, item(p, 14), key, &value));
}

static void test_values_in_every_window(void **state)
{
    (void)state;
    static const char bytes[] = LIST_BYTES;
    for (size_t window = 1; window <= sizeof(bytes); window++) {
        struct ks_pickle *p = NULL;
        struct ks_err err = {0};
        assert_int_equal(read_with(bytes, sizeof(bytes) - 1, window, &p, &err), KS_OK);
        assert_int_equal(ks_pickle_protocol(p), 5);
        check_values(p);
        ks_pickle_close(p);
    }
    for (size_t size = 0; size + 1 < sizeof(bytes); size++) {
        struct ks_pickle *p = NULL;
        struct ks_err err = {0};
        assert_int_equal(read_with(bytes, size, 16, &p, &err), KS_ERR_FORMAT);
    }
}

/* References are run in a row; a window may end anywhere in them. */
static void test_references(void **state)
{
    (void)state;
    static const char bytes[] = "\x80\x02]r\x02\x00\x00\x00(]r\x01\x00\x00\x00"
                                "j\x01\x00\x00\x00j\x01\x00\x00\x00j\x02\x00\x00\x00"
                                "e.";
    for (size_t window = 1; window <= sizeof(bytes); window++) {
        struct ks_pickle *p = NULL;
        struct ks_err err = {0};
        assert_int_equal(read_with(bytes, sizeof(bytes) - 1, window, &p, &err), KS_OK);
        assert_int_equal(ks_pickle_count(p, ks_pickle_root(p)), 4);
        assert_int_equal(item(p, 0).v, item(p, 2).v);
        assert_int_equal(item(p, 3).v, ks_pickle_root(p).v);
        ks_pickle_close(p);
    }
    REFUSED("\x80\x02]q\x00j\x00\x00\x00\x00j\x07\x00\x00\x00.", KS_ERR_FORMAT, 10);
}

static void test_heads(void **state)
{
    (void)state;
    assert_true(ks_pickle_is_head("\x80\x02}q", 4));
    assert_true(ks_pickle_is_head("\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00}", 12));
    assert_false(ks_pickle_is_head("\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00", 11));
    assert_false(ks_pickle_is_head("\x80\x06}q", 4));
    assert_false(ks_pickle_is_head("{\"a\"", 4));
    assert_false(ks_pickle_is_head("\x80\x02", 2));
}

static int open_all(void **state)
{
    (void)state;
    fd = memfd_create("pickle", MFD_CLOEXEC);
    return fd >= 0 && ks_strpool_create(&strings, NULL) == KS_OK ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    ks_strpool_destroy(strings);
    return close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_values_in_every_window),
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_heads),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
