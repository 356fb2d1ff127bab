#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/word_list.h"
#include "show/ink.h"
#include "show/json_writer.h"
#include "show/plain.h"
#include "show/tuning_code.h"
#include "show/tuning_show.h"
#include "show/units.h"

enum {
    WIDTH_DEFAULT = 100,
    WIDTH_MIN = 60,
    CHANGE_WIDTH = 24,
    BEFORE_REASON = CHANGE_WIDTH + 46, /* columns of the numbers */
    REASON_MIN = 20,
};

const char *ks_tuning_fate_name(enum ks_tuning_fate fate)
{
    static const char *const names[] = {"kept", "not_faster", "wrong", "failed", "refused"};
    return names[fate];
}

const char *ks_tuning_end_name(enum ks_tuning_end end)
{
    static const char *const names[] = {"done", "out_of_time", "interrupted"};
    return names[end];
}

static enum ks_ink ink_of(enum ks_tuning_fate fate)
{
    switch (fate) {
    case KS_TUNING_KEPT: return KS_INK_GOOD;
    case KS_TUNING_WRONG: return KS_INK_HOT;
    case KS_TUNING_FAILED: return KS_INK_WARN;
    case KS_TUNING_NOT_FASTER:
    case KS_TUNING_REFUSED: break;
    }
    return KS_INK_FAINT;
}

static size_t width_of(const struct ks_tuning_style *style)
{
    size_t width = style->width ? style->width : WIDTH_DEFAULT;
    return width > WIDTH_MIN ? width : WIDTH_MIN;
}

static void append_padded(struct ks_text *out, const char *text, size_t width)
{
    size_t before = out->len;
    ks_plain_append_fit(out, ks_str_from(text), width);
    if (!out->failed) {
        size_t own = ks_plain_width((struct ks_str){out->ptr + before, out->len - before});
        ks_text_printf(out, "%*s", (int)(own < width ? width - own : 0), "");
    }
}

static void append_numbers(const struct ks_tuning_try *try, struct ks_text *out)
{
    char range[64];
    snprintf(range, sizeof(range), "(%.2f-%.2f)", 1.0 / try->ratio.high, 1.0 / try->ratio.low);
    int64_t bytes = try->after_gpu_bytes > 0 ? try->after_gpu_bytes : try->after_bytes;
    ks_text_printf(out, "%11s %6.2fx %-13s %10s  ", ks_units_time((int64_t)try->after_ns).text,
                   1.0 / try->ratio.value, range, bytes > 0 ? ks_units_bytes(bytes).text : "-");
}

static void append_row(const struct ks_tuning_try *try, const struct ks_tuning_style *style,
                       struct ks_text *out)
{
    size_t width = width_of(style);
    size_t room = width > BEFORE_REASON + REASON_MIN ? width - BEFORE_REASON : 0;
    append_padded(out, try->change[0] ? try->change : "the same again", CHANGE_WIDTH);
    if (try->rounds > 0) {
        append_numbers(try, out);
    } else { /* the reason has all of the line */
        ks_text_append(out, "  ", 2);
        room = width - CHANGE_WIDTH - 2;
    }
    ks_ink(out, style->colour, ink_of(try->fate));
    if (room == 0) {
        ks_text_append_str(out, KS_STR("\n    "));
        room = width - 4;
    }
    char words[2 * KS_TUNING_TEXT_SIZE];
    const char *fate = ks_tuning_fate_name(try->fate);
    if (try->fate == KS_TUNING_NOT_FASTER) {
        snprintf(words, sizeof(words), "%s", try->reason);
    } else {
        snprintf(words, sizeof(words), "%s: %s", fate, try->reason);
    }
    ks_plain_append_fit(out, ks_str_from(words), room);
    ks_ink(out, style->colour, KS_INK_END);
    ks_text_append(out, "\n", 1);
}

static void append_times(const struct ks_tuning_try *whole, struct ks_text *out)
{
    ks_text_printf(out, ": %.2f times as fast (%.2f to %.2f), %s a step", 1.0 / whole->ratio.value,
                   1.0 / whole->ratio.high, 1.0 / whole->ratio.low,
                   ks_units_time((int64_t)whole->after_ns).text);
    ks_text_printf(out, ", was %s.", ks_units_time((int64_t)whole->before_ns).text);
}

/* What all changes together came to. Each was better than what was kept before it, which does not
 * make all of them better than the script as it is. */
static void append_whole(const struct ks_tuning *tuning, struct ks_text *out)
{
    const struct ks_tuning_try *whole = &tuning->whole;
    ks_plain_append(out, ks_str_from(tuning->setting));
    switch (whole->fate) {
    case KS_TUNING_KEPT:
        if (whole->verdict != KS_TRIAL_FASTER) {
            ks_text_append(out, ": ", 2);
            ks_plain_append(out, ks_str_from(whole->reason));
            ks_text_printf(out, " of the GPU (%s", ks_units_bytes(whole->after_gpu_bytes).text);
            ks_text_printf(out, ", was %s).", ks_units_bytes(whole->before_gpu_bytes).text);
            return;
        }
        append_times(whole, out);
        return;
    case KS_TUNING_WRONG:
        ks_text_append_str(out, KS_STR(" was kept change by change, and is wrong as a whole: "));
        ks_plain_append(out, ks_str_from(whole->reason));
        ks_text_append_str(out, KS_STR(". Not to be used."));
        return;
    case KS_TUNING_NOT_FASTER:
        ks_text_append_str(out,
                           KS_STR(" was kept change by change, and is not faster as a whole ("));
        ks_plain_append(out, ks_str_from(whole->reason));
        ks_text_append(out, ")", 1);
        append_times(whole, out);
        return;
    case KS_TUNING_FAILED:
    case KS_TUNING_REFUSED: break;
    }
    ks_text_append_str(out, KS_STR(" was kept change by change, and not compared as a whole: "));
    ks_plain_append(out, ks_str_from(whole->reason));
    ks_text_append(out, ".", 1);
}

const char *ks_tuning_proven(const struct ks_tuning *tuning)
{
    enum ks_tuning_fate fate = tuning->whole.fate;
    bool is_cut_off = fate == KS_TUNING_FAILED && tuning->end == KS_TUNING_INTERRUPTED;
    return fate == KS_TUNING_KEPT || is_cut_off ? tuning->setting : tuning->base;
}

void ks_tuning_append_sentence(const struct ks_tuning *tuning, struct ks_text *out)
{
    if (strcmp(tuning->setting, tuning->base) != 0) {
        append_whole(tuning, out);
    } else if (tuning->base[0]) {
        ks_text_append_str(out, KS_STR("Nothing beyond the setting that you gave helped."));
    } else {
        ks_text_append_str(out, KS_STR("No setting makes this script faster."));
    }
    if (tuning->end != KS_TUNING_DONE) {
        ks_text_append_str(out, tuning->end == KS_TUNING_INTERRUPTED
                                    ? KS_STR(" Interrupted: not all was tried.")
                                    : KS_STR(" Time is up: not all was tried."));
    }
}

static void append_left(const struct ks_tuning *tuning, const struct ks_tuning_style *style,
                        bool is_finding, struct ks_text *out)
{
    for (size_t i = 0; i < tuning->left_count; i++) {
        const struct ks_tuning_left *left = &tuning->left[i];
        if (left->is_finding == is_finding) {
            ks_ink(out, style->colour, is_finding ? KS_INK_WARN : KS_INK_FAINT);
            ks_text_append_str(out, KS_STR("  "));
            ks_plain_append(out, ks_str_from(left->id));
            ks_text_append_str(out, is_finding ? KS_STR(" is not tunable, because ")
                                               : KS_STR(": left out, because "));
            ks_plain_append(out, ks_str_from(left->reason));
            ks_text_append_str(out, is_finding ? KS_STR("; fix: kscope explain ") : KS_STR(""));
            ks_plain_append(out, ks_str_from(is_finding ? left->id : ""));
            ks_ink(out, style->colour, KS_INK_END);
            ks_text_append(out, "\n", 1);
        }
    }
}

void ks_tuning_append_screen(const struct ks_tuning *tuning, const struct ks_tuning_style *style,
                             struct ks_text *out)
{
    ks_ink(out, style->colour, KS_INK_STRONG);
    ks_tuning_append_sentence(tuning, out);
    ks_ink(out, style->colour, KS_INK_END);
    ks_text_append(out, "\n\n", 2);
    ks_ink(out, style->colour, KS_INK_FAINT);
    append_padded(out, "change", CHANGE_WIDTH);
    ks_text_printf(out, "%11s %7s %-13s %10s  %s\n", "a step", "faster", "", "memory", "outcome");
    ks_ink(out, style->colour, KS_INK_END);
    for (size_t i = 0; i < tuning->try_count; i++) {
        append_row(&tuning->tries[i], style, out);
    }
    if (ks_tuning_proven(tuning)[0]) {
        ks_text_append_str(out, KS_STR("\nThe setting as code:\n"));
        ks_tuning_code(ks_tuning_proven(tuning), tuning->device, "    ", out);
    }
    if (tuning->left_count > 0) {
        ks_text_append(out, "\n", 1);
        append_left(tuning, style, true, out);
        append_left(tuning, style, false, out);
    }
}

/* ------------------------------------------------------------------ all formats */

static void append_words(const char *setting, const char *before, struct ks_text *out)
{
    struct ks_word word;
    for (size_t offset = 0; ks_word_list_next(setting, &offset, &word);) {
        ks_text_append_str(out, ks_str_from(before));
        ks_text_append_str(out, word.text);
        ks_text_append(out, "\n", 1);
    }
}

static void append_apply(const struct ks_tuning *tuning, struct ks_text *out)
{
    const char *proven = ks_tuning_proven(tuning);
    ks_text_append_str(out, KS_STR("# A setting of kscope tune, for kscope run --tuned.\n# Of: "));
    ks_plain_append(out, ks_str_from(tuning->script));
    ks_text_append(out, "\n", 1);
    append_words(proven, "", out);
    if (strcmp(proven, tuning->setting) != 0) {
        ks_text_append_str(out, KS_STR("# Kept change by change, but not better as a whole:\n"));
        append_words(tuning->setting, "# ", out);
    }
}

static enum ks_status write_document(const struct ks_tuning *tuning, ks_write_cb write, void *user,
                                     struct ks_err *err)
{
    struct ks_json json;
    ks_json_init(&json, write, user);
    ks_json_object_begin(&json, NULL);
    ks_tuning_write_members(tuning, &json);
    ks_json_object_end(&json);
    return ks_json_finish(&json, err);
}

enum ks_status ks_tuning_write(const struct ks_tuning *tuning, const struct ks_tuning_style *style,
                               ks_write_cb write, void *user, struct ks_err *err)
{
    if (style->format == KS_TUNING_JSON) {
        return write_document(tuning, write, user, err);
    }
    struct ks_text out;
    ks_text_init(&out);
    if (style->format == KS_TUNING_APPLY) {
        append_apply(tuning, &out);
    } else {
        ks_tuning_append_screen(tuning, style, &out);
    }
    enum ks_status status = KS_OK;
    if (out.failed) {
        status = ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write tuning: no memory");
    } else if (!write(user, out.ptr, out.len)) {
        status = ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot write tuning: the receiver stopped");
    }
    ks_text_release(&out);
    return status;
}
