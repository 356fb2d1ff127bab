/* The outputs of a tuning. All write through a callback and change nothing. */
#ifndef KS_SHOW_TUNING_SHOW_H
#define KS_SHOW_TUNING_SHOW_H

#include <kscope/kscope_tuning.h>

#include "base/text.h"

struct ks_json;

/* What was kept and what it gained, without a line feed. */
void ks_tuning_append_sentence(const struct ks_tuning *tuning, struct ks_text *out);
/* That, table, setting and what was left alone. */
void ks_tuning_append_screen(const struct ks_tuning *tuning, const struct ks_tuning_style *style,
                             struct ks_text *out);
/* The members of the document, without its braces. */
void ks_tuning_write_members(const struct ks_tuning *tuning, struct ks_json *json);

#endif
