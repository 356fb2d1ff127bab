#include "base/proc.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

unsigned ks_processor_count(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

bool ks_proc_read_text(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, out, size - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    out[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* The fields that proc(5) numbers 3, 4, 14, 15, 20, 22 and 24; the name may hold blanks and
 * brackets, so counting starts behind the last one. */
static bool parse_stat(const char *line, struct ks_process *out)
{
    const char *after_name = strrchr(line, ')');
    unsigned long long user = 0;
    unsigned long long system = 0;
    unsigned long long start = 0;
    long threads = 0;
    long pages = 0;
    if (!after_name ||
        sscanf(after_name,
               ") %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %ld %*d "
               "%llu %*u %ld",
               &out->state, &out->parent, &user, &system, &threads, &start, &pages) != 7) {
        return false;
    }
    out->cpu_ticks = user + system;
    out->thread_count = threads > 0 ? (uint64_t)threads : 0;
    out->start_ticks = start;
    out->rss_pages = pages > 0 ? (uint64_t)pages : 0;
    return true;
}

bool ks_process_read(pid_t pid, struct ks_process *out)
{
    char path[32];
    char line[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    *out = (struct ks_process){.pid = pid};
    return ks_proc_read_text(path, line, sizeof(line)) && parse_stat(line, out);
}
