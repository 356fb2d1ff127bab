/* Which runs they are, and what is not the same about the way they were recorded. */
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/map.h"
#include "compare/compare_impl.h"

enum { TEXT_SIZE = 256, SETUPS_MAX = 24, KIND_COUNT = KS_STEP_OTHER + 1 };

/* ------------------------------------------------------------------ what a run says */

/* Writes what the run says into `text`; "" when it says nothing. */
typedef void (*describe)(const struct ks_compare_input *side, char text[TEXT_SIZE]);

static void print_str(char text[TEXT_SIZE], struct ks_str s)
{
    snprintf(text, TEXT_SIZE, "%.*s", (int)(s.len < TEXT_SIZE ? s.len : TEXT_SIZE - 1), s.ptr);
}

/* The first source that names it speaks for all. */
static void first_named(const struct ks_compare_input *side, size_t offset, char text[TEXT_SIZE])
{
    text[0] = '\0';
    for (uint32_t i = 0; i < ks_trace_source_count(side->trace) && !text[0]; i++) {
        const char *member = (const char *)ks_trace_source(side->trace, i) + offset;
        print_str(text, ks_trace_str(side->trace, *(const struct ks_strid *)(const void *)member));
    }
}

static void say_torch(const struct ks_compare_input *side, char text[TEXT_SIZE])
{
    first_named(side, offsetof(struct ks_source, torch_version), text);
}

static void say_cuda(const struct ks_compare_input *side, char text[TEXT_SIZE])
{
    first_named(side, offsetof(struct ks_source, cuda_version), text);
}

static void say_driver(const struct ks_compare_input *side, char text[TEXT_SIZE])
{
    first_named(side, offsetof(struct ks_source, driver_version), text);
}

static void say_format(const struct ks_compare_input *side, char text[TEXT_SIZE])
{
    first_named(side, offsetof(struct ks_source, format), text);
}

/* The model of the first device that worked. */
static void say_device(const struct ks_compare_input *side, char text[TEXT_SIZE])
{
    const struct ks_facts *facts = side->facts;
    text[0] = '\0';
    for (size_t i = 0; i < facts->device_count && !text[0]; i++) {
        print_str(text, ks_trace_str(side->trace, facts->devices[i].name));
    }
    if (!text[0]) {
        snprintf(text, TEXT_SIZE, "%s", facts->has_gpu ? "GPU" : "CPU");
    }
}

/* Ranks that are there, of which each may have several windows; a run of one process is one. */
static enum ks_status count_ranks(const struct ks_compare_input *side, int64_t *count,
                                  struct ks_err *err)
{
    struct ks_map ranks;
    enum ks_status status = KS_OK;
    ks_map_init(&ranks);
    for (uint32_t i = 0; i < ks_trace_source_count(side->trace) && status == KS_OK; i++) {
        int64_t rank = ks_trace_source(side->trace, i)->rank;
        if (rank >= 0 && !ks_map_put(&ranks, (uint64_t)rank, 0, NULL)) {
            status = ks_compare_no_memory(err);
        }
    }
    *count = ranks.count > 0 ? (int64_t)ranks.count : 1;
    ks_map_release(&ranks);
    return status;
}

/* Of the job, whose other ranks may not be among the files. */
static void say_world_size(const struct ks_compare_input *side, char text[TEXT_SIZE])
{
    int64_t size = -1;
    for (uint32_t i = 0; i < ks_trace_source_count(side->trace) && size < 0; i++) {
        size = ks_trace_source(side->trace, i)->world_size;
    }
    snprintf(text, TEXT_SIZE, "%" PRId64, size < 1 ? 1 : size);
}

static void say_found_by(const struct ks_compare_input *side, char text[TEXT_SIZE])
{
    static const char *const words[] = {
        [KS_STEPS_NONE] = "none",           [KS_STEPS_PROFILER] = "profiler",
        [KS_STEPS_MARK] = "mark",           [KS_STEPS_ENGINE] = "engine",
        [KS_STEPS_OPTIMIZER] = "optimizer", [KS_STEPS_TOP_SPAN] = "span",
        [KS_STEPS_GRAPH] = "graph",         [KS_STEPS_PERIOD] = "period",
        [KS_STEPS_WINDOW] = "window",
    };
    snprintf(text, TEXT_SIZE, "%s", words[side->facts->step_source]);
}

/* "train", or "prefill 10 %, decode 90 %". */
static void say_kinds(const struct ks_compare_input *side, char text[TEXT_SIZE])
{
    static const char *const words[KIND_COUNT] = {"train", "prefill", "decode", "mixed", "other"};
    const struct ks_facts *facts = side->facts;
    size_t counts[KIND_COUNT] = {0};
    size_t total = 0;
    for (size_t i = 0; i < facts->step_count; i++) {
        if (ks_step_counts(facts, &facts->steps[i])) {
            counts[facts->steps[i].kind]++;
            total++;
        }
    }
    size_t used = 0;
    text[0] = '\0';
    for (size_t kind = 0; kind < KIND_COUNT; kind++) {
        if (counts[kind] > 0) {
            double percent = 100.0 * (double)counts[kind] / (double)total;
            used += (size_t)snprintf(text + used, TEXT_SIZE - used, "%s%s %.0f %%",
                                     used > 0 ? ", " : "", words[kind], percent);
        }
    }
}

static void say_status(const struct ks_compare_input *side, char text[TEXT_SIZE])
{
    static const char *const words[] = {"whole", "repaired", "cut"};
    enum ks_source_status worst = KS_SOURCE_OK;
    for (uint32_t i = 0; i < ks_trace_source_count(side->trace); i++) {
        enum ks_source_status status = ks_source_status(ks_trace_source(side->trace, i));
        worst = status > worst ? status : worst;
    }
    snprintf(text, TEXT_SIZE, "%s", words[worst]);
}

/* ------------------------------------------------------------------ switches */

static const struct {
    const char *what;
    size_t offset;
    const char *note;
} switches[] = {
    {"record_shapes", offsetof(struct ks_source, record_shapes),
     "recording shapes makes operators slower"},
    {"profile_memory", offsetof(struct ks_source, profile_memory),
     "recording memory makes operators slower, and only one run has peaks"},
    {"with_stack", offsetof(struct ks_source, with_stack),
     "recording Python frames makes all of the host slower"},
    {"with_flops", offsetof(struct ks_source, with_flops),
     "recording for FLOPs makes operators slower"},
    {"with_modules", offsetof(struct ks_source, with_modules),
     "recording modules makes the host slower"},
};

static bool is_switched_on(const struct ks_compare_input *side, size_t offset)
{
    for (uint32_t i = 0; i < ks_trace_source_count(side->trace); i++) {
        const char *member = (const char *)ks_trace_source(side->trace, i) + offset;
        if (*(const bool *)(const void *)member) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ differences */

static const struct {
    const char *what;
    describe say;
    const char *note;
} traits[] = {
    {"device", say_device, "the devices differ: so may the times, whatever the program does"},
    {"torch", say_torch, "operators and kernels of two versions can differ in name and cost"},
    {"cuda", say_cuda, "kernels may come from other libraries"},
    {"driver", say_driver, "launches and waits may cost more or less"},
    {"world_size", say_world_size, "ranks share work and wait for each other"},
    {"steps_found_by", say_found_by, "steps found in two ways may be different stretches of time"},
    {"kinds_of_steps", say_kinds, "mean steps are of different work"},
    {"format", say_format, "recordings of different kinds: what one cannot hold is gone or new"},
    {"damage", say_status, "what was lost of a recording is missing in its numbers"},
};

static enum ks_status add(struct ks_comparison *out, const char *what, const char *a, const char *b,
                          const char *note, struct ks_err *err)
{
    KS_ASSERT(out->setup_count < SETUPS_MAX);
    struct ks_compare_setup *setup = &out->setups[out->setup_count++];
    setup->what = what;
    setup->note = note;
    if (*a) {
        KS_TRY(ks_compare_copy(out, ks_str_from(a), &setup->a, err));
    }
    return *b ? ks_compare_copy(out, ks_str_from(b), &setup->b, err) : KS_OK;
}

static enum ks_status add_counts(struct ks_comparison *out, const char *what, int64_t a, int64_t b,
                                 const char *note, struct ks_err *err)
{
    char a_text[24];
    char b_text[24];
    snprintf(a_text, sizeof(a_text), "%" PRId64, a);
    snprintf(b_text, sizeof(b_text), "%" PRId64, b);
    return a == b ? KS_OK : add(out, what, a_text, b_text, note, err);
}

static enum ks_status describe_run(const struct ks_compare_input *side, struct ks_comparison *out,
                                   struct ks_compare_run *run, struct ks_err *err)
{
    char text[TEXT_SIZE];
    for (uint32_t i = 0; i < ks_trace_source_count(side->trace); i++) {
        run->events += (int64_t)ks_trace_source(side->trace, i)->events;
    }
    KS_TRY(count_ranks(side, &run->ranks, err));
    run->path_count = (int64_t)side->path_count;
    if (side->path_count > 0) {
        KS_TRY(ks_compare_copy(out, ks_str_from(side->paths[0]), &run->path, err));
    }
    say_torch(side, text);
    if (text[0]) {
        KS_TRY(ks_compare_copy(out, ks_str_from(text), &run->torch, err));
    }
    say_device(side, text);
    return ks_compare_copy(out, ks_str_from(text), &run->device, err);
}

enum ks_status ks_compare_setups(const struct ks_compare_input sides[KS_COMPARE_SIDES],
                                 struct ks_comparison *out, struct ks_err *err)
{
    const struct ks_compare_input *a = &sides[KS_COMPARE_A];
    const struct ks_compare_input *b = &sides[KS_COMPARE_B];
    for (size_t side = 0; side < KS_COMPARE_SIDES; side++) {
        KS_TRY(describe_run(&sides[side], out, &out->runs[side], err));
    }
    out->setups = ks_new(&out->arena, struct ks_compare_setup, SETUPS_MAX);
    if (!out->setups) {
        return ks_compare_no_memory(err);
    }
    for (size_t i = 0; i < KS_COUNT_OF(traits); i++) {
        char texts[KS_COMPARE_SIDES][TEXT_SIZE];
        traits[i].say(a, texts[KS_COMPARE_A]);
        traits[i].say(b, texts[KS_COMPARE_B]);
        if (strcmp(texts[KS_COMPARE_A], texts[KS_COMPARE_B]) != 0) {
            KS_TRY(add(out, traits[i].what, texts[KS_COMPARE_A], texts[KS_COMPARE_B],
                       traits[i].note, err));
        }
    }
    for (size_t i = 0; i < KS_COUNT_OF(switches); i++) {
        bool in_a = is_switched_on(a, switches[i].offset);
        bool in_b = is_switched_on(b, switches[i].offset);
        if (in_a != in_b) {
            KS_TRY(add(out, switches[i].what, in_a ? "yes" : "no", in_b ? "yes" : "no",
                       switches[i].note, err));
        }
    }
    const struct ks_compare_run *runs = out->runs;
    KS_TRY(add_counts(out, "ranks", runs[KS_COMPARE_A].ranks, runs[KS_COMPARE_B].ranks,
                      "numbers are of a mean rank", err));
    return add_counts(out, "steps", runs[KS_COMPARE_A].times.count, runs[KS_COMPARE_B].times.count,
                      "numbers are of a mean step; fewer steps say less", err);
}
