/* Goal: a setting becomes the lines of Python that do it, and what was found is told as it is.
 * Method: a table with each knob and value; sentences of made-up tunings. */
#include "cmocka_all.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "show/tuning_code.h"
#include "show/tuning_show.h"
#include "tune/knobs.h"

/* ------------------------------------------------------------------ code */

static const struct {
    const char *setting, *code;
} lines[] = {
    {"", ""},
    {"workers=4", "loader = DataLoader(..., num_workers=4)\n"},
    {"persistent=1", "loader = DataLoader(..., persistent_workers=True)\n"},
    {"persistent=0", ""},
    {"prefetch=8", "loader = DataLoader(..., prefetch_factor=8)\n"},
    {"pin=1", "loader = DataLoader(..., pin_memory=True)\n"
              "batch = batch.to(\"cuda\", non_blocking=True)\n"},
    {"batch=64", "loader = DataLoader(..., batch_size=64)\n"},
    {"optimizer=fused", "optimizer = OPTIMIZER(..., fused=True)\n"},
    {"optimizer=foreach", "optimizer = OPTIMIZER(..., foreach=True)\n"},
    {"precision=tf32", "torch.set_float32_matmul_precision(\"high\")\n"
                       "torch.backends.cudnn.allow_tf32 = True\n"},
    {"precision=bf16", "with torch.autocast(\"cuda\", dtype=torch.bfloat16):"
                       "  # around model(...) and the loss\n"},
    {"precision=fp16",
     "with torch.autocast(\"cuda\", dtype=torch.float16):  # around model(...) and the loss\n"
     "scaler = torch.amp.GradScaler()  # scale(loss).backward(), step(optimizer), update()\n"},
    {"layout=channels_last",
     "model = model.to(memory_format=torch.channels_last)  # and the images of each batch\n"},
    {"cudnn=benchmark", "torch.backends.cudnn.benchmark = True\n"},
    {"cudnn=fixed", "torch.backends.cudnn.benchmark = False\n"},
    {"attention=any", "torch.backends.cuda.enable_flash_sdp(True)\n"
                      "torch.backends.cuda.enable_mem_efficient_sdp(True)\n"},
    {"threads=2", "torch.set_num_threads(2)\n"},
    {"compile=default", "model.compile()\n"},
    {"compile=reduce-overhead", "model.compile(mode=\"reduce-overhead\")\n"},
    {"entry.gain=1", "# choice entry.gain=1, counted from 0\n"},
    {"batch=8,persistent=1,pin=1,prefetch=4,threads=1,workers=2",
     "loader = DataLoader(..., batch_size=8, num_workers=2, persistent_workers=True, "
     "prefetch_factor=4, pin_memory=True)\n"
     "batch = batch.to(\"cuda\", non_blocking=True)\n"
     "torch.set_num_threads(1)\n"},
};

static void test_each_setting_has_its_lines(void **state)
{
    (void)state;
    struct ks_text out;
    ks_text_init(&out);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        ks_text_reset(&out);
        ks_tuning_code(lines[i].setting, "cuda", "", &out);
        ks_text_append(&out, "", 1);
        assert_string_equal(out.ptr, lines[i].code);
    }
    ks_text_release(&out);
}

static void test_no_knob_is_forgotten(void **state)
{
    (void)state;
    for (size_t k = 0; k < KS_KNOB_COUNT; k++) {
        bool is_there = false;
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
            struct ks_word word = ks_word_of(ks_str_from(lines[i].setting));
            is_there = is_there || ks_str_equal(word.name, ks_str_from(ks_knobs[k].name));
        }
        assert_true(is_there);
    }
}

/* ------------------------------------------------------------------ what is told */

static struct ks_tuning tuning;

/* A loader got workers on top of `base`; both sides of the last comparison took these times. */
static void set_tuning(const char *base, enum ks_tuning_fate fate, const char *reason)
{
    tuning = (struct ks_tuning){.script = "train.py", .device = "cpu", .setting = "workers=4"};
    snprintf(tuning.base, sizeof(tuning.base), "%s", base);
    tuning.whole = (struct ks_tuning_try){.fate = fate,
                                          .verdict = fate == KS_TUNING_KEPT ? KS_TRIAL_FASTER
                                                                            : KS_TRIAL_CANNOT_TELL,
                                          .ratio = {0.5, 0.4, 0.8},
                                          .before_ns = 4e6,
                                          .after_ns = 2e6,
                                          .rounds = 9};
    snprintf(tuning.whole.reason, sizeof(tuning.whole.reason), "%s", reason);
}

static void check_sentence(const char *expected)
{
    struct ks_text out;
    ks_text_init(&out);
    ks_tuning_append_sentence(&tuning, &out);
    ks_text_append(&out, "", 1);
    assert_string_equal(out.ptr, expected);
    ks_text_release(&out);
}

static void test_the_sentence_is_that_of_the_last_comparison(void **state)
{
    (void)state;
    set_tuning("", KS_TUNING_KEPT, "faster");
    check_sentence("workers=4: 2.00 times as fast (1.25 to 2.50), 2.00 ms a step, was 4.00 ms.");
    set_tuning("", KS_TUNING_NOT_FASTER, "cannot tell");
    check_sentence("workers=4 was kept change by change, and is not faster as a whole (cannot tell)"
                   ": 2.00 times as fast (1.25 to 2.50), 2.00 ms a step, was 4.00 ms.");
    set_tuning("", KS_TUNING_WRONG, "loss 2 is 3 and was 1");
    check_sentence("workers=4 was kept change by change, and is wrong as a whole: "
                   "loss 2 is 3 and was 1. Not to be used.");
    set_tuning("", KS_TUNING_FAILED, "interrupted");
    tuning.end = KS_TUNING_INTERRUPTED;
    check_sentence("workers=4 was kept change by change, and not compared as a whole: interrupted."
                   " Interrupted: not all was tried.");
    set_tuning("", KS_TUNING_KEPT, "as fast, with less memory");
    tuning.whole.verdict = KS_TRIAL_NO_DIFFERENCE;
    tuning.whole.before_gpu_bytes = 4 << 20;
    tuning.whole.after_gpu_bytes = 2 << 20;
    check_sentence("workers=4: as fast, with less memory of the GPU (2.00 MiB, was 4.00 MiB).");
}

/* A document that lies in a folder may have been written by anybody. */
static void test_reasons_move_no_cursor(void **state)
{
    (void)state;
    for (int fate = KS_TUNING_KEPT; fate <= KS_TUNING_REFUSED; fate++) {
        struct ks_text out;
        ks_text_init(&out);
        set_tuning("", (enum ks_tuning_fate)fate, "x\033[2J");
        tuning.whole.verdict = KS_TRIAL_NO_DIFFERENCE;
        ks_tuning_append_sentence(&tuning, &out);
        assert_null(memchr(out.ptr, '\033', out.len));
        ks_text_release(&out);
    }
}

static void test_nothing_new_is_told_as_such(void **state)
{
    (void)state;
    set_tuning("workers=4", KS_TUNING_NOT_FASTER, "no difference");
    check_sentence("Nothing beyond the setting that you gave helped.");
    tuning.end = KS_TUNING_OUT_OF_TIME;
    check_sentence("Nothing beyond the setting that you gave helped. "
                   "Time is up: not all was tried.");
    tuning = (struct ks_tuning){0};
    check_sentence("No setting makes this script faster.");
}

struct page {
    size_t len;
    char bytes[8192];
};

static bool keep(void *user, const char *bytes, size_t size)
{
    struct page *page = user;
    assert_true(page->len + size < sizeof(page->bytes));
    memcpy(page->bytes + page->len, bytes, size);
    page->len += size;
    page->bytes[page->len] = '\0';
    return true;
}

static const char *write_page(enum ks_tuning_format format)
{
    static struct page page;
    struct ks_err err = {0};
    struct ks_tuning_style style = {.format = format};
    page.len = 0;
    assert_int_equal(ks_tuning_write(&tuning, &style, keep, &page, &err), KS_OK);
    return page.bytes;
}

static void check_proven(const char *proven, const char *file)
{
    static const char head[] = "# A setting of kscope tune, for kscope run --tuned.\n"
                               "# Of: train.py\n";
    assert_string_equal(ks_tuning_proven(&tuning), proven);
    const char *got = write_page(KS_TUNING_APPLY);
    assert_memory_equal(got, head, sizeof(head) - 1);
    assert_string_equal(got + sizeof(head) - 1, file);
    bool has_workers = strstr(proven, "workers=4") != NULL;
    assert_int_equal(strstr(write_page(KS_TUNING_SCREEN), "num_workers=4") != NULL, has_workers);
    assert_int_equal(strstr(write_page(KS_TUNING_JSON), "num_workers=4") != NULL, has_workers);
}

static void test_only_what_is_proven_is_recommended(void **state)
{
    (void)state;
    set_tuning("", KS_TUNING_KEPT, "faster");
    check_proven("workers=4", "workers=4\n");
    set_tuning("", KS_TUNING_WRONG, "loss 2 is 3 and was 1");
    check_proven("", "# Kept change by change, but not better as a whole:\n# workers=4\n");
    set_tuning("pin=1", KS_TUNING_NOT_FASTER, "cannot tell");
    check_proven("pin=1", "pin=1\n# Kept change by change, but not better as a whole:\n"
                          "# workers=4\n");
    set_tuning("", KS_TUNING_FAILED, "it ended with status 1");
    check_proven("", "# Kept change by change, but not better as a whole:\n# workers=4\n");
    tuning.end = KS_TUNING_INTERRUPTED;
    check_proven("workers=4", "workers=4\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_setting_has_its_lines),
        cmocka_unit_test(test_the_sentence_is_that_of_the_last_comparison),
        cmocka_unit_test(test_reasons_move_no_cursor),
        cmocka_unit_test(test_nothing_new_is_told_as_such),
        cmocka_unit_test(test_only_what_is_proven_is_recommended),
        cmocka_unit_test(test_no_knob_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
