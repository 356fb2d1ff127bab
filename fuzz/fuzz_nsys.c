/* Exports of Nsight Systems, down to sealed tables.
 *
 * An input is a list of changes, of 6 bytes each, to a small export that this target writes itself
 * (place: 3 bytes, how many bytes: 1, what: 2 that are repeated), or, behind a first byte of 255, a
 * whole file. The first byte's lowest bit asks for strict reading. What must hold, beside what
 * sanitizers see: an error has a place in the file or none; strings are UTF-8; no duration is
 * negative; rows are sorted; what is read strictly is not damaged. */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "check_sealed.h"
#include "read/read.h"

enum { FILE_SIZE_MAX = 64 * 1024, CHANGE_SIZE = 6, WHOLE_FILE = 255 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char seed[FILE_SIZE_MAX];
static size_t seed_size;
static int file = -1;
static char path[64];

/* Two processes, a table of each kind, pages of their own for long names. */
static const char SCRIPT[] =
    "PRAGMA page_size = 512; PRAGMA journal_mode = off;"
    "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT,"
    " correlationId INT, globalPid INT, demangledName INT, shortName INT, gridX INT, gridY INT,"
    " gridZ INT, blockX INT, blockY INT, blockZ INT, registersPerThread INT);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, deviceId INT, streamId INT,"
    " correlationId INT, globalPid INT, bytes INT, copyKind INT, srcKind INT, dstKind INT);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INT, end INT, deviceId INT, streamId INT,"
    " correlationId INT, globalPid INT, bytes INT, memKind INT);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INT, end INT, deviceId INT,"
    " streamId INT, correlationId INT, globalPid INT, syncType INT);"
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT,"
    " correlationId INT, nameId INT);"
    "CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, textId INT,"
    " globalTid INT);"
    "CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT, totalMemory INT, smCount INT,"
    " computeMajor INT, computeMinor INT);"
    "CREATE TABLE ThreadNames (nameId INT, globalTid INT);"
    "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)"
    " INSERT INTO StringIds SELECT i, 'name ' || i || substr(hex(zeroblob(400)), 1, i * 20) FROM n;"
    "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)"
    " INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT i * 100, i * 100 + 60, 0, 7, i,"
    " (100 + i % 2) << 24, i, 1, 4, 2, 1, 32, 1, 1, 40 FROM n;"
    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (10, 20, 0, 7, 90, 100 << 24, 64, 1, 0, 2);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (30, 40, 0, 7, 91, 101 << 24, 64, 2);"
    "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (50, 60, 0, 7, 92, 100 << 24, 3);"
    "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)"
    " INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME SELECT i * 100 - 50, i * 100 - 10,"
    " ((100 + i % 2) << 24) + 5, i, 3 FROM n;"
    "INSERT INTO NVTX_EVENTS VALUES (5, 900, 59, 'step', NULL, (100 << 24) + 5),"
    " (6, NULL, 34, NULL, 4, (101 << 24) + 5), (7, 90, 60, 'a::b, seq = 3', NULL, 102 << 24);"
    "INSERT INTO TARGET_INFO_GPU VALUES (0, 'GPU', 1000, 132, 9, 0);"
    "INSERT INTO ThreadNames VALUES (5, (100 << 24) + 5);";

static void must(int code)
{
    KS_ASSERT(code == SQLITE_OK);
}

static void write_seed(void)
{
    sqlite3 *db = NULL;
    sqlite3_int64 size = 0;
    must(sqlite3_open(":memory:", &db));
    must(sqlite3_exec(db, SCRIPT, NULL, NULL, NULL));
    unsigned char *bytes = sqlite3_serialize(db, "main", &size, 0);
    KS_ASSERT(bytes && size > 0 && size <= FILE_SIZE_MAX);
    memcpy(seed, bytes, (size_t)size);
    seed_size = (size_t)size;
    sqlite3_free(bytes);
    must(sqlite3_close(db));
    file = memfd_create("nsys", MFD_CLOEXEC);
    KS_ASSERT(file >= 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
}

static size_t change(char *bytes, const uint8_t *data, size_t size)
{
    memcpy(bytes, seed, seed_size);
    for (; size >= CHANGE_SIZE; data += CHANGE_SIZE, size -= CHANGE_SIZE) {
        size_t at = ((size_t)data[0] << 16 | (size_t)data[1] << 8 | data[2]) % seed_size;
        for (size_t i = 0; i <= data[3] % 16u && at + i < seed_size; i++) {
            bytes[at + i] = (char)data[4 + i % 2];
        }
    }
    return seed_size;
}

static bool is_undamaged(const struct ks_source *source)
{
    for (int i = 0; i < KS_STAT_COUNT; i++) {
        if (ks_stat_info((enum ks_stat)i)->severity != KS_SEVERITY_INFO && source->counts[i] != 0) {
            return false;
        }
    }
    return true;
}

static void read_file(bool strict, size_t size)
{
    const char *const paths[] = {path};
    struct ks_read_options options = {
        .paths = paths, .path_count = 1, .strict = strict, .any_run = true, .threads = 1};
    struct ks_trace_builder *builder = NULL;
    struct ks_trace *trace = NULL;
    struct ks_err err = {0};
    int64_t run = 0;
    KS_ASSERT(ks_trace_builder_create(NULL, &builder, &err) == KS_OK);
    enum ks_status status = ks_read_paths(&options, builder, &run, &err);
    if (status != KS_OK) {
        KS_ASSERT(err.status == status && err.message[0] != '\0');
        KS_ASSERT(err.offset >= KS_NO_OFFSET && err.offset <= (int64_t)size);
        ks_trace_builder_destroy(builder);
        return;
    }
    KS_ASSERT(ks_trace_builder_seal(builder, run, &trace, &err) == KS_OK);
    check_sealed(trace);
    for (uint32_t i = 0; strict && i < ks_trace_source_count(trace); i++) {
        KS_ASSERT(is_undamaged(ks_trace_source(trace, i)));
    }
    ks_trace_destroy(trace);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char bytes[FILE_SIZE_MAX];
    if (size == 0 || size > FILE_SIZE_MAX) {
        return 0;
    }
    if (file < 0) {
        write_seed();
    }
    size_t len = size - 1;
    if (data[0] == WHOLE_FILE) {
        memcpy(bytes, data + 1, len);
    } else {
        len = change(bytes, data + 1, size - 1);
    }
    KS_ASSERT(ftruncate(file, 0) == 0 && pwrite(file, bytes, len, 0) == (ssize_t)len);
    read_file(data[0] & 1, len);
    return 0;
}
