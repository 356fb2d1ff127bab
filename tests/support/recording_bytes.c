#include "recording_bytes.h"

#include "wire/crc32c.h"

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
        ks_wire_crc32c(0, to->bytes.ptr, offsetof(struct ks_wire_header, crc));
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
        .crc = ks_wire_crc32c(0, payload, size),
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
    head->crc = ks_wire_crc32c(ks_wire_crc32c(0, bytes + KS_WIRE_SLOT_HEADER_SIZE, head->size),
                               bytes, offsetof(struct ks_wire_slot, size));
}

struct ks_str recording_bytes_str(const struct recording_bytes *to)
{
    return (struct ks_str){to->bytes.ptr, to->bytes.len};
}

/* ------------------------------------------------------------------ one of each kind */

enum { REGION = 1, CATEGORY, KEY, FUNCTION = 4, METRIC = 5 };

static void put_items(struct recording_bytes *to)
{
    static const char *const TEXTS[] = {"region", "category", "key", "function", "percent"};
    struct ks_wire_code code = {.id = 1, .name = FUNCTION, .file = FUNCTION, .first_line = 3};
    struct ks_wire_stack stacks[] = {{.id = 1, .code = 1, .line = 5}, {2, 1, 1, 6}};
    struct ks_wire_sample sample = {.tick = 40, .tid = 10, .stack = 2, .weight = 1};
    struct ks_wire_metric metric = {.id = 1, .name = FUNCTION, .unit = METRIC, .index = 2};
    struct ks_wire_sampler sampler = {.torn = 3};
    uint32_t thread[] = {10, REGION};
    char metrics[sizeof(struct ks_wire_metrics) + 12] = {0};
    struct ks_wire_metrics head = {.tick = 50, .count = 1};
    uint32_t id = 1;
    double value = 2.5;
    memcpy(metrics, &head, sizeof(head));
    memcpy(metrics + sizeof(head), &id, sizeof(id));
    memcpy(metrics + sizeof(head) + sizeof(id), &value, sizeof(value));
    for (uint32_t i = 0; i < KS_COUNT_OF(TEXTS); i++) {
        recording_bytes_string(to, i + 1, TEXTS[i]);
    }
    recording_bytes_site(to, REGION, REGION, CATEGORY);
    recording_bytes_site(to, KEY, KEY, 0);
    recording_bytes_item(to, KS_WIRE_THREAD, thread, sizeof(thread));
    recording_bytes_item(to, KS_WIRE_CODE, &code, sizeof(code));
    recording_bytes_item(to, KS_WIRE_STACK, &stacks[0], sizeof(stacks[0]));
    recording_bytes_item(to, KS_WIRE_STACK, &stacks[1], sizeof(stacks[1]));
    recording_bytes_item(to, KS_WIRE_SAMPLE, &sample, sizeof(sample));
    recording_bytes_item(to, KS_WIRE_METRIC, &metric, sizeof(metric));
    recording_bytes_item(to, KS_WIRE_METRICS, metrics, sizeof(metrics));
    recording_bytes_item(to, KS_WIRE_SAMPLER, &sampler, sizeof(sampler));
}

static void put_events(struct recording_bytes *to)
{
    recording_bytes_event(to, 10, KS_WIRE_BEGIN, REGION);
    recording_bytes_event(to, 7, KS_WIRE_VALUE_INT, KEY);
    recording_bytes_event(to, FUNCTION, KS_WIRE_VALUE_TEXT, KEY);
    recording_bytes_event(to, 20, KS_WIRE_MARK, KEY);
    recording_bytes_event(to, 21, KS_WIRE_COUNTER, KEY);
    recording_bytes_event(to, 4, KS_WIRE_VALUE_INT, KEY);
    recording_bytes_event(to, 0, KS_WIRE_TRACK, 3);
    recording_bytes_event(to, 25, KS_WIRE_BEGIN, REGION);
    recording_bytes_event(to, 0, KS_WIRE_TRACK, 0);
    recording_bytes_event(to, 30, KS_WIRE_END, REGION);
}

void recording_bytes_everything(struct recording_bytes *to)
{
    struct ks_wire_node node = {.code = 1, .parent_slot = UINT32_MAX, .calls = 2, .total_ticks = 9};
    recording_bytes_init(to, 7, 1700000000000000000);
    recording_bytes_slot(to, KS_WIRE_EVENTS, 1, 0);
    put_events(to);
    recording_bytes_seal(to);
    recording_bytes_slot(to, KS_WIRE_ITEMS, 2, 0);
    recording_bytes_clock(to, 0, 0, 1700000000000000000);
    put_items(to);
    recording_bytes_clock(to, 100, 100, 1700000000000000100);
    recording_bytes_seal(to);
    recording_bytes_slot(to, KS_WIRE_NODES, 1, 0);
    recording_bytes_raw(to, &node, sizeof(node));
    recording_bytes_slot(to, KS_WIRE_EVENTS, 1, 1);
    put_events(to);
}
