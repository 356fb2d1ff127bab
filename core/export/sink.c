#include "export/sink.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"

void ks_sink_init(struct ks_sink *sink, ks_write_cb write, void *user)
{
    sink->write = write;
    sink->user = user;
    sink->failed = false;
    sink->offset = 0;
    sink->used = 0;
}

static void flush(struct ks_sink *sink)
{
    if (sink->used > 0 && !sink->failed) {
        sink->failed = !sink->write(sink->user, sink->buffer, sink->used);
    }
    sink->used = 0;
}

void ks_sink_put(struct ks_sink *sink, const char *bytes, size_t size)
{
    sink->offset += (int64_t)size;
    while (size > 0 && !sink->failed) {
        size_t room = sizeof(sink->buffer) - sink->used;
        size_t part = size < room ? size : room;
        memcpy(sink->buffer + sink->used, bytes, part);
        sink->used += part;
        bytes += part;
        size -= part;
        if (sink->used == sizeof(sink->buffer)) {
            flush(sink);
        }
    }
}

void ks_sink_text(struct ks_sink *sink, const char *text)
{
    ks_sink_put(sink, text, strlen(text));
}

void ks_sink_int(struct ks_sink *sink, int64_t number)
{
    char text[24];
    int len = snprintf(text, sizeof(text), "%" PRId64, number);
    ks_sink_put(sink, text, (size_t)len);
}

enum ks_status ks_sink_finish(struct ks_sink *sink, struct ks_err *err)
{
    flush(sink);
    return sink->failed
               ? ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot write export: the receiver stopped")
               : KS_OK;
}
