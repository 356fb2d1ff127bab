#include "read/kineto_layout.h"

#include "base/err.h"

void kineto_layout_init(struct kineto_layout *layout)
{
    memset(layout, 0, sizeof(*layout));
    /* Step 0 stands for none: a text of one zero byte, which may match and means nothing. */
    layout->steps[0].mask = 1;
    layout->steps[0].len = 1;
    layout->count = LAYOUT_FREE;
}

/* Two keys of one name mean different things in an event and in its arguments, so the meaning is
 * compared, too; and the level, for what follows a key that means nothing is of its own level. */
static bool is_step(const struct kineto_step *step, const char *text, size_t len,
                    const struct kineto_step *meaning)
{
    return step->len == len && step->how == meaning->how && step->level == meaning->level &&
           step->offset == meaning->offset && step->bit == meaning->bit &&
           memcmp(step->text, text, len) == 0;
}

static void link_steps(struct kineto_step *before, unsigned step, bool is_first)
{
    unsigned at = 0;
    while (at < LAYOUT_NEXT_MAX - 1 && before->next[at] != 0 && before->next[at] != step) {
        at++;
    }
    if (is_first) {
        memmove(before->next + 1, before->next, at);
        at = 0;
    }
    before->next[at] = (uint8_t)step;
}

unsigned kineto_layout_learn(struct kineto_layout *layout, unsigned before, const char *from,
                             const char *to, const struct kineto_step *meaning, bool is_first)
{
    KS_DCHECK(before != 0);
    size_t len = (size_t)(to - from);
    if (len == 0 || len > LAYOUT_TEXT_MAX || memchr(from, '\0', len)) {
        return 0;
    }
    unsigned index = LAYOUT_FREE;
    while (index < layout->count && !is_step(&layout->steps[index], from, len, meaning)) {
        index++;
    }
    if (index == LAYOUT_STEPS_MAX) {
        layout->is_full = true;
        return 0;
    }
    if (index == layout->count) {
        struct kineto_step *step = &layout->steps[layout->count++];
        *step = *meaning;
        step->mask = len >= 32 ? UINT32_MAX : ((uint32_t)1 << len) - 1;
        step->len = (uint8_t)len;
        memset(step->next, 0, sizeof(step->next));
        memset(step->text, 0, sizeof(step->text));
        memcpy(step->text, from, len);
    }
    link_steps(&layout->steps[before], index, is_first);
    return index;
}
