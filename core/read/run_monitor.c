#include "read/run_monitor.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "read/json_members.h"
#include "read/reader.h"

enum { END_BYTES = 16 * 1024 }; /* holds several lines; ours have some 1,500 bytes */

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

/* Start and end of the file, one behind the other; lines in between are not needed. */
static bool read_ends(int fd, int64_t size, char *buf, size_t *len)
{
    ssize_t got = pread(fd, buf, END_BYTES, 0);
    *len = got > 0 ? (size_t)got : 0;
    if (got == END_BYTES && size > END_BYTES) {
        int64_t from = size > 2 * (int64_t)END_BYTES ? size - END_BYTES : END_BYTES;
        got = pread(fd, buf + END_BYTES, END_BYTES, (off_t)from);
        *len += got > 0 ? (size_t)got : 0;
    }
    return got > 0;
}

static enum ks_status read_file(int fd, struct ks_run_monitor *out)
{
    struct stat info;
    size_t len = 0;
    char *buf = ks_alloc(2 * END_BYTES + KS_WINDOW_PAD, 1);
    if (!buf) {
        return KS_ERR_NOMEM;
    }
    bool is_good = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
                   read_ends(fd, (int64_t)info.st_size, buf, &len) &&
                   ks_run_monitor_parse((struct ks_str){buf, len}, out);
    ks_free(buf);
    return is_good ? KS_OK : KS_END;
}

enum ks_status ks_run_monitor_read(const char *path, struct ks_run_monitor *out)
{
    int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0) {
        return KS_END;
    }
    int fd = openat(dir_fd, "monitor.jsonl", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    close(dir_fd);
    if (fd < 0) {
        return KS_END;
    }
    enum ks_status status = read_file(fd, out);
    close(fd);
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
