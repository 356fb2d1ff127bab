#include "tune/run_numbers.h"

#include <math.h>

static const double NORM_WEIGHT = 0.25;

void ks_run_numbers_add(struct ks_run_numbers *numbers, enum ks_number_kind kind, double value)
{
    if (numbers->counts[kind] < KS_RUN_NUMBERS_KEPT) {
        numbers->values[kind][numbers->counts[kind]++] = value;
    }
}

const char *ks_number_kind_name(enum ks_number_kind kind)
{
    static const char *const names[] = {"loss", "gradient norm", "output"};
    return names[kind];
}

static size_t pairs(const struct ks_run_numbers *a, const struct ks_run_numbers *b,
                    enum ks_number_kind kind)
{
    size_t count = a->counts[kind] < b->counts[kind] ? a->counts[kind] : b->counts[kind];
    return count < KS_RUN_NUMBERS_COMPARED ? count : KS_RUN_NUMBERS_COMPARED;
}

/* Root mean square of what is finite; 1 where that is 0. */
static double scale_of(const double *values, size_t count)
{
    double squares = 0.0;
    size_t finite = 0;
    for (size_t i = 0; i < count; i++) {
        if (isfinite(values[i])) {
            squares += values[i] * values[i];
            finite++;
        }
    }
    double scale = finite > 0 ? sqrt(squares / (double)finite) : 0.0;
    return scale > 0.0 && isfinite(scale) ? scale : 1.0;
}

/* A number that is not finite is only right where the baseline's is the same kind of none. */
static double distance(double before, double after, double scale)
{
    if (isfinite(before) && isfinite(after)) {
        return fabs(after - before) / scale;
    }
    bool is_same = (isnan(before) && isnan(after)) || before == after;
    return is_same ? 0.0 : (double)INFINITY;
}

/* There is no norm below 0: so the hook tells of a step without one. */
static bool is_left_out(enum ks_number_kind kind, double value)
{
    return kind == KS_NUMBER_NORM && isinf(value) && value < 0.0;
}

static void take_worst(struct ks_numbers_difference *worst, enum ks_number_kind kind, size_t step,
                       double before, double after, double scale)
{
    double weight = kind == KS_NUMBER_NORM ? NORM_WEIGHT : 1.0;
    double far = distance(before, after, scale) * weight;
    if (isnan(worst->value) || far > worst->value) {
        worst->value = far;
        worst->kind = kind;
        worst->step = step;
        worst->before = before;
        worst->after = after;
    }
}

struct ks_numbers_difference ks_run_numbers_compare(const struct ks_run_numbers *before,
                                                    const struct ks_run_numbers *after)
{
    struct ks_numbers_difference worst = {.value = (double)NAN};
    for (int k = 0; k < KS_NUMBER_KIND_COUNT; k++) {
        enum ks_number_kind kind = (enum ks_number_kind)k;
        size_t count = pairs(before, after, kind);
        size_t compared = 0;
        double scale = scale_of(before->values[kind], count);
        for (size_t i = 0; i < count; i++) {
            double a = before->values[kind][i];
            double b = after->values[kind][i];
            if (!is_left_out(kind, a) && !is_left_out(kind, b)) {
                take_worst(&worst, kind, i, a, b, scale);
                compared++;
            }
        }
        if (before->counts[kind] > 0 && compared == 0) {
            worst.value = (double)INFINITY;
            worst.kind = kind;
            worst.is_missing = true;
            return worst;
        }
        worst.compared += compared;
    }
    return worst;
}
