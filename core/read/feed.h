/* The window over an input that a reader is fed from. It holds what the reader left and what comes
 * behind it, and grows only for an item that is larger. */
#ifndef KS_READ_FEED_H
#define KS_READ_FEED_H

#include "read/input.h"
#include "read/reader.h"

struct ks_feed {
    struct ks_input *input;      /* NULL: bytes come from `fd`, at `offset` + `len` */
    struct ks_read_ahead *ahead; /* NULL: bytes come from the input itself */
    int fd;
    struct ks_progress *progress; /* of reading from `fd` */
    char *buf;
    size_t capacity; /* without the padding */
    size_t len;
    int64_t offset; /* of buf in the decompressed input */
    bool at_end;
};

enum { KS_WINDOW_BYTES = 256 * 1024 };

/* `bytes` 0: KS_WINDOW_BYTES. The caches hold that much: each byte is touched twice, once by the
 * copy and once by the parser. */
enum ks_status ks_feed_init(struct ks_feed *feed, size_t bytes, struct ks_err *err) KS_MUST_CHECK;
void ks_feed_release(struct ks_feed *feed);
/* Fills the window up to `want` bytes, or to the end of the input. */
enum ks_status ks_feed_fill(struct ks_feed *feed, size_t want, struct ks_err *err) KS_MUST_CHECK;
void ks_feed_consume(struct ks_feed *feed, size_t used);
/* Makes room for an item that does not fit. */
enum ks_status ks_feed_grow(struct ks_feed *feed, struct ks_err *err) KS_MUST_CHECK;
/* Forgets the window: the next byte is that at `offset`. */
void ks_feed_restart(struct ks_feed *feed, int64_t offset);

#endif
