#include <math.h>

#include "base/err.h"
#include "base/word_list.h"
#include "show/json_writer.h"
#include "show/tuning_code.h"
#include "show/tuning_show.h"

static void write_estimate(struct ks_json *json, const char *key, const struct ks_tuning_try *try)
{
    ks_json_object_begin(json, key);
    ks_json_real(json, "value", 1.0 / try->ratio.value);
    ks_json_real(json, "low", 1.0 / try->ratio.high);
    ks_json_real(json, "high", 1.0 / try->ratio.low);
    ks_json_object_end(json);
}

/* Numbers of a try that was not timed are 0, which no step takes. */
static void write_ns(struct ks_json *json, const char *key, double ns)
{
    ks_json_real(json, key, ns > 0.0 ? ns : (double)NAN);
}

static void write_bytes(struct ks_json *json, const char *key, int64_t bytes)
{
    if (bytes > 0) {
        ks_json_int(json, key, bytes);
    } else {
        ks_json_null(json, key);
    }
}

/* Percent of the time, or the memory, that is saved. */
static double saved(double before, double after)
{
    return before > 0.0 && after > 0.0 ? 100.0 * (1.0 - after / before) : (double)NAN;
}

static void write_try(struct ks_json *json, const char *key, const struct ks_tuning_try *try)
{
    bool is_timed = try->rounds > 0;
    ks_json_object_begin(json, key);
    ks_json_text(json, "change", try->change[0] ? try->change : NULL);
    ks_json_text(json, "fate", ks_tuning_fate_name(try->fate));
    ks_json_text(json, "verdict", is_timed ? ks_trial_verdict_name(try->verdict) : NULL);
    if (is_timed) {
        write_estimate(json, "speedup", try);
    } else {
        ks_json_null(json, "speedup");
    }
    ks_json_int(json, "rounds", (int64_t)try->rounds);
    write_ns(json, "before_ns", try->before_ns);
    write_ns(json, "after_ns", try->after_ns);
    ks_json_real(json, "time_improvement_percent", saved(try->before_ns, try->after_ns));
    write_bytes(json, "before_bytes", try->before_bytes);
    write_bytes(json, "after_bytes", try->after_bytes);
    write_bytes(json, "before_gpu_bytes", try->before_gpu_bytes);
    write_bytes(json, "after_gpu_bytes", try->after_gpu_bytes);
    bool is_gpu = try->after_gpu_bytes > 0;
    ks_json_real(json, "memory_improvement_percent",
                 saved((double)(is_gpu ? try->before_gpu_bytes : try->before_bytes),
                       (double)(is_gpu ? try->after_gpu_bytes : try->after_bytes)));
    ks_json_real(json, "difference", try->difference);
    ks_json_real(json, "tolerance", try->tolerance);
    ks_json_text(json, "reason", try->reason[0] ? try->reason : NULL);
    ks_json_object_end(json);
}

static void write_setting(struct ks_json *json, const char *key, const char *setting)
{
    ks_json_object_begin(json, key);
    struct ks_word word;
    for (size_t offset = 0; ks_word_list_next(setting, &offset, &word);) {
        char name[KS_TUNING_NAME_SIZE] = "";
        if (word.has_value && word.name.len < sizeof(name)) {
            memcpy(name, word.name.ptr, word.name.len);
            ks_json_str(json, name, word.value);
        }
    }
    ks_json_object_end(json);
}

static void write_code(struct ks_json *json, const struct ks_tuning *tuning)
{
    struct ks_text code;
    ks_text_init(&code);
    ks_tuning_code(ks_tuning_proven(tuning), tuning->device, "", &code);
    ks_json_array_begin(json, "code");
    for (size_t at = 0; at < code.len;) {
        const char *end = memchr(code.ptr + at, '\n', code.len - at);
        size_t len = end ? (size_t)(end - code.ptr) - at : code.len - at;
        ks_json_str(json, NULL, (struct ks_str){code.ptr + at, len});
        at += len + 1;
    }
    ks_json_array_end(json);
    json->failed = json->failed || code.failed;
    ks_text_release(&code);
}

static void write_left(struct ks_json *json, const struct ks_tuning *tuning, const char *key,
                       bool is_finding)
{
    ks_json_array_begin(json, key);
    for (size_t i = 0; i < tuning->left_count; i++) {
        if (tuning->left[i].is_finding == is_finding) {
            ks_json_object_begin(json, NULL);
            ks_json_text(json, "id", tuning->left[i].id);
            ks_json_text(json, "reason", tuning->left[i].reason);
            ks_json_object_end(json);
        }
    }
    ks_json_array_end(json);
}

void ks_tuning_write_members(const struct ks_tuning *tuning, struct ks_json *json)
{
    ks_json_text(json, "schema", "kinetoscope.tune/1");
    ks_json_text(json, "script", tuning->script);
    ks_json_object_begin(json, "environment");
    ks_json_text(json, "torch", tuning->torch);
    ks_json_text(json, "device", tuning->device);
    ks_json_object_end(json);
    ks_json_text(json, "ended", ks_tuning_end_name(tuning->end));
    ks_json_real(json, "seconds", tuning->seconds);
    ks_json_int(json, "processes", (int64_t)tuning->processes);
    ks_json_bool(json, "deterministic", tuning->is_deterministic);
    ks_json_real(json, "noise", tuning->noise);
    ks_json_text(json, "advice", tuning->advice[0] ? tuning->advice : NULL);
    write_setting(json, "base", tuning->base);
    write_setting(json, "setting", tuning->setting);
    write_code(json, tuning);
    write_try(json, "whole", &tuning->whole);
    ks_json_array_begin(json, "tries");
    for (size_t i = 0; i < tuning->try_count; i++) {
        write_try(json, NULL, &tuning->tries[i]);
    }
    ks_json_array_end(json);
    write_left(json, tuning, "not_tunable", true);
    write_left(json, tuning, "left_out", false);
}
