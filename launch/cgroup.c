#include "launch/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/proc.h"

/* Without a number above this, version 1 means "no limit" (it rounds INT64_MAX to pages). */
static const long long NO_LIMIT_MIN = 1LL << 60;

static bool read_text(const char *dir, const char *name, char *out, size_t size)
{
    char path[KS_CGROUP_PATH_SIZE + 64];
    int len = snprintf(path, sizeof(path), "%s/%s", dir, name);
    out[0] = '\0';
    return *dir && len > 0 && (size_t)len < sizeof(path) && ks_proc_read_text(path, out, size);
}

/* The number behind `key` and a blank at the start of a line; -1 when it is not there. */
static int64_t number_of(const char *text, const char *key)
{
    size_t len = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0 && line[len] == ' ') {
            return strtoll(line + len, NULL, 10);
        }
    }
    return -1;
}

static int64_t read_number(const char *dir, const char *name)
{
    char text[64];
    if (!read_text(dir, name, text, sizeof(text)) || text[0] < '0' || text[0] > '9') {
        return -1; /* "max" */
    }
    long long value = strtoll(text, NULL, 10);
    return value < NO_LIMIT_MIN ? value : -1;
}

/* Inside a container the path of the host may not be there: then the mount itself is the group. */
static void choose(const char *mount, const char *path, const char *probe,
                   char out[KS_CGROUP_PATH_SIZE])
{
    char text[16];
    snprintf(out, KS_CGROUP_PATH_SIZE, "%s%s", mount, strcmp(path, "/") == 0 ? "" : path);
    if (!read_text(out, probe, text, sizeof(text))) {
        snprintf(out, KS_CGROUP_PATH_SIZE, "%s", mount);
        if (!read_text(out, probe, text, sizeof(text))) {
            out[0] = '\0';
        }
    }
}

/* Is `name` one of the controllers of "cpu,cpuacct"? */
static bool has_controller(const char *controllers, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = strstr(controllers, name); at; at = strstr(at + 1, name)) {
        bool begins = at == controllers || at[-1] == ',';
        if (begins && (at[len] == ',' || at[len] == '\0')) {
            return true;
        }
    }
    return false;
}

void ks_cgroup_find(pid_t pid, char cpu[KS_CGROUP_PATH_SIZE], char memory[KS_CGROUP_PATH_SIZE])
{
    char dir[32];
    char text[4096];
    char *rest = text;
    cpu[0] = memory[0] = '\0';
    snprintf(dir, sizeof(dir), "/proc/%d", (int)pid);
    if (!read_text(dir, "cgroup", text, sizeof(text))) {
        return;
    }
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        (void)strsep(&line, ":"); /* number of the hierarchy */
        char *controllers = line ? strsep(&line, ":") : NULL;
        if (!controllers || !line || *line != '/') {
            continue;
        }
        if (*controllers == '\0' && !cpu[0]) {
            choose("/sys/fs/cgroup", line, "cpu.stat", cpu);
        }
        if (*controllers == '\0' && !memory[0]) {
            choose("/sys/fs/cgroup", line, "memory.current", memory);
        }
        if (has_controller(controllers, "cpu")) {
            choose("/sys/fs/cgroup/cpu", line, "cpu.stat", cpu);
        }
        if (has_controller(controllers, "memory")) {
            choose("/sys/fs/cgroup/memory", line, "memory.usage_in_bytes", memory);
        }
    }
}

static void read_quota(const char *cpu, struct ks_cgroup *out)
{
    char text[64];
    long long quota = -1;
    long long period = -1;
    if (read_text(cpu, "cpu.max", text, sizeof(text))) {
        if (sscanf(text, "%lld %lld", &quota, &period) != 2) {
            quota = -1; /* "max 100000" */
        }
    } else {
        quota = read_number(cpu, "cpu.cfs_quota_us");
        period = read_number(cpu, "cpu.cfs_period_us");
    }
    out->cpu_quota_us = quota > 0 && period > 0 ? quota : -1;
    out->cpu_period_us = quota > 0 && period > 0 ? period : -1;
}

void ks_cgroup_read(const char *cpu, const char *memory, struct ks_cgroup *out)
{
    char text[2048] = "";
    (void)read_text(cpu, "cpu.stat", text, sizeof(text));
    int64_t throttled_us = number_of(text, "throttled_usec");
    int64_t throttled_ns = number_of(text, "throttled_time"); /* version 1 */
    out->period_count = number_of(text, "nr_periods");
    out->throttled_count = number_of(text, "nr_throttled");
    out->throttled_ns = throttled_us >= 0 ? throttled_us * 1000 : throttled_ns;
    read_quota(cpu, out);
    out->memory_bytes = read_number(memory, "memory.current");
    out->memory_max_bytes = read_number(memory, "memory.max");
    if (out->memory_bytes < 0) {
        out->memory_bytes = read_number(memory, "memory.usage_in_bytes");
        out->memory_max_bytes = read_number(memory, "memory.limit_in_bytes");
    }
}
