#include "store_fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "numbers.h"

static const char *const names[FIXTURE_NAMES] = {
    "cudaLaunchKernel",      "cuLaunchKernelEx", "cudaMemcpyAsync",
    "cudaMemsetAsync",       "cudaGraphLaunch",  "cudaMalloc",
    "cudaDeviceSynchronize", "aten::mm",         "aten::add",
    "ProfilerStep#1",        "a.py(3): f",       "nn.Module: Conv2d_0",
};

const char *fixture_name(size_t index)
{
    return names[index % FIXTURE_NAMES];
}

static void *make(size_t count, size_t size)
{
    void *ptr = calloc(count + 1, size);
    if (!ptr) {
        abort();
    }
    return ptr;
}

/* Mostly forward, sometimes back, often twice the same: as traces do. */
static int64_t tick(struct numbers *numbers, int64_t *clock)
{
    *clock += (int64_t)numbers_below(numbers, 40);
    if (numbers_below(numbers, 150) == 0) {
        *clock -= (int64_t)numbers_below(numbers, 4000);
    }
    return *clock - (numbers_below(numbers, 9) == 0 ? (int64_t)numbers_below(numbers, 100) : 0);
}

static void make_slices(struct fixture_source *source, struct numbers *numbers, size_t count,
                        int64_t *corr)
{
    int64_t clock = -500;
    source->slices = make(count, sizeof(*source->slices));
    source->slice_count = count;
    uint32_t lane = 0;
    for (size_t i = 0; i < count; i++) {
        if (numbers_below(numbers, 30) == 0) {
            lane = (uint32_t)numbers_below(numbers, FIXTURE_THREADS);
        }
        uint32_t name = (uint32_t)numbers_below(numbers, FIXTURE_NAMES);
        bool is_call = name < 7;
        source->slices[i] = (struct ks_slice_row){
            .lane = lane,
            .start_ns = tick(numbers, &clock),
            .dur_ns = (int64_t)numbers_below(numbers, 5),
            .ext_id = (int64_t)numbers_below(numbers, 100) - 1,
            .corr = is_call && numbers_below(numbers, 10) ? *corr : -1,
            .seq = -1,
            .aux = (int64_t)i,
            .parent_aux = (int64_t)numbers_next(numbers),
            .name = name,
            .category = (uint8_t)(!is_call    ? KS_CATEGORY_CPU_OP
                                  : name == 1 ? KS_CATEGORY_DRIVER
                                              : KS_CATEGORY_RUNTIME),
            .flags = (uint8_t)numbers_below(numbers, 8),
        };
        *corr += is_call && numbers_below(numbers, 20) ? 1 : 0; // sometimes a number comes twice
    }
}

static void make_gpus(struct fixture_source *source, struct numbers *numbers, size_t count,
                      int64_t corr_begin, int64_t corr_end)
{
    int64_t clock = 0;
    source->gpus = make(count, sizeof(*source->gpus));
    source->gpu_count = count;
    for (size_t i = 0; i < count; i++) {
        uint64_t range = (uint64_t)(corr_end - corr_begin) + 20;
        source->gpus[i] = (struct ks_gpu_row){
            .lane = (uint32_t)numbers_below(numbers, FIXTURE_DEVICES),
            .stream = (uint32_t)numbers_below(numbers, FIXTURE_STREAMS),
            .start_ns = tick(numbers, &clock),
            .dur_ns = (int64_t)numbers_below(numbers, 60),
            .corr = corr_begin - 10 + (int64_t)numbers_below(numbers, range),
            .ext_id = (int64_t)i,
            .bytes = -1,
            .launch_ns = 77, // seal must not trust what a reader left here
            .launch_lane = 77,
            .name = (uint32_t)numbers_below(numbers, FIXTURE_NAMES),
            .occupancy = 0.5f,
            .registers = (uint16_t)numbers_next(numbers),
            .category = (uint8_t)(KS_CATEGORY_KERNEL + numbers_below(numbers, 6)),
        };
    }
}

static void make_memories(struct fixture_source *source, struct numbers *numbers, size_t count)
{
    static const uint8_t types[] = {0, 1, 2, 5, 6, 12, 20, 7, 15};
    int64_t clock = 0;
    source->memories = make(count, sizeof(*source->memories));
    source->memory_count = count;
    for (size_t i = 0; i < count; i++) {
        source->memories[i] = (struct ks_memory_row){
            .lane = (uint32_t)numbers_below(numbers, 2),
            .start_ns = tick(numbers, &clock),
            .bytes = (int64_t)numbers_below(numbers, 2000) - 1000,
            .addr = i,
            .device = -1,
            .device_type = types[numbers_below(numbers, KS_COUNT_OF(types))],
            .flags = (uint8_t)(numbers_below(numbers, 10) == 0),
        };
    }
}

static void make_marks(struct fixture_source *source, struct numbers *numbers, size_t count)
{
    int64_t clock = 0;
    source->marks = make(count, sizeof(*source->marks));
    source->mark_count = count;
    for (size_t i = 0; i < count; i++) {
        source->marks[i] = (struct ks_mark_row){
            .lane = (uint32_t)numbers_below(numbers, FIXTURE_THREADS),
            .start_ns = tick(numbers, &clock),
            .value = (double)i,
            .name = (uint32_t)numbers_below(numbers, FIXTURE_NAMES),
            .unit = (uint32_t)numbers_below(numbers, FIXTURE_NAMES),
            .values = (uint32_t)numbers_below(numbers, FIXTURE_NAMES),
        };
    }
}

void fixture_init(struct fixture *fixture, uint64_t seed, size_t rows)
{
    struct numbers numbers = {seed};
    *fixture = (struct fixture){0};
    for (size_t i = 0; i < FIXTURE_SOURCES; i++) {
        struct fixture_source *source = &fixture->sources[i];
        /* The second source counts correlations sparsely, so that the map is used. */
        int64_t corr_begin = i == 1 ? 5 : 100;
        int64_t corr = corr_begin;
        source->base_ns = 1000000000 + (int64_t)numbers_below(&numbers, 5000);
        source->run = i == 1 ? 2 : 1;
        make_slices(source, &numbers, rows + (size_t)numbers_below(&numbers, 10), &corr);
        make_gpus(source, &numbers, rows / 3, corr_begin, corr);
        make_memories(source, &numbers, i == 2 ? 0 : rows / 2);
        make_marks(source, &numbers, rows / 10);
        for (size_t k = 0; i == 1 && k < source->slice_count; k++) {
            source->slices[k].corr *= source->slices[k].corr > 0 ? 1000 : 1;
        }
        for (size_t k = 0; i == 1 && k < source->gpu_count; k++) {
            source->gpus[k].corr *= 1000;
        }
    }
}

void fixture_release(struct fixture *fixture)
{
    for (size_t i = 0; i < FIXTURE_SOURCES; i++) {
        free(fixture->sources[i].slices);
        free(fixture->sources[i].gpus);
        free(fixture->sources[i].memories);
        free(fixture->sources[i].marks);
    }
}

/* ------------------------------------------------------------------ building */

struct lanes {
    uint32_t processes[2];
    uint32_t threads[FIXTURE_THREADS];
    uint32_t devices[FIXTURE_DEVICES];
    uint32_t streams[FIXTURE_DEVICES][FIXTURE_STREAMS];
    uint32_t names[FIXTURE_NAMES];
};

static enum ks_status make_lanes(struct ks_trace_builder *builder, struct lanes *lanes,
                                 struct ks_err *err)
{
    struct ks_strid text = {0};
    KS_TRY(ks_trace_builder_intern(builder, KS_STR("Spans"), &text, err));
    struct ks_track_key pids[2] = {{.number = 7}, {.text = text}};
    for (size_t i = 0; i < 2; i++) {
        KS_TRY(ks_trace_builder_process(builder, pids[i], &lanes->processes[i], err));
    }
    for (size_t i = 0; i < FIXTURE_THREADS; i++) {
        struct ks_track_key tid = {.number = (int64_t)i * 3};
        KS_TRY(ks_trace_builder_thread(builder, pids[i % 2], tid, &lanes->threads[i], err));
    }
    for (size_t d = 0; d < FIXTURE_DEVICES; d++) {
        for (size_t s = 0; s < FIXTURE_STREAMS; s++) {
            KS_TRY(ks_trace_builder_stream(builder, (int64_t)d, (int64_t)s * 7, &lanes->devices[d],
                                           &lanes->streams[d][s], err));
        }
    }
    for (size_t i = 0; i < FIXTURE_NAMES; i++) {
        struct ks_strid id = {0};
        KS_TRY(ks_trace_builder_intern(builder, ks_str_from(names[i]), &id, err));
        lanes->names[i] = id.v;
    }
    return KS_OK;
}

static enum ks_status add_slices(struct ks_trace_builder *builder, const struct lanes *lanes,
                                 const struct fixture_source *source, struct ks_err *err)
{
    for (size_t i = 0; i < source->slice_count; i++) {
        struct ks_slice_row row = source->slices[i];
        row.lane = lanes->threads[row.lane];
        row.name = lanes->names[row.name];
        KS_TRY(ks_trace_builder_slice(builder, &row, err));
    }
    return KS_OK;
}

static enum ks_status add_gpus(struct ks_trace_builder *builder, const struct lanes *lanes,
                               const struct fixture_source *source, struct ks_err *err)
{
    for (size_t i = 0; i < source->gpu_count; i++) {
        struct ks_gpu_row row = source->gpus[i];
        row.stream = lanes->streams[row.lane][row.stream];
        row.lane = lanes->devices[row.lane];
        row.name = lanes->names[row.name];
        KS_TRY(ks_trace_builder_gpu(builder, &row, err));
    }
    return KS_OK;
}

static enum ks_status add_others(struct ks_trace_builder *builder, const struct lanes *lanes,
                                 const struct fixture_source *source, struct ks_err *err)
{
    for (size_t i = 0; i < source->memory_count; i++) {
        struct ks_memory_row row = source->memories[i];
        row.lane = lanes->processes[row.lane];
        KS_TRY(ks_trace_builder_memory(builder, &row, err));
    }
    for (size_t i = 0; i < source->mark_count; i++) {
        struct ks_mark_row row = source->marks[i];
        row.lane = lanes->threads[row.lane];
        row.name = lanes->names[row.name];
        row.unit = lanes->names[row.unit];
        row.values = lanes->names[row.values];
        KS_TRY(ks_trace_builder_mark(builder, &row, err));
    }
    return KS_OK;
}

static enum ks_status add_source(struct ks_trace_builder *builder,
                                 const struct fixture_source *from, size_t index,
                                 struct ks_err *err)
{
    struct lanes lanes;
    char path[32];
    int len = snprintf(path, sizeof(path), "rank%zu.json", index);
    struct ks_source *source = NULL;
    KS_TRY(ks_trace_builder_source_open(builder, (struct ks_str){path, (size_t)len}, &source, err));
    source->base_ns = from->base_ns;
    source->has_base = true;
    source->run = from->run;
    struct ks_collective collective = {.sequence = (int64_t)index / 2};
    uint32_t id = 0;
    KS_TRY(ks_trace_builder_collective(builder, &collective, &id, err));
    KS_TRY(make_lanes(builder, &lanes, err));
    KS_TRY(add_slices(builder, &lanes, from, err));
    KS_TRY(add_gpus(builder, &lanes, from, err));
    KS_TRY(add_others(builder, &lanes, from, err));
    return ks_trace_builder_source_close(builder, err);
}

enum ks_status fixture_build(const struct fixture *fixture, const struct ks_trace_options *options,
                             int64_t run, struct ks_trace **out, struct ks_err *err)
{
    struct ks_trace_builder *builder = NULL;
    KS_TRY(ks_trace_builder_create(options, &builder, err));
    for (size_t i = 0; i < FIXTURE_SOURCES; i++) {
        enum ks_status status = add_source(builder, &fixture->sources[i], i, err);
        if (status != KS_OK) {
            ks_trace_builder_destroy(builder);
            return status;
        }
    }
    return ks_trace_builder_seal(builder, run, out, err);
}

/* ------------------------------------------------------------------ dumping */

/* One column at a time, each by a scan of its own: that is how analyses read, too. */
#define DUMP_COLUMN(table, TABLE, column, type)                                                    \
    {                                                                                              \
        struct ks_##table##_scan scan;                                                             \
        ks_##table##_scan_open(&scan, trace, KS_COLUMN_BIT(KS_##TABLE##_COL_##column), 0,          \
                               ks_trace_rows(trace, KS_TABLE_##table));                            \
        while ((status = ks_##table##_scan_next(&scan, err)) == KS_OK) {                           \
            ks_text_append(out, (const char *)scan.col.column, scan.count * sizeof(type));         \
        }                                                                                          \
        ks_##table##_scan_close(&scan);                                                            \
        if (status != KS_END) {                                                                    \
            return status;                                                                         \
        }                                                                                          \
    }

/* clang-format off */
static enum ks_status dump_columns(const struct ks_trace *trace, struct ks_text *out,
                                   struct ks_err *err)
{
    enum ks_status status = KS_OK;
#define KS_SLICE_COLUMN(column, type) DUMP_COLUMN(slice, SLICE, column, type)
#define KS_GPU_COLUMN(column, type) DUMP_COLUMN(gpu, GPU, column, type)
#define KS_MEMORY_COLUMN(column, type) DUMP_COLUMN(memory, MEMORY, column, type)
#define KS_MARK_COLUMN(column, type) DUMP_COLUMN(mark, MARK, column, type)
#define KS_SAMPLE_COLUMN(column, type) DUMP_COLUMN(sample, SAMPLE, column, type)
#define KS_LINK_COLUMN(column, type) DUMP_COLUMN(link, LINK, column, type)
#include "store/tables.def"
    return KS_OK;
}
/* clang-format on */

enum ks_status fixture_dump(const struct ks_trace *trace, struct ks_text *out, struct ks_err *err)
{
    KS_TRY(dump_columns(trace, out, err));
    for (size_t t = 0; t < KS_TABLE_COUNT; t++) {
        size_t count = 0;
        const struct ks_lane *lanes = ks_trace_lanes(trace, (enum ks_table_id)t, &count);
        for (size_t i = 0; i < count; i++) {
            ks_text_printf(out, "lane %u %lu %lu\n", lanes[i].track,
                           (unsigned long)lanes[i].row_begin, (unsigned long)lanes[i].row_end);
        }
    }
    for (uint32_t i = 1; i < ks_trace_track_count(trace); i++) {
        const struct ks_track *track = ks_trace_track(trace, i);
        ks_text_printf(out, "track %d %u %u %ld %u\n", (int)track->kind, track->source,
                       track->parent, (long)track->number, track->text.v);
    }
    for (uint32_t i = 0; i < ks_trace_source_count(trace); i++) {
        const struct ks_source *source = ks_trace_source(trace, i);
        ks_text_printf(out, "source %s %ld %ld\n", ks_trace_str(trace, source->path).ptr,
                       (long)source->start_ns, (long)source->end_ns);
        ks_text_append(out, (const char *)source->counts, sizeof(source->counts));
    }
    int64_t span[2];
    ks_trace_span(trace, &span[0], &span[1]);
    ks_text_printf(out, "origin %ld span %ld %ld strings %u\n", (long)ks_trace_origin_ns(trace),
                   (long)span[0], (long)span[1], ks_trace_str_count(trace));
    return out->failed
               ? ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot dump trace: len=%zu", out->len)
               : KS_OK;
}
