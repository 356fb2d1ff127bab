#include "show/verdict.h"

#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "show/plain.h"
#include "show/units.h"

enum { CATEGORY_WIDTH = 40 };

const char *ks_verdict_word(enum ks_bound bound)
{
    static const char *const words[] = {
        [KS_BOUND_UNKNOWN] = "unknown", [KS_BOUND_INPUT] = "input",
        [KS_BOUND_HOST] = "host",       [KS_BOUND_GPU] = "gpu",
        [KS_BOUND_CPU] = "cpu",         [KS_BOUND_COMMUNICATION] = "communication",
    };
    KS_ASSERT((size_t)bound < KS_COUNT_OF(words));
    return words[bound];
}

/* Adds up each bound's time over the steps that count; gives their total. */
static int64_t add_up(const struct ks_view *view, int64_t bound_ns[KS_BOUND_COUNT])
{
    const struct ks_facts *facts = view->facts;
    int64_t total_ns = 0;
    for (size_t i = 0; i < facts->step_count; i++) {
        const struct ks_step *step = &facts->steps[i];
        if (!ks_view_step_counts(view, step)) {
            continue;
        }
        const int64_t *part_ns = step->breakdown_ns;
        int64_t gpu_ns =
            part_ns[KS_ROLE_KERNEL] + part_ns[KS_ROLE_MEMCPY] + part_ns[KS_ROLE_MEMSET];
        int64_t rest_ns = step->dur_ns - gpu_ns - part_ns[KS_ROLE_COMMUNICATION];
        int64_t input_ns = step->input_idle_ns < rest_ns ? step->input_idle_ns : rest_ns;
        total_ns += step->dur_ns;
        bound_ns[KS_BOUND_GPU] += gpu_ns;
        bound_ns[KS_BOUND_COMMUNICATION] += part_ns[KS_ROLE_COMMUNICATION];
        bound_ns[KS_BOUND_INPUT] += input_ns;
        int64_t other_ns = part_ns[KS_ROLE_OTHER] < rest_ns - input_ns ? part_ns[KS_ROLE_OTHER]
                                                                       : rest_ns - input_ns;
        int64_t cpu_ns = facts->has_gpu ? 0 : rest_ns - input_ns - other_ns;
        bound_ns[KS_BOUND_CPU] += cpu_ns;
        bound_ns[KS_BOUND_HOST] += rest_ns - input_ns - cpu_ns;
    }
    return total_ns;
}

static uint64_t event_count(const struct ks_view *view)
{
    uint64_t events = 0;
    for (uint32_t i = 0; i < ks_trace_source_count(view->trace); i++) {
        events += ks_trace_source(view->trace, i)->events;
    }
    return events;
}

/* "Each step takes 113 ms; " + "71.0 ms (63 %) of it waits for the data loader." */
static void write_sentence(const struct ks_view *view, int64_t part_ns, struct ks_verdict *verdict)
{
    static const struct {
        const char *before;
        const char *after;
    } words[] = {
        [KS_BOUND_INPUT] = {"", " of it waits for the data loader."},
        [KS_BOUND_HOST] = {"for ", " of it the GPU waits for the host."},
        [KS_BOUND_GPU] = {"the GPU is busy for ", " of it."},
        [KS_BOUND_COMMUNICATION] = {"", " of it is communication that nothing hides."},
        [KS_BOUND_CPU] = {"", " of it is work of CPU operators."},
    };
    bool is_between = verdict->bound == KS_BOUND_HOST && !view->facts->has_gpu;
    const char *after = is_between ? " of it no operator runs." : words[verdict->bound].after;
    const char *subject = view->facts->step_source == KS_STEPS_WINDOW ? "The recording"
                          : view->facts->step_count == 1              ? "The step"
                                                                      : "Each step";
    struct ks_unit_text step = ks_units_time(verdict->step_ns);
    struct ks_unit_text part = ks_units_time(part_ns);
    struct ks_unit_text share = ks_units_share(verdict->share);
    snprintf(verdict->text, sizeof(verdict->text), "%s takes %s; %s%s (%s)%s", subject, step.text,
             words[verdict->bound].before, part.text, share.text, after);
}

/* A recording alone holds no steps: what its regions say. The category is any text. */
static void write_regions(const struct ks_view *view, struct ks_verdict *verdict)
{
    const struct ks_facts *facts = view->facts;
    struct ks_text category;
    struct ks_unit_text self = ks_units_time(facts->region_category_ns);
    struct ks_unit_text share =
        ks_units_share((double)facts->region_category_ns / (double)facts->region_self_ns);
    ks_text_init(&category);
    ks_plain_append_fit(&category, ks_view_str(view, facts->region_category), CATEGORY_WIDTH);
    bool is_named = category.len > 0 && !category.failed;
    snprintf(verdict->text, sizeof(verdict->text),
             "Of the time in labelled regions, %.*s %s most by %s: %s (%s).",
             is_named ? (int)category.len : (int)KS_STR("those without a category").len,
             is_named ? category.ptr : "those without a category", is_named ? "takes" : "take",
             is_named ? "itself" : "themselves", self.text, share.text);
    ks_text_release(&category);
}

/* "train (train.py:12)" */
static void append_function(struct ks_text *text, const struct ks_view *view,
                            const struct ks_function_id *id)
{
    ks_plain_append_fit(text, ks_view_str(view, id->name), CATEGORY_WIDTH);
    if (id->first_line > 0) {
        struct ks_str file = ks_view_str(view, id->file);
        const char *slash = file.len > 0 ? memrchr(file.ptr, '/', file.len) : NULL;
        size_t skipped = slash ? (size_t)(slash - file.ptr) + 1 : 0;
        ks_text_printf(text, " (");
        ks_plain_append_fit(text, (struct ks_str){file.ptr + skipped, file.len - skipped},
                            CATEGORY_WIDTH);
        ks_text_printf(text, ":%u)", id->first_line);
    }
}

/* The function in which the thread that ran most was while it ran; NULL: none ran. */
static const struct ks_sample_fact *hottest_sample(const struct ks_facts *facts)
{
    const struct ks_sample_fact *most = NULL;
    for (size_t i = 0; i < facts->sample_count; i++) {
        const struct ks_sample_fact *sample = &facts->samples[i];
        bool is_more = sample->running_looks > (most ? most->running_looks : 0);
        most = is_more && sample->track == facts->samples[0].track ? sample : most;
    }
    return most;
}

/* A recording without regions, either: what its functions or its samples say. */
static bool write_functions(const struct ks_view *view, struct ks_verdict *verdict)
{
    const struct ks_facts *facts = view->facts;
    const struct ks_sample_fact *sample = hottest_sample(facts);
    struct ks_text name;
    ks_text_init(&name);
    if (facts->function_self_ns > 0) {
        const struct ks_function_fact *function = &facts->functions[0];
        double share = (double)function->self_ns / (double)facts->function_self_ns;
        append_function(&name, view, &function->id);
        snprintf(verdict->text, sizeof(verdict->text),
                 "Of the time in functions, %.*s takes most by itself: %s (%s).", (int)name.len,
                 name.ptr, ks_units_time(function->self_ns).text, ks_units_share(share).text);
    } else if (sample) {
        double share = (double)sample->running_looks / (double)sample->thread_running;
        append_function(&name, view, &sample->id);
        snprintf(verdict->text, sizeof(verdict->text),
                 "The thread that ran most was in %.*s most often: in %s of its samples.",
                 (int)name.len, name.ptr, ks_units_share(share).text);
    }
    ks_text_release(&name);
    return verdict->text[0] != '\0';
}

void ks_verdict_compute(const struct ks_view *view, struct ks_verdict *verdict)
{
    *verdict = (struct ks_verdict){.share = (double)NAN, .step_ns = ks_view_step_ns(view)};
    if (event_count(view) == 0 && view->facts->function_count == 0) {
        snprintf(verdict->text, sizeof(verdict->text),
                 "There is nothing to look at: no events in the input.");
        return;
    }
    int64_t bound_ns[KS_BOUND_COUNT] = {0};
    int64_t total_ns = add_up(view, bound_ns);
    if (total_ns <= 0 && view->facts->region_category_ns > 0) {
        write_regions(view, verdict);
        return;
    }
    if (total_ns <= 0 && write_functions(view, verdict)) {
        return;
    }
    if (total_ns <= 0) {
        snprintf(verdict->text, sizeof(verdict->text),
                 "No step was found that lasts some time, so there is none to explain.");
        return;
    }
    for (int bound = 0; bound < KS_BOUND_COUNT; bound++) {
        if (bound_ns[bound] > bound_ns[verdict->bound]) {
            verdict->bound = (enum ks_bound)bound;
        }
    }
    verdict->share = (double)bound_ns[verdict->bound] / (double)total_ns;
    int64_t part_ns = (int64_t)llround(verdict->share * (double)verdict->step_ns);
    write_sentence(view, part_ns, verdict);
}
