/* How a writer lays its events out, learned while reading.
 *
 * What stands between two values of an event (comma, blanks, key, colon, blanks) is the same text
 * each time, and only few such texts follow one another: "dur" follows "ts" and has one way to be
 * written. So each key that was read by the grammar is kept with the bytes around it, and linked
 * to the one before it; where the same bytes come again, comparing them is all there is to do.
 * Nothing is taken for granted: bytes that differ are read by the grammar, whatever was learned,
 * and the meaning of a text is what the grammar found in it.
 */
#ifndef KS_READ_KINETO_LAYOUT_H
#define KS_READ_KINETO_LAYOUT_H

#include <string.h>

#include "base/compiler.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#ifdef KS_SMALL_LIMITS /* fuzzing: few steps are too many, and a reader is made quickly */
enum { LAYOUT_STEPS_MAX = 24 };
#else
enum { LAYOUT_STEPS_MAX = 255 };
#endif

enum {
    LAYOUT_TEXT_MAX = 40,   /* longer ones are read by the grammar */
    LAYOUT_NEXT_MAX = 8,    /* what may follow a step; tried in turn */
    LAYOUT_VALUES_MAX = 32, /* so often is the value of one key learned with it */
};

/* The first steps: where an event and where its arguments begin, and behind texts of them that were
 * not learned. One for both would take what follows in the arguments for the event's own. */
enum { LAYOUT_EVENT = 1, LAYOUT_ARGS, LAYOUT_EVENT_ANY, LAYOUT_ARGS_ANY, LAYOUT_FREE };

struct kineto_step {
    char text[LAYOUT_TEXT_MAX];    /* zero bytes behind it */
    uint32_t mask;                 /* one bit for each of the first 32 bytes that count */
    uint32_t bit;                  /* of the value, see kineto_event.c */
    uint16_t offset;               /* the same */
    uint8_t len;                   /* of text */
    uint8_t size;                  /* bytes that are done with: a number's end is looked at only */
    uint8_t how;                   /* see kineto_event.c */
    uint8_t level;                 /* of an event or of its arguments: LAYOUT_EVENT, LAYOUT_ARGS */
    uint8_t values;                /* steps that may still be learned with a value of this one */
    uint8_t value_len;             /* of a text at the end of `text`, without its quotes */
    uint8_t next[LAYOUT_NEXT_MAX]; /* steps; 0: none */
    int64_t value;                 /* of a step with a value */
};

struct kineto_layout {
    unsigned count; /* of steps in use */
    bool is_full;   /* a text had no room */
    struct kineto_step steps[LAYOUT_STEPS_MAX];
};

void kineto_layout_init(struct kineto_layout *layout);

/* Keeps the text from `from` to `to`, read behind step `before`, and what it means (all of
 * `meaning` but text, mask, len and next). `is_first`: it is tried before what followed until now.
 * The step that has it from now on, or 0: it is too long, or there are too many. */
unsigned kineto_layout_learn(struct kineto_layout *layout, unsigned before, const char *from,
                             const char *to, const struct kineto_step *meaning, bool is_first);

/* Before an event. When there were too many steps, all are forgotten: a file that has so many is
 * not one to be learned by heart. Never within an event, whose reader knows its place by a step. */
static inline void kineto_layout_begin_event(struct kineto_layout *layout)
{
    if (KS_UNLIKELY(layout->is_full)) {
        kineto_layout_init(layout);
    }
}

/* Do the bytes at p begin with the text of the step? They hold no zero byte, so that the padding
 * behind a window ends every comparison. */
static inline bool kineto_step_matches_scalar(const struct kineto_step *step, const char *p)
{
    for (unsigned i = 0; i < step->len; i++) {
        if (p[i] != step->text[i]) {
            return false;
        }
    }
    return true;
}

#ifdef __SSE2__
static inline unsigned kineto_equal_bytes(const char *a, const char *b)
{
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)a);
    __m128i y = _mm_loadu_si128((const __m128i *)(const void *)b);
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(x, y));
}

static inline bool kineto_step_matches(const struct kineto_step *step, const char *p)
{
    unsigned equal = kineto_equal_bytes(p, step->text) | kineto_equal_bytes(p + 16, step->text + 16)
                                                             << 16;
    if ((~equal & step->mask) != 0) {
        return false;
    }
    return KS_LIKELY(step->len <= 32) || memcmp(p + 32, step->text + 32, step->len - 32u) == 0;
}
#else
static inline bool kineto_step_matches(const struct kineto_step *step, const char *p)
{
    return kineto_step_matches_scalar(step, p);
}
#endif

/* The step behind `before` whose text stands at p, or 0. What came last in a place is tried first
 * the next time but one: a text that comes once does not push out those that come always. */
static inline unsigned kineto_layout_match(struct kineto_layout *layout, unsigned before,
                                           const char *p)
{
    uint8_t *next = layout->steps[before].next;
    unsigned found = next[0];
    if (KS_LIKELY(kineto_step_matches(&layout->steps[found], p))) {
        return found;
    }
    for (unsigned i = 1; i < LAYOUT_NEXT_MAX && found != 0; i++) {
        found = next[i];
        if (kineto_step_matches(&layout->steps[found], p)) {
            next[i] = next[i - 1];
            next[i - 1] = (uint8_t)found;
            return found;
        }
    }
    return 0;
}

#endif
