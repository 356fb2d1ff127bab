/* A simple monitor of the whole run: what /proc, the cgroup and the driver of the GPUs say about
 * the program's processes, one JSON object a line in DIR/monitor.jsonl. It runs in the reporter's
 * process and looks about once a second; on machines where a look is expensive, less often. The
 * file stays small: when it has `lines_max` lines, every second one goes, and the time between
 * looks doubles. */
#ifndef KS_LAUNCH_MONITOR_H
#define KS_LAUNCH_MONITOR_H

#include "launch/gpu_clocks.h"
#include "launch/launch.h"
#include "launch/process_tree.h"

struct ks_monitor {
    int dir_fd;
    int fd; /* of the file; -1: there is none, or writing failed */
    pid_t root;
    struct ks_process_tree tree;
    uint64_t look_count;
    size_t line_count;
    size_t lines_max;
    int64_t interval_ns;  /* between looks */
    int64_t looked_at_ns; /* monotonic; 0: never */
    int64_t next_ns;      /* monotonic: when to look again */
    int64_t pss_bytes;    /* from the last look that read it; -1 unknown */
    bool is_pss_costly;   /* the kernel takes so long for it that we leave it alone */
    uint64_t machine_busy_ticks, machine_ticks;
    uint64_t read_bytes, write_bytes; /* of the processes that were there at the last look */
    struct ks_gpu_clocks gpus;
    bool has_looked_for_gpus;
    char cgroup_cpu[256]; /* folders of the program's cgroup; "" when there is none */
    char cgroup_memory[256];
};

/* `root` is the program. A monitor that cannot write does nothing. */
void ks_monitor_init(struct ks_monitor *monitor, const char *out_dir, pid_t root);
/* Takes a look when it is time; gives the monotonic time of the next one. */
int64_t ks_monitor_tick(struct ks_monitor *monitor, int64_t now_ns);
void ks_monitor_release(struct ks_monitor *monitor);

#endif
