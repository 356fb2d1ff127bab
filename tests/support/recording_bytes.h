/* Makes recordings (wire/recording.h) in memory, slot by slot, whole or damaged. */
#ifndef KS_TESTS_RECORDING_BYTES_H
#define KS_TESTS_RECORDING_BYTES_H

#include "base/text.h"
#include "wire/recording.h"

/* One recording; `bytes` may be changed at any time. */
struct recording_bytes {
    struct ks_text bytes;
    uint32_t slots;
    size_t slot_at;      /* where the open slot begins */
    size_t payload_size; /* of it */
};

/* A header whose ticks are ns and begin at `start_unix_ns`, closed well. */
void recording_bytes_init(struct recording_bytes *to, uint32_t pid, int64_t start_unix_ns);
void recording_bytes_release(struct recording_bytes *to);
struct ks_wire_header *recording_bytes_header(struct recording_bytes *to);
/* Puts the checksum of the header right after a change. */
void recording_bytes_fix_header(struct recording_bytes *to);

/* A new slot, open; its tid is 10 times the lane. */
void recording_bytes_slot(struct recording_bytes *to, enum ks_wire_slot_kind kind, uint32_t lane,
                          uint32_t sequence);
void recording_bytes_event(struct recording_bytes *to, uint64_t tick, enum ks_wire_event_kind kind,
                           uint32_t id);
void recording_bytes_item(struct recording_bytes *to, enum ks_wire_item_kind kind,
                          const void *payload, size_t size);
void recording_bytes_string(struct recording_bytes *to, uint32_t id, const char *text);
void recording_bytes_site(struct recording_bytes *to, uint32_t id, uint32_t name,
                          uint32_t category);
void recording_bytes_clock(struct recording_bytes *to, uint64_t tick, int64_t monotonic_ns,
                           int64_t unix_ns);
void recording_bytes_raw(struct recording_bytes *to, const void *bytes, size_t size);
struct ks_wire_slot *recording_bytes_head(struct recording_bytes *to);
/* Seals the open slot with its checksum. */
void recording_bytes_seal(struct recording_bytes *to);
/* A small recording with all that there can be in one, also what is still open. */
void recording_bytes_everything(struct recording_bytes *to);
struct ks_str recording_bytes_str(const struct recording_bytes *to);

#endif
