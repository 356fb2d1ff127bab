/* Goal: changes are tried in the order of findings, workers climb and stop, settings keep their
 * words sorted, and numbers that are others are told from rounding.
 * Method: a search is played with made-up speeds; the rest are tables. */
#include "cmocka_all.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "tune/run_numbers.h"
#include "tune/search.h"

/* ------------------------------------------------------------------ settings */

static void check_set(const char *before, const char *word, const char *after, bool is_good)
{
    struct ks_setting setting = {0};
    snprintf(setting.text, sizeof(setting.text), "%s", before);
    assert_int_equal(ks_setting_set_word(&setting, ks_str_from(word)), is_good);
    assert_string_equal(setting.text, after);
}

static void test_setting_set(void **state)
{
    (void)state;
    check_set("", "workers=4", "workers=4", true);
    check_set("workers=4", "compile=default", "compile=default,workers=4", true);
    check_set("compile=default,workers=4", "workers=8", "compile=default,workers=8", true);
    check_set("a=1,c=3", "b=2", "a=1,b=2,c=3", true);
    check_set("a=1", "entry.gain=1", "a=1,entry.gain=1", true);
    check_set("a=1", "a", "a=1", false);
    check_set("a=1", "=2", "a=1", false);
    check_set("a=1", "b=", "a=1", false);
    check_set("a=1", "b=2;x", "a=1", false);
}

static void test_setting_is_bounded(void **state)
{
    (void)state;
    struct ks_setting setting = {0};
    char word[64];
    size_t count = 0;
    do {
        snprintf(word, sizeof(word), "entry.number%zu=1", count++);
    } while (ks_setting_set_word(&setting, ks_str_from(word)));
    assert_in_range(count, 10, 100);
    assert_true(strlen(setting.text) < sizeof(setting.text));
}

static void check_words(const char *list, const char *names, const char *values)
{
    char got[2][64] = {{0}};
    size_t used[2] = {0};
    struct ks_word word;
    for (size_t offset = 0; ks_word_list_next(list, &offset, &word);) {
        const struct ks_str parts[2] = {word.name, word.value};
        for (size_t i = 0; i < 2; i++) {
            used[i] += (size_t)snprintf(got[i] + used[i], sizeof(got[i]) - used[i], "%.*s%s",
                                        (int)parts[i].len, parts[i].ptr,
                                        i == 0 && word.has_value ? "=;" : ";");
        }
    }
    assert_string_equal(got[0], names);
    assert_string_equal(got[1], values);
}

static void test_words_are_taken_apart(void **state)
{
    (void)state;
    check_words("", "", "");
    check_words("a", "a;", ";");
    check_words("a=", "a=;", ";");
    check_words("a=1,bc=23", "a=;bc=;", "1;23;");
    check_words("a=1=2,b", "a=;b;", "1=2;;");
    check_words("a,,b", "a;", ";"); /* an empty word ends the list */
    struct ks_word word;
    assert_true(ks_word_list_find("ab=1,a=2", KS_STR("a"), &word));
    assert_true(ks_str_equal(word.value, KS_STR("2")));
    assert_false(ks_word_list_find("ab=1", KS_STR("a"), &word));
}

/* ------------------------------------------------------------------ searches */

static void add_fact(struct ks_script_facts *facts, const char *name, const char *value)
{
    ks_script_facts_add(facts, name, value);
}

static void set_cpu_facts(struct ks_script_facts *facts)
{
    static const char *const list[][2] = {
        {"device", "cpu"},    {"cores", "8"},        {"threads", "8"},     {"loaders", "1"},
        {"workers", "0"},     {"prefetch", "2"},     {"models", "1"},      {"dtype", "float32"},
        {"autocast", "none"}, {"optimizer", "Adam"}, {"fusable", "1"},     {"fused", "0"},
        {"pictures", "0"},    {"compiled", "0"},     {"epoch_steps", "0"},
    };
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        add_fact(facts, list[i][0], list[i][1]);
    }
}

/* Tells the search what the script would: workers help up to `best`, more make it slower. */
static void tell(struct ks_search *search, struct ks_setting *kept, const char *word, int64_t best)
{
    char value[KS_TUNING_NAME_SIZE];
    int64_t now = ks_setting_get(kept, "workers", value) ? strtoll(value, NULL, 10) : 0;
    int64_t wish = strncmp(word, "workers=", 8) == 0 ? strtoll(word + 8, NULL, 10) : -1;
    bool is_faster = wish >= 0 && llabs(wish - best) < llabs(now - best);
    if (is_faster) {
        assert_true(ks_setting_set_word(kept, ks_str_from(word)));
    }
    ks_search_told(search, is_faster ? KS_TUNING_KEPT : KS_TUNING_NOT_FASTER,
                   is_faster   ? KS_TRIAL_FASTER
                   : wish >= 0 ? KS_TRIAL_SLOWER
                               : KS_TRIAL_NO_DIFFERENCE);
}

/* The words that are tried, with blanks between them. */
static void play(const struct ks_search_options *options, int64_t best_workers, char out[512])
{
    struct ks_search search;
    struct ks_setting kept = {0};
    char word[KS_TUNING_NAME_SIZE];
    size_t used = 0;
    ks_search_init(&search, options);
    out[0] = '\0';
    for (size_t i = 0; i < 64 && ks_search_next(&search, &kept, word); i++) {
        used += (size_t)snprintf(out + used, 512 - used, "%s%s", used ? " " : "", word);
        tell(&search, &kept, word, best_workers);
    }
}

static void check_workers(int64_t best, const char *expected)
{
    struct ks_script_facts facts = {0};
    char tried[512];
    set_cpu_facts(&facts);
    struct ks_search_options options = {.facts = &facts, .what = "workers"};
    play(&options, best, tried);
    assert_string_equal(tried, expected);
}

static void test_workers_climb(void **state)
{
    (void)state;
    check_workers(4, "workers=4 workers=8 workers=6");
    check_workers(16, "workers=4 workers=8 workers=16");
    check_workers(2, "workers=4 workers=2");
    check_workers(0, "workers=4 workers=2");
    check_workers(6, "workers=4 workers=8 workers=6");
}

static void test_memory_bounds_workers(void **state)
{
    (void)state;
    struct ks_script_facts facts = {0};
    char tried[512];
    set_cpu_facts(&facts);
    struct ks_search_options options = {.facts = &facts, .what = "workers", .workers_max = 5};
    play(&options, 16, tried);
    assert_string_equal(tried, "workers=4 workers=5");
}

static void test_findings_come_first(void **state)
{
    (void)state;
    struct ks_script_facts facts = {0};
    char tried[512];
    const char *const ids[] = {"sync.host", "fusion.pointwise", "optimizer.unfused"};
    set_cpu_facts(&facts);
    add_fact(&facts, "loaders", "0");
    struct ks_search_options options = {.facts = &facts, .finding_ids = ids, .finding_count = 3};
    play(&options, 0, tried);
    assert_string_equal(tried,
                        "compile=default optimizer=fused precision=bf16 threads=1 threads=4");
    options.finding_count = 0;
    play(&options, 0, tried);
    assert_string_equal(tried,
                        "optimizer=fused precision=bf16 threads=1 threads=4 compile=default");
}

/* What is tried of a knob of a script on a GPU with this fact. */
static void check_gpu(const char *what, const char *fact, const char *value, const char *expected)
{
    static const char *const list[][2] = {{"device", "cuda"}, {"pictures", "1"},
                                          {"batch", "32"},    {"pin", "0"},
                                          {"flash", "1"},     {"efficient", "0"}};
    struct ks_script_facts facts = {0};
    char tried[512];
    set_cpu_facts(&facts);
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        add_fact(&facts, list[i][0], list[i][1]);
    }
    add_fact(&facts, fact, value);
    struct ks_search_options options = {.facts = &facts, .what = what};
    play(&options, 0, tried);
    assert_string_equal(tried, expected);
}

static void test_facts_choose_the_values(void **state)
{
    (void)state;
    check_gpu("cudnn", "benchmark", "0", "cudnn=benchmark");
    check_gpu("cudnn", "benchmark", "1", "cudnn=fixed");
    check_gpu("cudnn", "pictures", "0", "");
    check_gpu("cudnn", "device", "cpu", "");
    check_gpu("attention", "flash", "1", "attention=any");
    check_gpu("attention", "efficient", "1", "");
    check_gpu("attention", "device", "cpu", "");
    check_gpu("pin", "pin", "0", "pin=1");
    check_gpu("pin", "pin", "1", "");
    check_gpu("pin", "loaders", "0", "");
    check_gpu("pin", "device", "cpu", "");
    check_gpu("compile", "compiled", "0", "compile=default compile=reduce-overhead");
    check_gpu("compile", "compiled", "1", "compile=reduce-overhead");
    check_gpu("compile", "models", "0", "");
    check_gpu("precision", "tf32", "0", "precision=tf32 precision=bf16 precision=fp16");
    check_gpu("precision", "tf32", "1", "precision=bf16 precision=fp16");
    check_gpu("layout", "pictures", "1", "layout=channels_last");
    check_gpu("optimizer", "fused", "1", "");
    check_gpu("threads", "threads", "8", "");
}

static void test_a_script_that_compiles_on_a_cpu_has_all(void **state)
{
    (void)state;
    struct ks_script_facts facts = {0};
    char tried[512];
    set_cpu_facts(&facts);
    add_fact(&facts, "compiled", "1");
    struct ks_search_options options = {.facts = &facts, .what = "compile"};
    play(&options, 0, tried);
    assert_string_equal(tried, "");
}

static void test_batch_is_only_tried_when_named(void **state)
{
    (void)state;
    check_gpu("batch", "batch", "32", "batch=64");
    check_gpu("batch", "batch", "0", "");
    check_gpu("batch=16", "batch", "0", "batch=16");
    struct ks_script_facts facts = {0};
    char tried[512];
    set_cpu_facts(&facts);
    add_fact(&facts, "batch", "32");
    struct ks_search_options options = {.facts = &facts};
    play(&options, 0, tried);
    assert_null(strstr(tried, "batch"));
    assert_non_null(strstr(tried, "workers=4"));
    options.what = "all";
    play(&options, 0, tried);
    assert_null(strstr(tried, "batch"));
}

static void check_why_batch(const char *what, const char *batch, const char *kept, bool has_reason)
{
    struct ks_script_facts facts = {0};
    struct ks_setting setting = {0};
    struct ks_search search;
    set_cpu_facts(&facts);
    add_fact(&facts, "batch", batch);
    snprintf(setting.text, sizeof(setting.text), "%s", kept);
    struct ks_search_options options = {.facts = &facts, .what = what};
    ks_search_init(&search, &options);
    const char *why = ks_search_why_left(&search, &setting, KS_KNOB_BATCH);
    assert_int_equal(why != NULL, has_reason);
    assert_true(!why || strstr(why, "as in batch=64"));
}

static void test_a_batch_of_unknown_size_is_told(void **state)
{
    (void)state;
    check_why_batch("batch", "0", "", true);
    check_why_batch("batch", "8", "", false);
    check_why_batch("batch", "0", "batch=8", false);
    check_why_batch("batch=8", "0", "", false);
    check_why_batch("all", "0", "", false);
}

static void test_all_choices_of_an_entry_are_tried(void **state)
{
    (void)state;
    struct ks_script_facts facts = {0};
    char tried[512];
    char expected[512];
    size_t used = 0;
    set_cpu_facts(&facts);
    add_fact(&facts, "entry.gain", "25 1 a b c");
    for (size_t i = 1; i < 25; i++) {
        used += (size_t)snprintf(expected + used, sizeof(expected) - used, "%sentry.gain=%zu",
                                 i > 1 ? " " : "", i);
    }
    struct ks_search_options options = {.facts = &facts, .what = "entry"};
    play(&options, 0, tried);
    assert_string_equal(tried, expected);
}

static void test_named_values(void **state)
{
    (void)state;
    struct ks_script_facts facts = {0};
    char tried[512];
    set_cpu_facts(&facts);
    add_fact(&facts, "entry.gain", "3 1 a b c");
    struct ks_search_options options = {.facts = &facts,
                                        .what = "workers=3,workers=5,entry,batch=64"};
    play(&options, 0, tried);
    assert_string_equal(tried, "entry.gain=1 entry.gain=2 workers=3 workers=5 batch=64");
    options.what = "none";
    play(&options, 0, tried);
    assert_string_equal(tried, "");
}

static void test_what_is_checked(void **state)
{
    (void)state;
    struct ks_err err = {0};
    assert_int_equal(ks_search_check("dataloader,precision=fp16,entry.gain", &err), KS_OK);
    assert_int_equal(ks_search_check("none", &err), KS_OK);
    assert_int_equal(ks_search_check("speed", &err), KS_ERR_USAGE);
    assert_int_equal(ks_search_check("workers=", &err), KS_ERR_USAGE);
    assert_int_equal(ks_search_check("workers,,pin", &err), KS_ERR_USAGE);
    assert_int_equal(ks_search_check("", &err), KS_ERR_USAGE);
}

static void check_value(const char *text, const char *why_not)
{
    char got[KS_KNOB_WHY_SIZE];
    struct ks_err err = {0};
    bool is_good = ks_knob_allows(ks_word_of(ks_str_from(text)), got);
    assert_string_equal(got, why_not);
    assert_int_equal(is_good, why_not[0] == '\0');
    assert_int_equal(ks_search_check(text, &err), is_good ? KS_OK : KS_ERR_USAGE);
    assert_true(is_good || strstr(err.message, why_not));
}

static void test_values_are_checked(void **state)
{
    (void)state;
    static const char *const good[] = {
        "workers=0",
        "workers=64",
        "persistent=0",
        "persistent=1",
        "prefetch=4",
        "pin=0",
        "pin=1",
        "optimizer=fused",
        "optimizer=foreach",
        "precision=tf32",
        "precision=bf16",
        "precision=fp16",
        "attention=any",
        "cudnn=benchmark",
        "layout=channels_last",
        "cudnn=fixed",
        "threads=12",
        "compile=default",
        "compile=max-autotune",
        "batch=256",
        "entry.gain=0",
        "entry.gain=3",
        "compile=reduce-overhead",
        "compile=max-autotune-no-cudagraphs",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        check_value(good[i], "");
    }
    check_value("workers=four", "allowed: 0, a number from 1 on");
    check_value("workers=-1", "allowed: 0, a number from 1 on");
    check_value("workers=1234567", "allowed: 0, a number from 1 on");
    check_value("entry.gain=a", "allowed: 0, a number from 1 on");
    check_value("persistent=2", "allowed: 0, 1");
    check_value("prefetch=0", "allowed: a number from 1 on");
    check_value("threads=0", "allowed: a number from 1 on");
    check_value("batch=", "allowed: a number from 1 on");
    check_value("batch=1.5", "allowed: a number from 1 on");
    check_value("pin=yes", "allowed: 0, 1");
    check_value("optimizer=fuse", "allowed: fused, foreach");
    check_value("precision=fp8", "allowed: tf32, bf16, fp16");
    check_value("layout=#", "allowed: channels_last");
    check_value("cudnn=hello", "allowed: benchmark, fixed");
    check_value("attention=flash", "allowed: any");
    check_value("compile=fast", "allowed: default, reduce-overhead, max-autotune, "
                                "max-autotune-no-cudagraphs");
}

static void test_what_is_no_word_is_no_setting(void **state)
{
    (void)state;
    char why_not[KS_KNOB_WHY_SIZE];
    struct ks_err err = {0};
    assert_false(ks_knob_allows(ks_word_of(KS_STR("speed=1")), why_not));
    assert_string_equal(why_not, "no setting has this name");
    assert_false(ks_knob_allows(ks_word_of(KS_STR("workers")), why_not));
    assert_int_equal(ks_search_check("entry.;=1", &err), KS_ERR_USAGE);
}

static void test_each_fault_is_repaired_or_explained(void **state)
{
    (void)state;
    const char *id;
    for (size_t i = 0; (id = ks_rule_id(i)) != NULL; i++) {
        bool is_repaired = false;
        for (size_t k = 0; k < KS_KNOB_COUNT; k++) {
            is_repaired = is_repaired || ks_knob_repairs(&ks_knobs[k], id);
        }
        if (is_repaired == (ks_not_tunable(id) != NULL)) {
            fail_msg("%s is %s", id, is_repaired ? "repaired and not tunable" : "forgotten");
        }
    }
}

/* ------------------------------------------------------------------ numbers */

static void add_losses(struct ks_run_numbers *numbers, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ks_run_numbers_add(numbers, KS_NUMBER_LOSS, values[i]);
    }
}

static void check_numbers(const double after[3], double least, double most)
{
    static const double before[] = {1.0, 0.5, 0.25};
    struct ks_run_numbers a = {0};
    struct ks_run_numbers b = {0};
    add_losses(&a, before, 3);
    add_losses(&b, after, 3);
    struct ks_numbers_difference difference = ks_run_numbers_compare(&a, &b);
    assert_true(difference.value >= least && difference.value <= most);
    assert_int_equal(difference.compared, 3);
}

static void test_numbers_compare(void **state)
{
    (void)state;
    check_numbers((double[]){1.0, 0.5, 0.25}, 0.0, 0.0);
    check_numbers((double[]){1.0, 0.5, 0.26}, 0.0149, 0.0152); /* 0.01 of a size of 0.661 */
    check_numbers((double[]){1.0, (double)NAN, 0.25}, (double)INFINITY, (double)INFINITY);
    check_numbers((double[]){(double)INFINITY, 0.5, 0.25}, (double)INFINITY, (double)INFINITY);
    struct ks_run_numbers none = {0};
    assert_true(isnan(ks_run_numbers_compare(&none, &none).value));
}

static struct ks_numbers_difference compare_kinds(enum ks_number_kind before,
                                                  enum ks_number_kind after, double value)
{
    struct ks_run_numbers a = {0};
    struct ks_run_numbers b = {0};
    ks_run_numbers_add(&a, before, 2.0);
    ks_run_numbers_add(&b, after, value);
    return ks_run_numbers_compare(&a, &b);
}

static void test_norms_count_a_quarter(void **state)
{
    (void)state;
    struct ks_numbers_difference norm = compare_kinds(KS_NUMBER_NORM, KS_NUMBER_NORM, 2.5);
    assert_true(norm.value == 0.0625 && norm.kind == KS_NUMBER_NORM && norm.compared == 1);
    assert_true(norm.before == 2.0 && norm.after == 2.5);
    assert_true(compare_kinds(KS_NUMBER_OUTPUT, KS_NUMBER_OUTPUT, 2.5).value == 0.25);
    assert_true(compare_kinds(KS_NUMBER_LOSS, KS_NUMBER_LOSS, 2.5).value == 0.25);
    assert_true(isinf(compare_kinds(KS_NUMBER_NORM, KS_NUMBER_NORM, (double)NAN).value));
}

static void test_norms_of_steps_left_out_are_held_against_nothing(void **state)
{
    (void)state;
    struct ks_run_numbers plain = {0};
    struct ks_run_numbers scaled = {0};
    for (int i = 0; i < 3; i++) {
        ks_run_numbers_add(&plain, KS_NUMBER_NORM, 2.0 + i);
        ks_run_numbers_add(&scaled, KS_NUMBER_NORM, i == 0 ? (double)-INFINITY : 2.0 + i);
    }
    struct ks_numbers_difference some = ks_run_numbers_compare(&plain, &scaled);
    assert_true(some.value == 0.0 && some.compared == 2);
    struct ks_run_numbers none = {0};
    ks_run_numbers_add(&none, KS_NUMBER_NORM, (double)-INFINITY);
    struct ks_numbers_difference all = ks_run_numbers_compare(&plain, &none);
    assert_true(isinf(all.value) && all.is_missing && all.kind == KS_NUMBER_NORM);
}

static void test_missing_numbers_are_a_difference(void **state)
{
    (void)state;
    struct ks_numbers_difference gone = compare_kinds(KS_NUMBER_NORM, KS_NUMBER_LOSS, 2.0);
    assert_true(isinf(gone.value) && gone.is_missing && gone.kind == KS_NUMBER_NORM);
    struct ks_run_numbers before = {0};
    struct ks_run_numbers after = {0};
    ks_run_numbers_add(&before, KS_NUMBER_LOSS, 1.0);
    ks_run_numbers_add(&after, KS_NUMBER_LOSS, 1.0);
    ks_run_numbers_add(&after, KS_NUMBER_NORM, 1.0); /* more than there was is fine */
    assert_true(ks_run_numbers_compare(&before, &after).value == 0.0);
    assert_true(isinf(ks_run_numbers_compare(&after, &before).value));
}

static void test_each_change_has_its_tolerance(void **state)
{
    (void)state;
    assert_true(ks_change_tolerance(KS_CHANGE_EXACT) == 0.0);
    assert_true(ks_change_tolerance(KS_CHANGE_ROUNDING) == 0.002);
    assert_true(ks_change_tolerance(KS_CHANGE_TF32) == 0.01);
    assert_true(ks_change_tolerance(KS_CHANGE_HALF) == 0.05);
    assert_true(ks_change_tolerance(KS_CHANGE_DATA) == 1.0);
}

static void check_change(const struct ks_script_facts *facts, const char *word,
                         enum ks_change change)
{
    static const struct ks_setting none;
    assert_int_equal(ks_word_change(ks_word_of(ks_str_from(word)), &none, facts), change);
}

static void test_each_word_changes_as_much(void **state)
{
    (void)state;
    struct ks_script_facts facts = {0};
    add_fact(&facts, "entry.exact", "2 1 a b");
    add_fact(&facts, "entry.rough", "2 0 a b");
    check_change(&facts, "workers=4", KS_CHANGE_EXACT);
    check_change(&facts, "persistent=1", KS_CHANGE_EXACT);
    check_change(&facts, "prefetch=4", KS_CHANGE_EXACT);
    check_change(&facts, "pin=1", KS_CHANGE_EXACT);
    check_change(&facts, "entry.exact=1", KS_CHANGE_EXACT);
    check_change(&facts, "entry.rough=1", KS_CHANGE_ROUNDING);
    check_change(&facts, "optimizer=fused", KS_CHANGE_ROUNDING);
    check_change(&facts, "layout=channels_last", KS_CHANGE_ROUNDING);
    check_change(&facts, "cudnn=benchmark", KS_CHANGE_ROUNDING);
    check_change(&facts, "attention=any", KS_CHANGE_ROUNDING);
    check_change(&facts, "threads=1", KS_CHANGE_ROUNDING);
    check_change(&facts, "compile=default", KS_CHANGE_ROUNDING);
    check_change(&facts, "precision=tf32", KS_CHANGE_TF32);
    check_change(&facts, "precision=bf16", KS_CHANGE_HALF);
    check_change(&facts, "precision=fp16", KS_CHANGE_HALF);
    check_change(&facts, "batch=8", KS_CHANGE_DATA);
    add_fact(&facts, "draws", "1");
    check_change(&facts, "workers=4", KS_CHANGE_DATA);
    check_change(&facts, "prefetch=4", KS_CHANGE_EXACT);
}

static void test_tolerance_is_the_widest(void **state)
{
    (void)state;
    struct ks_script_facts facts = {0};
    struct ks_setting setting = {"persistent=1,workers=4"};
    assert_int_equal(ks_setting_change(&setting, &facts), KS_CHANGE_EXACT);
    assert_true(ks_setting_set(&setting, "optimizer", "fused"));
    assert_int_equal(ks_setting_change(&setting, &facts), KS_CHANGE_ROUNDING);
    assert_true(ks_setting_set(&setting, "precision", "tf32"));
    assert_int_equal(ks_setting_change(&setting, &facts), KS_CHANGE_TF32);
    assert_true(ks_setting_set(&setting, "precision", "bf16"));
    assert_int_equal(ks_setting_change(&setting, &facts), KS_CHANGE_HALF);
    add_fact(&facts, "draws", "1");
    assert_int_equal(ks_setting_change(&setting, &facts), KS_CHANGE_DATA);
}

static enum ks_change change_on(const char *word, const char *kept,
                                const struct ks_script_facts *facts)
{
    struct ks_setting setting = {{0}};
    snprintf(setting.text, sizeof(setting.text), "%s", kept);
    return ks_word_change(ks_word_of(ks_str_from(word)), &setting, facts);
}

/* Rounding another way shows in the precision of what was kept, and an exact change stays exact. */
static void test_rounding_is_in_the_precision_that_was_kept(void **state)
{
    (void)state;
    struct ks_script_facts facts = {0};
    assert_int_equal(change_on("compile=default", "", &facts), KS_CHANGE_ROUNDING);
    assert_int_equal(change_on("compile=default", "precision=tf32", &facts), KS_CHANGE_TF32);
    assert_int_equal(change_on("compile=default", "precision=bf16", &facts), KS_CHANGE_HALF);
    assert_int_equal(change_on("precision=tf32", "precision=bf16", &facts), KS_CHANGE_HALF);
    assert_int_equal(change_on("workers=4", "precision=bf16", &facts), KS_CHANGE_EXACT);
    assert_int_equal(change_on("compile=default", "batch=8", &facts), KS_CHANGE_ROUNDING);
    add_fact(&facts, "autocast", "bfloat16");
    assert_int_equal(change_on("layout=channels_last", "", &facts), KS_CHANGE_HALF);
    assert_int_equal(change_on("workers=4", "", &facts), KS_CHANGE_EXACT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words_are_taken_apart),
        cmocka_unit_test(test_setting_set),
        cmocka_unit_test(test_setting_is_bounded),
        cmocka_unit_test(test_workers_climb),
        cmocka_unit_test(test_memory_bounds_workers),
        cmocka_unit_test(test_findings_come_first),
        cmocka_unit_test(test_facts_choose_the_values),
        cmocka_unit_test(test_a_script_that_compiles_on_a_cpu_has_all),
        cmocka_unit_test(test_batch_is_only_tried_when_named),
        cmocka_unit_test(test_a_batch_of_unknown_size_is_told),
        cmocka_unit_test(test_all_choices_of_an_entry_are_tried),
        cmocka_unit_test(test_named_values),
        cmocka_unit_test(test_what_is_checked),
        cmocka_unit_test(test_values_are_checked),
        cmocka_unit_test(test_what_is_no_word_is_no_setting),
        cmocka_unit_test(test_each_fault_is_repaired_or_explained),
        cmocka_unit_test(test_numbers_compare),
        cmocka_unit_test(test_norms_count_a_quarter),
        cmocka_unit_test(test_missing_numbers_are_a_difference),
        cmocka_unit_test(test_norms_of_steps_left_out_are_held_against_nothing),
        cmocka_unit_test(test_each_change_has_its_tolerance),
        cmocka_unit_test(test_each_word_changes_as_much),
        cmocka_unit_test(test_tolerance_is_the_widest),
        cmocka_unit_test(test_rounding_is_in_the_precision_that_was_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
