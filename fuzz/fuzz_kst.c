/* Sealed traces whose bytes were changed: nothing may crash that scans or analyses what was opened.
 *
 * An input is a list of changes, of 12 bytes each, to one of the files that this target writes
 * itself, so that the corpus stays good when the format gets another column; or, behind a first
 * byte of 255, a whole file. A first byte of 128 and more asks for all analyses too, which take
 * fifty times as long as the rest: one in so many of these gets them, by its bytes. Built for
 * fuzzing the reader does not compare checksums, else nothing would come past them. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "advise/findings.h"
#include "base/alloc.h"
#include "fuzz_share.h"
#include "store/builder.h"
#include "store/kst.h"

enum { FILES = 2, FILE_SIZE_MAX = 64 * 1024, CHANGE_SIZE = 12, STEPS = 4, ANALYZED_EVERY = 128 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char files[FILES][FILE_SIZE_MAX];
static size_t file_sizes[FILES];

static void must(enum ks_status status)
{
    KS_ASSERT(status == KS_OK);
}

/* ------------------------------------------------------------------ the files */

static uint32_t name_of(struct ks_trace_builder *builder, const char *text)
{
    struct ks_strid id = {0};
    must(ks_trace_builder_intern(builder, ks_str_from(text), &id, NULL));
    return id.v;
}

static void add_slice(struct ks_trace_builder *builder, uint32_t thread, const char *name,
                      enum ks_category category, int64_t start_ns, int64_t dur_ns, int64_t number)
{
    bool is_call = category == KS_CATEGORY_RUNTIME;
    struct ks_slice_row row = {
        .lane = thread,
        .start_ns = start_ns,
        .dur_ns = dur_ns,
        .ext_id = number,
        .corr = is_call ? number : -1,
        .seq = -1,
        .aux = -1,
        .parent_aux = -1,
        .name = name_of(builder, name),
        .dims = name_of(builder, "[[2, 3], [3, 4]]"),
        .category = (uint8_t)category,
    };
    must(ks_trace_builder_slice(builder, &row, NULL));
}

static void add_gpu(struct ks_trace_builder *builder, const char *name, enum ks_category category,
                    int64_t stream, int64_t start_ns, int64_t number)
{
    struct ks_gpu_row row = {
        .start_ns = start_ns,
        .dur_ns = 90,
        .corr = number,
        .ext_id = number,
        .bytes = category == KS_CATEGORY_MEMCPY ? 4096 : -1,
        .name = name_of(builder, name),
        .category = (uint8_t)category,
        .occupancy = 0.5F,
        .blocks_per_sm = 2,
        .warps_per_sm = 8,
    };
    must(ks_trace_builder_stream(builder, 0, stream, &row.lane, &row.stream, NULL));
    if (category == KS_CATEGORY_KERNEL && stream == 9) {
        struct ks_collective collective = {.name = {row.name}, .sequence = 3, .group_size = 2};
        must(ks_trace_builder_collective(builder, &collective, &row.collective, NULL));
        row.flags = KS_GPU_COMMUNICATION;
    }
    must(ks_trace_builder_gpu(builder, &row, NULL));
}

/* A step with loader, operators, calls, kernels, copies, a collective, a wait and an allocation. */
static void add_step(struct ks_trace_builder *builder, uint32_t process, uint32_t thread,
                     int64_t step)
{
    char name[32];
    int64_t at = step * 1000;
    int64_t number = step * 10;
    struct ks_memory_row memory = {.lane = process, .start_ns = at + 60, .bytes = 512};
    struct ks_mark_row mark = {.lane = thread, .start_ns = at, .value = 1};
    snprintf(name, sizeof(name), "ProfilerStep#%d", (int)step);
    add_slice(builder, thread, name, KS_CATEGORY_USER_ANNOTATION, at, 900, -1);
    add_slice(builder, thread, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
              KS_CATEGORY_USER_ANNOTATION, at + 10, 40, -1);
    add_slice(builder, thread, "aten::mm", KS_CATEGORY_CPU_OP, at + 100, 50, number);
    add_slice(builder, thread, "cudaLaunchKernel", KS_CATEGORY_RUNTIME, at + 110, 9, number);
    add_slice(builder, thread, "aten::_local_scalar_dense", KS_CATEGORY_CPU_OP, at + 300, 200,
              number + 1);
    add_slice(builder, thread, "cudaMemcpyAsync", KS_CATEGORY_RUNTIME, at + 310, 20, number + 1);
    add_slice(builder, thread, "cudaStreamSynchronize", KS_CATEGORY_RUNTIME, at + 350, 100,
              number + 2);
    add_slice(builder, thread, "cudaLaunchKernel", KS_CATEGORY_RUNTIME, at + 600, 9, number + 3);
    add_gpu(builder, "sgemm", KS_CATEGORY_KERNEL, 7, at + 150, number);
    add_gpu(builder, "Memcpy DtoH (Device -> Pageable)", KS_CATEGORY_MEMCPY, 7, at + 340,
            number + 1);
    add_gpu(builder, "ncclDevKernel", KS_CATEGORY_KERNEL, 9, at + 650, number + 3);
    mark.name = name_of(builder, "counter");
    mark.unit = name_of(builder, "unit");
    mark.values = name_of(builder, "{}");
    must(ks_trace_builder_memory(builder, &memory, NULL));
    must(ks_trace_builder_mark(builder, &mark, NULL));
}

/* What recordings add: a region, a sample of two stacks, and two call paths. */
static void add_recorded(struct ks_trace_builder *builder, uint32_t thread)
{
    struct ks_stack stack = {.function = {name_of(builder, "f")}, .line = 3};
    struct ks_call_path path = {.track = thread, .function = stack.function, .total_ns = 50};
    struct ks_sample_row sample = {.lane = thread, .start_ns = 10, .weight = 1};
    uint32_t id = 0;
    add_slice(builder, thread, "region", KS_CATEGORY_REGION, 10, 30, -1);
    must(ks_trace_builder_stack(builder, &stack, &stack.caller, NULL));
    must(ks_trace_builder_stack(builder, &stack, &sample.stack, NULL));
    must(ks_trace_builder_call_path(builder, &path, &path.parent, NULL));
    must(ks_trace_builder_call_path(builder, &path, &id, NULL));
    must(ks_trace_builder_sample(builder, &sample, NULL));
}

static void write_file(size_t index, struct ks_trace *trace)
{
    uint64_t id = 0;
    int fd = memfd_create("base", MFD_CLOEXEC);
    KS_ASSERT(fd >= 0);
    must(ks_kst_write(trace, fd, NULL, &id, NULL));
    ssize_t size = pread(fd, files[index], FILE_SIZE_MAX, 0);
    KS_ASSERT(size > 0 && size < FILE_SIZE_MAX);
    file_sizes[index] = (size_t)size;
    close(fd);
    ks_trace_destroy(trace);
}

/* One rank and one chunk; two ranks of half as many steps, and some chunks: what is read of a file
 * costs by the chunk. */
static void make_file(size_t index)
{
    struct ks_trace_options options = {.chunk_rows = index == 0 ? 0 : 8};
    int64_t ranks = (int64_t)index + 1;
    struct ks_trace_builder *builder = NULL;
    struct ks_trace *trace = NULL;
    must(ks_trace_builder_create(&options, &builder, NULL));
    for (int64_t rank = 0; rank < ranks; rank++) {
        struct ks_source *source = NULL;
        uint32_t process = 0;
        uint32_t thread = 0;
        struct ks_track_key key = {.number = 5};
        must(ks_trace_builder_source_open(builder, KS_STR("a.json"), &source, NULL));
        source->rank = rank;
        source->world_size = 2;
        source->record_shapes = true;
        must(ks_trace_builder_process(builder, key, &process, NULL));
        must(ks_trace_builder_thread(builder, key, key, &thread, NULL));
        for (int64_t step = 0; step < STEPS / ranks; step++) {
            add_step(builder, process, thread, step);
        }
        add_recorded(builder, thread);
        must(ks_trace_builder_source_close(builder, NULL));
    }
    must(ks_trace_builder_seal(builder, 0, &trace, NULL));
    write_file(index, trace);
}

/* ------------------------------------------------------------------ looking at one */

/* Reads all bytes, many at a time: the sanitizer looks at each place that is read. */
static void touch(const void *bytes, size_t size)
{
    volatile uint64_t seen = XXH3_64bits(bytes, size);
    (void)seen;
}

static void read_strings(const struct ks_trace *trace)
{
    for (uint32_t i = 0; i < ks_trace_str_count(trace); i++) {
        struct ks_str text = ks_trace_str(trace, (struct ks_strid){i});
        touch(text.ptr, text.len + 1);
    }
}

/* All rows of a table; an error is fine, for a chunk that cannot be. */
static void read_table(const struct ks_trace *trace, enum ks_table_id id)
{
    struct ks_scan scan;
    struct ks_err err = {0};
    uint64_t row = 0;
    uint64_t rows = 0;
    size_t count = 0;
    ks_scan_open(&scan, trace, id, KS_ALL_COLUMNS, 0, ks_trace_rows(trace, id));
    enum ks_status status = ks_scan_next(&scan, &row, &count, &err);
    while (status == KS_OK) {
        for (size_t c = 0; c < KS_SAMPLE_COL_COUNT; c++) {
            touch(scan.cols[c], count);
        }
        rows += count;
        status = ks_scan_next(&scan, &row, &count, &err);
    }
    ks_scan_close(&scan);
    KS_ASSERT(status == KS_END || err.message[0]);
    KS_ASSERT(status != KS_END || rows == ks_trace_rows(trace, id));
}

static void analyze(const struct ks_trace *trace)
{
    struct ks_scope scope = {.group_by_shape = true};
    struct ks_facts facts = {0};
    struct ks_findings findings = {0};
    struct ks_err err = {0};
    if (ks_facts_compute(trace, &scope, &facts, &err) == KS_OK) {
        enum ks_status status = ks_findings_compute(&facts, &findings, &err);
        KS_ASSERT(status == KS_OK || err.message[0]);
        ks_findings_release(&findings);
    } else {
        KS_ASSERT(err.message[0]);
    }
    ks_facts_release(&facts);
}

/* One for all inputs: making it takes longer than reading it. The same goes for what the system
 * does for its times and its size. */
static int file_of(const char *bytes, size_t size)
{
    static int file = -1;
    static size_t size_before = SIZE_MAX;
    if (file < 0) {
        file = memfd_create("kst", MFD_CLOEXEC);
        KS_ASSERT(file >= 0 && fcntl(file, F_SETFL, O_NOATIME) == 0);
    }
    KS_ASSERT(size == size_before || ftruncate(file, (off_t)size) == 0);
    KS_ASSERT(pwrite(file, bytes, size, 0) == (ssize_t)size);
    size_before = size;
    return dup(file);
}

static void open_bytes(const char *bytes, size_t size, bool may_analyze)
{
    struct ks_trace *trace = NULL;
    struct ks_err err = {0};
    if (ks_kst_open(file_of(bytes, size), 1 << 20, &trace, NULL, &err) != KS_OK) {
        KS_ASSERT(err.message[0] && !trace);
        return;
    }
    read_strings(trace);
    for (size_t i = 0; i < KS_TABLE_COUNT; i++) {
        read_table(trace, (enum ks_table_id)i);
    }
    if (may_analyze) {
        analyze(trace);
    }
    ks_trace_destroy(trace);
}

/* file, what to do, place (4), value (6) */
static void change(char *bytes, size_t size, const uint8_t *how)
{
    uint32_t place = 0;
    uint64_t value = 0;
    memcpy(&place, how + 2, sizeof(place));
    memcpy(&value, how + 6, 6);
    size_t width = (size_t)1 << (how[1] & 3);
    place %= (uint32_t)(size - sizeof(value));
    if (how[1] & 4) { // the end holds the directory, where most is
        place = (uint32_t)(size - sizeof(value)) - place;
    }
    if (how[1] & 8) {
        value = ~value;
    }
    if (how[1] & 16) {
        uint64_t old = 0;
        memcpy(&old, bytes + place, width);
        value += old;
    }
    memcpy(bytes + place, &value, width);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char copy[FILE_SIZE_MAX];
    if (file_sizes[0] == 0) {
        make_file(0);
        make_file(1);
    }
    if (size > 0 && data[0] == 255) {
        open_bytes((const char *)data + 1, size - 1, true);
        return 0;
    }
    size_t index = size > 0 ? data[0] % FILES : 0;
    memcpy(copy, files[index], file_sizes[index]);
    for (size_t at = 0; at + CHANGE_SIZE <= size; at += CHANGE_SIZE) {
        change(copy, file_sizes[index], data + at);
    }
    open_bytes(copy, file_sizes[index],
               size > 0 && data[0] >= 128 && fuzz_is_chosen(data, size, ANALYZED_EVERY));
    return 0;
}
