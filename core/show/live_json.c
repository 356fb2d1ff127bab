/* What was seen of a run as one line of JSON; docs/live.schema.json is its schema. */
#include <math.h>

#include "show/json_writer.h"
#include "show/live_picture.h"
#include "show/verdict.h"

enum { FINDINGS_MAX = 3 };

/* Negative and zero times and sizes are what nobody knows. */
static void put_known(struct ks_json *json, const char *key, int64_t value, int64_t least)
{
    if (value < least) {
        ks_json_null(json, key);
    } else {
        ks_json_int(json, key, value);
    }
}

static void put_rank(struct ks_json *json, const struct ks_live_rank *rank)
{
    const struct ks_run_process *process = &rank->process;
    ks_json_object_begin(json, NULL);
    put_known(json, "rank", process->rank, 0);
    ks_json_int(json, "pid", process->pid);
    ks_json_text(json, "state", ks_live_rank_state_word(process->state));
    ks_json_bool(json, "is_running", process->is_running);
    ks_json_bool(json, "ended_by_itself", rank->is_over);
    ks_json_int(json, "steps", (int64_t)process->steps_seen);
    ks_json_real(json, "steps_per_s", rank->steps_per_s);
    put_known(json, "last_step_ns", rank->last_step_ns, 1);
    put_known(json, "step_ns", rank->step_ns, 1);
    put_known(json, "step_spread_ns", rank->step_spread_ns, 1);
    ks_json_array_begin(json, "rates");
    for (size_t i = 0; i < rank->rate_count; i++) {
        ks_json_real(json, NULL, rank->rates[i]);
    }
    ks_json_array_end(json);
    ks_json_text(json, "explanation", process->explanation[0] ? process->explanation : NULL);
    ks_json_object_end(json);
}

static void put_gpu(struct ks_json *json, const struct ks_live_gpu *gpu)
{
    ks_json_object_begin(json, NULL);
    put_known(json, "index", gpu->index, 0);
    put_known(json, "busy_percent", gpu->busy_percent, 0);
    put_known(json, "memory_bytes", gpu->memory_bytes, 0);
    put_known(json, "memory_total_bytes", gpu->memory_total_bytes, 0);
    put_known(json, "sm_mhz", gpu->sm_mhz, 0);
    put_known(json, "sm_mhz_max", gpu->sm_mhz_max, 0);
    ks_json_text(json, "held_back_by", ks_live_clock_reason(gpu->reasons));
    put_known(json, "temperature_c", gpu->temperature_c, 0);
    put_known(json, "power_mw", gpu->power_mw, 0);
    put_known(json, "power_limit_mw", gpu->power_limit_mw, 0);
    ks_json_object_end(json);
}

static void put_machine(struct ks_json *json, const struct ks_live_machine *machine)
{
    if (!machine) {
        ks_json_null(json, "machine");
        return;
    }
    ks_json_object_begin(json, "machine");
    put_known(json, "time_ns", machine->time_ns, 1);
    put_known(json, "interval_ns", machine->interval_ns, 0);
    put_known(json, "process_count", machine->process_count, 0);
    put_known(json, "threads", machine->threads, 0);
    ks_json_real(json, "cpu_percent", machine->cpu_percent);
    ks_json_real(json, "machine_cpu_percent", machine->machine_cpu_percent);
    put_known(json, "rss_bytes", machine->rss_bytes, 0);
    put_known(json, "machine_available_bytes", machine->machine_available_bytes, 0);
    put_known(json, "machine_total_bytes", machine->machine_total_bytes, 0);
    put_known(json, "cgroup_memory_bytes", machine->cgroup_memory_bytes, 0);
    put_known(json, "cgroup_memory_max_bytes", machine->cgroup_memory_max_bytes, 0);
    put_known(json, "cgroup_cpu_quota_us", machine->cgroup_cpu_quota_us, 0);
    put_known(json, "cgroup_cpu_period_us", machine->cgroup_cpu_period_us, 0);
    put_known(json, "periods", machine->periods, 0);
    put_known(json, "throttled", machine->throttled, 0);
    put_known(json, "throttled_ns", machine->throttled_ns, 0);
    ks_json_array_begin(json, "gpus");
    for (size_t i = 0; i < machine->gpu_count; i++) {
        put_gpu(json, &machine->gpus[i]);
    }
    ks_json_array_end(json);
    ks_json_object_end(json);
}

static void put_parts(struct ks_json *json, const struct ks_view *view)
{
    int64_t ns[KS_ROLE_COUNT] = {0};
    int64_t total_ns = 0;
    for (size_t i = 0; i < view->facts->step_count; i++) {
        const struct ks_step *step = &view->facts->steps[i];
        bool counts = ks_view_step_counts(view, step);
        total_ns += counts ? step->dur_ns : 0;
        for (size_t role = 0; counts && role < KS_ROLE_COUNT; role++) {
            ns[role] += step->breakdown_ns[role];
        }
    }
    ks_json_object_begin(json, "parts");
    for (size_t role = 0; role < KS_ROLE_COUNT && total_ns > 0; role++) {
        ks_json_real(json, ks_view_role((enum ks_role)role), (double)ns[role] / (double)total_ns);
    }
    ks_json_object_end(json);
}

static void put_findings(struct ks_json *json, const struct ks_view *view)
{
    const struct ks_findings *findings = view->findings;
    ks_json_int(json, "finding_count", (int64_t)findings->count);
    ks_json_array_begin(json, "findings");
    for (size_t i = 0; i < findings->count && i < FINDINGS_MAX; i++) {
        const struct ks_finding *finding = &findings->list[i];
        ks_json_object_begin(json, NULL);
        ks_json_text(json, "id", finding->rule->id);
        ks_json_text(json, "title", ks_view_finding_title(finding));
        ks_json_object_begin(json, "saving_ns_per_step");
        put_known(json, "low", finding->saving.low_ns, 0);
        put_known(json, "high", finding->saving.high_ns, 0);
        ks_json_object_end(json);
        ks_json_object_end(json);
    }
    ks_json_array_end(json);
}

static void put_report(struct ks_json *json, const struct ks_live_picture *picture)
{
    struct ks_verdict verdict;
    if (!picture->report) {
        ks_json_null(json, "report");
        return;
    }
    ks_verdict_compute(picture->report, &verdict);
    ks_json_object_begin(json, "report");
    ks_json_int(json, "window", picture->report_window);
    ks_json_text(json, "verdict", verdict.text);
    ks_json_text(json, "bound_by", ks_verdict_word(verdict.bound));
    ks_json_real(json, "share", verdict.share);
    put_known(json, "step_ns", verdict.step_ns, 1);
    put_parts(json, picture->report);
    put_findings(json, picture->report);
    ks_json_object_end(json);
}

static void put_rank_name(struct ks_json *json, const char *key, const struct ks_live_rank *rank)
{
    put_known(json, key, rank ? rank->process.rank : -1, 0);
}

static void put_run(struct ks_json *json, const struct ks_live_picture *picture,
                    const struct ks_live_sum *sum)
{
    const char *program = sum->most && sum->most->program[0] ? sum->most->program : NULL;
    ks_json_text(json, "schema", "kinetoscope.live/1");
    ks_json_text(json, "path", picture->path);
    ks_json_int(json, "time_ns", picture->now_ns);
    ks_json_text(json, "state", ks_live_state_word(picture->state));
    ks_json_text(json, "program", program);
    put_known(json, "began_ns", sum->began_ns, 1);
    put_known(json, "dur_ns", sum->dur_ns, 1);
    ks_json_int(json, "steps", sum->steps);
    ks_json_real(json, "steps_per_s", sum->median ? sum->median->steps_per_s : (double)NAN);
    put_rank_name(json, "slowest_rank", sum->slowest);
    put_rank_name(json, "median_rank", sum->median);
    put_rank_name(json, "fastest_rank", sum->fastest);
}

enum ks_status ks_live_write_json(const struct ks_live_picture *picture, ks_write_cb write,
                                  void *user, struct ks_err *err)
{
    struct ks_json json;
    struct ks_live_sum sum;
    ks_live_sum_up(picture, &sum);
    ks_json_init_one_line(&json, write, user);
    ks_json_object_begin(&json, NULL);
    put_run(&json, picture, &sum);
    ks_json_array_begin(&json, "ranks");
    for (size_t i = 0; i < picture->rank_count; i++) {
        put_rank(&json, picture->ranks[i]);
    }
    ks_json_array_end(&json);
    put_machine(&json, picture->machine);
    put_known(&json, "window", picture->window, 1);
    ks_json_int(&json, "window_ranks", (int64_t)picture->window_rank_count);
    put_report(&json, picture);
    ks_json_text(&json, "report_failure",
                 picture->report_failure[0] ? picture->report_failure : NULL);
    ks_json_object_end(&json);
    return ks_json_finish(&json, err);
}
