/* Hash map from a pair of 64-bit numbers to a 64-bit number, open addressing, seeded hash.
 * Never iterated, so that nothing we print can depend on the seed. Memory comes from ks_alloc, that
 * of large ones from ks_pages_map. */
#ifndef KS_BASE_MAP_H
#define KS_BASE_MAP_H

#include "base/compiler.h"

struct ks_map_entry {
    uint64_t a;
    uint64_t b;
    uint64_t value;
    uint64_t used; /* 0: free slot */
};

struct ks_map {
    struct ks_map_entry *entries;
    size_t capacity; /* 0 or a power of two */
    size_t count;
    uint64_t seed;
};

void ks_map_init(struct ks_map *map);
void ks_map_release(struct ks_map *map);
/* Pointer to the value of key (a, b), or NULL. Good until the next put. */
uint64_t *ks_map_find(const struct ks_map *map, uint64_t a, uint64_t b);
/* Pointer to the value of the key, added with value 0 when missing; `*added` (may be NULL) says
 * which. NULL: out of memory, map unchanged. Good until the next put. */
uint64_t *ks_map_put(struct ks_map *map, uint64_t a, uint64_t b, bool *added);

#endif
