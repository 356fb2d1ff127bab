/* What the latest lines of a run's monitor.jsonl say of its processes, the machine and its GPUs.
 * The file may grow, be thinned out or go away meanwhile, and anybody may have written it. */
#ifndef KS_READ_RUN_MACHINE_H
#define KS_READ_RUN_MACHINE_H

#include "base/str.h"

/* The same from text: complete lines, behind which KS_WINDOW_PAD zero bytes stand; the first one is
 * that of the file. False: there is no whole line. */
bool ks_run_machine_parse(struct ks_str text, struct ks_live_machine *out);
/* Reads the file in the folder `path`. `*written_ns`: when it was written last, as Unix time; 0:
 * there is no such file. KS_END: it has no whole line yet, or is none; KS_ERR_NOMEM. */
enum ks_status ks_run_machine_read(const char *path, struct ks_live_machine *out,
                                   int64_t *written_ns) KS_MUST_CHECK;

#endif
