/* Input shapes the way torch prints them: no blanks but one behind each comma, and [] for a list of
 * tensors, as torch has it when it groups by shape. Writers differ in blanks; runs repeat few
 * shapes. So the last ones stand beside the text that each became: a shape that came before costs
 * one comparison, however it is written. */
#ifndef KS_READ_KINETO_SHAPES_H
#define KS_READ_KINETO_SHAPES_H

#include "base/text.h"

#ifdef KS_SMALL_LIMITS /* fuzzing: a reader is made quickly, and entries are taken over */
enum { SHAPES_BITS = 2 };
#else
enum { SHAPES_BITS = 9 }; /* 64 KiB in all */
#endif
enum { SHAPE_TEXT_MAX = 120 }; /* longer ones are put into form each time */

struct kineto_shape {
    uint32_t id; /* 0: free */
    uint32_t len;
    char text[SHAPE_TEXT_MAX]; /* as the file has it */
};

struct kineto_shapes {
    struct kineto_shape kept[1 << SHAPES_BITS];
    struct ks_text scratch;
};

void kineto_shapes_init(struct kineto_shapes *shapes);
void kineto_shapes_release(struct kineto_shapes *shapes);

/* Id of JSON text `raw` when it was kept, else 0. */
uint32_t kineto_shapes_find(const struct kineto_shapes *shapes, struct ks_str raw);
/* `id` is what `raw` became; it may take the place of another. */
void kineto_shapes_keep(struct kineto_shapes *shapes, struct ks_str raw, uint32_t id);

/* JSON text `raw` in torch's form, until the next call; `ptr` is NULL when memory was short. */
struct ks_str kineto_shapes_normalise(struct kineto_shapes *shapes, struct ks_str raw);

#endif
