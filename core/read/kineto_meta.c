#include <stdio.h>

#include "base/alloc.h"
#include "base/err.h"
#include "read/kineto.h"
#include "read/step_times.h"

/* Called for each key of an object with the cursor at its value, which it must take. */
typedef enum ks_json (*key_cb)(struct kineto *k, struct ks_json_cursor *c, struct ks_str key,
                               void *user);

static enum ks_json each_key(struct kineto *k, struct ks_json_cursor *c, key_cb cb, void *user)
{
    char ch;
    enum ks_json step = ks_json_peek(c, &ch);
    if (step != KS_JSON_OK) {
        return step;
    }
    if (ch != '{') {
        return ks_json_skip(c);
    }
    c->at++;
    step = ks_json_peek(c, &ch);
    bool more = step == KS_JSON_OK && ch != '}';
    if (step == KS_JSON_OK && !more) {
        c->at++;
    }
    while (more) {
        struct ks_json_str key;
        step = ks_json_key(c, &key);
        if (step == KS_JSON_OK) {
            step = cb(k, c, (struct ks_str){key.ptr, key.len}, user);
        }
        if (step == KS_JSON_OK) {
            step = ks_json_next(c, '}', &more);
        }
        if (step != KS_JSON_OK) {
            return step;
        }
    }
    return step;
}

/* Interned text of a scalar value: a string's content, a number's digits. Out of memory leaves the
 * id empty: metadata is worth less than the events behind it. */
static enum ks_json take_interned(struct kineto *k, struct ks_json_cursor *c, struct ks_strid *out)
{
    char ch;
    enum ks_json step = ks_json_peek(c, &ch);
    if (step != KS_JSON_OK) {
        return step;
    }
    struct ks_json_str raw = {0};
    if (ch == '"') {
        step = ks_json_string(c, &raw);
    } else if (ch == '{' || ch == '[') {
        return ks_json_skip(c);
    } else {
        struct ks_str text = {0};
        enum ks_json_kind kind;
        step = ks_json_scalar(c, &text, &kind);
        raw = (struct ks_json_str){text.ptr, text.len, 0};
    }
    if (step == KS_JSON_OK && kineto_intern(k, &raw, out, NULL) != KS_OK) {
        *out = (struct ks_strid){0};
    }
    return step;
}

static enum ks_json take_number(struct ks_json_cursor *c, int64_t *out)
{
    int64_t value;
    bool found;
    enum ks_json step = ks_json_int(c, &value, &found);
    if (step == KS_JSON_OK && found) {
        *out = value;
    }
    return step;
}

/* A number that is no count of anything real leaves `out` as it is: unknown. */
static enum ks_json take_int32(struct ks_json_cursor *c, int32_t *out)
{
    int64_t number = -1;
    enum ks_json step = take_number(c, &number);
    if (step == KS_JSON_OK && number >= 0 && number <= INT32_MAX) {
        *out = (int32_t)number;
    }
    return step;
}

static enum ks_json take_switch(struct ks_json_cursor *c, bool *out)
{
    int64_t value = 0;
    ks_json_blanks(c);
    *out = *c->at == 't';
    enum ks_json step = take_number(c, &value);
    *out |= value != 0;
    return step;
}

/* 13000 -> "13.0": CUDA writes 1000 * major + 10 * minor. */
static enum ks_json take_cuda_version(struct kineto *k, struct ks_json_cursor *c,
                                      struct ks_strid *out)
{
    int64_t version = 0;
    enum ks_json step = take_number(c, &version);
    if (step != KS_JSON_OK || version < 1000) {
        return step;
    }
    char text[32];
    int len = snprintf(text, sizeof(text), "%lld.%lld", (long long)(version / 1000),
                       (long long)(version % 1000 / 10));
    struct ks_json_str raw = {text, (size_t)len, 0};
    if (kineto_intern(k, &raw, out, NULL) != KS_OK) {
        *out = (struct ks_strid){0};
    }
    return step;
}

static enum ks_json distributed_key(struct kineto *k, struct ks_json_cursor *c, struct ks_str key,
                                    void *user)
{
    struct ks_source *s = user;
    if (ks_str_equal(key, KS_STR("rank"))) {
        return take_number(c, &s->rank);
    }
    if (ks_str_equal(key, KS_STR("world_size"))) {
        return take_number(c, &s->world_size);
    }
    if (ks_str_equal(key, KS_STR("backend"))) {
        return take_interned(k, c, &s->backend);
    }
    return ks_json_skip(c);
}

static enum ks_json device_key(struct kineto *k, struct ks_json_cursor *c, struct ks_str key,
                               void *user)
{
    struct ks_gpu_info *gpu = user;
    if (ks_str_equal(key, KS_STR("id"))) {
        return take_number(c, &gpu->id);
    }
    if (ks_str_equal(key, KS_STR("name"))) {
        return take_interned(k, c, &gpu->name);
    }
    if (ks_str_equal(key, KS_STR("totalGlobalMem"))) {
        return take_number(c, &gpu->memory_bytes);
    }
    if (ks_str_equal(key, KS_STR("computeMajor"))) {
        return take_int32(c, &gpu->compute_major);
    }
    if (ks_str_equal(key, KS_STR("computeMinor"))) {
        return take_int32(c, &gpu->compute_minor);
    }
    if (ks_str_equal(key, KS_STR("numSms"))) {
        return take_int32(c, &gpu->sm_count);
    }
    return ks_json_skip(c);
}

/* Out of memory leaves the source without: metadata is worth less than the events behind it. */
static void keep_devices(struct kineto *k, const struct ks_gpu_info *gpus, size_t count)
{
    struct ks_source *s = k->to.source;
    if (count > s->gpu_count) {
        s->gpus = ks_new(ks_trace_builder_arena(k->to.builder), struct ks_gpu_info, count);
    }
    s->gpu_count = s->gpus ? count : 0;
    if (s->gpus) {
        memcpy(s->gpus, gpus, count * sizeof(*gpus));
    }
}

/* The list is taken in one go (it starts over when the window ends inside it). */
static enum ks_json take_devices(struct kineto *k, struct ks_json_cursor *c)
{
    bool more;
    struct ks_gpu_info gpus[KINETO_GPUS_MAX];
    size_t count = 0;
    enum ks_json step = ks_json_open_array(c, &more);
    while (step == KS_JSON_OK && more) {
        struct ks_gpu_info gpu = {
            .id = (int64_t)count, .compute_major = -1, .compute_minor = -1, .sm_count = -1};
        step = each_key(k, c, device_key, &gpu);
        if (step == KS_JSON_OK) {
            step = ks_json_next(c, ']', &more);
        }
        if (step != KS_JSON_OK) {
            return step;
        }
        if (count < KINETO_GPUS_MAX) {
            gpus[count++] = gpu;
        }
    }
    if (step == KS_JSON_OK && count > 0) {
        keep_devices(k, gpus, count);
    }
    return step;
}

/* Median of a list of step times. */
static enum ks_json take_step_times(struct ks_json_cursor *c, int64_t *median)
{
    struct ks_step_times times;
    enum ks_json step = ks_step_times_take(c, &times);
    if (step == KS_JSON_OK) {
        *median = ks_step_times_middle(&times);
    }
    return step;
}

/* A number below 0 is none. */
static enum ks_json take_count(struct ks_json_cursor *c, int64_t *value)
{
    enum ks_json step = take_number(c, value);
    *value = *value < 0 ? 0 : *value;
    return step;
}

static enum ks_json compiler_key(struct kineto *k, struct ks_json_cursor *c, struct ks_str key,
                                 void *user)
{
    struct ks_source *s = user;
    const struct {
        struct ks_str key;
        int64_t *value;
    } numbers[] = {
        {KS_STR("functions"), &s->compiler.functions},
        {KS_STR("functions_compiled"), &s->compiler.functions_compiled},
        {KS_STR("graph_breaks"), &s->compiler.graph_breaks},
        {KS_STR("graphs_skipped"), &s->compiler.graphs_skipped},
    };
    for (size_t i = 0; i < KS_COUNT_OF(numbers); i++) {
        if (ks_str_equal(key, numbers[i].key)) {
            return take_count(c, numbers[i].value);
        }
    }
    return ks_str_equal(key, KS_STR("graph_break_reason"))
               ? take_interned(k, c, &s->graph_break_reason)
               : ks_json_skip(c);
}

static enum ks_json process_key(struct kineto *k, struct ks_json_cursor *c, struct ks_str key,
                                void *user)
{
    struct ks_process_use *use = user;
    const struct {
        struct ks_str key;
        int64_t *value;
    } numbers[] = {
        {KS_STR("threads"), &use->threads},
        {KS_STR("cores"), &use->cores},
        {KS_STR("local_ranks"), &use->local_ranks},
        {KS_STR("wall_ns"), &use->wall_ns},
        {KS_STR("cpu_ns"), &use->cpu_ns},
        {KS_STR("thread_run_ns"), &use->thread_run_ns},
        {KS_STR("thread_wait_ns"), &use->thread_wait_ns},
        {KS_STR("quota_us"), &use->quota_us},
        {KS_STR("period_us"), &use->period_us},
        {KS_STR("periods"), &use->periods},
        {KS_STR("throttled"), &use->throttled},
        {KS_STR("throttled_ns"), &use->throttled_ns},
        {KS_STR("loader_ns"), &use->loader_ns},
        {KS_STR("loader_cpu_ns"), &use->loader_cpu_ns},
        {KS_STR("workers"), &use->workers},
        {KS_STR("worker_cpu_ns"), &use->worker_cpu_ns},
        {KS_STR("worker_wait_ns"), &use->worker_wait_ns},
        {KS_STR("mask_batches"), &use->mask_batches},
        {KS_STR("mask_slots"), &use->mask_slots},
        {KS_STR("mask_longest"), &use->mask_longest},
        {KS_STR("mask_tokens"), &use->mask_tokens},
        {KS_STR("numa_distance"), &use->numa_distance},
        {KS_STR("numa_node"), &use->numa_node},
    };
    (void)k;
    for (size_t i = 0; i < KS_COUNT_OF(numbers); i++) {
        if (ks_str_equal(key, numbers[i].key)) {
            return take_count(c, numbers[i].value);
        }
    }
    return ks_json_skip(c);
}

/* What `kscope run` writes beside the events. */
static enum ks_json run_key(struct kineto *k, struct ks_json_cursor *c, struct ks_str key,
                            void *user)
{
    struct ks_source *s = user;
    if (ks_str_equal(key, KS_STR("process"))) {
        return each_key(k, c, process_key, &s->process);
    }
    if (ks_str_equal(key, KS_STR("compiler"))) {
        return each_key(k, c, compiler_key, s);
    }
    if (ks_str_equal(key, KS_STR("cut_step"))) {
        return ks_json_int(c, &s->cut_step, &s->has_cut_step);
    }
    if (ks_str_equal(key, KS_STR("pid"))) {
        return take_number(c, &s->pid);
    }
    if (ks_str_equal(key, KS_STR("unprofiled_step_ns"))) {
        return take_step_times(c, &s->unprofiled_step_ns);
    }
    return ks_json_skip(c);
}

static enum ks_json switch_key(struct kineto *k, struct ks_json_cursor *c, struct ks_str key,
                               bool *known)
{
    struct ks_source *s = k->to.source;
    const struct {
        struct ks_str key;
        bool *value;
    } switches[] = {
        {KS_STR("record_shapes"), &s->record_shapes},   {KS_STR("with_stack"), &s->with_stack},
        {KS_STR("profile_memory"), &s->profile_memory}, {KS_STR("with_flops"), &s->with_flops},
        {KS_STR("with_modules"), &s->with_modules},
    };
    for (size_t i = 0; i < KS_COUNT_OF(switches); i++) {
        if (ks_str_equal(key, switches[i].key)) {
            *known = true;
            return take_switch(c, switches[i].value);
        }
    }
    *known = false;
    return KS_JSON_OK;
}

static enum ks_json text_key(struct kineto *k, struct ks_json_cursor *c, struct ks_str key,
                             bool *known)
{
    struct ks_source *s = k->to.source;
    const struct {
        struct ks_str key;
        struct ks_strid *value;
    } texts[] = {
        {KS_STR("traceName"), &s->trace_name},
        {KS_STR("trace_id"), &s->trace_id},
        {KS_STR("host_name"), &s->host_name},
        {KS_STR("torch_version"), &s->torch_version},
    };
    for (size_t i = 0; i < KS_COUNT_OF(texts); i++) {
        if (ks_str_equal(key, texts[i].key)) {
            *known = true;
            return take_interned(k, c, texts[i].value);
        }
    }
    *known = false;
    return KS_JSON_OK;
}

enum ks_json kineto_meta_parse(struct kineto *k, struct ks_json_cursor *c, struct ks_str key)
{
    struct ks_source *s = k->to.source;
    bool known;
    enum ks_json step = switch_key(k, c, key, &known);
    if (!known) {
        step = text_key(k, c, key, &known);
    }
    if (known) {
        return step;
    }
    if (ks_str_equal(key, KS_STR("baseTimeNanoseconds"))) {
        bool found;
        int64_t base_ns;
        step = ks_json_int(c, &base_ns, &found);
        if (step == KS_JSON_OK && found) {
            s->base_ns = base_ns;
            s->has_base = true;
        }
        return step;
    }
    if (ks_str_equal(key, KS_STR("distributedInfo"))) {
        return each_key(k, c, distributed_key, s);
    }
    if (ks_str_equal(key, KS_STR("kinetoscope"))) {
        return each_key(k, c, run_key, s);
    }
    if (ks_str_equal(key, KS_STR("deviceProperties")) ||
        ks_str_equal(key, KS_STR("computeProperties"))) {
        return take_devices(k, c);
    }
    if (ks_str_equal(key, KS_STR("cuda_runtime_version"))) {
        return take_cuda_version(k, c, &s->cuda_version);
    }
    if (ks_str_equal(key, KS_STR("cuda_driver_version"))) {
        return take_cuda_version(k, c, &s->driver_version);
    }
    return ks_json_skip(c);
}
