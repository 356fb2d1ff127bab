#include "tune/search.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"

enum { WORKERS_FIRST_MAX = 16, WORKERS_USUAL_MAX = 8, WORKERS_MAX = 64, COMPILE_MODES = 2 };

static const char *const groups[] = {"dataloader", "precision", "compile", "layout",
                                     "optimizer",  "attention", "cudnn",   "threads",
                                     "batch",      "entry",     "all",     "none"};

/* ------------------------------------------------------------------ --what */

static bool is_group(struct ks_word word)
{
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        if (ks_str_equal(word.text, ks_str_from(groups[i]))) {
            return true;
        }
    }
    return false;
}

static enum ks_status check_word(struct ks_word word, struct ks_err *err)
{
    char why_not[KS_KNOB_WHY_SIZE];
    struct ks_setting scratch = {0};
    struct ks_str text = word.text;
    int len = (int)(text.len < 40 ? text.len : 40);
    bool is_name = ks_knob_find(word.name) || ks_str_starts(word.name, KS_STR("entry."));
    if (!is_name && !is_group(word)) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                       "Cannot tune \"%.*s\": there are dataloader, precision, compile, layout, "
                       "optimizer, attention, cudnn, threads, batch, entry, their parts "
                       "(docs/tuning.md), all and none",
                       len, text.ptr);
    }
    if (word.has_value && !ks_knob_allows(word, why_not)) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot tune \"%.*s\": %s", len, text.ptr,
                       why_not);
    }
    if (word.has_value && !ks_setting_set_word(&scratch, text)) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot tune \"%.*s\": no such name", len,
                       text.ptr);
    }
    return KS_OK;
}

enum ks_status ks_search_check(const char *what, struct ks_err *err)
{
    struct ks_word word;
    size_t offset = 0;
    while (ks_word_list_next(what, &offset, &word)) {
        KS_TRY(check_word(word, err));
    }
    if (what[offset] != '\0' || offset == 0) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot tune \"\": a word is empty");
    }
    return KS_OK;
}

/* The index-th value that --what names for the knob: "workers=4,workers=8". */
static bool named_value(const char *what, const char *name, size_t index, struct ks_str *value)
{
    struct ks_word word;
    for (size_t offset = 0; what && ks_word_list_next(what, &offset, &word);) {
        if (word.has_value && ks_str_equal(word.name, ks_str_from(name)) && index-- == 0) {
            *value = word.value;
            return true;
        }
    }
    return false;
}

static bool is_wanted(const char *what, const char *name, const char *group)
{
    struct ks_word word;
    if (!what) {
        return strcmp(group, "batch") != 0;
    }
    for (size_t offset = 0; ks_word_list_next(what, &offset, &word);) {
        bool is_all = ks_str_equal(word.text, KS_STR("all")) && strcmp(group, "batch") != 0;
        if (is_all || ks_str_equal(word.text, ks_str_from(group)) ||
            ks_str_equal(word.name, ks_str_from(name))) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ the order */

static void add_turn(struct ks_search *search, int knob, const char *name)
{
    for (size_t i = 0; i < search->turn_count; i++) {
        if (strcmp(search->turns[i].name, name) == 0) {
            return;
        }
    }
    if (search->turn_count < KS_SEARCH_TURNS_MAX) {
        struct ks_search_turn *turn = &search->turns[search->turn_count++];
        *turn = (struct ks_search_turn){.knob = knob};
        snprintf(turn->name, sizeof(turn->name), "%s", name);
    }
}

static void add_knob(struct ks_search *search, size_t id)
{
    const struct ks_knob *knob = &ks_knobs[id];
    if (is_wanted(search->options.what, knob->name, knob->group) &&
        !ks_knob_why_not((enum ks_knob_id)id, search->options.facts)) {
        add_turn(search, (int)id, knob->name);
    }
}

void ks_search_init(struct ks_search *search, const struct ks_search_options *options)
{
    *search = (struct ks_search){.options = *options};
    for (size_t f = 0; f < options->finding_count; f++) {
        for (size_t i = 0; i < KS_KNOB_COUNT; i++) {
            if (ks_knob_repairs(&ks_knobs[i], options->finding_ids[f])) {
                add_knob(search, i);
            }
        }
    }
    for (size_t i = 0; i < options->facts->count; i++) { /* the script's own know it best */
        const char *name = options->facts->list[i].name;
        if (strncmp(name, "entry.", 6) == 0 && is_wanted(options->what, name, "entry")) {
            add_turn(search, -1, name);
        }
    }
    for (size_t i = 0; i < KS_KNOB_COUNT; i++) {
        add_knob(search, i);
    }
}

/* ------------------------------------------------------------------ values */

static int64_t kept_number(const struct ks_search *search, const struct ks_setting *kept,
                           const char *name)
{
    char value[KS_TUNING_NAME_SIZE];
    return ks_setting_get(kept, name, value) ? strtoll(value, NULL, 10)
                                             : ks_script_facts_number(search->options.facts, name);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t workers_limit(const struct ks_search *search)
{
    int64_t cores = ks_script_facts_number(search->options.facts, "cores");
    /* Workers that wait for a disk need no core of their own. */
    int64_t limit = least(most(2 * cores, WORKERS_USUAL_MAX), WORKERS_MAX);
    int64_t by_memory = search->options.workers_max;
    return by_memory > 0 ? least(limit, most(by_memory, 1)) : limit;
}

/* How many workers next; 0: enough is known. `now` are kept. */
static int64_t next_workers(struct ks_search *search, const struct ks_search_turn *turn,
                            int64_t now)
{
    const struct ks_script_facts *facts = search->options.facts;
    int64_t cores = most(ks_script_facts_number(facts, "cores"), 1);
    int64_t last = turn->tried > 0 ? search->workers[turn->tried - 1] : 0;
    if (turn->tried == 0) {
        return now > 0 ? 2 * now : least(most(cores / 2, 2), WORKERS_FIRST_MAX);
    }
    if (search->last_fate == KS_TUNING_KEPT) {
        bool is_at_end = last < search->workers[0] || search->has_been_between;
        return is_at_end ? 0 : 2 * now;
    }
    bool is_slower = search->last_verdict == KS_TRIAL_SLOWER;
    if (is_slower && last - now >= 2 && now > 0 && turn->has_won && !search->has_been_between) {
        search->has_been_between = true;
        return (now + last) / 2;
    }
    bool is_first = turn->tried == 1;
    return is_first ? most(now > 0 ? now / 2 : last / 2, 1) : 0;
}

static bool workers_value(struct ks_search *search, struct ks_search_turn *turn,
                          const struct ks_setting *kept, char value[KS_TUNING_NAME_SIZE])
{
    int64_t now = kept_number(search, kept, "workers");
    size_t room = sizeof(search->workers) / sizeof(search->workers[0]);
    int64_t wish = turn->tried < room ? next_workers(search, turn, now) : 0;
    wish = least(wish, workers_limit(search));
    for (size_t i = 0; i < turn->tried; i++) {
        wish = search->workers[i] == wish ? 0 : wish;
    }
    if (wish <= 0 || wish == now) {
        return false;
    }
    search->workers[turn->tried] = wish;
    snprintf(value, KS_TUNING_NAME_SIZE, "%lld", (long long)wish);
    return true;
}

static const char *pick(const char *const *values, size_t count, size_t index)
{
    return index < count ? values[index] : NULL;
}

static const char *precision_value(const struct ks_script_facts *facts, size_t index,
                                   const struct ks_search_turn *turn)
{
    static const char *const on_gpu[] = {"tf32", "bf16", "fp16"};
    static const char *const on_cpu[] = {"bf16"};
    if (!ks_script_facts_is(facts, "device", "cuda")) {
        return pick(on_cpu, 1, index);
    }
    index += ks_script_facts_number(facts, "tf32") ? 1 : 0;
    /* Where bf16 does not help, fp16 hardly does, but on GPUs that are too old for bf16. */
    return index == 2 && turn->has_won ? NULL : pick(on_gpu, 3, index);
}

static const char *compile_value(const struct ks_script_facts *facts, size_t index)
{
    static const char *const modes[] = {"default", "reduce-overhead"};
    index += ks_script_facts_number(facts, "compiled") ? 1 : 0;
    return ks_script_facts_is(facts, "device", "cuda") ? pick(modes, COMPILE_MODES, index)
                                                       : pick(modes, 1, index);
}

static bool threads_value(const struct ks_script_facts *facts, size_t index,
                          char value[KS_TUNING_NAME_SIZE])
{
    int64_t now = ks_script_facts_number(facts, "threads");
    int64_t cores = ks_script_facts_number(facts, "cores");
    int64_t choices[3] = {cores, 1, cores / 2};
    size_t seen = 0;
    for (size_t i = 0; i < 3; i++) {
        bool is_new = choices[i] > 0 && choices[i] != now && !(i == 1 && cores == 1) &&
                      !(i == 2 && (choices[2] == 1 || choices[2] == cores));
        if (is_new && seen++ == index) {
            snprintf(value, KS_TUNING_NAME_SIZE, "%lld", (long long)choices[i]);
            return true;
        }
    }
    return false;
}

static bool entry_value(const struct ks_search *search, const struct ks_search_turn *turn,
                        char value[KS_TUNING_NAME_SIZE])
{
    int64_t count = ks_script_facts_number(search->options.facts, turn->name);
    snprintf(value, KS_TUNING_NAME_SIZE, "%zu", turn->tried + 1);
    return (int64_t)turn->tried + 1 < count;
}

static bool number_value(int64_t number, char value[KS_TUNING_NAME_SIZE])
{
    snprintf(value, KS_TUNING_NAME_SIZE, "%lld", (long long)number);
    return true;
}

/* The value of the turn's knob that is tried next, or false. */
static bool next_value(struct ks_search *search, struct ks_search_turn *turn,
                       const struct ks_setting *kept, char value[KS_TUNING_NAME_SIZE])
{
    const struct ks_script_facts *facts = search->options.facts;
    size_t index = turn->tried;
    bool has_workers = kept_number(search, kept, "workers") > 0;
    const char *text = NULL;
    switch (turn->knob) {
    case KS_KNOB_WORKERS: return workers_value(search, turn, kept, value);
    case KS_KNOB_PERSISTENT: text = has_workers && index == 0 ? "1" : NULL; break;
    case KS_KNOB_PREFETCH:
        return has_workers && (index == 0 || (index == 1 && turn->has_won)) &&
               number_value(2 * kept_number(search, kept, "prefetch"), value);
    case KS_KNOB_PIN: text = index == 0 ? "1" : NULL; break;
    case KS_KNOB_OPTIMIZER:
        text = index > 0 ? NULL : ks_script_facts_number(facts, "fusable") ? "fused" : "foreach";
        break;
    case KS_KNOB_PRECISION: text = precision_value(facts, index, turn); break;
    case KS_KNOB_LAYOUT: text = index == 0 ? "channels_last" : NULL; break;
    case KS_KNOB_CUDNN:
        text = index > 0                                    ? NULL
               : ks_script_facts_number(facts, "benchmark") ? "fixed"
                                                            : "benchmark";
        break;
    case KS_KNOB_ATTENTION: text = index == 0 ? "any" : NULL; break;
    case KS_KNOB_THREADS: return threads_value(facts, index, value);
    case KS_KNOB_COMPILE: text = compile_value(facts, index); break;
    case KS_KNOB_BATCH:
        return (index == 0 || turn->has_won) && kept_number(search, kept, "batch") > 0 &&
               number_value(2 * kept_number(search, kept, "batch"), value);
    default: return entry_value(search, turn, value);
    }
    if (text) {
        snprintf(value, KS_TUNING_NAME_SIZE, "%s", text);
    }
    return text != NULL;
}

/* A size that the script leaves to torch is not told by the hook. */
static bool is_size_unknown(const struct ks_search *search, const struct ks_setting *kept)
{
    struct ks_str named;
    return !named_value(search->options.what, "batch", 0, &named) &&
           kept_number(search, kept, "batch") <= 0;
}

const char *ks_search_why_left(const struct ks_search *search, const struct ks_setting *kept,
                               enum ks_knob_id id)
{
    const struct ks_knob *knob = &ks_knobs[id];
    if (!is_wanted(search->options.what, knob->name, knob->group)) {
        return NULL;
    }
    const char *why = ks_knob_why_not(id, search->options.facts);
    return !why && id == KS_KNOB_BATCH && is_size_unknown(search, kept)
               ? "the loader is given no batch size to begin with; one can be named, as in batch=64"
               : why;
}

/* ------------------------------------------------------------------ turns */

static bool turn_value(struct ks_search *search, struct ks_search_turn *turn,
                       const struct ks_setting *kept, char value[KS_TUNING_NAME_SIZE])
{
    struct ks_str named;
    if (named_value(search->options.what, turn->name, 0, &named)) {
        bool is_there = named_value(search->options.what, turn->name, turn->tried, &named);
        snprintf(value, KS_TUNING_NAME_SIZE, "%.*s", (int)named.len, named.ptr);
        return is_there;
    }
    return next_value(search, turn, kept, value);
}

bool ks_search_next(struct ks_search *search, const struct ks_setting *kept,
                    char word[KS_TUNING_NAME_SIZE])
{
    for (; search->at < search->turn_count; search->at++) {
        struct ks_search_turn *turn = &search->turns[search->at];
        char value[KS_TUNING_NAME_SIZE];
        if (turn_value(search, turn, kept, value)) {
            char both[2 * KS_TUNING_NAME_SIZE];
            snprintf(both, sizeof(both), "%s=%s", turn->name, value);
            snprintf(word, KS_TUNING_NAME_SIZE, "%.*s", KS_TUNING_NAME_SIZE - 1, both);
            return true;
        }
    }
    return false;
}

void ks_search_told(struct ks_search *search, enum ks_tuning_fate fate,
                    enum ks_trial_verdict verdict)
{
    struct ks_search_turn *turn = &search->turns[search->at];
    turn->tried++;
    turn->has_won = turn->has_won || fate == KS_TUNING_KEPT;
    search->last_fate = fate;
    search->last_verdict = verdict;
}
