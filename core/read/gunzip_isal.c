/* gzip by ISA-L, three times as fast as zlib. It is only asked about sound members: at the first
 * thing that it refuses, and where the input ends early, zlib takes over from the begin of the file
 * (`exact`), so that what is read of damaged files does not depend on the library. */
#include <isa-l/igzip_lib.h>

#include "base/alloc.h"
#include "read/decoder.h"

struct isal {
    struct inflate_state inflate;
    bool is_between; /* behind a member, before the next one's first byte */
};

static void start_member(struct isal *z)
{
    isal_inflate_init(&z->inflate);
    z->inflate.crc_flag = ISAL_GZIP; /* header and checksum are looked at */
    z->is_between = false;
}

static void *isal_open(void)
{
    /* Not cleared: it is 80 KB of buffers, of which a small file fills few. */
    struct isal *z = ks_realloc(NULL, 1, sizeof(*z));
    if (z) {
        start_member(z);
    }
    return z;
}

static void isal_close(void *state)
{
    ks_free(state);
}

static enum ks_decoder_state isal_decode(void *state, struct ks_decoder_io *io)
{
    struct isal *z = state;
    if (z->is_between) {
        enum ks_decoder_state next = ks_gzip_next_member(io);
        if (next != KS_DECODER_GO) {
            return next;
        }
        start_member(z);
    }
    uint32_t in_size = io->in_size < UINT32_MAX ? (uint32_t)io->in_size : UINT32_MAX;
    uint32_t out_size = io->out_size < UINT32_MAX ? (uint32_t)io->out_size : UINT32_MAX;
    z->inflate.next_in = (uint8_t *)(uintptr_t)io->in; /* read only, whatever its type says */
    z->inflate.avail_in = in_size;
    z->inflate.next_out = io->out;
    z->inflate.avail_out = out_size;
    int rc = isal_inflate(&z->inflate);
    io->in += in_size - z->inflate.avail_in;
    io->in_size -= in_size - z->inflate.avail_in;
    io->out += out_size - z->inflate.avail_out;
    io->out_size -= out_size - z->inflate.avail_out;
    if (rc != ISAL_DECOMP_OK && rc != ISAL_END_INPUT && rc != ISAL_OUT_OVERFLOW) {
        return KS_DECODER_DAMAGED;
    }
    z->is_between = z->inflate.block_state == ISAL_BLOCK_FINISH;
    return z->is_between ? KS_DECODER_BETWEEN : KS_DECODER_GO;
}

const struct ks_decoder ks_decoder_isal = {
    .name = "gzip",
    .sniff = ks_gzip_sniff,
    .open = isal_open,
    .decode = isal_decode,
    .close = isal_close,
    .exact = &ks_decoder_gzip,
};
