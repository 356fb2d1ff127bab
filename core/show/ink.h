/* Colours of the terminal. What a colour says is also said in words. */
#ifndef KS_SHOW_INK_H
#define KS_SHOW_INK_H

#include "base/text.h"

enum ks_ink { KS_INK_STRONG, KS_INK_FAINT, KS_INK_GOOD, KS_INK_WARN, KS_INK_HOT, KS_INK_END };

/* Appends the control sequence, or nothing without colours. */
static inline void ks_ink(struct ks_text *text, bool colour, enum ks_ink ink)
{
    static const char *const codes[] = {
        [KS_INK_STRONG] = "\033[1m", [KS_INK_FAINT] = "\033[2m", [KS_INK_GOOD] = "\033[32m",
        [KS_INK_WARN] = "\033[33m",  [KS_INK_HOT] = "\033[31m",  [KS_INK_END] = "\033[0m",
    };
    if (colour) {
        ks_text_append_str(text, ks_str_from(codes[ink]));
    }
}

#endif
