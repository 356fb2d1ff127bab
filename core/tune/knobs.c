#include "tune/knobs.h"

#include <stdio.h>

enum { NUMBER_DIGITS = 6 };

static const char ANY_NUMBER[] = "a number from 1 on";
/* A choice of the script's own, by its place. */
static const char ENTRY_VALUES[] = "0 #";

const struct ks_knob ks_knobs[KS_KNOB_COUNT] = {
    [KS_KNOB_WORKERS] = {"workers", "dataloader", "input.starved", "0 #", KS_CHANGE_EXACT},
    [KS_KNOB_PERSISTENT] = {"persistent", "dataloader", "input.starved", "0 1", KS_CHANGE_EXACT},
    [KS_KNOB_PREFETCH] = {"prefetch", "dataloader", "input.starved", "#", KS_CHANGE_EXACT},
    [KS_KNOB_PIN] = {"pin", "dataloader", "copy.pageable", "0 1", KS_CHANGE_EXACT},
    [KS_KNOB_OPTIMIZER] = {"optimizer", "optimizer", "optimizer.unfused launch.bound",
                           "fused foreach", KS_CHANGE_ROUNDING},
    [KS_KNOB_PRECISION] = {"precision", "precision", "precision.fp32_matmul", "tf32 bf16 fp16",
                           KS_CHANGE_HALF},
    [KS_KNOB_LAYOUT] = {"layout", "layout", "layout.transposes", "channels_last",
                        KS_CHANGE_ROUNDING},
    [KS_KNOB_CUDNN] = {"cudnn", "cudnn", "cudnn.retuning", "benchmark fixed", KS_CHANGE_ROUNDING},
    [KS_KNOB_ATTENTION] = {"attention", "attention", "attention.backend", "any",
                           KS_CHANGE_ROUNDING},
    [KS_KNOB_THREADS] = {"threads", "threads", "cpu.oversubscribed", "#", KS_CHANGE_ROUNDING},
    [KS_KNOB_COMPILE] = {"compile", "compile",
                         "launch.bound fusion.pointwise compile.graphs_skipped",
                         "default reduce-overhead max-autotune max-autotune-no-cudagraphs",
                         KS_CHANGE_ROUNDING},
    [KS_KNOB_BATCH] = {"batch", "batch", "batch.too_small", "#", KS_CHANGE_DATA},
};

const struct ks_knob *ks_knob_find(struct ks_str name)
{
    for (size_t i = 0; i < KS_KNOB_COUNT; i++) {
        if (ks_str_equal(name, ks_str_from(ks_knobs[i].name))) {
            return &ks_knobs[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ which values there are */

static bool is_number(struct ks_str value)
{
    bool is_good = value.len > 0 && value.len <= NUMBER_DIGITS && value.ptr[0] != '0';
    for (size_t i = 0; i < value.len && is_good; i++) {
        is_good = value.ptr[i] >= '0' && value.ptr[i] <= '9';
    }
    return is_good;
}

static bool allows(const char *values, struct ks_str value)
{
    for (size_t len; *values; values += len + (values[len] == ' ')) {
        len = strcspn(values, " ");
        struct ks_str one = {values, len};
        if (ks_str_equal(one, KS_STR("#")) ? is_number(value) : ks_str_equal(one, value)) {
            return true;
        }
    }
    return false;
}

/* "0, a number from 1 on"; "fused, foreach". */
static void list_values(const char *values, char out[KS_KNOB_WHY_SIZE])
{
    size_t used = (size_t)snprintf(out, KS_KNOB_WHY_SIZE, "allowed:");
    const char *separator = " ";
    for (size_t len; *values; values += len + (values[len] == ' ')) {
        len = strcspn(values, " ");
        bool is_any = len == 1 && *values == '#';
        used += (size_t)snprintf(out + used, KS_KNOB_WHY_SIZE - used, "%s%.*s", separator,
                                 is_any ? (int)sizeof(ANY_NUMBER) - 1 : (int)len,
                                 is_any ? ANY_NUMBER : values);
        separator = ", ";
    }
}

bool ks_knob_allows(struct ks_word word, char why_not[KS_KNOB_WHY_SIZE])
{
    const struct ks_knob *knob = ks_knob_find(word.name);
    bool is_entry = !knob && ks_str_starts(word.name, KS_STR("entry."));
    why_not[0] = '\0';
    if (!knob && !is_entry) {
        snprintf(why_not, KS_KNOB_WHY_SIZE, "no setting has this name");
        return false;
    }
    const char *values = is_entry ? ENTRY_VALUES : knob->values;
    if (!word.has_value || !allows(values, word.value)) {
        list_values(values, why_not);
        return false;
    }
    return true;
}

/* ------------------------------------------------------------------ which are of use */

bool ks_knob_repairs(const struct ks_knob *knob, const char *finding_id)
{
    const char *found = strstr(knob->findings, finding_id);
    size_t len = strlen(finding_id);
    return found && len > 0 && (found == knob->findings || found[-1] == ' ') &&
           (found[len] == ' ' || found[len] == '\0');
}

static const char *why_no_loader(const struct ks_script_facts *facts)
{
    if (ks_script_facts_number(facts, "loaders") == 0) {
        return "the script uses no DataLoader";
    }
    return NULL;
}

static const char *why_no_workers(const struct ks_script_facts *facts)
{
    if (ks_script_facts_number(facts, "iterable") != 0) {
        return "an IterableDataset hands all of its data out in each worker";
    }
    return why_no_loader(facts);
}

static const char *why_no_persistence(const struct ks_script_facts *facts)
{
    if (why_no_workers(facts)) {
        return why_no_workers(facts);
    }
    if (ks_script_facts_number(facts, "epoch_steps") == 0) {
        return "no epoch ended in the steps that were timed";
    }
    return ks_script_facts_number(facts, "persistent") ? "workers are kept already" : NULL;
}

static bool is_gpu(const struct ks_script_facts *facts)
{
    return ks_script_facts_is(facts, "device", "cuda");
}

static const char *why_no_pin(const struct ks_script_facts *facts)
{
    if (!is_gpu(facts)) {
        return "nothing is copied to a GPU";
    }
    return ks_script_facts_number(facts, "pin") ? "batches are pinned already"
                                                : why_no_loader(facts);
}

static const char *why_no_optimizer(const struct ks_script_facts *facts)
{
    if (ks_script_facts_is(facts, "optimizer", "none")) {
        return "the script steps no optimizer";
    }
    if (ks_script_facts_number(facts, "fused")) {
        return "the optimizer is fused already";
    }
    return ks_script_facts_number(facts, "fusable") || ks_script_facts_number(facts, "foreach")
               ? NULL
               : "torch has no fused form of this optimizer";
}

static const char *why_no_precision(const struct ks_script_facts *facts)
{
    if (ks_script_facts_number(facts, "models") == 0) {
        return "no module with parameters is called";
    }
    if (!ks_script_facts_is(facts, "autocast", "none")) {
        return "the script chooses its precision itself, by autocast";
    }
    return ks_script_facts_is(facts, "dtype", "float32") ? NULL : "the parameters are not all fp32";
}

static const char *why_no_compile(const struct ks_script_facts *facts)
{
    if (ks_script_facts_number(facts, "models") == 0 &&
        !ks_script_facts_number(facts, "compiled")) {
        return "no module with parameters is called";
    }
    return NULL;
}

const char *ks_knob_why_not(enum ks_knob_id id, const struct ks_script_facts *facts)
{
    bool has_pictures = ks_script_facts_number(facts, "pictures") != 0;
    switch (id) {
    case KS_KNOB_WORKERS:
    case KS_KNOB_PREFETCH: return why_no_workers(facts);
    case KS_KNOB_PERSISTENT: return why_no_persistence(facts);
    case KS_KNOB_PIN: return why_no_pin(facts);
    case KS_KNOB_OPTIMIZER: return why_no_optimizer(facts);
    case KS_KNOB_PRECISION: return why_no_precision(facts);
    case KS_KNOB_LAYOUT: return has_pictures ? NULL : "no model takes inputs of four dimensions";
    case KS_KNOB_CUDNN:
        return !is_gpu(facts) ? "cuDNN is of GPUs" : has_pictures ? NULL : "nothing is convolved";
    case KS_KNOB_ATTENTION:
        if (!is_gpu(facts)) {
            return "there is one form of attention without a GPU";
        }
        return ks_script_facts_number(facts, "flash") && ks_script_facts_number(facts, "efficient")
                   ? "torch may choose among all forms already"
                   : NULL;
    case KS_KNOB_THREADS: return is_gpu(facts) ? "the work is on a GPU" : NULL;
    case KS_KNOB_COMPILE: return why_no_compile(facts);
    case KS_KNOB_BATCH: return why_no_loader(facts);
    }
    return NULL;
}

/* ------------------------------------------------------------------ how far numbers may go */

static enum ks_change own_change(struct ks_word word, const struct ks_script_facts *facts)
{
    const struct ks_knob *knob = ks_knob_find(word.name);
    if (!knob) { /* "entry.NAME": "<count> <exact> choices", or one that the script never made */
        char fact[KS_TUNING_NAME_SIZE];
        int exact = 1;
        snprintf(fact, sizeof(fact), "%.*s", (int)word.name.len, word.name.ptr);
        (void)sscanf(ks_script_facts_get(facts, fact), "%*d %d", &exact);
        return exact ? KS_CHANGE_EXACT : KS_CHANGE_ROUNDING;
    }
    if (knob == &ks_knobs[KS_KNOB_PRECISION] && ks_str_equal(word.value, KS_STR("tf32"))) {
        return KS_CHANGE_TF32;
    }
    if (knob == &ks_knobs[KS_KNOB_WORKERS] && ks_script_facts_number(facts, "draws")) {
        return KS_CHANGE_DATA;
    }
    return knob->change;
}

static bool is_half(const char *dtype)
{
    return strcmp(dtype, "bfloat16") == 0 || strcmp(dtype, "float16") == 0;
}

/* How coarse the numbers are that the script, with this setting, computes with. */
static enum ks_change precision_of(const struct ks_setting *setting,
                                   const struct ks_script_facts *facts)
{
    char value[KS_TUNING_NAME_SIZE];
    bool is_set = ks_setting_get(setting, "precision", value);
    bool is_tf32 = is_set && strcmp(value, "tf32") == 0;
    if ((is_set && !is_tf32) || is_half(ks_script_facts_get(facts, "autocast")) ||
        is_half(ks_script_facts_get(facts, "dtype"))) {
        return KS_CHANGE_HALF;
    }
    return is_tf32 || ks_script_facts_number(facts, "tf32") ? KS_CHANGE_TF32 : KS_CHANGE_ROUNDING;
}

static enum ks_change in_precision(enum ks_change change, const struct ks_setting *setting,
                                   const struct ks_script_facts *facts)
{
    enum ks_change least = change == KS_CHANGE_EXACT ? change : precision_of(setting, facts);
    return change > least ? change : least;
}

enum ks_change ks_word_change(struct ks_word word, const struct ks_setting *kept,
                              const struct ks_script_facts *facts)
{
    return in_precision(own_change(word, facts), kept, facts);
}

enum ks_change ks_setting_change(const struct ks_setting *setting,
                                 const struct ks_script_facts *facts)
{
    enum ks_change widest = KS_CHANGE_EXACT;
    struct ks_word word;
    for (size_t offset = 0; ks_word_list_next(setting->text, &offset, &word);) {
        enum ks_change own = own_change(word, facts);
        widest = own > widest ? own : widest;
    }
    return in_precision(widest, setting, facts);
}

double ks_change_tolerance(enum ks_change change)
{
    static const double tolerances[] = {
        [KS_CHANGE_EXACT] = 0.0, [KS_CHANGE_ROUNDING] = 2e-3, [KS_CHANGE_TF32] = 1e-2,
        [KS_CHANGE_HALF] = 5e-2, [KS_CHANGE_DATA] = 1.0,
    };
    return tolerances[change];
}
