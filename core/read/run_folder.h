/* The folder of one `kscope run`: its processes and windows (struct ks_run_folder of the public
 * API), and which of its files a report reads. */
#ifndef KS_READ_RUN_FOLDER_H
#define KS_READ_RUN_FOLDER_H

#include "read/folder.h"
#include "store/builder.h"

/* What the process at `index` of the public list says of how far it is; NULL past the last. */
const struct ks_live_rank *ks_run_folder_rank(const struct ks_run_folder *folder, size_t index);

/* Says in `err` why a folder holds no trace, in the words of the process that made most steps.
 * False: it is no folder of a run, and `err` stays as it is. */
bool ks_run_folder_explain(const char *path, struct ks_err *err);

/* Of several windows of one process (names of `kscope run`, found in a folder) only the latest
 * stays in `files`, or, when `window` is not 0, window number `window` of each, also of those given
 * by name. Errors: KS_ERR_USAGE (no trace of that window), KS_ERR_NOMEM. */
enum ks_status ks_run_folder_choose(struct ks_file_list *files, int64_t window,
                                    struct ks_arena *arena, struct ks_err *err) KS_MUST_CHECK;

/* Takes the step times of the status file that lies beside the trace `path` and is of the same
 * process and rank, and notes whether that process still runs. Without such a file nothing changes.
 * Errors: KS_ERR_NOMEM. */
enum ks_status ks_run_folder_apply_status(struct ks_source *source, struct ks_str path,
                                          struct ks_err *err) KS_MUST_CHECK;

#endif
