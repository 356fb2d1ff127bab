/* Start and end of a run's monitor.jsonl, where the lines are that tell most. Like status files, it
 * may have been written by anybody, and may grow, be thinned out or go away meanwhile. */
#ifndef KS_READ_MONITOR_FILE_H
#define KS_READ_MONITOR_FILE_H

#include "base/str.h"

struct ks_monitor_file {
    char *bytes; /* start and end, one behind the other; KS_WINDOW_PAD zero bytes stand behind */
    size_t len;
    int64_t written_ns; /* when it was written last, as Unix time; 0: there is none */
};

/* Reads the file in the folder `path`; links are not followed. KS_END: there is none, it is no
 * file, or empty; KS_ERR_NOMEM. Release it also then. */
enum ks_status ks_monitor_file_read(const char *path, struct ks_monitor_file *out) KS_MUST_CHECK;
void ks_monitor_file_release(struct ks_monitor_file *file);

#endif
