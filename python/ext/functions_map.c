#include "functions_map.h"

#define PY_SSIZE_T_CLEAN
#include <Python.h>

enum { CAPACITY_FIRST = 32 };

/* The finaliser of splitmix64: addresses differ in few bits, and not in the low ones. */
static size_t place_of(uint64_t key, size_t capacity)
{
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9u;
    key = (key ^ (key >> 27)) * 0x94D049BB133111EBu;
    return (size_t)(key ^ (key >> 31)) & (capacity - 1);
}

/* The slot of the key, or the free one where it belongs. */
static struct ks_functions_map_slot *slot_of(struct ks_functions_map_slot *slots, size_t capacity,
                                             uint64_t key)
{
    size_t at = place_of(key, capacity);
    while (slots[at].key != 0 && slots[at].key != key) {
        at = (at + 1) & (capacity - 1);
    }
    return &slots[at];
}

uint64_t ks_functions_map_find(const struct ks_functions_map *map, uint64_t key)
{
    return map->capacity ? slot_of(map->slots, map->capacity, key)->value : 0;
}

static int grow(struct ks_functions_map *map)
{
    size_t capacity = map->capacity ? map->capacity * 2 : CAPACITY_FIRST;
    struct ks_functions_map_slot *slots = PyMem_RawCalloc(capacity, sizeof(*slots));
    if (!slots) {
        return -1;
    }
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].key != 0) {
            *slot_of(slots, capacity, map->slots[i].key) = map->slots[i];
        }
    }
    PyMem_RawFree(map->slots);
    map->slots = slots;
    map->capacity = capacity;
    return 0;
}

int ks_functions_map_add(struct ks_functions_map *map, uint64_t key, uint64_t value)
{
    // Half full at most, so that a search for what is not there ends soon.
    if (map->count * 2 >= map->capacity && grow(map) < 0) {
        return -1;
    }
    *slot_of(map->slots, map->capacity, key) = (struct ks_functions_map_slot){key, value};
    map->count++;
    return 0;
}

void ks_functions_map_release(struct ks_functions_map *map)
{
    PyMem_RawFree(map->slots);
    *map = (struct ks_functions_map){0};
}
