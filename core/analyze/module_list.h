/* The tree of modules as the rows of a table: each node before what it calls, most time first. */
#ifndef KS_ANALYZE_MODULE_LIST_H
#define KS_ANALYZE_MODULE_LIST_H

#include "analyze/module_tree.h"
#include "analyze/registry.h"

/* Fills facts->modules. `is_backward_known`: nodes of autograd found their makers, or there were
 * none; else what frames tell of a backward pass is unknown. */
enum ks_status ks_module_list_make(struct ks_analyzer *analyzer, const struct ks_module_tree *tree,
                                   bool is_backward_known, struct ks_err *err) KS_MUST_CHECK;

#endif
