#include "capture/shared/items.h"

#include <string.h>

#include "capture/shared/recording_file.h"
#include "capture/shared/ticks.h"
#include "wire/crc32c.h"

void ks_items_init(struct ks_items *items,
                   struct ks_wire_slot *(*take)(uint32_t sequence, uint64_t lost))
{
    *items = (struct ks_items){.take = take};
}

void ks_items_close(struct ks_items *items)
{
    if (items->slot) {
        items->slot->size = items->used;
        ks_recording_file_seal(items->slot);
        items->slot = NULL;
    }
}

static bool make_room(struct ks_items *items, size_t size)
{
    if (items->slot && items->used + size <= KS_WIRE_PAYLOAD_SIZE) {
        return true;
    }
    ks_items_close(items);
    items->slot = items->take(items->sequence, items->lost);
    items->sequence += items->slot != NULL;
    items->used = 0;
    return items->slot;
}

/* The word comes last: until then nothing is there. */
bool ks_items_put(struct ks_items *items, enum ks_wire_item_kind kind, const void *payload,
                  size_t size)
{
    size_t room = (sizeof(struct ks_wire_item) + size + 7) & ~(size_t)7;
    if (size > KS_ITEM_SIZE_MAX || !make_room(items, room)) {
        items->lost++;
        return false;
    }
    char *at = (char *)(items->slot + 1) + items->used;
    struct ks_wire_item *head = (struct ks_wire_item *)(void *)at;
    if (size > 0) {
        memcpy(head + 1, payload, size);
    }
    head->crc = ks_wire_crc32c(0, payload, size);
    __atomic_store_n(&head->word, (uint32_t)kind << 24 | (uint32_t)size, __ATOMIC_RELEASE);
    items->used += (uint32_t)room;
    return true;
}

bool ks_items_put_text(struct ks_items *items, uint32_t id, const char *text, uint32_t length)
{
    char payload[KS_ITEM_SIZE_MAX];
    const uint32_t head[2] = {id, length};
    if (length > sizeof(payload) - sizeof(head)) {
        return false;
    }
    memcpy(payload, head, sizeof(head));
    memcpy(payload + sizeof(head), text, length);
    return ks_items_put(items, KS_WIRE_STRING, payload, sizeof(head) + length);
}

bool ks_items_put_clock(struct ks_items *items, bool is_tsc)
{
    const struct ks_wire_clock now = ks_ticks_triple(is_tsc);
    return ks_items_put(items, KS_WIRE_CLOCK, &now, sizeof(now));
}
