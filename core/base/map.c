#include "base/map.h"

#include <string.h>

#include "base/alloc.h"
#include "base/seed.h"

enum { CAPACITY_MIN = 16 };

void ks_map_init(struct ks_map *map)
{
    *map = (struct ks_map){.seed = ks_seed_random()};
}

void ks_map_release(struct ks_map *map)
{
    ks_hash_free(map->entries, map->capacity, sizeof(*map->entries));
    *map = (struct ks_map){.seed = map->seed};
}

/* Folds the 128-bit product: every bit of both keys reaches the low bits that choose the slot. */
static uint64_t fold(uint64_t x, uint64_t y)
{
    unsigned __int128 product = (unsigned __int128)x * y;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t first = fold(a ^ seed, 0x9E3779B97F4A7C15u);
    return fold(first ^ b, 0xD6E8FEB86659FD93u ^ seed);
}

/* The entry of the key, or the free slot where it belongs. There is always a free slot. */
static struct ks_map_entry *probe(struct ks_map_entry *entries, size_t capacity, uint64_t seed,
                                  uint64_t a, uint64_t b)
{
    size_t mask = capacity - 1;
    for (size_t i = (size_t)hash(seed, a, b) & mask;; i = (i + 1) & mask) {
        struct ks_map_entry *entry = &entries[i];
        if (!entry->used || (entry->a == a && entry->b == b)) {
            return entry;
        }
    }
}

uint64_t *ks_map_find(const struct ks_map *map, uint64_t a, uint64_t b)
{
    if (map->count == 0) {
        return NULL;
    }
    struct ks_map_entry *entry = probe(map->entries, map->capacity, map->seed, a, b);
    return entry->used ? &entry->value : NULL;
}

static bool grow(struct ks_map *map)
{
    size_t capacity = map->capacity == 0 ? CAPACITY_MIN : map->capacity * 2;
    struct ks_map_entry *entries = ks_hash_alloc(capacity, sizeof(struct ks_map_entry));
    if (!entries) {
        return false;
    }
    /* A page that is read before it is written is given twice: the empty one of all, then a copy of
     * it, and the other threads are told. Keys come to all pages anyway. */
    memset(entries, 0, capacity * sizeof(*entries));
    for (size_t i = 0; i < map->capacity; i++) {
        const struct ks_map_entry *old = &map->entries[i];
        if (old->used) {
            *probe(entries, capacity, map->seed, old->a, old->b) = *old;
        }
    }
    ks_hash_free(map->entries, map->capacity, sizeof(*map->entries));
    map->entries = entries;
    map->capacity = capacity;
    return true;
}

uint64_t *ks_map_put(struct ks_map *map, uint64_t a, uint64_t b, bool *added)
{
    /* Two thirds full at most: linear probing gets slow above that. */
    if (map->count >= map->capacity / 3 * 2 && !grow(map)) {
        uint64_t *there = ks_map_find(map, a, b);
        if (there && added) {
            *added = false;
        }
        return there;
    }
    struct ks_map_entry *entry = probe(map->entries, map->capacity, map->seed, a, b);
    bool is_new = !entry->used;
    if (is_new) {
        *entry = (struct ks_map_entry){.a = a, .b = b, .used = 1};
        map->count++;
    }
    if (added) {
        *added = is_new;
    }
    return &entry->value;
}
