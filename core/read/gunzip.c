/* gzip by zlib. Files made by parallel compressors and by appending have many members; all are
 * read. Zero bytes behind a member are padding; anything else there is damage. */
#define ZLIB_CONST
#include <zlib.h>

#include "base/alloc.h"
#include "read/decoder.h"

struct gunzip {
    z_stream stream;
    bool is_between; /* behind a member, before the next one's first byte */
};

enum { GZIP_WINDOW_BITS = 15 + 16 }; // largest window; 16 asks zlib for gzip framing

bool ks_gzip_sniff(const unsigned char *head, size_t size)
{
    return size >= 2 && head[0] == 0x1f && head[1] == 0x8b;
}

static void *zlib_alloc(void *opaque, unsigned count, unsigned size)
{
    (void)opaque;
    return ks_alloc(count, size);
}

static void zlib_free(void *opaque, void *ptr)
{
    (void)opaque;
    ks_free(ptr);
}

static void *gzip_open(void)
{
    struct gunzip *g = ks_alloc(1, sizeof(*g));
    if (!g) {
        return NULL;
    }
    g->stream.zalloc = zlib_alloc;
    g->stream.zfree = zlib_free;
    if (inflateInit2(&g->stream, GZIP_WINDOW_BITS) != Z_OK) {
        ks_free(g);
        return NULL;
    }
    return g;
}

static void gzip_close(void *state)
{
    struct gunzip *g = state;
    inflateEnd(&g->stream);
    ks_free(g);
}

enum ks_decoder_state ks_gzip_next_member(struct ks_decoder_io *io)
{
    while (io->in_size > 0 && io->in[0] == 0) { // padding to a block size
        io->in++;
        io->in_size--;
    }
    if (io->in_size == 0) {
        return KS_DECODER_BETWEEN;
    }
    return io->in[0] == 0x1f ? KS_DECODER_GO : KS_DECODER_DAMAGED;
}

static enum ks_decoder_state gzip_decode(void *state, struct ks_decoder_io *io)
{
    struct gunzip *g = state;
    if (g->is_between) {
        enum ks_decoder_state next = ks_gzip_next_member(io);
        if (next != KS_DECODER_GO) {
            return next;
        }
        if (inflateReset(&g->stream) != Z_OK) {
            return KS_DECODER_DAMAGED;
        }
        g->is_between = false;
    }
    unsigned in_size = io->in_size < UINT32_MAX ? (unsigned)io->in_size : UINT32_MAX;
    unsigned out_size = io->out_size < UINT32_MAX ? (unsigned)io->out_size : UINT32_MAX;
    g->stream.next_in = io->in;
    g->stream.avail_in = in_size;
    g->stream.next_out = io->out;
    g->stream.avail_out = out_size;
    int rc = inflate(&g->stream, Z_NO_FLUSH);
    io->in += in_size - g->stream.avail_in;
    io->in_size -= in_size - g->stream.avail_in;
    io->out += out_size - g->stream.avail_out;
    io->out_size -= out_size - g->stream.avail_out;
    if (rc == Z_STREAM_END) {
        g->is_between = true;
        return KS_DECODER_BETWEEN;
    }
    if (rc == Z_OK || rc == Z_BUF_ERROR) {
        return KS_DECODER_GO;
    }
    return rc == Z_MEM_ERROR ? KS_DECODER_NO_MEMORY : KS_DECODER_DAMAGED;
}

const struct ks_decoder ks_decoder_gzip = {
    .name = "gzip",
    .sniff = ks_gzip_sniff,
    .open = gzip_open,
    .decode = gzip_decode,
    .close = gzip_close,
};
