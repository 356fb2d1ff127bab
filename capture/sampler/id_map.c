#include "capture/sampler/id_map.h"

#include <sys/mman.h>

static size_t size_of(const struct ks_id_map *map)
{
    return ((size_t)map->mask + 1) * sizeof(*map->entries);
}

bool ks_id_map_init(struct ks_id_map *map, uint32_t entry_count_log2)
{
    *map = (struct ks_id_map){.mask = (UINT32_C(1) << entry_count_log2) - 1};
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *entries = mmap(NULL, size_of(map), PROT_READ | PROT_WRITE, flags, -1, 0);
    map->entries = entries == MAP_FAILED ? NULL : entries;
    return map->entries != NULL;
}

void ks_id_map_release(struct ks_id_map *map)
{
    if (map->entries) {
        (void)munmap(map->entries, size_of(map));
    }
    *map = (struct ks_id_map){0};
}

void ks_id_map_reset(struct ks_id_map *map)
{
    /* Private pages that are given back read as zero. */
    if (map->count > 0 && madvise(map->entries, size_of(map), MADV_DONTNEED) != 0) {
        for (uint32_t i = 0; i <= map->mask; i++) {
            map->entries[i].value = 0;
        }
    }
    map->count = 0;
}

bool ks_id_map_is_full(const struct ks_id_map *map)
{
    return map->count > map->mask / 4 * 3;
}

static uint32_t place_of(const struct ks_id_map *map, uint32_t a, uint32_t b, uint32_t c)
{
    uint64_t hash = ((uint64_t)a << 32 | b) * UINT64_C(0x9E3779B97F4A7C15);
    hash = (hash ^ (hash >> 29) ^ c) * UINT64_C(0xBF58476D1CE4E5B9);
    uint32_t i = (uint32_t)(hash >> 32) & map->mask;
    while (map->entries[i].value != 0 &&
           !(map->entries[i].a == a && map->entries[i].b == b && map->entries[i].c == c)) {
        i = (i + 1) & map->mask;
    }
    return i;
}

uint32_t ks_id_map_find(const struct ks_id_map *map, uint32_t a, uint32_t b, uint32_t c)
{
    return map->entries[place_of(map, a, b, c)].value;
}

void ks_id_map_add(struct ks_id_map *map, uint32_t a, uint32_t b, uint32_t c, uint32_t value)
{
    if (!ks_id_map_is_full(map)) {
        map->entries[place_of(map, a, b, c)] = (struct ks_id_map_entry){a, b, c, value};
        map->count++;
    }
}
