#include "tune/knobs.h"

#include <stdio.h>

const struct ks_knob ks_knobs[KS_KNOB_COUNT] = {
    [KS_KNOB_WORKERS] = {"workers", "dataloader", "input.starved", KS_CHANGE_EXACT},
    [KS_KNOB_PERSISTENT] = {"persistent", "dataloader", "input.starved", KS_CHANGE_EXACT},
    [KS_KNOB_PREFETCH] = {"prefetch", "dataloader", "input.starved", KS_CHANGE_EXACT},
    [KS_KNOB_PIN] = {"pin", "dataloader", "copy.pageable", KS_CHANGE_EXACT},
    [KS_KNOB_OPTIMIZER] = {"optimizer", "optimizer", "optimizer.unfused launch.bound",
                           KS_CHANGE_ROUNDING},
    [KS_KNOB_PRECISION] = {"precision", "precision", "precision.fp32_matmul", KS_CHANGE_HALF},
    [KS_KNOB_LAYOUT] = {"layout", "layout", "layout.transposes", KS_CHANGE_ROUNDING},
    [KS_KNOB_CUDNN] = {"cudnn", "cudnn", "cudnn.retuning", KS_CHANGE_ROUNDING},
    [KS_KNOB_ATTENTION] = {"attention", "attention", "attention.backend", KS_CHANGE_ROUNDING},
    [KS_KNOB_THREADS] = {"threads", "threads", "cpu.oversubscribed", KS_CHANGE_ROUNDING},
    [KS_KNOB_COMPILE] = {"compile", "compile",
                         "launch.bound fusion.pointwise compile.graphs_skipped",
                         KS_CHANGE_ROUNDING},
    [KS_KNOB_BATCH] = {"batch", "batch", "batch.too_small", KS_CHANGE_DATA},
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

bool ks_knob_repairs(const struct ks_knob *knob, const char *finding_id)
{
    const char *found = strstr(knob->findings, finding_id);
    size_t len = strlen(finding_id);
    return found && len > 0 && (found == knob->findings || found[-1] == ' ') &&
           (found[len] == ' ' || found[len] == '\0');
}

/* ------------------------------------------------------------------ which are of use */

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

static enum ks_change change_of(struct ks_word word, const struct ks_script_facts *facts)
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

enum ks_change ks_setting_change(const struct ks_setting *setting,
                                 const struct ks_script_facts *facts)
{
    enum ks_change widest = KS_CHANGE_EXACT;
    struct ks_word word;
    for (size_t offset = 0; ks_word_list_next(setting->text, &offset, &word);) {
        enum ks_change own = change_of(word, facts);
        widest = own > widest ? own : widest;
    }
    return widest;
}

double ks_change_tolerance(enum ks_change change)
{
    static const double tolerances[] = {
        [KS_CHANGE_EXACT] = 0.0, [KS_CHANGE_ROUNDING] = 2e-3, [KS_CHANGE_TF32] = 1e-2,
        [KS_CHANGE_HALF] = 5e-2, [KS_CHANGE_DATA] = 1.0,
    };
    return tolerances[change];
}
