/* The stacks of host rows, folded: what folded stacks and flame graphs are made of.
 *
 * The stack of a row is that of the exclusive tree of docs/analyses/operators.md: the parent is the
 * smallest row of the thread that holds it, Python frames included. Threads and ranks are added
 * up. Of a stack as deep as KS_FOLDED_DEPTH_MAX the rest is left out, and time below counts there.
 * Memory grows with distinct names and stacks, never with rows. */
#ifndef KS_EXPORT_HOST_STACKS_H
#define KS_EXPORT_HOST_STACKS_H

#include "export/row_filter.h"
#include "export/stack_tree.h"
#include "store/strpool.h"

struct ks_host_stacks {
    struct ks_strpool *pool; /* names of nodes, fit for a line of text */
    struct ks_stack_tree tree;
};

/* `options` says which rows, and by its weight what is folded; `wants_device` adds the time of GPU
 * work that was launched. To be released after an error, too. */
enum ks_status ks_host_stacks_init(struct ks_host_stacks *stacks, const struct ks_view *view,
                                   const struct ks_export_options *options, bool wants_device,
                                   struct ks_err *err) KS_MUST_CHECK;
void ks_host_stacks_release(struct ks_host_stacks *stacks);

#endif
