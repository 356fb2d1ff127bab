#include "read/run_machine.h"

#include <math.h>

#include "read/json_members.h"
#include "read/monitor_file.h"
#include "read/step_times.h"

/* ------------------------------------------------------------------ one line */

struct member {
    struct ks_str key;
    int64_t *value;
};

static enum ks_json take_one_of(struct ks_json_cursor *c, struct ks_str key,
                                const struct member *members, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (ks_str_equal(key, members[i].key)) {
            return ks_json_take_number(c, members[i].value);
        }
    }
    return ks_json_skip(c);
}

static enum ks_json take_gpu_member(struct ks_json_cursor *c, struct ks_str key, void *user)
{
    struct ks_live_gpu *gpu = user;
    const struct member members[] = {
        {KS_STR("index"), &gpu->index},
        {KS_STR("busy_percent"), &gpu->busy_percent},
        {KS_STR("memory_bytes"), &gpu->memory_bytes},
        {KS_STR("memory_total_bytes"), &gpu->memory_total_bytes},
        {KS_STR("sm_mhz"), &gpu->sm_mhz},
        {KS_STR("sm_mhz_max"), &gpu->sm_mhz_max},
        {KS_STR("reasons"), &gpu->reasons},
        {KS_STR("temperature_c"), &gpu->temperature_c},
        {KS_STR("power_mw"), &gpu->power_mw},
        {KS_STR("power_limit_mw"), &gpu->power_limit_mw},
    };
    return take_one_of(c, key, members, KS_COUNT_OF(members));
}

static enum ks_json take_gpus(struct ks_json_cursor *c, struct ks_live_machine *machine)
{
    bool more;
    enum ks_json step = ks_json_open_array(c, &more);
    while (step == KS_JSON_OK && more) {
        struct ks_live_gpu gpu = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
        if (!ks_json_each_member(c, take_gpu_member, &gpu)) {
            return KS_JSON_BAD;
        }
        if (machine->gpu_count < KS_LIVE_GPUS_MAX) {
            machine->gpus[machine->gpu_count++] = gpu;
        }
        step = ks_json_next(c, ']', &more);
    }
    return step;
}

static enum ks_json take_percent(struct ks_json_cursor *c, double *out)
{
    double value = 0.0;
    bool found = false;
    enum ks_json_kind kind;
    enum ks_json step = ks_json_kind_of(c, &kind);
    if (step == KS_JSON_OK && kind != KS_JSON_NUMBER) {
        return ks_json_skip(c);
    }
    step = step == KS_JSON_OK ? ks_json_double(c, &value, &found) : step;
    *out = step == KS_JSON_OK && found && isfinite(value) ? value : (double)NAN;
    return step;
}

static enum ks_json take_member(struct ks_json_cursor *c, struct ks_str key, void *user)
{
    struct ks_live_machine *machine = user;
    const struct member members[] = {
        {KS_STR("time_ns"), &machine->time_ns},
        {KS_STR("interval_ns"), &machine->interval_ns},
        {KS_STR("process_count"), &machine->process_count},
        {KS_STR("threads"), &machine->threads},
        {KS_STR("rss_bytes"), &machine->rss_bytes},
        {KS_STR("machine_available_bytes"), &machine->machine_available_bytes},
        {KS_STR("machine_total_bytes"), &machine->machine_total_bytes},
        {KS_STR("cgroup_memory_bytes"), &machine->cgroup_memory_bytes},
        {KS_STR("cgroup_memory_max_bytes"), &machine->cgroup_memory_max_bytes},
        {KS_STR("cgroup_cpu_quota_us"), &machine->cgroup_cpu_quota_us},
        {KS_STR("cgroup_cpu_period_us"), &machine->cgroup_cpu_period_us},
        {KS_STR("cgroup_periods"), &machine->periods},
        {KS_STR("cgroup_throttled"), &machine->throttled},
        {KS_STR("cgroup_throttled_ns"), &machine->throttled_ns},
    };
    if (ks_str_equal(key, KS_STR("cpu_percent"))) {
        return take_percent(c, &machine->cpu_percent);
    }
    if (ks_str_equal(key, KS_STR("machine_cpu_percent"))) {
        return take_percent(c, &machine->machine_cpu_percent);
    }
    if (ks_str_equal(key, KS_STR("gpus"))) {
        return take_gpus(c, machine);
    }
    return take_one_of(c, key, members, KS_COUNT_OF(members));
}

static bool parse_line(struct ks_str text, struct ks_live_machine *out)
{
    struct ks_json_cursor cursor = {.at = text.ptr, .end = text.ptr + text.len};
    *out = (struct ks_live_machine){
        .began_ns = -1,
        .time_ns = -1,
        .interval_ns = -1,
        .process_count = -1,
        .threads = -1,
        .cpu_percent = (double)NAN,
        .machine_cpu_percent = (double)NAN,
        .rss_bytes = -1,
        .machine_available_bytes = -1,
        .machine_total_bytes = -1,
        .cgroup_memory_bytes = -1,
        .cgroup_memory_max_bytes = -1,
        .cgroup_cpu_quota_us = -1,
        .cgroup_cpu_period_us = -1,
        .periods = -1,
        .throttled = -1,
        .throttled_ns = -1,
    };
    return ks_json_each_member(&cursor, take_member, out);
}

/* ------------------------------------------------------------------ the lines that count */

/* The line that ends before `end`, and with it `*end` at its start; false: there is none. */
static bool line_before(struct ks_str text, size_t *end, struct ks_str *line)
{
    if (*end == 0) {
        return false;
    }
    const char *feed = *end > 1 ? memrchr(text.ptr, '\n', *end - 1) : NULL;
    size_t from = feed ? (size_t)(feed - text.ptr) + 1 : 0;
    *line = (struct ks_str){text.ptr + from, *end - from};
    *end = from;
    return true;
}

/* Counters count from when the group was made; what they grew by since the line before tells of
 * now. */
static int64_t growth(int64_t before, int64_t now)
{
    return before >= 0 && now >= before ? now - before : -1;
}

static void take_growth(struct ks_live_machine *now, const struct ks_live_machine *before)
{
    now->periods = growth(before->periods, now->periods);
    now->throttled = growth(before->throttled, now->throttled);
    now->throttled_ns = growth(before->throttled_ns, now->throttled_ns);
}

bool ks_run_machine_parse(struct ks_str text, struct ks_live_machine *out)
{
    struct ks_live_machine before;
    struct ks_live_machine first;
    struct ks_str line;
    const char *feed = text.len > 0 ? memrchr(text.ptr, '\n', text.len) : NULL;
    size_t end = feed ? (size_t)(feed - text.ptr) + 1 : 0;
    bool is_found = false;
    while (!is_found && line_before(text, &end, &line)) { /* a torn line is left out */
        is_found = parse_line(line, out);
    }
    if (!is_found) {
        return false;
    }
    bool has_before = line_before(text, &end, &line) && parse_line(line, &before);
    if (!has_before) {
        before = (struct ks_live_machine){.periods = -1, .throttled = -1, .throttled_ns = -1};
    }
    take_growth(out, &before);
    bool has_first = parse_line(text, &first);
    bool is_known = has_first && first.time_ns > 0 && first.time_ns < INT64_MAX / 2 &&
                    first.interval_ns >= 0 && first.interval_ns < first.time_ns;
    out->began_ns = is_known ? first.time_ns - first.interval_ns : -1;
    return true;
}

enum ks_status ks_run_machine_read(const char *path, struct ks_live_machine *out,
                                   int64_t *written_ns)
{
    struct ks_monitor_file file;
    enum ks_status status = ks_monitor_file_read(path, &file);
    *written_ns = file.written_ns;
    if (status == KS_OK && !ks_run_machine_parse((struct ks_str){file.bytes, file.len}, out)) {
        status = KS_END;
    }
    ks_monitor_file_release(&file);
    return status;
}
