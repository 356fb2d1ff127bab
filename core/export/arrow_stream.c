#include "export/arrow_stream.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "export/column_batch.h"

enum { VALIDITY, VALUES, TEXT, BUFFERS_MAX };

/* A column of a batch: buffers in Arrow's order, of which numbers have two and texts three. */
struct column {
    void *buffers[BUFFERS_MAX];
    int64_t null_count;
};

struct batch {
    struct column *columns;
    int64_t row_count;
};

struct field {
    char *name;
    enum ks_sql_type type;
};

struct stream {
    struct field *fields;
    size_t field_count;
    struct batch *batches;
    size_t batch_count;
    size_t batch_capacity;
    size_t next;
};

static enum ks_status fail_memory(struct ks_err *err)
{
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep columns: no memory");
}

static void release_columns(struct column *columns, size_t count)
{
    for (size_t i = 0; columns && i < count; i++) {
        for (size_t buffer = 0; buffer < BUFFERS_MAX; buffer++) {
            ks_free(columns[i].buffers[buffer]);
        }
    }
    ks_free(columns);
}

static void destroy(struct stream *stream)
{
    for (size_t i = 0; stream && i < stream->batch_count; i++) {
        release_columns(stream->batches[i].columns, stream->field_count);
    }
    for (size_t i = 0; stream && stream->fields && i < stream->field_count; i++) {
        ks_free(stream->fields[i].name);
    }
    if (stream) {
        ks_free(stream->batches);
        ks_free(stream->fields);
    }
    ks_free(stream);
}

/* ------------------------------------------------------------------ the type */

struct schema {
    struct ArrowSchema **children;
    char *name;
};

static void release_schema(struct ArrowSchema *schema)
{
    struct schema *own = schema->private_data;
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (own->children[i] && own->children[i]->release) {
            own->children[i]->release(own->children[i]);
        }
        ks_free(own->children[i]);
    }
    ks_free(own->children);
    ks_free(own->name);
    ks_free(own);
    schema->release = NULL;
}

static char *copy_text(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = ks_alloc(size, 1);
    return copy ? memcpy(copy, text, size) : NULL;
}

/* With room for children that are still NULL. ENOMEM: nothing is held. */
static int describe(const char *format, const char *name, size_t children, struct ArrowSchema *out)
{
    struct schema *own = ks_alloc(1, sizeof(*own));
    *out = (struct ArrowSchema){.format = format,
                                .n_children = (int64_t)children,
                                .release = release_schema,
                                .private_data = own};
    if (!own) {
        out->release = NULL;
        return ENOMEM;
    }
    own->children = ks_alloc(children + 1, sizeof(struct ArrowSchema *));
    own->name = copy_text(name);
    out->name = own->name;
    out->children = own->children;
    if (own->children && own->name) {
        return 0;
    }
    out->n_children = 0;
    release_schema(out);
    return ENOMEM;
}

static int describe_field(const struct field *field, struct ArrowSchema **out)
{
    const char *format = field->type == KS_SQL_TEXT ? "u" : field->type == KS_SQL_REAL ? "g" : "l";
    *out = ks_alloc(1, sizeof(**out));
    if (!*out || describe(format, field->name, 0, *out) != 0) {
        return ENOMEM;
    }
    (*out)->flags = ARROW_FLAG_NULLABLE;
    return 0;
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    const struct stream *own = stream->private_data;
    int failed = describe("+s", "", own->field_count, out);
    for (size_t i = 0; i < own->field_count && !failed; i++) {
        failed = describe_field(&own->fields[i], &out->children[i]);
        if (failed) {
            release_schema(out);
        }
    }
    return failed;
}

/* ------------------------------------------------------------------ a batch */

/* What an array of columns holds: the columns, and the structs that describe them. */
struct array {
    struct ArrowArray **children;
    const void **buffers;
    struct column column; /* of a child */
};

static void release_array(struct ArrowArray *array)
{
    struct array *own = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++) {
        if (own->children[i] && own->children[i]->release) {
            own->children[i]->release(own->children[i]);
        }
        ks_free(own->children[i]);
    }
    for (size_t i = 0; i < BUFFERS_MAX; i++) {
        ks_free(own->column.buffers[i]);
    }
    ks_free(own->children);
    ks_free(own->buffers);
    ks_free(own);
    array->release = NULL;
}

/* ENOMEM: nothing is held. */
static int make_array(int64_t rows, size_t children, size_t buffers, struct ArrowArray *out)
{
    struct array *own = ks_alloc(1, sizeof(*own));
    *out = (struct ArrowArray){.length = rows,
                               .n_buffers = (int64_t)buffers,
                               .release = release_array,
                               .private_data = own};
    if (!own) {
        out->release = NULL;
        return ENOMEM;
    }
    out->buffers = own->buffers = ks_alloc(buffers, sizeof(*own->buffers));
    out->children = own->children = ks_alloc(children + 1, sizeof(*own->children));
    if (!own->buffers || !own->children) {
        release_array(out);
        return ENOMEM;
    }
    out->n_children = (int64_t)children;
    return 0;
}

/* Moves the column into the array. */
static int give_column(enum ks_sql_type type, struct column *column, int64_t rows,
                       struct ArrowArray **out)
{
    size_t buffers = type == KS_SQL_TEXT ? BUFFERS_MAX : TEXT;
    *out = ks_alloc(1, sizeof(**out));
    if (!*out || make_array(rows, 0, buffers, *out) != 0) {
        return ENOMEM;
    }
    struct array *own = (*out)->private_data;
    own->column = *column;
    *column = (struct column){0};
    (*out)->null_count = own->column.null_count;
    for (size_t i = 0; i < buffers; i++) {
        own->buffers[i] = own->column.buffers[i];
    }
    return 0;
}

/* At the end an array that is released, as the interface wants it. */
static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    struct stream *own = stream->private_data;
    *out = (struct ArrowArray){0};
    if (own->next == own->batch_count) {
        return 0;
    }
    struct batch *batch = &own->batches[own->next];
    int failed = make_array(batch->row_count, own->field_count, 1, out);
    for (size_t i = 0; i < own->field_count && !failed; i++) {
        failed = give_column(own->fields[i].type, &batch->columns[i], batch->row_count,
                             &out->children[i]);
        if (failed) {
            release_array(out);
        }
    }
    own->next++;
    return failed;
}

static const char *get_last_error(struct ArrowArrayStream *stream)
{
    (void)stream;
    return "no memory";
}

static void release_stream(struct ArrowArrayStream *stream)
{
    destroy(stream->private_data);
    stream->release = NULL;
}

/* ------------------------------------------------------------------ rows */

static enum ks_status copy_fields(struct stream *stream, const struct ks_table_rows *rows,
                                  ptrdiff_t only, struct ks_err *err)
{
    bool is_all = only == KS_BATCH_ALL_COLUMNS;
    size_t count = is_all ? ks_table_rows_column_count(rows) : 1;
    stream->fields = ks_alloc(count, sizeof(*stream->fields));
    if (!stream->fields) {
        return fail_memory(err);
    }
    stream->field_count = count;
    for (size_t i = 0; i < count; i++) {
        const struct ks_sql_column *column = ks_table_rows_column(rows, is_all ? i : (size_t)only);
        stream->fields[i].type = column->type;
        stream->fields[i].name = copy_text(column->name);
        if (!stream->fields[i].name) {
            return fail_memory(err);
        }
    }
    return KS_OK;
}

static void *copy_bytes(const void *bytes, size_t size)
{
    void *copy = ks_alloc(size > 0 ? size : 1, 1);
    if (copy && size > 0) {
        memcpy(copy, bytes, size);
    }
    return copy;
}

/* Where each text ends, and all of them in a row: some 64 MiB at most. */
static bool copy_texts(const struct ks_batch_column *from, size_t rows, struct column *to)
{
    int32_t *ends = to->buffers[VALUES] = ks_alloc(rows + 1, sizeof(*ends));
    char *text = to->buffers[TEXT] = ks_alloc(from->text_bytes + 1, 1);
    if (!ends || !text) {
        return false;
    }
    int32_t end = 0;
    for (size_t i = 0; i < rows; i++) {
        struct ks_str one = ks_strpool_get(from->pool, (struct ks_strid){(uint32_t)from->cells[i]});
        if (one.len > 0) {
            memcpy(text + end, one.ptr, one.len);
        }
        end += (int32_t)one.len;
        ends[i + 1] = end;
    }
    return true;
}

static bool copy_column(const struct ks_batch_column *from, size_t rows, struct column *to)
{
    to->null_count = (int64_t)from->null_count;
    if (from->null_count > 0) {
        to->buffers[VALIDITY] = copy_bytes(from->valid, (rows + 7) / 8);
        if (!to->buffers[VALIDITY]) {
            return false;
        }
    }
    if (from->type == KS_SQL_TEXT) {
        return copy_texts(from, rows, to);
    }
    to->buffers[VALUES] = copy_bytes(from->cells, rows * sizeof(*from->cells));
    return to->buffers[VALUES] != NULL;
}

static enum ks_status keep_batch(struct stream *stream, const struct ks_column_batch *from,
                                 struct ks_err *err)
{
    KS_TRY(ks_grow(&stream->batches, stream->batch_count, &stream->batch_capacity,
                   sizeof(*stream->batches), "record batches", err));
    struct column *columns = ks_alloc(from->column_count, sizeof(*columns));
    if (!columns) {
        return fail_memory(err);
    }
    stream->batches[stream->batch_count++] =
        (struct batch){.columns = columns, .row_count = (int64_t)from->row_count};
    for (size_t i = 0; i < from->column_count; i++) {
        if (!copy_column(&from->columns[i], from->row_count, &columns[i])) {
            return fail_memory(err);
        }
    }
    return KS_OK;
}

static enum ks_status copy_rows(struct stream *stream, struct ks_table_rows *rows, ptrdiff_t only,
                                struct ks_err *err)
{
    struct ks_column_batch batch;
    enum ks_status status = ks_column_batch_init(&batch, rows, only, err);
    while (status == KS_OK) {
        status = ks_column_batch_fill(&batch, rows, err);
        if (status == KS_OK) {
            status = keep_batch(stream, &batch, err);
        }
    }
    ks_column_batch_release(&batch);
    return status == KS_END ? KS_OK : status;
}

/* Its place in the table; ALL_COLUMNS without a name. */
static enum ks_status find_column(const struct ks_table_rows *rows, const char *name,
                                  ptrdiff_t *found, struct ks_err *err)
{
    *found = KS_BATCH_ALL_COLUMNS;
    for (size_t i = 0; name && i < ks_table_rows_column_count(rows); i++) {
        if (strcmp(ks_table_rows_column(rows, i)->name, name) == 0) {
            *found = (ptrdiff_t)i;
            return KS_OK;
        }
    }
    return name ? ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                          "Cannot export column %.40s: the table has none of that name", name)
                : KS_OK;
}

static enum ks_status fill(struct stream *stream, struct ks_table_rows *rows, const char *column,
                           bool has_rows, struct ks_err *err)
{
    ptrdiff_t only;
    KS_TRY(find_column(rows, column, &only, err));
    KS_TRY(copy_fields(stream, rows, only, err));
    return has_rows ? copy_rows(stream, rows, only, err) : KS_OK;
}

/* A stream of the table, with its rows or only what they are. */
static enum ks_status make_stream(const struct ks_view *view, const char *table, const char *column,
                                  bool has_rows, struct ArrowArrayStream *out, struct ks_err *err)
{
    struct ks_export_options all = {.format = KS_EXPORT_ARROW};
    struct ks_row_filter filter;
    struct ks_table_rows *rows = NULL;
    *out = (struct ArrowArrayStream){0};
    KS_TRY(ks_row_filter_init(&filter, view, &all, err));
    struct stream *stream = ks_alloc(1, sizeof(*stream));
    if (!stream) {
        return fail_memory(err);
    }
    enum ks_status status =
        ks_table_rows_open(view, &filter, ks_table_rows_find(table), &rows, err);
    if (status == KS_OK) {
        status = fill(stream, rows, column, has_rows, err);
    }
    ks_table_rows_close(rows);
    if (status != KS_OK) {
        destroy(stream);
        return status;
    }
    *out = (struct ArrowArrayStream){get_schema, get_next, get_last_error, release_stream, stream};
    return KS_OK;
}

enum ks_status ks_arrow_stream_open(const struct ks_view *view, const char *table,
                                    const char *column, struct ArrowArrayStream *out,
                                    struct ks_err *err)
{
    return make_stream(view, table, column, true, out, err);
}

enum ks_status ks_arrow_stream_describe(const struct ks_view *view, const char *table,
                                        struct ArrowSchema *out, struct ks_err *err)
{
    struct ArrowArrayStream stream;
    KS_TRY(make_stream(view, table, NULL, false, &stream, err));
    int failed = stream.get_schema(&stream, out);
    stream.release(&stream);
    return failed == 0 ? KS_OK : fail_memory(err);
}
