/* What several outputs say of a finding in the same words. Text of inputs in it is safe for a
 * terminal. */
#ifndef KS_SHOW_SENTENCES_H
#define KS_SHOW_SENTENCES_H

#include "base/text.h"
#include "show/view.h"

/* "saves 1.10 ms to 2.05 ms a step (3.1 % to 5.8 % of it), confidence medium" */
void ks_sentence_saving(struct ks_text *text, const struct ks_view *view,
                        const struct ks_finding *finding);
/* "train.py:287", or nothing when no line is known. */
void ks_sentence_line(struct ks_text *text, const struct ks_where *where, size_t width);
/* "train.py:287, aten::item in model.head", or nothing when no place is known. The middle of a long
 * path is left out. */
void ks_sentence_place(struct ks_text *text, const struct ks_view *view,
                       const struct ks_finding *finding, size_t width);

#endif
