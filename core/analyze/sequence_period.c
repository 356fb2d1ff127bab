#include "analyze/sequence_period.h"

enum { REPEATS_MIN = 3 };

static uint32_t symbol_at(const uint32_t *symbols, size_t count, bool is_reversed, size_t i)
{
    return symbols[is_reversed ? count - 1 - i : i];
}

/* The prefix function of Knuth, Morris and Pratt: a prefix of length n whose longest proper border
 * is b has the smallest period n - b. */
static size_t find_in_prefix(const uint32_t *symbols, size_t count, bool is_reversed,
                             size_t period_min, uint32_t *links, size_t *length)
{
    size_t best = 0;
    links[0] = 0;
    for (size_t i = 1; i < count; i++) {
        uint32_t symbol = symbol_at(symbols, count, is_reversed, i);
        size_t border = links[i - 1];
        while (border > 0 && symbol_at(symbols, count, is_reversed, border) != symbol) {
            border = links[border - 1];
        }
        if (symbol_at(symbols, count, is_reversed, border) == symbol) {
            border++;
        }
        links[i] = (uint32_t)border;
        size_t period = i + 1 - border;
        bool is_most = i + 1 > count / 2;
        if (is_most && period >= period_min && (i + 1) / period >= REPEATS_MIN &&
            (best == 0 || period <= best)) {
            best = period;
            *length = i + 1;
        }
    }
    return best;
}

bool ks_sequence_period_find(const uint32_t *symbols, size_t count, size_t period_min,
                             uint32_t *links, struct ks_sequence_period *out)
{
    if (count < 2 || count > UINT32_MAX) {
        return false;
    }
    size_t head_length = 0;
    size_t tail_length = 0;
    size_t head = find_in_prefix(symbols, count, false, period_min, links, &head_length);
    size_t tail = find_in_prefix(symbols, count, true, period_min, links, &tail_length);
    if (tail != 0 && (head == 0 || tail < head)) {
        *out = (struct ks_sequence_period){count - tail_length, count, tail};
        return true;
    }
    if (head != 0) {
        *out = (struct ks_sequence_period){0, head_length, head};
        return true;
    }
    return false;
}
