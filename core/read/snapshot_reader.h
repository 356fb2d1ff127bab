/* Memory snapshots from pickles: the dict of torch.cuda.memory._snapshot(), or the list of segments
 * that torch.cuda.memory_snapshot() gives. */
#ifndef KS_READ_SNAPSHOT_READER_H
#define KS_READ_SNAPSHOT_READER_H

#include "snapshot/snapshot.h"

struct ks_snapshot_source {
    const char *path;   /* "-": standard input */
    uint64_t bytes_max; /* for the values of the pickle; 0: half of the machine's memory */
    struct ks_progress *progress;
};

/* Fills an initialised snapshot. Errors: KS_ERR_FORMAT (no pickle of a snapshot, or one that is
 * damaged or holds more than data), KS_ERR_LIMIT, KS_ERR_IO, KS_ERR_NOMEM. */
enum ks_status ks_snapshot_read(const struct ks_snapshot_source *source,
                                struct ks_snapshot *snapshot, struct ks_err *err) KS_MUST_CHECK;
/* Does the file begin like a pickle of a snapshot? False when it cannot be read. */
bool ks_snapshot_is_file(const char *path);

#endif
