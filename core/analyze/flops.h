/* Floating point operations of an operator by torch's own formulas, from the texts that a trace
 * holds: the seven operators that torch counts, everything else is 0. */
#ifndef KS_ANALYZE_FLOPS_H
#define KS_ANALYZE_FLOPS_H

#include "base/str.h"

/* What is recorded of one call: shapes ("[[8, 3], []]"), types and concrete inputs (JSON arrays
 * of strings). Empty text: not recorded. */
struct ks_flops_call {
    struct ks_str name;
    struct ks_str shapes;
    struct ks_str types;
    struct ks_str concrete;
};

/* 0 when torch counts none: another operator, or arguments that the formula does not take. */
int64_t ks_flops_count(const struct ks_flops_call *call);

#endif
