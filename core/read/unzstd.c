/* zstd by libzstd; frames follow one another. The window a frame may ask for is bounded, so that a
 * hostile header cannot take gigabytes. */
#include <zstd.h>
#include <zstd_errors.h>

#include "read/decoder.h"

enum { WINDOW_LOG_MAX = 27 }; // 128 MiB: what the zstd tool accepts without --long

static bool zstd_sniff(const unsigned char *head, size_t size)
{
    bool is_frame =
        size >= 4 && head[0] == 0x28 && head[1] == 0xb5 && head[2] == 0x2f && head[3] == 0xfd;
    /* Parallel compressors write a frame to be skipped first. */
    bool is_skippable = size >= 4 && head[0] >> 4 == 0x5 && head[1] == 0x2a && head[2] == 0x4d &&
                        head[3] == 0x18;
    return is_frame || is_skippable;
}

static void *zstd_open(void)
{
    ZSTD_DCtx *context = ZSTD_createDCtx();
    if (context && ZSTD_isError(ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax,
                                                       WINDOW_LOG_MAX))) {
        ZSTD_freeDCtx(context);
        return NULL;
    }
    return context;
}

static void zstd_close(void *state)
{
    ZSTD_freeDCtx(state);
}

static enum ks_decoder_state zstd_decode(void *state, struct ks_decoder_io *io)
{
    ZSTD_inBuffer in = {io->in, io->in_size, 0};
    ZSTD_outBuffer out = {io->out, io->out_size, 0};
    size_t rc = ZSTD_decompressStream(state, &out, &in);
    io->in += in.pos;
    io->in_size -= in.pos;
    io->out += out.pos;
    io->out_size -= out.pos;
    if (ZSTD_isError(rc)) {
        return ZSTD_getErrorCode(rc) == ZSTD_error_memory_allocation ? KS_DECODER_NO_MEMORY
                                                                     : KS_DECODER_DAMAGED;
    }
    return rc == 0 ? KS_DECODER_BETWEEN : KS_DECODER_GO;
}

const struct ks_decoder ks_decoder_zstd = {
    .name = "zstd",
    .sniff = zstd_sniff,
    .open = zstd_open,
    .decode = zstd_decode,
    .close = zstd_close,
};
