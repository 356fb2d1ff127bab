/* The parts of a comparison, each a file; internal to compare/. Each fills its members of the
 * comparison. */
#ifndef KS_COMPARE_COMPARE_IMPL_H
#define KS_COMPARE_COMPARE_IMPL_H

#include "compare/comparison.h"

/* Step times of both sides, and what they say. */
enum ks_status ks_compare_steps(const struct ks_compare_input sides[KS_COMPARE_SIDES],
                                struct ks_comparison *out, struct ks_err *err) KS_MUST_CHECK;
/* Weight of each step of the facts in a mean step, which add up to 1; 0: it does not count. */
enum ks_status ks_compare_weights(const struct ks_facts *facts, double **weights,
                                  struct ks_arena *arena, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_compare_parts(const struct ks_compare_input sides[KS_COMPARE_SIDES],
                                struct ks_comparison *out, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_compare_work(const struct ks_compare_input sides[KS_COMPARE_SIDES],
                               struct ks_comparison *out, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_compare_memory(const struct ks_compare_input sides[KS_COMPARE_SIDES],
                                 struct ks_comparison *out, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_compare_findings(const struct ks_compare_input sides[KS_COMPARE_SIDES],
                                   struct ks_comparison *out, struct ks_err *err) KS_MUST_CHECK;
/* Behind ks_compare_steps: runs and the way they were recorded. */
enum ks_status ks_compare_setups(const struct ks_compare_input sides[KS_COMPARE_SIDES],
                                 struct ks_comparison *out, struct ks_err *err) KS_MUST_CHECK;

/* A copy that lives as long as the comparison. */
enum ks_status ks_compare_copy(struct ks_comparison *out, struct ks_str text, struct ks_str *copy,
                               struct ks_err *err) KS_MUST_CHECK;
/* The text of a string of the side's trace; 0 becomes a NULL text. */
enum ks_status ks_compare_copy_id(struct ks_comparison *out, const struct ks_trace *trace,
                                  struct ks_strid id, struct ks_str *copy, struct ks_err *err)
    KS_MUST_CHECK;

enum ks_status ks_compare_no_memory(struct ks_err *err);

#endif
