/* zstd by libzstd; frames follow one another. The window a frame may ask for is bounded, so that a
 * hostile header cannot take gigabytes.
 *
 * The library gets what it asks for and never more: given a whole frame, or several blocks, it
 * would throw away what it had decoded when the last of them is damaged. */
#include <zstd.h>
#include <zstd_errors.h>

#include "base/alloc.h"
#include "read/decoder.h"

#ifdef KS_SMALL_LIMITS /* fuzzing: the buffers of the library are a window each */
enum { WINDOW_LOG_MAX = 14 };
#else
enum { WINDOW_LOG_MAX = 27 }; // 128 MiB: what the zstd tool accepts without --long
#endif

enum {
    FRAME_START_SIZE = 5 // too little to be a frame, enough to begin one
};

struct unzstd {
    ZSTD_DCtx *context;
    size_t wanted; /* bytes of input for the next call */
    bool is_full;  /* the last call filled its output: more may wait inside */
};

static bool zstd_sniff(const unsigned char *head, size_t size)
{
    bool is_frame =
        size >= 4 && head[0] == 0x28 && head[1] == 0xb5 && head[2] == 0x2f && head[3] == 0xfd;
    /* Parallel compressors write a frame to be skipped first. */
    bool is_skippable =
        size >= 4 && head[0] >> 4 == 0x5 && head[1] == 0x2a && head[2] == 0x4d && head[3] == 0x18;
    return is_frame || is_skippable;
}

static void zstd_close(void *state)
{
    struct unzstd *z = state;
    ZSTD_freeDCtx(z->context);
    ks_free(z);
}

static void *zstd_open(void)
{
    struct unzstd *z = ks_alloc(1, sizeof(*z));
    if (!z) {
        return NULL;
    }
    z->wanted = FRAME_START_SIZE;
    z->context = ZSTD_createDCtx();
    if (!z->context ||
        ZSTD_isError(ZSTD_DCtx_setParameter(z->context, ZSTD_d_windowLogMax, WINDOW_LOG_MAX))) {
        zstd_close(z);
        return NULL;
    }
    return z;
}

static enum ks_decoder_state zstd_decode(void *state, struct ks_decoder_io *io)
{
    struct unzstd *z = state;
    size_t in_size = z->is_full ? 0 : io->in_size < z->wanted ? io->in_size : z->wanted;
    ZSTD_inBuffer in = {io->in, in_size, 0};
    ZSTD_outBuffer out = {io->out, io->out_size, 0};
    size_t rc = ZSTD_decompressStream(z->context, &out, &in);
    io->in += in.pos;
    io->in_size -= in.pos;
    io->out += out.pos;
    io->out_size -= out.pos;
    z->is_full = io->out_size == 0;
    if (ZSTD_isError(rc)) {
        return ZSTD_getErrorCode(rc) == ZSTD_error_memory_allocation ? KS_DECODER_NO_MEMORY
                                                                     : KS_DECODER_DAMAGED;
    }
    z->wanted = rc == 0 ? FRAME_START_SIZE : rc;
    return rc == 0 ? KS_DECODER_BETWEEN : KS_DECODER_GO;
}

const struct ks_decoder ks_decoder_zstd = {
    .name = "zstd",
    .sniff = zstd_sniff,
    .open = zstd_open,
    .decode = zstd_decode,
    .close = zstd_close,
};
