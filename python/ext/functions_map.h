/* A hash map from keys that are not zero to values, for the function profiler: functions by the
 * address of their code, children of wide nodes, edges between functions. Open addressing; nobody
 * iterates it. One thread at a time (the GIL). */
#ifndef KS_PYTHON_FUNCTIONS_MAP_H
#define KS_PYTHON_FUNCTIONS_MAP_H

#include <stddef.h>
#include <stdint.h>

struct ks_functions_map_slot {
    uint64_t key; /* 0: free */
    uint64_t value;
};

/* Zeroed: an empty map. */
struct ks_functions_map {
    struct ks_functions_map_slot *slots;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
};

/* 0 where the key is not known. */
uint64_t ks_functions_map_find(const struct ks_functions_map *map, uint64_t key);
/* -1: no memory, and nothing changed. The key must be new. */
int ks_functions_map_add(struct ks_functions_map *map, uint64_t key, uint64_t value);
void ks_functions_map_release(struct ks_functions_map *map);

#endif
