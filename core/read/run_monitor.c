#include "read/run_monitor.h"

#include <stdio.h>

#include "read/json_members.h"
#include "read/monitor_file.h"

static enum ks_json take_member(struct ks_json_cursor *c, struct ks_str key, void *user)
{
    struct ks_run_monitor *line = user;
    const struct {
        struct ks_str key;
        int64_t *value;
    } members[] = {
        {KS_STR("cgroup_cpu_quota_us"), &line->cpu_quota_us},
        {KS_STR("cgroup_cpu_period_us"), &line->cpu_period_us},
        {KS_STR("cgroup_memory_max_bytes"), &line->memory_max_bytes},
        {KS_STR("cgroup_periods"), &line->period_count},
        {KS_STR("cgroup_throttled"), &line->throttled_count},
        {KS_STR("cgroup_throttled_ns"), &line->throttled_ns},
    };
    for (size_t i = 0; i < KS_COUNT_OF(members); i++) {
        if (ks_str_equal(key, members[i].key)) {
            return ks_json_take_number(c, members[i].value);
        }
    }
    return ks_json_skip(c);
}

static bool parse_line(struct ks_str text, struct ks_run_monitor *out)
{
    struct ks_json_cursor cursor = {.at = text.ptr, .end = text.ptr + text.len};
    *out = (struct ks_run_monitor){-1, -1, -1, -1, -1, -1};
    return ks_json_each_member(&cursor, take_member, out);
}

/* Counters count from when the group was made: only what they grew by belongs to the run. */
static int64_t growth(int64_t first, int64_t last)
{
    return first >= 0 && last >= first ? last - first : -1;
}

bool ks_run_monitor_parse(struct ks_str text, struct ks_run_monitor *out)
{
    struct ks_run_monitor first;
    const char *end = text.len > 0 ? memrchr(text.ptr, '\n', text.len) : NULL;
    const char *before =
        end && end > text.ptr ? memrchr(text.ptr, '\n', (size_t)(end - text.ptr)) : NULL;
    if (!before || !parse_line(text, &first) ||
        !parse_line((struct ks_str){before + 1, (size_t)(end - before)}, out)) {
        return false;
    }
    out->period_count = growth(first.period_count, out->period_count);
    out->throttled_count = growth(first.throttled_count, out->throttled_count);
    out->throttled_ns = growth(first.throttled_ns, out->throttled_ns);
    return true;
}

enum ks_status ks_run_monitor_read(const char *path, struct ks_run_monitor *out)
{
    struct ks_monitor_file file;
    enum ks_status status = ks_monitor_file_read(path, &file);
    if (status == KS_OK && !ks_run_monitor_parse((struct ks_str){file.bytes, file.len}, out)) {
        status = KS_END;
    }
    ks_monitor_file_release(&file);
    return status;
}

bool ks_run_monitor_describe(const struct ks_run_monitor *monitor, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    if (monitor->cpu_quota_us > 0 && monitor->cpu_period_us > 0) {
        used += (size_t)snprintf(out, size, "CPU limit %.2f cores",
                                 (double)monitor->cpu_quota_us / (double)monitor->cpu_period_us);
    }
    if (monitor->throttled_count > 0 && monitor->period_count > 0 && used < size) {
        used += (size_t)snprintf(
            out + used, size - used, "%sheld back in %.0f %% of periods, %.2f s in all",
            used ? ", " : "",
            100.0 * (double)monitor->throttled_count / (double)monitor->period_count,
            (double)monitor->throttled_ns / 1e9);
    }
    if (monitor->memory_max_bytes > 0 && used < size) {
        used +=
            (size_t)snprintf(out + used, size - used, "%smemory limit %.1f GiB", used ? ", " : "",
                             (double)monitor->memory_max_bytes / (1024.0 * 1024.0 * 1024.0));
    }
    return used > 0;
}
