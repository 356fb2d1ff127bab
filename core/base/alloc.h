/* The only door to malloc, so that tests can close it: with -Dfaults=true the n-th allocation of
 * the process fails (once, or for ever), and the number of live allocations is known. */
#ifndef KS_BASE_ALLOC_H
#define KS_BASE_ALLOC_H

#include "base/compiler.h"

/* Zeroed memory for `count` items of `size` bytes; NULL when it overflows or does not fit. */
void *ks_alloc(size_t count, size_t size);
/* As realloc for `count` items; new bytes are not zeroed. On NULL the old block is still there. */
void *ks_realloc(void *ptr, size_t count, size_t size);
void ks_free(void *ptr);

/* Anonymous pages, page aligned and zero; very large blocks ask for huge pages. NULL: refused. */
void *ks_pages_map(size_t size);
void ks_pages_unmap(void *ptr, size_t size);

/* Zeroed memory for a hash table, whose entries are read anywhere: pages of its own from 2 MiB on.
 * NULL when it overflows or does not fit; to be freed with the same numbers. */
void *ks_hash_alloc(size_t count, size_t size);
void ks_hash_free(void *ptr, size_t count, size_t size);

/* Test door: the `at`-th call from now fails (1 = the next); 0 switches it off. */
void ks_alloc_fail_at(int64_t at, bool for_ever);
/* Calls made since the last ks_alloc_fail_at, and blocks that are live now. */
int64_t ks_alloc_calls(void);
int64_t ks_alloc_live(void);

#endif
