/* A process and all that it started, as /proc shows them. */
#ifndef KS_LAUNCH_PROCESS_TREE_H
#define KS_LAUNCH_PROCESS_TREE_H

#include "base/proc.h"

/* Sorted by pid. A member stays one when its parent ends and it goes on. */
struct ks_process_tree {
    struct ks_process *list;
    size_t count;
    size_t capacity;
};

/* `root`, its descendants, and members of `before` that still live; `out` must be empty. False when
 * /proc cannot be read or memory is short; `out` stays empty then. */
bool ks_process_tree_read(struct ks_process_tree *out, const struct ks_process_tree *before,
                          pid_t root);
/* The member with this number, or NULL. */
const struct ks_process *ks_process_tree_find(const struct ks_process_tree *tree, pid_t pid);
void ks_process_tree_release(struct ks_process_tree *tree);

#endif
