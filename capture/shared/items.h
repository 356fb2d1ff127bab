/* Items of a recording: what is rare, and may be of any length. Not thread-safe: recorder.c holds
 * the lock. */
#ifndef KS_CAPTURE_SHARED_ITEMS_H
#define KS_CAPTURE_SHARED_ITEMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/recording.h"

enum { KS_ITEM_SIZE_MAX = 4096 };

struct ks_items {
    struct ks_wire_slot *slot; /* open; NULL none */
    uint32_t used;             /* bytes of its payload */
    uint32_t sequence;
    uint64_t lost;
    struct ks_wire_slot *(*take)(uint32_t sequence, uint64_t lost); /* another slot, or NULL */
};

void ks_items_init(struct ks_items *items,
                   struct ks_wire_slot *(*take)(uint32_t sequence, uint64_t lost));
/* False: it is too long, or there is no room. */
bool ks_items_put(struct ks_items *items, enum ks_wire_item_kind kind, const void *payload,
                  size_t size);
bool ks_items_put_text(struct ks_items *items, uint32_t id, const char *text, uint32_t length);
bool ks_items_put_clock(struct ks_items *items, bool is_tsc);
/* Seals the open slot. */
void ks_items_close(struct ks_items *items);

#endif
