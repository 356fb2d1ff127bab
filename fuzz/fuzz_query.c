/* SQL statements over a small trace: the front end that takes text from anyone.
 *
 * What must hold, beside what sanitizers see: nothing runs longer than its limits, no statement
 * changes a table or makes one, a failure has a message, and rows have the columns that were
 * promised. What a statement gives with conditions pushed down is not compared here: a unit
 * test does. */
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "fuzz_share.h"
#include "query/query.h"
#include "query/trace_tables.h"
#include "store/builder.h"

enum { ROWS = 40, STEPS_MAX = 50, QUESTIONS_MAX = 100, CHECKED_EVERY = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(enum ks_status status)
{
    KS_ASSERT(status == KS_OK);
}

/* Names with all that a name can hold; numbers small enough to be guessed. */
static struct ks_strid name_of(struct ks_trace_builder *builder, size_t index)
{
    static const struct ks_str names[] = {
        {"aten::mm", 8}, {"cudaLaunchKernel", 16}, {"a\0b", 3}, {"\xff\xfe", 2}, {"", 0},
        {"'\"%_", 4},
    };
    struct ks_strid id = {0};
    must(ks_trace_builder_intern(builder, names[index % KS_COUNT_OF(names)], &id, NULL));
    return id;
}

static void add_rows(struct ks_trace_builder *builder)
{
    uint32_t process = 0;
    uint32_t thread = 0;
    uint32_t device = 0;
    uint32_t stream = 0;
    struct ks_track_key key = {.number = 1};
    must(ks_trace_builder_process(builder, key, &process, NULL));
    for (int64_t i = 0; i < ROWS; i++) {
        struct ks_track_key tid = {.number = i % 3};
        must(ks_trace_builder_thread(builder, key, tid, &thread, NULL));
        must(ks_trace_builder_stream(builder, i % 2, 7, &device, &stream, NULL));
        struct ks_slice_row slice = {.lane = thread,
                                     .start_ns = i * 5,
                                     .dur_ns = i,
                                     .ext_id = i % 7,
                                     .corr = i % 5 - 1,
                                     .seq = -1,
                                     .name = name_of(builder, (size_t)i).v,
                                     .category = (uint8_t)(i % KS_CATEGORY_KERNEL)};
        struct ks_gpu_row gpu = {.lane = device,
                                 .stream = stream,
                                 .start_ns = i * 7,
                                 .dur_ns = 3,
                                 .corr = i % 5 - 1,
                                 .ext_id = -1,
                                 .bytes = i - 1,
                                 .name = name_of(builder, (size_t)i).v,
                                 .category = KS_CATEGORY_KERNEL};
        struct ks_memory_row memory = {.lane = process,
                                       .start_ns = i,
                                       .bytes = -i,
                                       .addr = UINT64_MAX - (uint64_t)i,
                                       .allocated = i - 1};
        struct ks_mark_row mark = {.lane = thread,
                                   .start_ns = i,
                                   .value = (double)i,
                                   .name = name_of(builder, (size_t)i).v};
        must(ks_trace_builder_slice(builder, &slice, NULL));
        must(ks_trace_builder_gpu(builder, &gpu, NULL));
        must(ks_trace_builder_memory(builder, &memory, NULL));
        must(ks_trace_builder_mark(builder, &mark, NULL));
    }
}

/* One trace for all inputs; it lives as long as the process. */
static const struct ks_trace *trace_of_all(void)
{
    static struct ks_trace *trace;
    if (!trace) {
        struct ks_trace_builder *builder = NULL;
        struct ks_source *source = NULL;
        struct ks_trace_options options = {.chunk_rows = 16};
        must(ks_trace_builder_create(&options, &builder, NULL));
        must(ks_trace_builder_source_open(builder, KS_STR("a.json"), &source, NULL));
        add_rows(builder);
        must(ks_trace_builder_seal(builder, 0, &trace, NULL));
    }
    return trace;
}

/* A limit that does not hang on the clock, so that an input does the same each time. */
static bool is_enough(void *user)
{
    return ++*(int *)user > QUESTIONS_MAX;
}

static void read_row(const struct ks_query *query, size_t columns)
{
    struct ks_err err = {0};
    KS_ASSERT(ks_query_column_count(query) == columns);
    for (size_t c = 0; c < columns; c++) {
        struct ks_sql_value value;
        KS_ASSERT(ks_query_column_name(query, c));
        if (ks_query_value(query, c, &value, &err) != KS_OK) {
            KS_ASSERT(err.status == KS_ERR_LIMIT);
            return;
        }
        KS_ASSERT(value.text.len == 0 || value.text.ptr);
    }
}

static void run(struct ks_query *query)
{
    struct ks_err err = {0};
    size_t columns = ks_query_column_count(query);
    enum ks_status status = KS_OK;
    for (int i = 0; i < STEPS_MAX && status == KS_OK; i++) {
        status = ks_query_step(query, &err);
        if (status == KS_OK) {
            read_row(query, columns);
        }
    }
    KS_ASSERT(status == KS_OK || status == KS_END || err.message[0]);
}

/* The tables are as they were: nothing was made, nothing is gone. Counting takes longer than most
 * statements; what one of them changed stays, so that it is enough to look after some of them. */
static void check_tables(struct ks_query *query)
{
    struct ks_sql_value value;
    struct ks_err err = {0};
    must(ks_query_prepare(query, KS_STR("select count(*) from slice, sqlite_schema"), &err));
    must(ks_query_step(query, &err));
    must(ks_query_value(query, 0, &value, &err));
    KS_ASSERT(value.integer == ROWS * (KS_TABLE_COUNT + KS_TRACE_ROW_TABLES));
}

/* Opened once, since that takes longer than most statements; so each is run on what those before it
 * left. */
static struct ks_query *query_of_all(int *questions)
{
    static struct ks_query *query;
    if (!query) {
        struct ks_query_limits limits = {
            .bytes_max = 64 << 20, .is_cancelled = is_enough, .user = questions};
        must(ks_query_open(trace_of_all(), NULL, 0, &limits, &query, NULL));
    }
    return query;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int questions;
    struct ks_err err = {0};
    struct ks_query *query = query_of_all(&questions);
    char *copy = ks_alloc(size + 1, 1);
    KS_ASSERT(copy);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    questions = 0;
    if (ks_query_prepare(query, (struct ks_str){copy, size}, &err) == KS_OK) {
        run(query);
    } else {
        KS_ASSERT(err.message[0]);
    }
    ks_free(copy);
    if (fuzz_is_chosen(data, size, CHECKED_EVERY)) {
        questions = 0;
        check_tables(query);
    }
    return 0;
}
