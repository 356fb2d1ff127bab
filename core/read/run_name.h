/* Names of the traces that `kscope run` records: rank<R>.pid<P>.window<N>.pt.trace.json.gz, and
 * the same with .stacks before .pt for the extra step that was recorded with Python stacks. */
#ifndef KS_READ_RUN_NAME_H
#define KS_READ_RUN_NAME_H

#include "base/str.h"

struct ks_run_name {
    int64_t rank;
    int64_t pid;
    int64_t window; /* counted from 1 */
    bool is_stacks;
};

/* Takes the part of `path` behind its last slash; false when it is no such name. */
bool ks_run_name_parse(struct ks_str path, struct ks_run_name *out);

#endif
