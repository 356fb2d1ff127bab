/* Which bytes a list of paths stands for, without reading them: names, sizes, times and a probe of
 * each file, so that what was read once need not be read again. */
#ifndef KS_READ_FINGERPRINT_H
#define KS_READ_FINGERPRINT_H

#include "read/read.h"

struct ks_fingerprint {
    uint64_t low; /* 128 bits over all that decides what is read */
    uint64_t high;
    int64_t newest_ns; /* Unix time of the latest change of a file */
    uint64_t bytes; /* size of all files, as JSON: compressed ones and recordings are guessed at */
    bool is_whole;  /* false: some input is a pipe, or gone; it must be read to be known */
};

/* Looks at the files that ks_read_paths would read, and at what the processes of a run say beside
 * them; hands stacks over as it does. Errors: those of listing; KS_ERR_NOMEM. */
enum ks_status ks_fingerprint_take(const struct ks_read_options *options,
                                   struct ks_fingerprint *out, struct ks_err *err) KS_MUST_CHECK;

#endif
