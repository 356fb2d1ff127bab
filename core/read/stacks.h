/* Recordings with Python stacks that lie beside clean ones: "x.stacks.pt.trace.json.gz" beside
 * "x.pt.trace.json.gz". Their times are not those of the program, so they are read apart. */
#ifndef KS_READ_STACKS_H
#define KS_READ_STACKS_H

#include "read/folder.h"

struct ks_stacks_list {
    const char **paths;
    size_t count;
    size_t capacity;
    struct ks_arena *arena; /* owns the paths; set by the caller */
};

/* Appends copies of the paths. */
enum ks_status ks_stacks_list_add(struct ks_stacks_list *stacks, const char *const *paths,
                                  size_t count, struct ks_err *err) KS_MUST_CHECK;
/* Moves the files whose clean sibling is in `files`, too, over to `stacks`. */
enum ks_status ks_stacks_list_take(struct ks_stacks_list *stacks, struct ks_file_list *files,
                                   struct ks_err *err) KS_MUST_CHECK;

#endif
