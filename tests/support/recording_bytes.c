#include "recording_bytes.h"

#include "base/crc32c.h"

static void put_zeros(struct ks_text *text, size_t size)
{
    static const char ZEROS[KS_WIRE_HEADER_SIZE];
    for (; size > sizeof(ZEROS); size -= sizeof(ZEROS)) {
        ks_text_append(text, ZEROS, sizeof(ZEROS));
    }
    ks_text_append(text, ZEROS, size);
}

struct ks_wire_header *recording_bytes_header(struct recording_bytes *to)
{
    return (struct ks_wire_header *)(void *)to->bytes.ptr;
}

void recording_bytes_fix_header(struct recording_bytes *to)
{
    recording_bytes_header(to)->crc =
        ks_crc32c(0, to->bytes.ptr, offsetof(struct ks_wire_header, crc));
}

void recording_bytes_init(struct recording_bytes *to, uint32_t pid, int64_t start_unix_ns)
{
    struct ks_wire_header header = {
        .version = KS_WIRE_VERSION,
        .header_size = KS_WIRE_HEADER_SIZE,
        .slot_size = KS_WIRE_SLOT_SIZE,
        .pid = pid,
        .parent_pid = 1,
        .rank = -1,
        .local_rank = -1,
        .world_size = -1,
        .worker = -1,
        .start_unix_ns = start_unix_ns,
        .host = "here",
        .program = "train.py",
        .state = KS_WIRE_CLOSED,
    };
    *to = (struct recording_bytes){0};
    ks_text_init(&to->bytes);
    memcpy(header.magic, KS_WIRE_MAGIC, sizeof(header.magic));
    ks_text_append(&to->bytes, (const char *)&header, sizeof(header));
    put_zeros(&to->bytes, KS_WIRE_HEADER_SIZE - sizeof(header));
    recording_bytes_fix_header(to);
}

void recording_bytes_release(struct recording_bytes *to)
{
    ks_text_release(&to->bytes);
}

struct ks_wire_slot *recording_bytes_head(struct recording_bytes *to)
{
    return (struct ks_wire_slot *)(void *)(to->bytes.ptr + to->slot_at);
}

void recording_bytes_slot(struct recording_bytes *to, enum ks_wire_slot_kind kind, uint32_t lane,
                          uint32_t sequence)
{
    struct ks_wire_slot head = {
        .magic = KS_WIRE_SLOT_MAGIC,
        .kind = (uint16_t)kind,
        .index = to->slots++,
        .lane = lane,
        .sequence = sequence,
        .tid = lane * 10,
    };
    to->slot_at = to->bytes.len;
    to->payload_size = 0;
    ks_text_append(&to->bytes, (const char *)&head, sizeof(head));
    put_zeros(&to->bytes, KS_WIRE_PAYLOAD_SIZE);
    recording_bytes_header(to)->slot_count = to->slots;
}

void recording_bytes_raw(struct recording_bytes *to, const void *bytes, size_t size)
{
    KS_ASSERT(to->payload_size + size <= KS_WIRE_PAYLOAD_SIZE);
    memcpy(to->bytes.ptr + to->slot_at + KS_WIRE_SLOT_HEADER_SIZE + to->payload_size, bytes, size);
    to->payload_size += size;
}

void recording_bytes_event(struct recording_bytes *to, uint64_t tick, enum ks_wire_event_kind kind,
                           uint32_t id)
{
    struct ks_wire_event event = {.tick = tick, .word = id | (uint64_t)kind << 32};
    recording_bytes_raw(to, &event, sizeof(event));
}

void recording_bytes_item(struct recording_bytes *to, enum ks_wire_item_kind kind,
                          const void *payload, size_t size)
{
    static const char ZEROS[8];
    struct ks_wire_item item = {
        .word = (uint32_t)kind << 24 | (uint32_t)size,
        .crc = ks_crc32c(0, payload, size),
    };
    recording_bytes_raw(to, &item, sizeof(item));
    recording_bytes_raw(to, payload, size);
    recording_bytes_raw(to, ZEROS, (8 - size % 8) % 8);
}

void recording_bytes_string(struct recording_bytes *to, uint32_t id, const char *text)
{
    struct ks_text payload;
    uint32_t numbers[] = {id, (uint32_t)strlen(text)};
    ks_text_init(&payload);
    ks_text_append(&payload, (const char *)numbers, sizeof(numbers));
    ks_text_append(&payload, text, strlen(text));
    recording_bytes_item(to, KS_WIRE_STRING, payload.ptr, payload.len);
    ks_text_release(&payload);
}

void recording_bytes_site(struct recording_bytes *to, uint32_t id, uint32_t name, uint32_t category)
{
    struct ks_wire_site site = {.id = id, .name = name, .category = category};
    recording_bytes_item(to, KS_WIRE_SITE, &site, sizeof(site));
}

void recording_bytes_clock(struct recording_bytes *to, uint64_t tick, int64_t monotonic_ns,
                           int64_t unix_ns)
{
    struct ks_wire_clock clock = {.tick = tick, .monotonic_ns = monotonic_ns, .unix_ns = unix_ns};
    recording_bytes_item(to, KS_WIRE_CLOCK, &clock, sizeof(clock));
}

void recording_bytes_seal(struct recording_bytes *to)
{
    struct ks_wire_slot *head = recording_bytes_head(to);
    const char *bytes = to->bytes.ptr + to->slot_at;
    head->is_sealed = 1;
    head->size = (uint32_t)to->payload_size;
    head->crc = ks_crc32c(ks_crc32c(0, bytes + KS_WIRE_SLOT_HEADER_SIZE, head->size), bytes,
                          offsetof(struct ks_wire_slot, size));
}

struct ks_str recording_bytes_str(const struct recording_bytes *to)
{
    return (struct ks_str){to->bytes.ptr, to->bytes.len};
}
