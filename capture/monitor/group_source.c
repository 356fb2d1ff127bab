#include "capture/monitor/group_source.h"

#include <string.h>

#include "capture/monitor/words.h"

#define NS_PER_MS INT64_C(1000000)

/* From this number on, version 1 means "no limit": it rounds INT64_MAX down to pages. */
static const uint64_t NO_LIMIT_MIN = UINT64_C(1) << 60;

enum {
    TEXT_SIZE = 4096,
    MEMORY_PERIOD_MS = 500,
    PERIODS_MIN = 5, /* of fewer a share says little */
    SLOW_PERIOD_MS = 1000,
};

static const char MOUNT[] = "/sys/fs/cgroup";

/* ------------------------------------------------------------------ which group it is */

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

static bool has_file(const char *root, const char *folder, const char *name)
{
    struct ks_kept_file file;
    ks_kept_file_open(&file, root, folder, name);
    bool is_there = file.fd >= 0;
    ks_kept_file_close(&file);
    return is_there;
}

/* Inside a container the path of the host may not be there: then the mount itself is the group. */
static bool find_folder(const char *root, const char *controller, const char *path,
                        const char *probe, char out[KS_KEPT_PATH_SIZE])
{
    char mount[KS_KEPT_PATH_SIZE];
    return ks_kept_path(mount, MOUNT, controller, "") &&
           ((ks_kept_path(out, mount, strcmp(path, "/") == 0 ? "" : path, "") &&
             has_file(root, out, probe)) ||
            (ks_kept_path(out, mount, "", "") && has_file(root, out, probe)));
}

static void open_memory(struct ks_group_source *source, const char *root, const char *folder,
                        bool is_v1)
{
    ks_kept_file_open(&source->memory, root, folder,
                      is_v1 ? "/memory.usage_in_bytes" : "/memory.current");
    ks_kept_file_open(&source->limit, root, folder,
                      is_v1 ? "/memory.limit_in_bytes" : "/memory.max");
    ks_kept_file_open(&source->events, root, folder,
                      is_v1 ? "/memory.oom_control" : "/memory.events");
    ks_kept_file_open(&source->pressure, root, folder, "/memory.pressure");
}

static void open_cpu(struct ks_group_source *source, const char *root, const char *folder,
                     bool is_v1)
{
    ks_kept_file_open(&source->cpu, root, folder, "/cpu.stat");
    ks_kept_file_open(&source->quota, root, folder, is_v1 ? "/cpu.cfs_quota_us" : "/cpu.max");
    if (is_v1) {
        ks_kept_file_open(&source->period, root, folder, "/cpu.cfs_period_us");
    }
}

/* "HIERARCHY:CONTROLLERS:PATH"; version 2 has no controllers there. Where both are mounted, the
 * controllers are with version 1. */
static void take_line(struct ks_group_source *source, const char *root, const char *line)
{
    char controllers[KS_KEPT_PATH_SIZE] = "";
    char path[KS_KEPT_PATH_SIZE];
    char folder[KS_KEPT_PATH_SIZE];
    uint64_t hierarchy = 0;
    if (!ks_words_number(&line, &hierarchy) || *line++ != ':') {
        return;
    }
    (void)ks_words_word(&line, ':', controllers, sizeof(controllers));
    if (*line++ != ':' || !ks_words_word(&line, '\n', path, sizeof(path))) {
        return;
    }
    bool is_v2 = controllers[0] == '\0';
    if ((is_v2 || has_controller(controllers, "memory")) && source->memory.fd < 0 &&
        find_folder(root, is_v2 ? "" : "/memory", path,
                    is_v2 ? "/memory.current" : "/memory.usage_in_bytes", folder)) {
        open_memory(source, root, folder, !is_v2);
    }
    if ((is_v2 || has_controller(controllers, "cpu")) && source->cpu.fd < 0 &&
        find_folder(root, is_v2 ? "" : "/cpu", path, "/cpu.stat", folder)) {
        open_cpu(source, root, folder, !is_v2);
    }
    if (has_controller(controllers, "cpuacct") && source->usage.fd < 0 &&
        find_folder(root, "/cpuacct", path, "/cpuacct.usage", folder)) {
        ks_kept_file_open(&source->usage, root, folder, "/cpuacct.usage");
    }
}

void ks_group_source_open(struct ks_group_source *source, const char *root)
{
    char text[TEXT_SIZE];
    struct ks_kept_file groups;
    const struct ks_kept_file none = {.fd = -1};
    *source = (struct ks_group_source){.memory = none,
                                       .limit = none,
                                       .events = none,
                                       .pressure = none,
                                       .cpu = none,
                                       .quota = none,
                                       .period = none,
                                       .usage = none};
    ks_kept_file_open(&groups, root, "/proc/self", "/cgroup");
    (void)ks_kept_file_read(&groups, text, sizeof(text));
    ks_kept_file_close(&groups);
    for (const char *line = text; line; line = ks_words_next_line(line)) {
        take_line(source, root, line);
    }
}

void ks_group_source_close(struct ks_group_source *source)
{
    ks_kept_file_close(&source->memory);
    ks_kept_file_close(&source->limit);
    ks_kept_file_close(&source->events);
    ks_kept_file_close(&source->pressure);
    ks_kept_file_close(&source->cpu);
    ks_kept_file_close(&source->quota);
    ks_kept_file_close(&source->period);
    ks_kept_file_close(&source->usage);
}

/* ------------------------------------------------------------------ memory */

/* False for "max" and for what means it. */
static bool read_number(const struct ks_kept_file *file, uint64_t *out)
{
    char text[64];
    (void)ks_kept_file_read(file, text, sizeof(text));
    const char *at = text;
    return ks_words_number(&at, out) && *out < NO_LIMIT_MIN;
}

static void look_at_memory(struct ks_group_source *source, struct ks_look *look)
{
    uint64_t used = 0;
    if (!ks_look_is_due(look, &source->memory_due_ns, MEMORY_PERIOD_MS * NS_PER_MS) ||
        !read_number(&source->memory, &used)) {
        return;
    }
    ks_look_put(look, KS_METRIC_GROUP_MEMORY, (double)used);
    if (source->limit_bytes > 0) {
        ks_look_put(look, KS_METRIC_GROUP_MEMORY_USED,
                    100 * (double)used / (double)source->limit_bytes);
    }
}

static void look_at_limit(struct ks_group_source *source, struct ks_look *look)
{
    source->limit_bytes = 0;
    if (read_number(&source->limit, &source->limit_bytes) && source->limit_bytes > 0) {
        ks_look_put(look, KS_METRIC_GROUP_MEMORY_LIMIT, (double)source->limit_bytes);
    } else {
        source->limit_bytes = 0;
    }
}

/* Since the first look: what the group went through before is no concern of this run. Version 1
 * counts how often the limit was met nowhere that is cheap to read. */
static void look_at_events(struct ks_group_source *source, struct ks_look *look)
{
    char text[TEXT_SIZE];
    uint64_t at_limit = 0;
    uint64_t kills = 0;
    (void)ks_kept_file_read(&source->events, text, sizeof(text));
    bool has_limit = ks_words_number_of(text, "max ", &at_limit);
    bool has_kills = ks_words_number_of(text, "oom_kill ", &kills);
    if (!source->has_events) {
        source->has_events = true;
        source->at_limit_first = at_limit;
        source->oom_kills_first = kills;
    }
    if (has_limit && at_limit >= source->at_limit_first) {
        ks_look_put(look, KS_METRIC_GROUP_MEMORY_AT_LIMIT,
                    (double)(at_limit - source->at_limit_first));
    }
    if (has_kills && kills >= source->oom_kills_first) {
        ks_look_put(look, KS_METRIC_GROUP_OOM_KILLS, (double)(kills - source->oom_kills_first));
    }
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS". */
static void look_at_pressure(struct ks_group_source *source, struct ks_look *look)
{
    char text[TEXT_SIZE];
    uint64_t waited_us = 0;
    (void)ks_kept_file_read(&source->pressure, text, sizeof(text));
    if (ks_words_total_of(text, "some ", &waited_us)) {
        ks_look_put_rate(look, KS_METRIC_GROUP_MEMORY_PRESSURE, &source->pressure_us, waited_us,
                         100e-6);
    }
}

/* ------------------------------------------------------------------ CPU */

/* Version 2: "QUOTA PERIOD" or "max PERIOD"; version 1: two files, -1 is no limit. */
static bool read_quota(const struct ks_group_source *source, double *percent)
{
    char text[64];
    uint64_t part[2] = {0, 0};
    if (source->period.fd >= 0) {
        if (!read_number(&source->quota, &part[0]) || !read_number(&source->period, &part[1])) {
            return false;
        }
    } else {
        (void)ks_kept_file_read(&source->quota, text, sizeof(text));
        if (!ks_words_numbers(text, part, 2)) {
            return false;
        }
    }
    *percent = part[1] > 0 ? 100 * (double)part[0] / (double)part[1] : 0;
    return part[0] > 0 && part[1] > 0;
}

static void put_throttled_periods(struct ks_group_source *source, struct ks_look *look,
                                  const char *text)
{
    uint64_t periods = 0;
    uint64_t throttled = 0;
    if (!ks_words_number_of(text, "nr_periods ", &periods) ||
        !ks_words_number_of(text, "nr_throttled ", &throttled)) {
        return;
    }
    if (look->is_last && periods - source->periods < PERIODS_MIN) {
        return; /* soon after another look; the one after this is told of them */
    }
    if (source->has_periods && periods > source->periods &&
        throttled >= source->throttled_periods) {
        ks_look_put(look, KS_METRIC_GROUP_THROTTLED_PERIODS,
                    100 * (double)(throttled - source->throttled_periods) /
                        (double)(periods - source->periods));
    }
    source->has_periods = true;
    source->periods = periods;
    source->throttled_periods = throttled;
}

static void look_at_cpu(struct ks_group_source *source, struct ks_look *look)
{
    char text[TEXT_SIZE];
    uint64_t number = 0;
    double limit = 0;
    (void)ks_kept_file_read(&source->cpu, text, sizeof(text));
    if (ks_words_number_of(text, "usage_usec ", &number)) {
        ks_look_put_rate(look, KS_METRIC_GROUP_CPU, &source->cpu_used, number, 100e-6);
    } else if (read_number(&source->usage, &number)) { /* nanoseconds */
        ks_look_put_rate(look, KS_METRIC_GROUP_CPU, &source->cpu_used, number, 100e-9);
    }
    if (ks_words_number_of(text, "throttled_usec ", &number)) {
        ks_look_put_rate(look, KS_METRIC_GROUP_THROTTLED, &source->throttled, number, 100e-6);
    } else if (ks_words_number_of(text, "throttled_time ", &number)) { /* version 1 */
        ks_look_put_rate(look, KS_METRIC_GROUP_THROTTLED, &source->throttled, number, 100e-9);
    }
    put_throttled_periods(source, look, text);
    if (read_quota(source, &limit)) {
        ks_look_put(look, KS_METRIC_GROUP_CPU_LIMIT, limit);
    }
}

void ks_group_source_look(struct ks_group_source *source, struct ks_look *look)
{
    if (ks_look_is_due(look, &source->slow_due_ns, SLOW_PERIOD_MS * NS_PER_MS)) {
        look_at_limit(source, look);
        look_at_events(source, look);
        look_at_pressure(source, look);
        look_at_cpu(source, look);
    }
    look_at_memory(source, look);
}
