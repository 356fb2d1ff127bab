/* Where the time of a step goes, as several screens draw it: a bar of blocks and what each stands
 * for. */
#ifndef KS_SHOW_STEP_PARTS_H
#define KS_SHOW_STEP_PARTS_H

#include "base/text.h"
#include "show/view.h"

enum { KS_STEP_PARTS = 7 };

struct ks_step_part {
    const char *name;
    const char *block; /* one column wide */
    char plain;        /* the same in ASCII */
    int64_t ns;        /* over the steps that count */
};

/* Gives the time of all steps that count; 0: there is none to draw. */
int64_t ks_step_parts_of(const struct ks_view *view, struct ks_step_part parts[KS_STEP_PARTS]);
/* A bar of `width` columns, without a line feed. */
void ks_step_parts_bar(struct ks_text *out, const struct ks_step_part parts[KS_STEP_PARTS],
                       int64_t total_ns, size_t width, bool ascii);

#endif
