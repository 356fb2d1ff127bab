/* What text and JSON say of two step times in the same words. */
#ifndef KS_SHOW_COMPARE_WORDS_H
#define KS_SHOW_COMPARE_WORDS_H

#include "base/text.h"
#include "compare/comparison.h"

/* "B is faster: a step takes 12.1 ms instead of 17.0 ms, -4.95 ms (-6.20 ms to -3.10 ms)" */
void ks_compare_words_verdict(struct ks_text *text, const struct ks_comparison *comparison);
/* Why the verdict is what it is. */
void ks_compare_words_reason(struct ks_text *text, const struct ks_comparison *comparison);
/* "-4.95 ms (-6.20 ms to -3.10 ms)", with signs. */
void ks_compare_words_change(struct ks_text *text, const struct ks_estimate *change);
/* "17.0 ms (16.2 ms to 17.8 ms)" */
void ks_compare_words_time(struct ks_text *text, const struct ks_estimate *time);

#endif
