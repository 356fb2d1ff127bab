#include "show/sentences.h"

#include "show/plain.h"
#include "show/units.h"

void ks_sentence_saving(struct ks_text *text, const struct ks_view *view,
                        const struct ks_finding *finding)
{
    int64_t step_ns = ks_view_step_ns(view);
    const struct ks_saving *saving = &finding->saving;
    if (saving->low_ns == KS_UNKNOWN || saving->high_ns == KS_UNKNOWN || saving->high_ns <= 0) {
        ks_text_printf(text, "saves no time: %s",
                       finding->impact == KS_IMPACT_MEMORY ? "about memory" : "a risk for the run");
    } else {
        struct ks_unit_text low = ks_units_time(saving->low_ns);
        struct ks_unit_text high = ks_units_time(saving->high_ns);
        ks_text_printf(text, "saves %s to %s a step", low.text, high.text);
        if (step_ns > 0 && step_ns != KS_UNKNOWN) {
            struct ks_unit_text low_share =
                ks_units_share((double)saving->low_ns / (double)step_ns);
            struct ks_unit_text high_share =
                ks_units_share((double)saving->high_ns / (double)step_ns);
            ks_text_printf(text, " (%s to %s of it)", low_share.text, high_share.text);
        }
    }
    if (finding->bytes != KS_UNKNOWN && finding->bytes != 0) {
        struct ks_unit_text bytes = ks_units_bytes(finding->bytes);
        ks_text_printf(text, ", %s", bytes.text);
    }
    ks_text_printf(text, ", confidence %s", ks_view_confidence(finding->confidence));
}

void ks_sentence_line(struct ks_text *text, const struct ks_where *where, size_t width)
{
    if (where->file.len > 0) {
        ks_plain_append_fit(text, where->file, width);
        if (where->line != KS_UNKNOWN) {
            ks_text_printf(text, ":%lld", (long long)where->line);
        }
    }
}

void ks_sentence_place(struct ks_text *text, const struct ks_view *view,
                       const struct ks_finding *finding, size_t width)
{
    const struct ks_where *where = &finding->where;
    size_t start = text->len;
    ks_sentence_line(text, where, width / 2);
    if (where->op.v != 0) {
        ks_text_printf(text, "%s", text->len > start ? ", " : "");
        ks_plain_append_fit(text, ks_view_str(view, where->op), width / 4);
    }
    if (where->module.v != 0) {
        ks_text_printf(text, "%s", text->len > start ? " in " : "");
        ks_plain_append_fit(text, ks_view_str(view, where->module), width / 4);
    }
}
