#include "read_bytes.h"

#include <stdlib.h>

#include "base/err.h"
#include "read/reader.h"

enum { HEAD_SIZE = 256 * 1024 };

/* A block of exactly the size of a window; NULL: no memory. */
static char *copy_padded(struct ks_str bytes, struct ks_err *err)
{
    char *copy = malloc(bytes.len + KS_WINDOW_PAD);
    if (!copy) {
        (void)ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot copy window: size=%zu", bytes.len);
        return NULL;
    }
    if (bytes.len > 0) {
        memcpy(copy, bytes.ptr, bytes.len);
    }
    memset(copy + bytes.len, 0, KS_WINDOW_PAD);
    return copy;
}

/* One window in such a block. */
static enum ks_status push_copy(const struct ks_reader *reader, void *state, struct ks_str bytes,
                                const struct ks_window *from, size_t *used, struct ks_err *err)
{
    char *copy = copy_padded((struct ks_str){bytes.ptr + from->offset, from->size}, err);
    if (!copy) {
        return KS_ERR_NOMEM;
    }
    struct ks_window window = *from;
    window.ptr = copy;
    enum ks_status status = reader->push(state, &window, used, err);
    free(copy);
    return status;
}

static enum ks_status push_all(const struct ks_reader *reader, void *state, struct ks_str bytes,
                               size_t size_first, size_t *left, struct ks_err *err)
{
    size_t at = 0;
    size_t capacity = size_first == 0 ? bytes.len + 1 : size_first;
    for (;;) {
        bool is_last = bytes.len - at <= capacity;
        struct ks_window window = {
            .size = is_last ? bytes.len - at : capacity, .offset = (int64_t)at, .is_last = is_last};
        size_t used = 0;
        enum ks_status status = push_copy(reader, state, bytes, &window, &used, err);
        if (status != KS_OK && status != KS_END) {
            return status;
        }
        KS_ASSERT(used <= window.size);
        at += used;
        if (is_last || status == KS_END) {
            *left = bytes.len - at;
            return KS_OK;
        }
        capacity = used == 0 ? capacity * 2 : capacity;
    }
}

static enum ks_status read_source(struct ks_str bytes, const struct read_bytes_options *options,
                                  const struct ks_reader_context *context, struct ks_err *err)
{
    struct ks_str head = {bytes.ptr, bytes.len < HEAD_SIZE ? bytes.len : HEAD_SIZE};
    char *copy = copy_padded(head, err);
    if (!copy) {
        return KS_ERR_NOMEM;
    }
    head.ptr = copy;
    const struct ks_reader *reader = ks_reader_find(head);
    void *state = NULL;
    bool has_windows = reader && !reader->read_file;
    enum ks_status status =
        has_windows ? reader->open(context, head, &state, err)
                    : ks_fail(err, KS_ERR_FORMAT, 0, "Cannot read trace: unknown format");
    free(copy);
    size_t left = 0;
    if (status == KS_OK) {
        context->source->bytes = bytes.len;
        status = push_all(reader, state, bytes, options->window, &left, err);
        if (status == KS_OK) {
            status = reader->finish(state, (int64_t)bytes.len, (int64_t)left, err);
        }
        reader->close(state);
    }
    return status;
}

enum ks_status read_bytes(struct ks_str bytes, const struct read_bytes_options *options,
                          struct ks_trace **out, struct ks_err *err)
{
    struct ks_trace_options trace_options = {.chunk_rows = options->chunk_rows};
    struct ks_trace_builder *builder = NULL;
    KS_TRY(ks_trace_builder_create(&trace_options, &builder, err));
    struct ks_reader_context context = {.builder = builder, .strict = options->strict};
    enum ks_status status =
        ks_trace_builder_source_open(builder, KS_STR("bytes"), &context.source, err);
    if (status == KS_OK) {
        context.source->run = 1;
        status = read_source(bytes, options, &context, err);
        enum ks_status closed =
            ks_trace_builder_source_close(builder, status == KS_OK ? err : NULL);
        status = status == KS_OK ? closed : status;
    }
    if (status != KS_OK) {
        ks_trace_builder_destroy(builder);
        return status;
    }
    struct ks_trace *trace = NULL;
    KS_TRY(ks_trace_builder_seal(builder, 1, &trace, err));
    if (out) {
        *out = trace;
    } else {
        ks_trace_destroy(trace);
    }
    return KS_OK;
}
