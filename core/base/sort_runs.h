/* Sorts arrays that are mostly in order: of few long runs that are sorted already, as the rows of
 * several threads one behind the other. Stable; one pass when it is in order, log2(runs) + 1 at
 * most. Needs as much memory again while it runs, unless it is in order. */
#ifndef KS_BASE_SORT_RUNS_H
#define KS_BASE_SORT_RUNS_H

#include "base/compiler.h"

#include <stddef.h>

/* `compare` as for qsort. False: out of memory, nothing changed. */
bool ks_sort_runs(void *items, size_t count, size_t size,
                  int (*compare)(const void *left, const void *right)) KS_MUST_CHECK;

#endif
