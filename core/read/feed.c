#include "read/feed.h"

#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/progress.h"
#include "read/read_ahead.h"

static const size_t WINDOW_MAX = (size_t)64 * 1024 * 1024;

static enum ks_status resize(struct ks_feed *f, size_t capacity, struct ks_err *err)
{
    char *buf = ks_realloc(f->buf, 1, capacity + KS_WINDOW_PAD);
    if (!buf) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot read: window of %zu bytes",
                       capacity);
    }
    f->buf = buf;
    f->capacity = capacity;
    return KS_OK;
}

enum ks_status ks_feed_init(struct ks_feed *f, size_t bytes, struct ks_err *err)
{
    return resize(f, bytes > 0 ? bytes : KS_WINDOW_BYTES, err);
}

void ks_feed_release(struct ks_feed *f)
{
    ks_free(f->buf);
    f->buf = NULL;
}

static enum ks_status read_at(const struct ks_feed *f, char *bytes, size_t capacity, size_t *size,
                              struct ks_err *err)
{
    ssize_t got;
    do {
        got = pread(f->fd, bytes, capacity, f->offset + (int64_t)f->len);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot read: %s", strerror(errno));
    }
    *size = (size_t)got;
    ks_progress_add_done(f->progress, (uint64_t)got);
    return KS_OK;
}

enum ks_status ks_feed_fill(struct ks_feed *f, size_t want, struct ks_err *err)
{
    while (f->len < want && !f->at_end) {
        size_t got = 0;
        KS_TRY(f->ahead   ? ks_read_ahead_read(f->ahead, f->buf + f->len, want - f->len, &got, err)
               : f->input ? ks_input_read(f->input, f->buf + f->len, want - f->len, &got, err)
                          : read_at(f, f->buf + f->len, want - f->len, &got, err));
        f->len += got;
        f->at_end = got == 0;
    }
    memset(f->buf + f->len, 0, KS_WINDOW_PAD);
    return KS_OK;
}

void ks_feed_consume(struct ks_feed *f, size_t used)
{
    memmove(f->buf, f->buf + used, f->len - used);
    f->len -= used;
    f->offset += (int64_t)used;
}

enum ks_status ks_feed_grow(struct ks_feed *f, struct ks_err *err)
{
    if (f->capacity >= WINDOW_MAX) {
        return ks_fail(err, KS_ERR_LIMIT, f->offset,
                       "Cannot read: one value is longer than %zu bytes", WINDOW_MAX);
    }
    return resize(f, f->capacity * 2, err);
}

void ks_feed_restart(struct ks_feed *f, int64_t offset)
{
    f->offset = offset;
    f->len = 0;
    f->at_end = false;
}
