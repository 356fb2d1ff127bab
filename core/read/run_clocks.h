/* What the monitor of `kscope run` saw of the clocks of GPUs: the member `gpus` of the lines of
 * monitor.jsonl. Anybody may have written the file: at most 64 MiB of a regular file are read,
 * links are not followed, and lines that are none of ours count as none. */
#ifndef KS_READ_RUN_CLOCKS_H
#define KS_READ_RUN_CLOCKS_H

#include "store/builder.h"

/* Adds the line, one GPU after the other, to each source of `list` whose process computes on it; a
 * GPU whose processes are not known is everybody's. Behind the text stand KS_WINDOW_PAD zero bytes.
 */
void ks_run_clocks_add_line(struct ks_str line, struct ks_source *const *list, size_t count);
/* Means of the sums. */
void ks_run_clocks_finish(struct ks_clock_use *use);

/* Fills the clocks of all sources that are recordings of `kscope run` with a monitor's file beside
 * them. Errors: KS_ERR_NOMEM. */
enum ks_status ks_run_clocks_apply(struct ks_trace_builder *builder, struct ks_err *err)
    KS_MUST_CHECK;

#endif
