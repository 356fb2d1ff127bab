#include "export/gzip_out.h"

#include <zlib.h>

#include "base/alloc.h"
#include "base/err.h"

enum { GZIP_WINDOW_BITS = 15 + 16, LEVEL = 6, MEMORY_LEVEL = 8, PART_MAX = 1 << 30 };

struct ks_gzip_out {
    z_stream stream;
    ks_write_cb write;
    void *user;
    bool failed;
    unsigned char buffer[64 * 1024];
};

/* zlib takes its memory through our door, too. */
static void *take_memory(void *user, unsigned count, unsigned size)
{
    (void)user;
    return ks_alloc(count, size);
}

static void give_memory(void *user, void *ptr)
{
    (void)user;
    ks_free(ptr);
}

enum ks_status ks_gzip_out_create(ks_write_cb write, void *user, struct ks_gzip_out **out,
                                  struct ks_err *err)
{
    struct ks_gzip_out *gzip = ks_alloc(1, sizeof(*gzip));
    *out = gzip;
    if (gzip) {
        gzip->stream.zalloc = take_memory;
        gzip->stream.zfree = give_memory;
        gzip->write = write;
        gzip->user = user;
        if (deflateInit2(&gzip->stream, LEVEL, Z_DEFLATED, GZIP_WINDOW_BITS, MEMORY_LEVEL,
                         Z_DEFAULT_STRATEGY) == Z_OK) {
            return KS_OK;
        }
        ks_free(gzip);
        *out = NULL;
    }
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot start compressing: no memory");
}

static void deflate_all(struct ks_gzip_out *gzip, int flush)
{
    int status = Z_OK;
    do {
        gzip->stream.next_out = gzip->buffer;
        gzip->stream.avail_out = sizeof(gzip->buffer);
        status = deflate(&gzip->stream, flush);
        size_t size = sizeof(gzip->buffer) - gzip->stream.avail_out;
        if (size > 0 && !gzip->write(gzip->user, (const char *)gzip->buffer, size)) {
            gzip->failed = true;
        }
    } while (!gzip->failed && gzip->stream.avail_out == 0 && status != Z_STREAM_END);
}

bool ks_gzip_out_write(void *user, const char *bytes, size_t size)
{
    struct ks_gzip_out *gzip = user;
    while (size > 0 && !gzip->failed) {
        size_t part = size < PART_MAX ? size : PART_MAX;
        gzip->stream.next_in = (z_const Bytef *)(uintptr_t)bytes;
        gzip->stream.avail_in = (uInt)part;
        deflate_all(gzip, Z_NO_FLUSH);
        bytes += part;
        size -= part;
    }
    return !gzip->failed;
}

enum ks_status ks_gzip_out_finish(struct ks_gzip_out *out, struct ks_err *err)
{
    if (!out->failed) {
        deflate_all(out, Z_FINISH);
    }
    return out->failed
               ? ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot write export: the receiver stopped")
               : KS_OK;
}

void ks_gzip_out_destroy(struct ks_gzip_out *out)
{
    if (out) {
        (void)deflateEnd(&out->stream);
        ks_free(out);
    }
}
