/* How much memory this process may count on. */
#ifndef KS_BASE_MEMORY_SIZE_H
#define KS_BASE_MEMORY_SIZE_H

#include <stdint.h>

/* That of the machine, or the least limit of the control groups that this process is in (version 2,
 * and version 1 when it is mounted in the usual place). 0: not known. */
uint64_t ks_memory_size(void);

/* The least limit on the path of a group, for tests: files `limit_name` in `root`/`group` and in
 * all folders above it up to `root`. UINT64_MAX: none. */
uint64_t ks_memory_group_limit(const char *root, const char *group, const char *limit_name);

#endif
