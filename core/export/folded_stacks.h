/* Call paths and sampled stacks as lines of folded stacks: what export_folded.c writes of them. */
#ifndef KS_EXPORT_FOLDED_STACKS_H
#define KS_EXPORT_FOLDED_STACKS_H

#include "export/row_filter.h"
#include "export/stack_tree.h"
#include "store/strpool.h"

struct ks_text;

enum { KS_FOLDED_DEPTH_MAX = 4096 };

/* A semicolon ends a frame and a line end a stack, so neither may stand in a name. */
void ks_folded_append_name(struct ks_text *text, struct ks_str name);

/* Adds the own time of the functions on each call path, in ns. Call paths have no time and no
 * category: none is taken when such are chosen. Names go to the pool. Errors: KS_ERR_NOMEM. */
enum ks_status ks_folded_add_paths(const struct ks_row_filter *filter, struct ks_strpool *pool,
                                   struct ks_stack_tree *tree, struct ks_err *err) KS_MUST_CHECK;
/* Adds the samples at each stack. */
enum ks_status ks_folded_add_samples(const struct ks_row_filter *filter, struct ks_strpool *pool,
                                     struct ks_stack_tree *tree, struct ks_err *err) KS_MUST_CHECK;

#endif
