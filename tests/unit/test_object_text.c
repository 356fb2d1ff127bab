/* Goal: strings of the interpreter become UTF-8 without it, and what is none is refused; memory
 * that is not there is no fault, by either way of reading. Method: string objects by hand. */
#include "capture/sampler/object_text.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmocka_all.h"

enum { ROOM = 64, ASCII = 1 << 6, COMPACT = 1 << 5, KIND_SHIFT = 2 };

static const struct ks_python_layout LAYOUT = {.text_data = 40, .text_data_wide = 56};

static struct object {
    uint64_t refcount, type;
    int64_t length;
    uint64_t hash;
    uint32_t state, padding;
    char data[256];
} object;

static struct ks_self_memory memory;

/* `at` is where the characters begin behind the header of 40 bytes. */
static void make(uint32_t state, int64_t length, size_t at, const void *data, size_t size)
{
    object = (struct object){.length = length, .state = state};
    memcpy(object.data + at, data, size);
}

static void check(const char *want, size_t room)
{
    char out[ROOM];
    size_t len = 0;
    assert_true(ks_object_text_read(&memory, 0, &LAYOUT, (uintptr_t)&object, out, room, &len));
    assert_int_equal(len, strlen(want));
    assert_memory_equal(out, want, len);
}

static void check_refused(uintptr_t address)
{
    char out[ROOM];
    size_t len = 0;
    assert_false(ks_object_text_read(&memory, 0, &LAYOUT, address, out, ROOM, &len));
}

static void check_all_kinds(void)
{
    static const uint16_t TWO[] = {0x540d, 0xd800, 'x'};
    static const uint32_t FOUR[] = {0x10400, 0xe9, 0x110000};
    make(COMPACT | ASCII | 1 << KIND_SHIFT, 5, 0, "train", 5);
    check("train", ROOM);
    check("tra", 3);
    make(COMPACT | 1 << KIND_SHIFT, 3, 16, "\xe9t\xe9", 3);
    check("\xc3\xa9t\xc3\xa9", ROOM);
    check("\xc3\xa9t", 4); // half a character does not fit
    make(COMPACT | 2 << KIND_SHIFT, 3, 16, TWO, sizeof(TWO));
    check("\xe5\x90\x8d?x", ROOM);
    make(COMPACT | 4 << KIND_SHIFT, 3, 16, FOUR, sizeof(FOUR));
    check("\xf0\x90\x90\x80\xc3\xa9?", ROOM);
    make(COMPACT | ASCII | 1 << KIND_SHIFT, 0, 0, "", 0);
    check("", ROOM);
}

static void check_what_is_none(void)
{
    long page = sysconf(_SC_PAGESIZE);
    char *gone = mmap(NULL, (size_t)page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(gone, MAP_FAILED);
    assert_int_equal(munmap(gone, (size_t)page), 0);
    make(COMPACT | 3 << KIND_SHIFT, 1, 16, "x", 1);
    check_refused((uintptr_t)&object);
    make(ASCII | 1 << KIND_SHIFT, 1, 0, "x", 1);
    check_refused((uintptr_t)&object);
    make(COMPACT | ASCII | 1 << KIND_SHIFT, -1, 0, "x", 1);
    check_refused((uintptr_t)&object);
    check_refused(0);
    check_refused((uintptr_t)gone);
}

static void test_by_memory_file(void **state)
{
    (void)state;
    assert_true(ks_self_memory_init(&memory, 1 << 16));
    assert_true(memory.fd >= 0);
    check_all_kinds();
    check_what_is_none();
    ks_self_memory_release(&memory);
}

static void test_by_process_vm_readv(void **state)
{
    (void)state;
    assert_true(ks_self_memory_init(&memory, 1 << 16));
    assert_int_equal(close(memory.fd), 0);
    memory.fd = -1;
    check_all_kinds();
    check_what_is_none();
    ks_self_memory_release(&memory);
}

static void test_pieces_in_one_call(void **state)
{
    (void)state;
    char first[] = "abc", second[] = "defgh";
    struct iovec pieces[] = {{first, 3}, {(void *)1, 8}, {second, 5}};
    assert_true(ks_self_memory_init(&memory, 4096));
    assert_int_equal(ks_self_memory_gather(&memory, 8, pieces, 3), 3); // up to the bad one
    pieces[1] = pieces[2];
    assert_int_equal(ks_self_memory_gather(&memory, 8, pieces, 3), 13);
    assert_memory_equal(memory.area + 8, "abcdefghdefgh", 13);
    assert_int_equal(ks_self_memory_gather(&memory, 4090, pieces, 3), 0); // does not fit
    ks_self_memory_release(&memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_memory_file),
        cmocka_unit_test(test_by_process_vm_readv),
        cmocka_unit_test(test_pieces_in_one_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
