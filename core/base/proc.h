/* Small files in which the kernel tells of processes and of itself. */
#ifndef KS_BASE_PROC_H
#define KS_BASE_PROC_H

#include <sys/types.h>

#include <kscope/kscope.h>

/* One line of /proc/<pid>/stat. A number is reused, number and start together are not. */
struct ks_process {
    pid_t pid;
    pid_t parent;
    char state;           /* 'R', 'S', 'T', 'Z', ... */
    uint64_t start_ticks; /* clock ticks since boot */
    uint64_t cpu_ticks;   /* user and system time so far */
    uint64_t thread_count;
    uint64_t rss_pages;
};

/* Processors that this process may run on, at least 1. */
unsigned ks_processor_count(void);
/* Reads the first `size` - 1 bytes of a file as a string; false, and "", when there are none. */
bool ks_proc_read_text(const char *path, char *out, size_t size);
/* Reads one process; false when there is none. */
bool ks_process_read(pid_t pid, struct ks_process *out);

#endif
