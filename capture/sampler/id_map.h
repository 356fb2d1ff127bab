/* A hash map from three numbers to one, in memory that is mapped once and never grows. */
#ifndef KS_CAPTURE_SAMPLER_ID_MAP_H
#define KS_CAPTURE_SAMPLER_ID_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ks_id_map_entry {
    uint32_t a, b, c;
    uint32_t value; /* 0: free */
};

struct ks_id_map {
    struct ks_id_map_entry *entries;
    uint32_t mask;
    uint32_t count;
};

/* Memory is taken as entries are. False: no memory. */
bool ks_id_map_init(struct ks_id_map *map, uint32_t entry_count_log2);
void ks_id_map_release(struct ks_id_map *map);
/* Forgets all and gives the memory back. */
void ks_id_map_reset(struct ks_id_map *map);
/* Three quarters are taken: adding fails. */
bool ks_id_map_is_full(const struct ks_id_map *map);
/* 0: not there. */
uint32_t ks_id_map_find(const struct ks_id_map *map, uint32_t a, uint32_t b, uint32_t c);
/* `value` is not 0, and the key is not there. */
void ks_id_map_add(struct ks_id_map *map, uint32_t a, uint32_t b, uint32_t c, uint32_t value);

#endif
