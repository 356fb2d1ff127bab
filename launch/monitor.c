#include "launch/monitor.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "launch/cgroup.h"
#include "launch/clock.h"

enum {
    LINES_MAX = 3600,
    LINE_SIZE = 8192, /* ours have some 1,500 bytes, with 16 GPUs some 6,000 */
    LOOK_S = 1,
    COST_SHARE = 200,  /* a look takes at most one part in so many of the time between looks */
    PSS_EVERY = 10,    /* looks; the kernel walks all page tables for it */
    PROCESSES_MAX = 8, /* that a line tells of by number, the busiest first */
};

/* Of a process; for so long its maps are locked. */
static const int64_t PSS_COST_MAX_NS = 5000000;

static const char FILE_NAME[] = "monitor.jsonl";
static const char TEMPORARY_NAME[] = "monitor.jsonl.tmp";

/* What one look finds. -1: not known. */
struct look {
    int64_t time_ns; /* Unix */
    int64_t interval_ns;
    uint64_t cpu_ticks; /* used since the last look */
    uint64_t thread_count;
    int64_t rss_bytes;
    int64_t read_bytes, write_bytes; /* since the last look */
    double machine_cpu;              /* share of all cores, 0-1; below 0 unknown */
    int64_t available_bytes, total_bytes;
    struct ks_cgroup cgroup;
};

static bool number_behind(const char *text, const char *key, uint64_t *out)
{
    const char *at = strstr(text, key);
    if (at) {
        *out = strtoull(at + strlen(key), NULL, 10);
    }
    return at;
}

/* ------------------------------------------------------------------ the program */

/* Disk traffic of a process since it began; other users' processes do not tell. */
static void add_disk(pid_t pid, uint64_t *read_bytes, uint64_t *write_bytes)
{
    char path[48];
    char text[512];
    uint64_t value = 0;
    snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
    (void)ks_proc_read_text(path, text, sizeof(text));
    *read_bytes += number_behind(text, "\nread_bytes:", &value) ? value : 0;
    *write_bytes += number_behind(text, "\nwrite_bytes:", &value) ? value : 0;
}

static int64_t read_pss(const struct ks_process_tree *tree)
{
    int64_t total = -1;
    for (size_t i = 0; i < tree->count; i++) {
        char path[48];
        char text[2048];
        uint64_t kib = 0;
        snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)tree->list[i].pid);
        (void)ks_proc_read_text(path, text, sizeof(text));
        if (number_behind(text, "\nPss:", &kib)) {
            total = (total < 0 ? 0 : total) + (int64_t)kib * 1024;
        }
    }
    return total;
}

/* CPU time since the last look: all of it for a process that was not there then. */
static uint64_t ticks_since(const struct ks_process_tree *before, const struct ks_process *process)
{
    const struct ks_process *earlier = ks_process_tree_find(before, process->pid);
    bool is_same = earlier && earlier->start_ticks == process->start_ticks;
    return process->cpu_ticks - (is_same ? earlier->cpu_ticks : 0);
}

/* Differences are to the look before. */
static void look_at_program(struct ks_monitor *monitor, const struct ks_process_tree *now,
                            struct look *look)
{
    uint64_t read_bytes = 0;
    uint64_t write_bytes = 0;
    int64_t page = sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < now->count; i++) {
        const struct ks_process *process = &now->list[i];
        look->cpu_ticks += ticks_since(&monitor->tree, process);
        look->thread_count += process->thread_count;
        look->rss_bytes += (int64_t)process->rss_pages * page;
        add_disk(process->pid, &read_bytes, &write_bytes);
    }
    /* The traffic of a process that ended is gone from the sum: nothing is better than less. */
    look->read_bytes =
        read_bytes >= monitor->read_bytes ? (int64_t)(read_bytes - monitor->read_bytes) : 0;
    look->write_bytes =
        write_bytes >= monitor->write_bytes ? (int64_t)(write_bytes - monitor->write_bytes) : 0;
    monitor->read_bytes = read_bytes;
    monitor->write_bytes = write_bytes;
}

/* ------------------------------------------------------------------ the machine */

static void look_at_machine(struct ks_monitor *monitor, struct look *look)
{
    char text[4096];
    unsigned long long part[8] = {0};
    (void)ks_proc_read_text("/proc/stat", text, sizeof(text));
    look->machine_cpu = -1.0;
    if (sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &part[0], &part[1], &part[2],
               &part[3], &part[4], &part[5], &part[6], &part[7]) == 8) {
        uint64_t busy = part[0] + part[1] + part[2] + part[5] + part[6] + part[7];
        uint64_t all = busy + part[3] + part[4];
        if (monitor->machine_ticks > 0 && all > monitor->machine_ticks &&
            busy >= monitor->machine_busy_ticks) {
            look->machine_cpu = (double)(busy - monitor->machine_busy_ticks) /
                                (double)(all - monitor->machine_ticks);
        }
        monitor->machine_busy_ticks = busy;
        monitor->machine_ticks = all;
    }
    uint64_t available = 0;
    uint64_t total = 0;
    (void)ks_proc_read_text("/proc/meminfo", text, sizeof(text));
    look->available_bytes =
        number_behind(text, "MemAvailable:", &available) ? (int64_t)available * 1024 : -1;
    look->total_bytes = number_behind(text, "MemTotal:", &total) ? (int64_t)total * 1024 : -1;
}

/* ------------------------------------------------------------------ one line */

static void put_int(struct ks_text *line, const char *key, int64_t value)
{
    if (value < 0) {
        ks_text_printf(line, ", \"%s\": null", key);
    } else {
        ks_text_printf(line, ", \"%s\": %lld", key, (long long)value);
    }
}

static double percent(uint64_t ticks, int64_t interval_ns)
{
    double seconds = (double)ticks / (double)sysconf(_SC_CLK_TCK);
    return interval_ns > 0 ? seconds * 1e11 / (double)interval_ns : 0.0;
}

/* The busiest processes, so that ranks can be told apart. */
static void put_processes(struct ks_text *line, const struct ks_process_tree *before,
                          const struct ks_process_tree *now, int64_t interval_ns)
{
    int64_t page = sysconf(_SC_PAGESIZE);
    uint64_t last_ticks = UINT64_MAX;
    pid_t last_pid = 0;
    ks_text_printf(line, ", \"processes\": [");
    for (size_t shown = 0; shown < PROCESSES_MAX && shown < now->count; shown++) {
        const struct ks_process *next = NULL;
        uint64_t next_ticks = 0;
        for (size_t i = 0; i < now->count; i++) {
            uint64_t ticks = ticks_since(before, &now->list[i]);
            bool is_left =
                ticks < last_ticks || (ticks == last_ticks && now->list[i].pid > last_pid);
            if (is_left && (!next || ticks > next_ticks)) {
                next = &now->list[i];
                next_ticks = ticks;
            }
        }
        if (!next) {
            break;
        }
        ks_text_printf(
            line, "%s{\"pid\": %d, \"cpu_percent\": %.1f, \"rss_bytes\": %lld, \"threads\": %llu}",
            shown ? ", " : "", (int)next->pid, percent(next_ticks, interval_ns),
            (long long)((int64_t)next->rss_pages * page), (unsigned long long)next->thread_count);
        last_ticks = next_ticks;
        last_pid = next->pid;
    }
    ks_text_printf(line, "]");
}

static void put_gpu(struct ks_text *line, const struct ks_gpu_look *look)
{
    ks_text_printf(line, "{\"index\": %lld", (long long)look->index);
    put_int(line, "busy_percent", look->busy_percent);
    put_int(line, "memory_bytes", look->memory_bytes);
    put_int(line, "memory_total_bytes", look->memory_total_bytes);
    put_int(line, "sm_mhz", look->sm_mhz);
    put_int(line, "sm_mhz_max", look->sm_mhz_max);
    put_int(line, "reasons", look->reasons);
    put_int(line, "temperature_c", look->temperature_c);
    put_int(line, "power_mw", look->power_mw);
    put_int(line, "power_limit_mw", look->power_limit_mw);
    put_int(line, "power_default_mw", look->power_default_mw);
    put_int(line, "other_processes", look->other_processes);
    ks_text_printf(line, ", \"pids\": [");
    for (size_t i = 0; i < look->pid_count; i++) {
        ks_text_printf(line, "%s%d", i ? ", " : "", look->pids[i]);
    }
    ks_text_printf(line, "]}");
}

/* Nothing on a machine without GPUs of the program. */
static void put_gpus(struct ks_text *line, const struct ks_monitor *monitor,
                     const struct ks_process_tree *now)
{
    struct ks_gpu_look looks[KS_GPU_CLOCKS_MAX];
    size_t count = ks_gpu_clocks_look(&monitor->gpus, now, looks);
    for (size_t i = 0; i < count; i++) {
        ks_text_printf(line, "%s", i ? ", " : ", \"gpus\": [");
        put_gpu(line, &looks[i]);
    }
    ks_text_printf(line, "%s", count ? "]" : "");
}

static void put_line(struct ks_text *line, const struct ks_monitor *monitor,
                     const struct ks_process_tree *now, const struct look *look)
{
    ks_text_printf(line, "{\"time_ns\": %lld", (long long)look->time_ns);
    put_int(line, "interval_ns", look->interval_ns);
    put_int(line, "process_count", (int64_t)now->count);
    put_int(line, "threads", (int64_t)look->thread_count);
    ks_text_printf(line, ", \"cpu_percent\": %.1f", percent(look->cpu_ticks, look->interval_ns));
    put_int(line, "rss_bytes", look->rss_bytes);
    put_int(line, "pss_bytes", monitor->pss_bytes);
    put_int(line, "read_bytes", look->read_bytes);
    put_int(line, "write_bytes", look->write_bytes);
    if (look->machine_cpu >= 0.0) {
        ks_text_printf(line, ", \"machine_cpu_percent\": %.1f", look->machine_cpu * 100.0);
    } else {
        ks_text_printf(line, ", \"machine_cpu_percent\": null");
    }
    put_int(line, "machine_available_bytes", look->available_bytes);
    put_int(line, "machine_total_bytes", look->total_bytes);
    put_int(line, "cgroup_memory_bytes", look->cgroup.memory_bytes);
    put_int(line, "cgroup_memory_max_bytes", look->cgroup.memory_max_bytes);
    put_int(line, "cgroup_cpu_quota_us", look->cgroup.cpu_quota_us);
    put_int(line, "cgroup_cpu_period_us", look->cgroup.cpu_period_us);
    put_int(line, "cgroup_periods", look->cgroup.period_count);
    put_int(line, "cgroup_throttled", look->cgroup.throttled_count);
    put_int(line, "cgroup_throttled_ns", look->cgroup.throttled_ns);
    put_gpus(line, monitor, now);
    put_processes(line, &monitor->tree, now, look->interval_ns);
    ks_text_printf(line, "}\n");
}

/* ------------------------------------------------------------------ the file */

static void give_up(struct ks_monitor *monitor)
{
    if (monitor->fd >= 0) {
        close(monitor->fd);
    }
    monitor->fd = -1;
}

/* Copies every second line; false when that did not work. */
static bool copy_half(FILE *source, FILE *target, size_t *kept)
{
    char line[LINE_SIZE];
    bool is_good = true;
    for (size_t i = 0; is_good && fgets(line, sizeof(line), source); i++) {
        if (i % 2 == 0) {
            is_good = fwrite(line, 1, strlen(line), target) == strlen(line);
            *kept += 1;
        }
    }
    return is_good && !ferror(source);
}

static void thin_out(struct ks_monitor *monitor)
{
    int source_fd = openat(monitor->dir_fd, FILE_NAME, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int target_fd = openat(monitor->dir_fd, TEMPORARY_NAME,
                           O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_APPEND | O_CLOEXEC, 0600);
    FILE *source = source_fd >= 0 ? fdopen(source_fd, "r") : NULL;
    FILE *target = target_fd >= 0 ? fdopen(dup(target_fd), "a") : NULL;
    size_t kept = 0;
    bool is_good = source && target && copy_half(source, target, &kept);
    is_good = target && fclose(target) == 0 && is_good;
    is_good = is_good && renameat(monitor->dir_fd, TEMPORARY_NAME, monitor->dir_fd, FILE_NAME) == 0;
    if (source) {
        fclose(source);
    }
    give_up(monitor);
    if (is_good) {
        monitor->fd = target_fd;
        monitor->line_count = kept;
        monitor->interval_ns *= 2;
    } else if (target_fd >= 0) {
        close(target_fd);
    }
}

/* One write, so that a reader never sees half a line. A full disk ends the monitor. */
static void write_line(struct ks_monitor *monitor, const struct ks_text *line)
{
    if (line->failed || write(monitor->fd, line->ptr, line->len) != (ssize_t)line->len) {
        give_up(monitor);
        return;
    }
    if (++monitor->line_count >= monitor->lines_max) {
        thin_out(monitor);
    }
}

/* ------------------------------------------------------------------ from outside */

static void read_look(struct ks_monitor *monitor, const struct ks_process_tree *now,
                      struct look *look)
{
    look_at_program(monitor, now, look);
    look_at_machine(monitor, look);
    ks_cgroup_read(monitor->cgroup_cpu, monitor->cgroup_memory, &look->cgroup);
    bool is_pss_due = monitor->look_count++ % PSS_EVERY == 1; /* at first, little is loaded */
    if (is_pss_due && !monitor->is_pss_costly) {
        int64_t began_ns = ks_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
        monitor->pss_bytes = read_pss(now);
        int64_t cost_ns = ks_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - began_ns;
        monitor->is_pss_costly = cost_ns > PSS_COST_MAX_NS * (int64_t)now->count;
    }
}

/* The first look is what the second one is compared with. */
static void take_look(struct ks_monitor *monitor, int64_t now_ns)
{
    struct ks_process_tree now = {0};
    if (!ks_process_tree_read(&now, &monitor->tree, monitor->root)) {
        return;
    }
    struct look look = {.time_ns = ks_clock_ns(CLOCK_REALTIME),
                        .interval_ns = now_ns - monitor->looked_at_ns};
    read_look(monitor, &now, &look);
    if (monitor->looked_at_ns != 0 && now.count > 0) {
        struct ks_text line;
        ks_text_init(&line);
        put_line(&line, monitor, &now, &look);
        write_line(monitor, &line);
        ks_text_release(&line);
    }
    ks_process_tree_release(&monitor->tree);
    monitor->tree = now;
    monitor->looked_at_ns = now_ns;
}

void ks_monitor_init(struct ks_monitor *monitor, const char *out_dir, pid_t root)
{
    *monitor = (struct ks_monitor){.root = root,
                                   .interval_ns = LOOK_S * 1000000000LL,
                                   .pss_bytes = -1,
                                   .lines_max = LINES_MAX};
    monitor->dir_fd = open(out_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    monitor->fd = openat(monitor->dir_fd, FILE_NAME,
                         O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_APPEND | O_CLOEXEC, 0600);
    ks_cgroup_find(root, monitor->cgroup_cpu, monitor->cgroup_memory);
}

int64_t ks_monitor_tick(struct ks_monitor *monitor, int64_t now_ns)
{
    if (monitor->fd < 0) {
        return INT64_MAX;
    }
    if (now_ns >= monitor->next_ns) {
        if (monitor->looked_at_ns != 0 && !monitor->has_looked_for_gpus) {
            ks_gpu_clocks_open(&monitor->gpus); /* once: it is no cost of a look */
            monitor->has_looked_for_gpus = true;
        }
        int64_t began_ns =
            ks_clock_ns(CLOCK_PROCESS_CPUTIME_ID); /* waiting for a core is no cost */
        take_look(monitor, now_ns);
        int64_t cost_ns = (ks_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - began_ns) * COST_SHARE;
        monitor->next_ns =
            now_ns + (cost_ns > monitor->interval_ns ? cost_ns : monitor->interval_ns);
    }
    return monitor->next_ns;
}

void ks_monitor_release(struct ks_monitor *monitor)
{
    give_up(monitor);
    if (monitor->dir_fd >= 0) {
        close(monitor->dir_fd);
    }
    ks_process_tree_release(&monitor->tree);
    ks_gpu_clocks_close(&monitor->gpus);
}
