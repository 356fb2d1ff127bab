/* Goal: a sealed file gives back the trace that was written, and no changed or cut file is
 * believed. Method: random traces of several sources, chunk sizes and memory limits, compared as
 * text; each byte of a small file flipped, each length cut; codings against a naive twin; a table
 * that says which member of a struct lies where must leave no gap that alignment does not explain.
 */
#include "store/kst.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmocka_all.h"
#include "numbers.h"
#include "store/kst_codec.h"
#include "store/kst_impl.h"
#include "store_fixture.h"

/* ------------------------------------------------------------------ helpers */

static struct ks_trace *make_trace(uint64_t seed, size_t rows, uint32_t chunk_rows)
{
    struct fixture fixture;
    struct ks_trace *trace = NULL;
    struct ks_trace_options options = {.chunk_rows = chunk_rows};
    fixture_init(&fixture, seed, rows);
    assert_int_equal(fixture_build(&fixture, &options, 0, &trace, NULL), KS_OK);
    fixture_release(&fixture);
    return trace;
}

static int write_file(const struct ks_trace *trace, uint64_t *id)
{
    int fd = memfd_create("kst", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ks_kst_write(trace, fd, NULL, id, NULL), KS_OK);
    return fd;
}

static char *read_file(int fd, size_t *size)
{
    off_t end = lseek(fd, 0, SEEK_END);
    char *bytes = malloc((size_t)end + 1);
    assert_non_null(bytes);
    assert_int_equal(pread(fd, bytes, (size_t)end, 0), end);
    *size = (size_t)end;
    return bytes;
}

static int file_of(const char *bytes, size_t size)
{
    int fd = memfd_create("kst", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    return fd;
}

static void check_same(const struct ks_trace *a, const struct ks_trace *b)
{
    struct ks_text left;
    struct ks_text right;
    ks_text_init(&left);
    ks_text_init(&right);
    assert_int_equal(fixture_dump(a, &left, NULL), KS_OK);
    assert_int_equal(fixture_dump(b, &right, NULL), KS_OK);
    assert_int_equal(left.len, right.len);
    assert_memory_equal(left.ptr, right.ptr, left.len);
    ks_text_release(&left);
    ks_text_release(&right);
}

/* Opens the bytes and dumps all of the trace; KS_OK only when all of that goes well. */
static enum ks_status read_whole(const char *bytes, size_t size, struct ks_text *out)
{
    struct ks_trace *trace = NULL;
    struct ks_err err = {0};
    enum ks_status status = ks_kst_open(file_of(bytes, size), 0, &trace, NULL, &err);
    if (status == KS_OK) {
        ks_text_reset(out);
        status = fixture_dump(trace, out, &err);
        assert_int_equal(status != KS_OK, ks_kst_is_damaged(trace));
        ks_trace_destroy(trace);
    }
    assert_true(status == KS_OK || strncmp(err.message, "Cannot ", 7) == 0);
    return status;
}

/* ------------------------------------------------------------------ round trips */

static void check_round_trip(uint64_t seed, size_t rows, uint32_t chunk_rows, uint64_t bytes_max)
{
    uint64_t written = 0;
    uint64_t found = 0;
    struct ks_trace *trace = make_trace(seed, rows, chunk_rows);
    struct ks_trace *opened = NULL;
    int fd = write_file(trace, &written);
    assert_int_equal(ks_kst_open(fd, bytes_max, &opened, &found, NULL), KS_OK);
    assert_true(written == found && written != 0);
    check_same(trace, opened);
    check_same(trace, opened); // and again, when chunks went and came back
    assert_false(ks_kst_is_damaged(opened));
    assert_false(ks_kst_is_damaged(trace));
    ks_trace_destroy(opened);
    ks_trace_destroy(trace);
}

static void test_round_trip(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 6; seed++) {
        check_round_trip(seed, 300, 16, 0);
        check_round_trip(seed, 3000, 64, 20000);
        check_round_trip(seed, 3000, 0, 0);
    }
    check_round_trip(7, 0, 0, 0);
    check_round_trip(8, 1, 1, 0);
    check_round_trip(9, 200000, 0, 1 << 20);
}

/* What is opened can be written again, to the same bytes. */
static void test_write_opened(void **state)
{
    (void)state;
    uint64_t ids[2];
    size_t sizes[2];
    struct ks_trace *trace = make_trace(3, 2000, 128);
    int fd = write_file(trace, &ids[0]);
    char *first = read_file(fd, &sizes[0]);
    ks_trace_destroy(trace);
    assert_int_equal(ks_kst_open(fd, 0, &trace, NULL, NULL), KS_OK);
    fd = write_file(trace, &ids[1]);
    char *second = read_file(fd, &sizes[1]);
    assert_true(ids[0] == ids[1] && sizes[0] == sizes[1]);
    assert_memory_equal(first, second, sizes[0]);
    (void)close(fd);
    ks_trace_destroy(trace);
    free(first);
    free(second);
}

static void test_find_string(void **state)
{
    (void)state;
    uint64_t id = 0;
    struct ks_trace *trace = make_trace(1, 100, 0);
    struct ks_trace *opened = NULL;
    assert_int_equal(ks_kst_open(write_file(trace, &id), 0, &opened, NULL, NULL), KS_OK);
    for (uint32_t i = 0; i < ks_trace_str_count(trace); i++) {
        struct ks_str text = ks_trace_str(trace, (struct ks_strid){i});
        assert_int_equal(ks_trace_str_find(opened, text).v, i);
        assert_int_equal(ks_trace_str(opened, (struct ks_strid){i}).ptr[text.len], 0);
    }
    assert_int_equal(ks_trace_str_find(opened, KS_STR("not there")).v, 0);
    ks_trace_destroy(opened);
    ks_trace_destroy(trace);
}

static void test_stop(void **state)
{
    (void)state;
    atomic_bool stop = true;
    uint64_t id = 0;
    struct ks_trace *trace = make_trace(1, 100, 0);
    int fd = memfd_create("kst", MFD_CLOEXEC);
    assert_int_equal(ks_kst_write(trace, fd, &stop, &id, NULL), KS_ERR_CANCELLED);
    (void)close(fd);
    fd = open("/dev/full", O_RDWR | O_CLOEXEC);
    assert_int_equal(ks_kst_write(trace, fd, NULL, &id, NULL), KS_ERR_IO);
    (void)close(fd);
    ks_trace_destroy(trace);
}

/* ------------------------------------------------------------------ damage */

struct small_file {
    char *bytes;
    size_t size;
    struct ks_text text; /* of the trace */
};

static void small_file_init(struct small_file *file)
{
    uint64_t id = 0;
    struct ks_trace *trace = make_trace(2, 40, 16);
    int fd = write_file(trace, &id);
    file->bytes = read_file(fd, &file->size);
    ks_text_init(&file->text);
    assert_int_equal(read_whole(file->bytes, file->size, &file->text), KS_OK);
    (void)close(fd);
    ks_trace_destroy(trace);
}

static void small_file_release(struct small_file *file)
{
    ks_text_release(&file->text);
    free(file->bytes);
}

/* No byte lies outside of what is checked, so each flip is seen. */
static void test_flipped_bytes(void **state)
{
    (void)state;
    struct small_file file;
    struct ks_text out;
    small_file_init(&file);
    ks_text_init(&out);
    for (size_t i = 0; i < file.size; i++) {
        for (int bit = 0; bit < 8; bit += 3) {
            file.bytes[i] ^= (char)(1 << bit);
            enum ks_status status = read_whole(file.bytes, file.size, &out);
            assert_true(status == KS_ERR_FORMAT || status == KS_ERR_UNSUPPORTED);
            file.bytes[i] ^= (char)(1 << bit);
        }
    }
    assert_int_equal(read_whole(file.bytes, file.size, &out), KS_OK);
    ks_text_release(&out);
    small_file_release(&file);
}

static uint32_t track_of(const struct ks_trace *trace, enum ks_track_kind kind, uint32_t source)
{
    for (uint32_t i = 1; i < trace->track_count; i++) {
        if (trace->tracks[i].kind == kind && trace->tracks[i].source == source) {
            return i;
        }
    }
    fail_msg("source %u has no such track", source);
    return 0;
}

/* A launch and a stream are of the GPU row's own source. */
static void test_track_of_another_source(void **state)
{
    (void)state;
    static const struct {
        size_t column;
        enum ks_track_kind kind;
    } cases[] = {{KS_GPU_COL_launch_lane, KS_TRACK_THREAD}, {KS_GPU_COL_stream, KS_TRACK_STREAM}};
    struct ks_trace *trace = make_trace(1, 300, 16);
    const struct ks_lane *lane = &trace->tables[KS_TABLE_gpu].lanes[0];
    uint32_t source = trace->tracks[lane->track].source;
    for (size_t i = 0; i < KS_COUNT_OF(cases); i++) {
        uint32_t own = track_of(trace, cases[i].kind, source);
        uint32_t other = track_of(trace, cases[i].kind, source + 1);
        assert_null(ks_kst_check_column(trace, KS_TABLE_gpu, cases[i].column, NULL, lane->row_begin,
                                        1, &own));
        assert_non_null(ks_kst_check_column(trace, KS_TABLE_gpu, cases[i].column, NULL,
                                            lane->row_begin, 1, &other));
    }
    ks_trace_destroy(trace);
}

static void test_cut_and_longer(void **state)
{
    (void)state;
    struct small_file file;
    struct ks_text out;
    small_file_init(&file);
    ks_text_init(&out);
    for (size_t size = 0; size < file.size; size++) {
        assert_int_equal(read_whole(file.bytes, size, &out), KS_ERR_FORMAT);
    }
    char *longer = calloc(1, file.size + 1);
    memcpy(longer, file.bytes, file.size);
    assert_int_equal(read_whole(longer, file.size + 1, &out), KS_ERR_FORMAT);
    free(longer);
    ks_text_release(&out);
    small_file_release(&file);
}

static void test_no_file(void **state)
{
    (void)state;
    struct ks_trace *trace = NULL;
    assert_int_equal(ks_kst_open(open("/", O_RDONLY | O_CLOEXEC), 0, &trace, NULL, NULL),
                     KS_ERR_IO);
    assert_int_equal(ks_kst_open(open("/dev/zero", O_RDONLY | O_CLOEXEC), 0, &trace, NULL, NULL),
                     KS_ERR_IO);
    assert_null(trace);
    assert_true(ks_kst_is_head(KS_KST_MAGIC, KS_KST_MAGIC_SIZE));
    assert_false(ks_kst_is_head(KS_KST_MAGIC, KS_KST_MAGIC_SIZE - 1));
    assert_false(ks_kst_is_head("{\"traceEvents\"", 14));
}

/* ------------------------------------------------------------------ codings */

static void check_coding(const void *values, size_t value_size, size_t count,
                         enum ks_kst_encoding encoding, size_t stored)
{
    _Alignas(8) char to[8 * 64];
    _Alignas(8) char back[8 * 64];
    struct ks_kst_coding coding;
    stored = (stored + 7) / 8 * 8;
    assert_true(count <= 64);
    assert_int_equal(ks_kst_encode(values, value_size, count, &coding, to), stored);
    assert_int_equal(coding.encoding, encoding);
    assert_int_equal(ks_kst_stored_size(&coding, value_size, count), stored);
    ks_kst_decode(to, &coding, value_size, count, back);
    assert_memory_equal(back, values, value_size * count);
}

static void test_codings(void **state)
{
    (void)state;
    check_coding((int64_t[]){-1, -1, -1}, 8, 3, KS_KST_CONSTANT, 0);
    check_coding((int64_t[]){INT64_MIN}, 8, 1, KS_KST_CONSTANT, 0);
    check_coding((int64_t[]){-1, 254}, 8, 2, KS_KST_OFFSET, 2);
    check_coding((int64_t[]){-1, 255}, 8, 2, KS_KST_OFFSET, 4);
    check_coding((int64_t[]){70000, 4000}, 8, 2, KS_KST_OFFSET, 8);
    check_coding((int64_t[]){0, UINT32_MAX}, 8, 2, KS_KST_OFFSET, 8);
    check_coding((int64_t[]){0, (int64_t)UINT32_MAX + 1}, 8, 2, KS_KST_PLAIN, 16);
    check_coding((int64_t[]){INT64_MIN, INT64_MAX}, 8, 2, KS_KST_PLAIN, 16);
    check_coding((int64_t[]){INT64_MAX, INT64_MAX - 3}, 8, 2, KS_KST_OFFSET, 2);
    check_coding((uint32_t[]){UINT32_MAX, UINT32_MAX - 255}, 4, 2, KS_KST_OFFSET, 2);
    check_coding((uint32_t[]){UINT32_MAX, 0}, 4, 2, KS_KST_PLAIN, 8);
    check_coding((uint32_t[]){7, 300}, 4, 2, KS_KST_OFFSET, 4);
    check_coding((uint16_t[]){65535, 65535}, 2, 2, KS_KST_CONSTANT, 0);
    check_coding((uint16_t[]){65535, 65530}, 2, 2, KS_KST_OFFSET, 2);
    check_coding((uint16_t[]){65535, 5}, 2, 2, KS_KST_PLAIN, 4);
    check_coding((uint8_t[]){9, 9}, 1, 2, KS_KST_CONSTANT, 0);
    check_coding((uint8_t[]){9, 8}, 1, 2, KS_KST_PLAIN, 2);
}

static void test_random_codings(void **state)
{
    (void)state;
    static const size_t value_sizes[] = {1, 2, 4, 8};
    struct numbers numbers = {5};
    for (int round = 0; round < 20000; round++) {
        _Alignas(8) char values[8 * 64];
        _Alignas(8) char to[8 * 64];
        _Alignas(8) char back[8 * 64];
        struct ks_kst_coding coding;
        size_t value_size = value_sizes[numbers_below(&numbers, 4)];
        size_t count = 1 + (size_t)numbers_below(&numbers, 64);
        uint64_t base = numbers_next(&numbers);
        unsigned bits = (unsigned)numbers_below(&numbers, 64);
        for (size_t i = 0; i < count; i++) {
            uint64_t value = base + (numbers_next(&numbers) >> bits);
            memcpy(values + i * value_size, &value, value_size);
        }
        size_t stored = ks_kst_encode(values, value_size, count, &coding, to);
        assert_true(stored <= ks_kst_room(value_size, count));
        assert_int_equal(ks_kst_stored_size(&coding, value_size, count), stored);
        ks_kst_decode(to, &coding, value_size, count, back);
        assert_memory_equal(back, values, value_size * count);
    }
}

static void check_no_coding(uint8_t encoding, uint8_t width, uint64_t base, size_t value_size)
{
    struct ks_kst_coding coding = {encoding, width, base};
    assert_true(ks_kst_stored_size(&coding, value_size, 3) == SIZE_MAX);
}

static void test_no_codings(void **state)
{
    (void)state;
    check_no_coding(KS_KST_PLAIN, 4, 0, 8);
    check_no_coding(KS_KST_PLAIN, 8, 1, 8);
    check_no_coding(KS_KST_CONSTANT, 1, 0, 8);
    check_no_coding(KS_KST_OFFSET, 8, 0, 8);
    check_no_coding(KS_KST_OFFSET, 3, 0, 8);
    check_no_coding(KS_KST_OFFSET, 0, 0, 8);
    check_no_coding(KS_KST_OFFSET, 1, 0, 1);
    check_no_coding(3, 1, 0, 8);
}

/* ------------------------------------------------------------------ members of structs */

struct member {
    size_t offset;
    size_t size;
};

static int compare_members(const void *a, const void *b)
{
    const struct member *x = a;
    const struct member *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Between two members lies nothing but what the second one's alignment asks for. */
static void check_members(struct member *members, size_t count, size_t size)
{
    size_t end = 0;
    size_t most = 1;
    qsort(members, count, sizeof(*members), compare_members);
    for (size_t i = 0; i < count; i++) {
        size_t align = members[i].size < 8 ? members[i].size : 8;
        assert_int_equal(members[i].offset, (end + align - 1) / align * align);
        end = members[i].offset + members[i].size;
        most = align > most ? align : most;
    }
    assert_int_equal(size, (end + most - 1) / most * most);
}

#define MEMBER(owner, name)                                                                        \
    {                                                                                              \
        offsetof(struct owner, name), sizeof(((struct owner *)0)->name)                            \
    }

static void test_members(void **state)
{
    (void)state;
    struct member source[] = {
#define KS_SOURCE_FIELD(member, kind) MEMBER(ks_source, member),
#include "store/kst_fields.def"
        MEMBER(ks_source, gpus), MEMBER(ks_source, gpu_count), MEMBER(ks_source, counts)};
    struct member gpu_info[] = {
#define KS_GPU_INFO_FIELD(member, kind) MEMBER(ks_gpu_info, member),
#include "store/kst_fields.def"
    };
    struct member track[] = {
#define KS_TRACK_FIELD(member, kind) MEMBER(ks_track, member),
#include "store/kst_fields.def"
    };
    struct member collective[] = {
#define KS_COLLECTIVE_FIELD(member, kind) MEMBER(ks_collective, member),
#include "store/kst_fields.def"
    };
    struct member stack[] = {
#define KS_STACK_FIELD(member, kind) MEMBER(ks_stack, member),
#include "store/kst_fields.def"
    };
    struct member call_path[] = {
#define KS_CALL_PATH_FIELD(member, kind) MEMBER(ks_call_path, member),
#include "store/kst_fields.def"
    };
    check_members(stack, KS_COUNT_OF(stack), sizeof(struct ks_stack));
    check_members(call_path, KS_COUNT_OF(call_path), sizeof(struct ks_call_path));
    check_members(source, KS_COUNT_OF(source), sizeof(struct ks_source));
    check_members(gpu_info, KS_COUNT_OF(gpu_info), sizeof(struct ks_gpu_info));
    check_members(track, KS_COUNT_OF(track), sizeof(struct ks_track));
    check_members(collective, KS_COUNT_OF(collective), sizeof(struct ks_collective));
}

/* Each member has a value of its own that the dump of rows does not show. */
static void fill_members(struct ks_trace_builder *builder, struct ks_source *source)
{
    struct ks_strid text = {0};
    int64_t next = 1;
    assert_int_equal(ks_trace_builder_intern(builder, KS_STR("text"), &text, NULL), KS_OK);
#define SET_str(member) source->member = text;
#define SET_flag(member) source->member = (next++ & 1) != 0;
#define SET_i64(member) source->member = -(next += 3);
#define SET_u64(member) source->member = (uint64_t)(next += 3);
#define KS_SOURCE_FIELD(member, kind) SET_##kind(member)
#include "store/kst_fields.def"
    source->run = 1;
    source->base_ns = 0;
    source->gpu_count = 2;
    source->gpus = ks_new(ks_trace_builder_arena(builder), struct ks_gpu_info, 2);
    assert_non_null(source->gpus);
    source->gpus[1] = (struct ks_gpu_info){1, text, 80, 9, 0, 132};
}

static void test_source_members(void **state)
{
    (void)state;
    uint64_t id = 0;
    struct ks_trace_builder *builder = NULL;
    struct ks_trace_options options = {0};
    struct ks_source *source = NULL;
    struct ks_trace *trace = NULL;
    struct ks_trace *opened = NULL;
    assert_int_equal(ks_trace_builder_create(&options, &builder, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_source_open(builder, KS_STR("x"), &source, NULL), KS_OK);
    fill_members(builder, source);
    assert_int_equal(ks_trace_builder_seal(builder, 0, &trace, NULL), KS_OK);
    assert_int_equal(ks_kst_open(write_file(trace, &id), 0, &opened, NULL, NULL), KS_OK);
    const struct ks_source *a = ks_trace_source(trace, 0);
    const struct ks_source *b = ks_trace_source(opened, 0);
#define KS_SOURCE_FIELD(member, kind)                                                              \
    assert_memory_equal(&a->member, &b->member, sizeof(a->member));
#include "store/kst_fields.def"
    assert_int_equal(b->gpu_count, 2);
    assert_memory_equal(a->gpus, b->gpus, 2 * sizeof(*a->gpus));
    assert_memory_equal(a->counts, b->counts, sizeof(a->counts));
    ks_trace_destroy(opened);
    ks_trace_destroy(trace);
}

/* A source with two stacks, a sample of the second one, and two call paths. */
static void add_stacks(struct ks_trace_builder *builder, int64_t run, uint32_t line)
{
    struct ks_source *source = NULL;
    struct ks_strid text = {0};
    struct ks_track_key key = {.number = line};
    struct ks_sample_row row = {.start_ns = line, .weight = line};
    uint32_t caller = 0;
    uint32_t parent = 0;
    uint32_t id = 0;
    assert_int_equal(ks_trace_builder_source_open(builder, KS_STR("x"), &source, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_intern(builder, KS_STR("f"), &text, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_thread(builder, key, key, &row.lane, NULL), KS_OK);
    struct ks_stack stack = {.function = text, .file = text, .line = line, .first_line = 1};
    assert_int_equal(ks_trace_builder_stack(builder, &stack, &caller, NULL), KS_OK);
    stack.caller = caller;
    assert_int_equal(ks_trace_builder_stack(builder, &stack, &row.stack, NULL), KS_OK);
    struct ks_call_path path = {.track = row.lane, .function = text, .calls = line, .total_ns = 9};
    assert_int_equal(ks_trace_builder_call_path(builder, &path, &parent, NULL), KS_OK);
    path.parent = parent;
    assert_int_equal(ks_trace_builder_call_path(builder, &path, &id, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_sample(builder, &row, NULL), KS_OK);
    assert_int_equal(ks_trace_builder_source_close(builder, NULL), KS_OK);
    source->run = run;
}

static void check_stacks(const struct ks_trace *trace)
{
    struct ks_sample_scan scan;
    assert_int_equal(ks_trace_stack_count(trace), 4);
    assert_int_equal(ks_trace_call_path_count(trace), 4);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(ks_trace_stack(trace, 2 * i + 1)->caller, 0);
        assert_int_equal(ks_trace_stack(trace, 2 * i + 2)->caller, 2 * i + 1);
        const struct ks_call_path *path = ks_trace_call_path(trace, 2 * i + 2);
        assert_int_equal(path->parent, 2 * i + 1);
        assert_int_equal(ks_trace_track(trace, path->track)->number, path->calls);
    }
    ks_sample_scan_open(&scan, trace, KS_ALL_COLUMNS, 0, ks_trace_rows(trace, KS_TABLE_sample));
    assert_int_equal(ks_sample_scan_next(&scan, NULL), KS_OK);
    assert_int_equal(scan.count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(scan.col.stack[i], 2 * i + 2);
        assert_int_equal(ks_trace_stack(trace, scan.col.stack[i])->line, scan.col.weight[i]);
    }
    ks_sample_scan_close(&scan);
}

/* Stacks and call paths go with their source, and come back from a file as they were. */
static void test_stacks(void **state)
{
    (void)state;
    uint64_t id = 0;
    struct ks_trace_builder *builder = NULL;
    struct ks_trace *trace = NULL;
    struct ks_trace *opened = NULL;
    assert_int_equal(ks_trace_builder_create(NULL, &builder, NULL), KS_OK);
    add_stacks(builder, 1, 10);
    add_stacks(builder, 2, 20);
    add_stacks(builder, 1, 30);
    assert_int_equal(ks_trace_builder_seal(builder, 1, &trace, NULL), KS_OK);
    check_stacks(trace);
    assert_int_equal(ks_kst_open(write_file(trace, &id), 0, &opened, NULL, NULL), KS_OK);
    check_stacks(opened);
    for (uint32_t i = 1; i <= 4; i++) {
        assert_memory_equal(ks_trace_stack(trace, i), ks_trace_stack(opened, i),
                            sizeof(struct ks_stack));
        assert_memory_equal(ks_trace_call_path(trace, i), ks_trace_call_path(opened, i),
                            sizeof(struct ks_call_path));
    }
    ks_trace_destroy(opened);
    ks_trace_destroy(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_write_opened),
        cmocka_unit_test(test_find_string),    cmocka_unit_test(test_stop),
        cmocka_unit_test(test_flipped_bytes),  cmocka_unit_test(test_track_of_another_source),
        cmocka_unit_test(test_cut_and_longer), cmocka_unit_test(test_no_file),
        cmocka_unit_test(test_codings),        cmocka_unit_test(test_random_codings),
        cmocka_unit_test(test_no_codings),     cmocka_unit_test(test_members),
        cmocka_unit_test(test_source_members), cmocka_unit_test(test_stacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
