/* Sealed traces as files (docs/formats/kst.md): written from the chunks of a trace in one pass, and
 * opened without reading them. Opening checks the header and the directory; each chunk is read,
 * checked and decoded when it is pinned for the first time, so that a damaged one is an error
 * (KS_ERR_FORMAT) of whoever scans it. Nothing in the file is believed: what an opened trace shows
 * has ids that exist and times in order, as if a builder had made it. */
#ifndef KS_STORE_KST_H
#define KS_STORE_KST_H

#include <stdatomic.h>

#include "store/trace.h"

enum { KS_KST_VERSION = 5, KS_KST_HEADER_SIZE = 64 };

/* Do these first bytes of a file say that it is a sealed trace? */
bool ks_kst_is_head(const char *head, size_t size);

/* Writes the whole trace to `fd`, from offset 0; the header comes last, so that a file that was
 * not finished is none. `*id` tells this trace from others. May run beside those who read the
 * trace. Errors: KS_ERR_IO, KS_ERR_NOMEM; KS_ERR_UNSUPPORTED when times are too far apart;
 * KS_ERR_CANCELLED when `stop` (may be NULL) becomes true. */
enum ks_status ks_kst_write(const struct ks_trace *trace, int fd, const atomic_bool *stop,
                            uint64_t *id, struct ks_err *err) KS_MUST_CHECK;

/* Opens the file, which must stay as it is; `fd` belongs to the trace from then on, and is closed
 * also after an error. At most `chunk_bytes_max` of its columns are in memory at once (0: any).
 * `id` may be NULL. Errors: KS_ERR_FORMAT (damaged, or no such file), KS_ERR_UNSUPPORTED (of
 * another version), KS_ERR_IO, KS_ERR_NOMEM. */
enum ks_status ks_kst_open(int fd, uint64_t chunk_bytes_max, struct ks_trace **out, uint64_t *id,
                           struct ks_err *err) KS_MUST_CHECK;

/* Was a chunk of the trace found to be damaged? False for a trace that comes from no file. */
bool ks_kst_is_damaged(const struct ks_trace *trace);

#endif
