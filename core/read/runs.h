/* Which input files belong together: files of one rank that follow one another are windows of one
 * run; files of one rank that overlap in time or tell of two processes, or files of different world
 * sizes, are different runs. */
#ifndef KS_READ_RUNS_H
#define KS_READ_RUNS_H

#include "store/builder.h"

/* Rank in a file name such as "rank3.pt.trace.json" or "rank_3"; -1 when there is none. Only the
 * part behind the last slash is looked at. */
int64_t ks_rank_from_name(struct ks_str path);

/* Sets rank (guessed from names where missing), run and cycle of every source whose run is not
 * negative; `*run_count` is the number of runs. Errors: KS_ERR_NOMEM. */
enum ks_status ks_runs_assign(struct ks_trace_builder *builder, int64_t *run_count,
                              struct ks_err *err) KS_MUST_CHECK;

#endif
