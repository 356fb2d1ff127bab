/* What operators cost that a repair would make shorter (docs/analyses/op_work.md). */
#include "analyze/op_work.h"

#include <stdlib.h>

#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

/* ------------------------------------------------------------ names */

static bool ends_with(struct ks_str name, struct ks_str end)
{
    return name.len >= end.len && memcmp(name.ptr + name.len - end.len, end.ptr, end.len) == 0;
}

static unsigned class_of_aten(struct ks_str name)
{
    static const struct {
        const char *name;
        unsigned class;
    } known[] = {
        {"convolution_backward", KS_OP_CONVOLUTION},
        {"mm", KS_OP_PRODUCT},
        {"addmm", KS_OP_PRODUCT | KS_OP_WEIGHTED},
        {"linear", KS_OP_WEIGHTED},
        {"to", KS_OP_CAST},
        {"_to_copy", KS_OP_CAST},
        {"conv1d", KS_OP_WEIGHTED},
        {"conv2d", KS_OP_WEIGHTED},
        {"conv3d", KS_OP_WEIGHTED},
        {"_addmm_activation", KS_OP_PRODUCT},
        {"bmm", KS_OP_PRODUCT | KS_OP_BATCHED},
        {"baddbmm", KS_OP_PRODUCT | KS_OP_BATCHED},
        {"_softmax", KS_OP_SOFTMAX},
        {"_scaled_dot_product_attention_math", KS_OP_MATH},
        {"_scaled_dot_product_efficient_attention", KS_OP_EFFICIENT},
        {"_cudnn_attention_forward", KS_OP_CUDNN_ATTENTION},
        {"_cudnn_attention_backward", KS_OP_CUDNN_ATTENTION},
        {"_scaled_dot_product_cudnn_attention", KS_OP_CUDNN_ATTENTION},
        {"_scaled_dot_product_cudnn_attention_backward", KS_OP_CUDNN_ATTENTION},
    };
    for (size_t i = 0; i < KS_COUNT_OF(known); i++) {
        if (ks_str_equal(name, ks_str_from(known[i].name))) {
            return known[i].class;
        }
    }
    return ks_str_starts(name, KS_STR("_foreach_"))           ? (unsigned)KS_OP_FOREACH
           : ks_str_starts(name, KS_STR("_fused_"))           ? (unsigned)KS_OP_FUSED_STEP
           : ks_str_starts(name, KS_STR("cudnn_convolution")) ? (unsigned)KS_OP_CONVOLUTION
                                                              : 0u;
}

/* FullyShardedDataParallel's annotations are those of FSDP1. */
static unsigned class_of_sharding(struct ks_str name)
{
    static const struct {
        const char *begin;
        unsigned class;
    } known[] = {
        {"FSDP::all_gather_copy", 0},
        {"FSDP::all_gather", KS_OP_GATHER},
        {"FSDP::post_backward", KS_OP_SCATTER},
        {"FSDP::root_post_backward", KS_OP_SCATTER},
        {"FullyShardedDataParallel._pre_", KS_OP_GATHER},
        {"FullyShardedDataParallel._post_backward", KS_OP_SCATTER},
    };
    for (size_t i = 0; i < KS_COUNT_OF(known); i++) {
        if (ks_str_starts(name, ks_str_from(known[i].begin))) {
            return known[i].class;
        }
    }
    return 0;
}

/* Rows that compiled code leaves. */
static unsigned class_of_compiled(struct ks_str name)
{
    if (ks_str_equal(name, KS_STR("CompiledFunctionBackward"))) {
        return KS_OP_GRAPH | KS_OP_GRAPH_BACKWARD;
    }
    return ks_str_starts(name, KS_STR("Torch-Compiled Region"))     ? (unsigned)KS_OP_REGION
           : ks_str_equal(name, KS_STR("TorchDynamo Cache Lookup")) ? (unsigned)KS_OP_LOOKUP
           : ks_str_equal(name, KS_STR("CompiledFunction")) ||
                   ks_str_starts(name, KS_STR("## Call CompiledFxGraph")) ||
                   ks_str_starts(name, KS_STR("CompiledFxGraph"))
               ? (unsigned)KS_OP_GRAPH
               : 0u;
}

unsigned ks_op_class_of(struct ks_str name)
{
    struct ks_str aten = KS_STR("aten::");
    struct ks_str node = KS_STR("autograd::engine::evaluate_function: ");
    unsigned class = KS_OP_KNOWN | class_of_compiled(name);
    if (ks_str_starts(name, aten)) {
        class |= class_of_aten((struct ks_str){name.ptr + aten.len, name.len - aten.len});
    }
    if (ks_str_starts(name, KS_STR("F"))) {
        class |= class_of_sharding(name);
    }
    if (ks_str_starts(name, node) && ends_with(name, KS_STR("mmBackward0"))) {
        class |= KS_OP_PRODUCT_BACKWARD;
    }
    if (ends_with(name, KS_STR("torch::autograd::AccumulateGrad"))) {
        class |= KS_OP_ACCUMULATE;
    }
    if (ks_str_starts(name, KS_STR("Torch-Compiled Region")) ||
        ks_str_starts(name, KS_STR("CompiledFunction")) ||
        ks_str_starts(name, KS_STR("## Call CompiledFxGraph"))) {
        class |= KS_OP_COMPILED;
    }
    return class;
}

unsigned ks_op_work_class(struct ks_op_work *work, uint32_t name)
{
    if (work->classes[name] == 0) {
        struct ks_str text = ks_trace_str(work->analyzer->trace, (struct ks_strid){name});
        work->classes[name] = (uint32_t)ks_op_class_of(text);
    }
    return work->classes[name];
}

const struct ks_op_row *ks_op_work_around(struct ks_op_work *work, const struct ks_op_walk *walk,
                                          unsigned classes)
{
    size_t count = walk->open_count;
    for (size_t i = 0; i < count && i < KS_OP_SEARCH_MAX; i++) {
        const struct ks_op_row *row = &walk->open[count - 1 - i];
        if (ks_op_work_class(work, row->name) & classes) {
            return row;
        }
    }
    return NULL;
}

bool ks_op_work_is_inside(struct ks_op_work *work, const struct ks_op_walk *walk, unsigned class)
{
    return ks_op_work_around(work, walk, class) != NULL;
}

/* ------------------------------------------------------------ sums and means */

const struct ks_step *ks_op_work_step(const struct ks_op_work *work, const struct ks_op_walk *walk,
                                      int64_t ns)
{
    const struct ks_step *step = ks_step_lookup_host(work->analyzer->facts, walk->source, ns);
    return step && step->is_complete ? step : NULL;
}

/* Rows come in order of time but for threads: a step is mostly that of the row before. */
static void note_step(struct ks_work_cost *cost, int64_t number)
{
    for (size_t i = cost->step_count; i > 0; i--) {
        if (cost->steps[i - 1] == number) {
            return;
        }
    }
    if (cost->step_count < KS_COST_STEPS_MAX) {
        cost->steps[cost->step_count++] = number;
    }
}

void ks_op_work_add(struct ks_work_cost *cost, const struct ks_op_row *row,
                    const struct ks_step *step)
{
    cost->count++;
    cost->launches += row->launches;
    cost->host_ns = ks_sum_add(cost->host_ns, ks_sum_sub(row->end_ns, row->start_ns));
    cost->device_ns = ks_sum_add(cost->device_ns, row->device_ns);
    note_step(cost, step->number);
}

int64_t ks_op_work_mean_ns(const struct ks_op_work *work, int64_t ns)
{
    size_t steps = work->analyzer->facts->complete_step_count;
    return ns / (int64_t)(steps > 0 ? steps : 1);
}

void ks_op_work_mean(const struct ks_op_work *work, struct ks_work_cost *cost)
{
    size_t steps = work->analyzer->facts->complete_step_count;
    cost->count /= (double)(steps > 0 ? steps : 1);
    cost->launches /= (double)(steps > 0 ? steps : 1);
    cost->host_ns = ks_op_work_mean_ns(work, cost->host_ns);
    cost->device_ns = ks_op_work_mean_ns(work, cost->device_ns);
}

bool ks_op_work_has_copy(const struct ks_op_work *work, uint32_t lane, int64_t from_ns,
                         int64_t until_ns, enum ks_copy_way way)
{
    const struct ks_gpu_copies *copies = &work->analyzer->copies;
    size_t begin = 0;
    size_t end = copies->count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        const struct ks_gpu_copy *copy = &copies->items[middle];
        bool is_before =
            copy->launch_lane != lane ? copy->launch_lane < lane : copy->launch_ns < from_ns;
        begin = is_before ? middle + 1 : begin;
        end = is_before ? end : middle;
    }
    for (size_t i = begin; i < copies->count; i++) {
        const struct ks_gpu_copy *copy = &copies->items[i];
        if (copy->launch_lane != lane || copy->launch_ns >= until_ns) {
            return false;
        }
        if (copy->way == way) {
            return true;
        }
    }
    return false;
}

enum ks_status ks_op_work_add_span(struct ks_op_work *work, const struct ks_work_span *span,
                                   struct ks_err *err)
{
    KS_TRY(ks_grow(&work->spans, work->span_count, &work->span_capacity, sizeof(*span),
                   "spans of work", err));
    work->spans[work->span_count++] = *span;
    return KS_OK;
}

/* ------------------------------------------------------------ all parts */

/* A part that keeps nothing has a note alone. */
struct part {
    enum ks_status (*create)(struct ks_op_work *work, struct ks_err *err);
    enum ks_status (*note)(struct ks_op_work *work, const struct ks_op_walk *walk,
                           const struct ks_op_row *row, struct ks_err *err);
    enum ks_status (*publish)(struct ks_op_work *work, struct ks_err *err);
    void (*release)(struct ks_op_work *work);
    bool needs_no_gpu;
};

static const struct part parts[] = {
    {ks_optimizer_create, ks_optimizer_note, ks_optimizer_publish, NULL, true},
    {ks_retuning_create, ks_retuning_note, ks_retuning_publish, ks_retuning_release, false},
    {ks_attention_create, ks_attention_note, ks_attention_publish, ks_attention_release, false},
    {NULL, ks_shards_note, NULL, NULL, false},
    {ks_products_create, ks_products_note, ks_products_publish, ks_products_release, false},
    {ks_slow_create, ks_slow_note, ks_slow_publish, ks_slow_release, false},
    {ks_compiled_create, ks_compiled_note, ks_compiled_publish, ks_compiled_release, false},
    {ks_casts_create, ks_casts_note, ks_casts_publish, ks_casts_release, false},
    {ks_logits_create, ks_logits_note, ks_logits_publish, ks_logits_release, false},
    {ks_pointwise_create, ks_pointwise_note, ks_pointwise_publish, ks_pointwise_release, false},
    {ks_caches_create, ks_caches_note, ks_caches_publish, ks_caches_release, false},
    {ks_prefixes_create, ks_prefixes_note, ks_prefixes_publish, ks_prefixes_release, true},
    {ks_calls_create, ks_calls_note, ks_calls_publish, ks_calls_release, true},
    {ks_readings_create, ks_readings_note, ks_readings_publish, ks_readings_release, false},
    {ks_rates_create, ks_rates_note, ks_rates_publish, NULL, false},
};

static bool takes_part(const struct ks_op_work *work, const struct part *part)
{
    return part->needs_no_gpu || work->analyzer->facts->has_gpu;
}

static enum ks_status note_row(void *user, const struct ks_op_walk *walk,
                               const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_op_work *work = user;
    for (size_t i = 0; i < KS_COUNT_OF(parts); i++) {
        if (takes_part(work, &parts[i])) {
            KS_TRY(parts[i].note(work, walk, row, err));
        }
    }
    return KS_OK;
}

static int compare_spans(const void *left, const void *right)
{
    const struct ks_work_span *a = left;
    const struct ks_work_span *b = right;
    if (a->lane != b->lane) {
        return a->lane < b->lane ? -1 : 1;
    }
    if (a->from_ns != b->from_ns) {
        return a->from_ns < b->from_ns ? -1 : 1;
    }
    if (a->until_ns != b->until_ns) {
        return a->until_ns > b->until_ns ? -1 : 1;
    }
    return (a->marks > b->marks) - (a->marks < b->marks);
}

void ks_op_work_sort_spans(struct ks_op_work *work)
{
    if (work->span_count > 0) {
        qsort(work->spans, work->span_count, sizeof(*work->spans), compare_spans);
    }
}

static enum ks_status publish_spans(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_facts *facts = work->analyzer->facts;
    struct ks_work_span *spans = ks_new(&facts->arena, struct ks_work_span, work->span_count + 1);
    if (!spans) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep spans of work: count=%zu",
                       work->span_count);
    }
    ks_op_work_sort_spans(work);
    if (work->span_count > 0) {
        memcpy(spans, work->spans, work->span_count * sizeof(*spans));
    }
    facts->work.spans = spans;
    facts->work.span_count = work->span_count;
    return KS_OK;
}

static enum ks_status run(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_analyzer *analyzer = work->analyzer;
    work->classes =
        ks_new(&analyzer->scratch, uint32_t, (size_t)ks_trace_str_count(analyzer->trace) + 1);
    if (!work->classes) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot classify operators");
    }
    KS_TRY(ks_traffic_create(work, err));
    for (size_t i = 0; i < KS_COUNT_OF(parts); i++) {
        if (parts[i].create && takes_part(work, &parts[i])) {
            KS_TRY(parts[i].create(work, err));
        }
    }
    for (uint32_t i = 0; i < ks_trace_source_count(analyzer->trace); i++) {
        KS_TRY(ks_op_walk(analyzer, i, note_row, work, err));
    }
    for (size_t i = 0; i < KS_COUNT_OF(parts); i++) {
        if (parts[i].publish && takes_part(work, &parts[i])) {
            KS_TRY(parts[i].publish(work, err));
        }
    }
    return publish_spans(work, err);
}

enum ks_status ks_op_work_compute(struct ks_analyzer *analyzer, struct ks_err *err)
{
    struct ks_op_work work = {.analyzer = analyzer};
    if (analyzer->facts->complete_step_count == 0) {
        return KS_OK;
    }
    enum ks_status status = run(&work, err);
    for (size_t i = 0; i < KS_COUNT_OF(parts); i++) {
        if (parts[i].release) {
            parts[i].release(&work);
        }
    }
    ks_traffic_release(&work);
    ks_free(work.spans);
    return status;
}
