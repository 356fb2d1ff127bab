/* Finds the loop in a sequence of symbols, such as the names of the kernels of a training run. */
#ifndef KS_ANALYZE_SEQUENCE_PERIOD_H
#define KS_ANALYZE_SEQUENCE_PERIOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ks_sequence_period {
    size_t begin; /* the repeating part is [begin, end) */
    size_t end;
    size_t period;
};

/* The smallest period, if it has at least `period_min` symbols, that repeats 3 times or more over a
 * beginning or an end of the sequence that holds most of it. `links`: room for `count` numbers.
 * False: there is none. Linear. */
bool ks_sequence_period_find(const uint32_t *symbols, size_t count, size_t period_min,
                             uint32_t *links, struct ks_sequence_period *out);

#endif
