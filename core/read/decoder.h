/* A streaming decompressor: bytes in, bytes out, member after member. */
#ifndef KS_READ_DECODER_H
#define KS_READ_DECODER_H

#include "base/str.h"

struct ks_decoder_io {
    const unsigned char *in; /* moved forward by what was used */
    size_t in_size;
    unsigned char *out; /* moved forward by what was written */
    size_t out_size;
};

enum ks_decoder_state {
    KS_DECODER_GO,      /* wants more input, or more room */
    KS_DECODER_BETWEEN, /* stands behind a whole member: the input may end here */
    KS_DECODER_DAMAGED, /* cannot go on */
    KS_DECODER_NO_MEMORY,
};

struct ks_decoder {
    const char *name;
    bool (*sniff)(const unsigned char *head, size_t size);
    void *(*open)(void); /* NULL: out of memory */
    enum ks_decoder_state (*decode)(void *state, struct ks_decoder_io *io);
    void (*close)(void *state);
    /* Goes on in its place from the begin of the file where this one stops before the end, because
     * it is quick but not the one to judge damage by; NULL: this one does. */
    const struct ks_decoder *exact;
};

bool ks_gzip_sniff(const unsigned char *head, size_t size);
/* Between two members: GO where another one begins. */
enum ks_decoder_state ks_gzip_next_member(struct ks_decoder_io *io);

#ifdef KS_ISAL
extern const struct ks_decoder ks_decoder_isal;
#endif
extern const struct ks_decoder ks_decoder_gzip;
extern const struct ks_decoder ks_decoder_zstd;

#endif
