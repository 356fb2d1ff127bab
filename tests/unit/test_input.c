/* Goal: bytes of files and pipes come back decompressed, whatever they are compressed with, and
 * what is wrong with a stream is said, not lost. Method: streams made here, changed here; each read
 * in pieces of several sizes. */
#include "read/input.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/text.h"
#include "cmocka_all.h"
#include "numbers.h"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/ks_test_input_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static const char *path_of(const char *name)
{
    static char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static int remove_folder(void **state)
{
    (void)state;
    (void)unlink(path_of("file"));
    return rmdir(folder);
}

static void write_file(const struct ks_text *bytes)
{
    FILE *file = fopen(path_of("file"), "wb");
    assert_non_null(file);
    assert_int_equal(bytes->len == 0 ? 0 : fwrite(bytes->ptr, 1, bytes->len, file), bytes->len);
    assert_int_equal(fclose(file), 0);
}

static void make_text(struct ks_text *out, size_t size)
{
    ks_text_reset(out);
    for (size_t i = 0; out->len < size; i++) {
        ks_text_printf(out, "{\"ph\": \"X\", \"ts\": %zu},\n", i * i);
    }
    out->len = size;
}

static void put_gzip(struct ks_text *out, const char *bytes, size_t size)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t room = deflateBound(&z, size);
    char *packed = malloc(room);
    assert_non_null(packed);
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (unsigned)size;
    z.next_out = (Bytef *)packed;
    z.avail_out = (unsigned)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    ks_text_append(out, packed, z.total_out);
    (void)deflateEnd(&z);
    free(packed);
}

static void put_zstd(struct ks_text *out, const char *bytes, size_t size)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();
    assert_non_null(context);
    (void)ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    size_t room = ZSTD_compressBound(size);
    char *packed = malloc(room);
    assert_non_null(packed);
    size_t len = ZSTD_compress2(context, packed, room, bytes, size);
    assert_false(ZSTD_isError(len));
    ks_text_append(out, packed, len);
    (void)ZSTD_freeCCtx(context);
    free(packed);
}

/* Reads `path` in pieces; returns the damage. */
static enum ks_input_damage drain(const char *path, size_t piece, struct ks_text *out,
                                  const char *compression)
{
    struct ks_input *input = NULL;
    struct ks_err err = {0};
    assert_int_equal(ks_input_open(path, &input, &err), KS_OK);
    assert_true(ks_str_equal(ks_input_compression(input), ks_str_from(compression)));
    char *buf = malloc(piece);
    assert_non_null(buf);
    ks_text_reset(out);
    size_t got = 0;
    do {
        assert_int_equal(ks_input_read(input, buf, piece, &got, &err), KS_OK);
        ks_text_append(out, buf, got);
    } while (got > 0);
    assert_int_equal(ks_input_read(input, buf, piece, &got, &err), KS_OK);
    assert_int_equal(got, 0); // the end stays the end
    free(buf);
    enum ks_input_damage damage = ks_input_damage(input);
    ks_input_close(input);
    return damage;
}

/* The file gives the first `len` bytes of `text` (or, when it is damaged inside, a beginning). */
static void check(const struct ks_text *file, const struct ks_text *text, size_t len,
                  enum ks_input_damage damage, const char *compression)
{
    static const size_t PIECES[] = {1, 7, 4096, 1 << 20};
    struct ks_text got;
    ks_text_init(&got);
    write_file(file);
    for (size_t i = len > 100000 ? 1 : 0; i < KS_COUNT_OF(PIECES); i++) {
        assert_int_equal(drain(path_of("file"), PIECES[i], &got, compression), damage);
        assert_true(damage == KS_INPUT_DAMAGED ? got.len <= len : got.len == len);
        assert_true(got.len == 0 || memcmp(got.ptr, text->ptr, got.len) == 0);
    }
    ks_text_release(&got);
}

struct fixture {
    struct ks_text text;
    struct ks_text file;
};

static void open_fixture(struct fixture *f, size_t size)
{
    ks_text_init(&f->text);
    ks_text_init(&f->file);
    make_text(&f->text, size);
}

static void close_fixture(struct fixture *f)
{
    ks_text_release(&f->text);
    ks_text_release(&f->file);
}

static void test_plain(void **state)
{
    (void)state;
    static const size_t SIZES[] = {0, 1, 2, 3, 4, 5, 1000, 256 * 1024, 256 * 1024 + 1, 1000000};
    for (size_t i = 0; i < KS_COUNT_OF(SIZES); i++) {
        struct fixture f;
        open_fixture(&f, SIZES[i]);
        check(&f.text, &f.text, SIZES[i], KS_INPUT_WHOLE, "");
        close_fixture(&f);
    }
}

static void test_gzip(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 3000000);
    put_gzip(&f.file, f.text.ptr, f.text.len);
    check(&f.file, &f.text, f.text.len, KS_INPUT_WHOLE, "gzip");
    close_fixture(&f);
}

static void test_gzip_members(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 5000);
    for (size_t at = 0; at < 5000; at += 500) {
        put_gzip(&f.file, f.text.ptr + at, 500);
        put_gzip(&f.file, "", 0); // an empty member is a member
    }
    check(&f.file, &f.text, 5000, KS_INPUT_WHOLE, "gzip");
    ks_text_append(&f.file, "\0\0\0\0\0\0\0\0", 8);
    check(&f.file, &f.text, 5000, KS_INPUT_WHOLE, "gzip");
    put_gzip(&f.file, "", 0); // behind padding
    check(&f.file, &f.text, 5000, KS_INPUT_WHOLE, "gzip");
    ks_text_append(&f.file, "garbage", 7);
    check(&f.file, &f.text, 5000, KS_INPUT_DAMAGED, "gzip");
    close_fixture(&f);
}

/* Cut anywhere: what was decoded stays, and the cut is said. */
static void test_cut(void **state)
{
    (void)state;
    struct ks_text got;
    ks_text_init(&got);
    for (int zstd = 0; zstd < 2; zstd++) {
        struct fixture f;
        open_fixture(&f, 3000);
        (zstd ? put_zstd : put_gzip)(&f.file, f.text.ptr, f.text.len);
        size_t last_len = 0;
        for (size_t len = f.file.len - 1; len >= 4; len--) {
            f.file.len = len;
            write_file(&f.file);
            assert_int_equal(drain(path_of("file"), 512, &got, zstd ? "zstd" : "gzip"),
                             KS_INPUT_CUT);
            assert_true(got.len == 0 || memcmp(got.ptr, f.text.ptr, got.len) == 0);
            assert_true(got.len <= f.text.len && (last_len == 0 || got.len <= last_len));
            last_len = got.len;
        }
        close_fixture(&f);
    }
    ks_text_release(&got);
}

/* A changed bit anywhere in the stream is noticed, if it changes anything. */
static void test_damaged(void **state)
{
    (void)state;
    struct ks_text got;
    ks_text_init(&got);
    for (int zstd = 0; zstd < 2; zstd++) {
        struct fixture f;
        open_fixture(&f, 3000);
        (zstd ? put_zstd : put_gzip)(&f.file, f.text.ptr, f.text.len);
        for (size_t at = 10; at < f.file.len; at++) {
            f.file.ptr[at] ^= 0x10;
            write_file(&f.file);
            enum ks_input_damage damage = drain(path_of("file"), 512, &got, zstd ? "zstd" : "gzip");
            bool is_right = got.len == f.text.len && memcmp(got.ptr, f.text.ptr, got.len) == 0;
            assert_true(damage != KS_INPUT_WHOLE || is_right); // some bits mean nothing
            f.file.ptr[at] ^= 0x10;
        }
        close_fixture(&f);
    }
    ks_text_release(&got);
}

/* A wrong checksum does not take away what was read. */
static void test_checksum(void **state)
{
    (void)state;
    for (int zstd = 0; zstd < 2; zstd++) {
        struct fixture f;
        open_fixture(&f, 3000);
        (zstd ? put_zstd : put_gzip)(&f.file, f.text.ptr, f.text.len);
        f.file.ptr[f.file.len - (zstd ? 1 : 8)] ^= 1;
        write_file(&f.file);
        struct ks_text got;
        ks_text_init(&got);
        for (size_t piece = 1; piece < 10000; piece = piece * 3 + 1) {
            assert_int_equal(drain(path_of("file"), piece, &got, zstd ? "zstd" : "gzip"),
                             KS_INPUT_DAMAGED);
            assert_int_equal(got.len, f.text.len);
        }
        ks_text_release(&got);
        close_fixture(&f);
    }
}

static void test_zstd(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 3000000);
    put_zstd(&f.file, f.text.ptr, 1000000);
    put_zstd(&f.file, f.text.ptr + 1000000, 2000000);
    check(&f.file, &f.text, f.text.len, KS_INPUT_WHOLE, "zstd");
    close_fixture(&f);
}

/* pzstd writes the size of each frame in a frame to be skipped. */
static void test_zstd_skippable(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 1000);
    for (int i = 0; i < 2; i++) {
        ks_text_append(&f.file, "\x50\x2A\x4D\x18\x04\0\0\0abcd", 12);
        put_zstd(&f.file, f.text.ptr + (ptrdiff_t)i * 500, 500);
    }
    check(&f.file, &f.text, 1000, KS_INPUT_WHOLE, "zstd");
    close_fixture(&f);
}

/* A pipe that gives one byte at a time. */
static void test_pipe(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        struct fixture f;
        open_fixture(&f, 700);
        if (kind == 0) {
            ks_text_append(&f.file, f.text.ptr, f.text.len);
        } else {
            (kind == 1 ? put_gzip : put_zstd)(&f.file, f.text.ptr, f.text.len);
        }
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            for (size_t i = 0; i < f.file.len; i++) {
                if (write(ends[1], f.file.ptr + i, 1) != 1) {
                    _exit(1);
                }
                (void)usleep(i < 8 ? 1000 : 0);
            }
            _exit(0);
        }
        (void)close(ends[1]);
        char path[64];
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
        struct ks_text got;
        ks_text_init(&got);
        static const char *const NAMES[] = {"", "gzip", "zstd"};
        assert_int_equal(drain(path, 64, &got, NAMES[kind]), KS_INPUT_WHOLE);
        assert_int_equal(got.len, f.text.len);
        assert_memory_equal(got.ptr, f.text.ptr, got.len);
        ks_text_release(&got);
        (void)close(ends[0]);
        int status = 1;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        close_fixture(&f);
    }
}

/* A path from which the bytes come through a pipe. */
static void open_pipe(const struct ks_text *bytes, int *fd, char *path, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, 1 << 20) >= (int)bytes->len);
    assert_int_equal(write(ends[1], bytes->ptr, bytes->len), bytes->len);
    assert_int_equal(close(ends[1]), 0);
    *fd = ends[0];
    (void)snprintf(path, size, "/proc/self/fd/%d", ends[0]);
}

/* Files may be read by another library than pipes, which cannot be read twice: both say the same
 * of sound, cut and damaged streams. A stream is damaged by bytes that are changed, and by members
 * that are not one. */
static void test_libraries_agree(void **state)
{
    (void)state;
    struct numbers numbers = {11};
    int whole = 0;
    for (int round = 0; round < 1500; round++) {
        struct ks_text text;
        struct ks_text file;
        ks_text_init(&text);
        ks_text_init(&file);
        for (uint64_t i = 0; i <= numbers_below(&numbers, 3); i++) {
            make_text(&text, 1 + (size_t)numbers_below(&numbers, 20000));
            put_gzip(&file, text.ptr, text.len);
        }
        uint64_t kind = numbers_below(&numbers, 4);
        if (kind == 1) {
            file.len = 2 + (size_t)numbers_below(&numbers, file.len - 2);
        } else if (kind == 2) {
            file.ptr[2 + numbers_below(&numbers, file.len - 2)] ^= (char)numbers_next(&numbers);
        } else if (kind == 3) {
            ks_text_append(&file, "\0\0no gzip", 9 - 7 * numbers_below(&numbers, 2));
        }
        write_file(&file);
        struct ks_text from_file;
        struct ks_text from_pipe;
        char path[64];
        int fd = -1;
        open_pipe(&file, &fd, path, sizeof(path));
        ks_text_init(&from_file);
        ks_text_init(&from_pipe);
        size_t piece = 1 + (size_t)numbers_below(&numbers, 5000);
        enum ks_input_damage damage = drain(path_of("file"), piece, &from_file, "gzip");
        assert_int_equal(drain(path, 7000, &from_pipe, "gzip"), damage);
        assert_int_equal(from_file.len, from_pipe.len);
        assert_true(from_file.len == 0 || memcmp(from_file.ptr, from_pipe.ptr, from_file.len) == 0);
        whole += damage == KS_INPUT_WHOLE;
        (void)close(fd);
        ks_text_release(&from_file);
        ks_text_release(&from_pipe);
        ks_text_release(&text);
        ks_text_release(&file);
    }
    assert_true(whole > 300 && whole < 1200);
}

static void check_refused(const char *path)
{
    struct ks_input *input = NULL;
    struct ks_err err = {0};
    assert_int_equal(ks_input_open(path, &input, &err), KS_ERR_IO);
    assert_null(input);
    assert_int_equal(err.status, KS_ERR_IO);
}

static void test_refused(void **state)
{
    (void)state;
    check_refused(folder);
    check_refused(path_of("missing"));
    check_refused("");
    ks_input_close(NULL);
}

/* More than a thousand times what came in, past a GiB: no trace shrinks like that. */
static void test_bomb(void **state)
{
    (void)state;
    enum { ZEROS = 64 * 1024 * 1024 };
    struct fixture f;
    open_fixture(&f, 0);
    char *zeros = calloc(1, ZEROS);
    assert_non_null(zeros);
    struct ks_text one;
    ks_text_init(&one);
    put_zstd(&one, zeros, ZEROS);
    for (int i = 0; i < 40; i++) {
        ks_text_append_str(&f.file, (struct ks_str){one.ptr, one.len});
    }
    write_file(&f.file);
    struct ks_input *input = NULL;
    struct ks_err err = {0};
    assert_int_equal(ks_input_open(path_of("file"), &input, &err), KS_OK);
    size_t got = 0;
    uint64_t sum = 0;
    enum ks_status status = KS_OK;
    do {
        status = ks_input_read(input, zeros, ZEROS, &got, &err);
        sum += got;
    } while (status == KS_OK && got > 0);
    assert_int_equal(status, KS_ERR_LIMIT);
    assert_true(sum <= (uint64_t)1280 * 1024 * 1024);
    ks_input_close(input);
    ks_text_release(&one);
    free(zeros);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),   cmocka_unit_test(test_gzip),
        cmocka_unit_test(test_cut),     cmocka_unit_test(test_gzip_members),
        cmocka_unit_test(test_damaged), cmocka_unit_test(test_checksum),
        cmocka_unit_test(test_zstd),    cmocka_unit_test(test_zstd_skippable),
        cmocka_unit_test(test_pipe),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bomb),    cmocka_unit_test(test_libraries_agree),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
