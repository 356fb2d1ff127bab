/* Feeds bytes to the reader as files come to it, but with windows of any size: what a reader leaves
 * comes again with the next bytes behind it, and the window grows when an item does not fit. */
#ifndef KS_TESTS_READ_BYTES_H
#define KS_TESTS_READ_BYTES_H

#include "base/text.h"
#include "store/builder.h"

struct read_bytes_options {
    size_t window; /* 0: all at once */
    bool strict;
    uint32_t chunk_rows; /* 0: as usual */
};

/* Reads one document and seals it. Each window is a block of its own, so that sanitizers see a step
 * past its end. NULL for `out` seals and throws away. */
enum ks_status read_bytes(struct ks_str bytes, const struct read_bytes_options *options,
                          struct ks_trace **out, struct ks_err *err) KS_MUST_CHECK;

#endif
