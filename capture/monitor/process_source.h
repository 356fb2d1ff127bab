/* What the kernel says of the process itself. */
#ifndef KS_CAPTURE_MONITOR_PROCESS_SOURCE_H
#define KS_CAPTURE_MONITOR_PROCESS_SOURCE_H

#include "capture/monitor/kept_file.h"
#include "capture/monitor/look.h"

struct ks_process_source {
    struct ks_kept_file threads, stat, statm, io, smaps;
    struct ks_look_count cpu_us, system_us, switches, preemptions, major_faults;
    struct ks_look_count read, write, disk_read, disk_write;
    int64_t usage_due_ns, threads_due_ns, io_due_ns, pss_due_ns;
    int64_t page_size;
    bool counts_threads; /* the folder of threads knows how many there are */
    bool is_pss_costly;  /* reading it held the process's maps for too long, so it was the last */
};

void ks_process_source_open(struct ks_process_source *source, const char *root);
void ks_process_source_look(struct ks_process_source *source, struct ks_look *look);
void ks_process_source_close(struct ks_process_source *source);

#endif
