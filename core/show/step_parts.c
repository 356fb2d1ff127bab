#include "show/step_parts.h"

#include <math.h>

/* Sum of each role over the steps that count. */
static int64_t add_up(const struct ks_view *view, int64_t role_ns[KS_ROLE_COUNT])
{
    const struct ks_facts *facts = view->facts;
    int64_t total_ns = 0;
    for (size_t i = 0; i < facts->step_count; i++) {
        const struct ks_step *step = &facts->steps[i];
        if (!ks_view_step_counts(view, step)) {
            continue;
        }
        total_ns += step->dur_ns;
        for (size_t role = 0; role < KS_ROLE_COUNT; role++) {
            role_ns[role] += step->breakdown_ns[role];
        }
    }
    return total_ns;
}

int64_t ks_step_parts_of(const struct ks_view *view, struct ks_step_part parts[KS_STEP_PARTS])
{
    int64_t ns[KS_ROLE_COUNT] = {0};
    int64_t total_ns = add_up(view, ns);
    const struct ks_step_part all[KS_STEP_PARTS] = {
        {"kernels", "\u2588", '#', ns[KS_ROLE_KERNEL]},
        {"copies", "\u2593", '=', ns[KS_ROLE_MEMCPY] + ns[KS_ROLE_MEMSET]},
        {"communication", "\u2592", '~', ns[KS_ROLE_COMMUNICATION]},
        {"runtime calls", "\u259a", '+', ns[KS_ROLE_RUNTIME]},
        {"data loader", "\u2591", '.', ns[KS_ROLE_DATALOADER]},
        {"CPU operators", "\u2584", '-', ns[KS_ROLE_CPU]},
        {"other", "\u00b7", ':', ns[KS_ROLE_OTHER]},
    };
    memcpy(parts, all, sizeof(all));
    return total_ns;
}

/* Columns of each part: rounded by cumulative sums, so that they add up to the whole bar. */
void ks_step_parts_bar(struct ks_text *out, const struct ks_step_part parts[KS_STEP_PARTS],
                       int64_t total_ns, size_t width, bool ascii)
{
    double sum_ns = 0.0;
    size_t done = 0;
    for (size_t i = 0; i < KS_STEP_PARTS; i++) {
        sum_ns += (double)parts[i].ns;
        size_t end = (size_t)llround(sum_ns / (double)total_ns * (double)width);
        for (; done < end && done < width; done++) {
            if (ascii) {
                ks_text_append(out, &parts[i].plain, 1);
            } else {
                ks_text_append_str(out, ks_str_from(parts[i].block));
            }
        }
    }
}
