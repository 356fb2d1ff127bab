/* The reader of recordings, down to sealed tables.
 *
 * Inputs are packed, so that a mutation hits what counts, and unpacked to a recording whose
 * checksums are right where the input asks for it:
 *
 *   sizes (1): rows of a chunk (2 bits), read strictly (1 bit), size of a window (5 bits)
 *   how (1): bit 0: the header gets its checksum; size (2), and that many bytes of the header
 *   then for each slot: how (1): bit 0: seal it, bit 1: items get their checksums,
 *     bit 2: magic and index are made right; size (2), and that many bytes of the slot
 *
 * What is missing is zero. What must hold is what fuzz_readings.h says. */
#include <stdlib.h>

#include "fuzz_readings.h"
#include "wire/crc32c.h"
#include "wire/recording.h"

enum { SLOTS_MAX = 6, SIZE_MAX_ALL = KS_WIRE_HEADER_SIZE + SLOTS_MAX * KS_WIRE_SLOT_SIZE };

enum {
    FIX_CHECKSUM = 1, /* of the header; of a slot: seal it */
    FIX_ITEMS = 2,
    FIX_PLACE = 4,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct packed {
    const uint8_t *ptr;
    size_t left;
};

/* The next bytes of a length that stands before them, as many as there are and fit. */
static size_t take_part(struct packed *packed, char *to, size_t room, uint8_t *how)
{
    uint16_t size = 0;
    *how = packed->ptr[0];
    memcpy(&size, packed->ptr + 1, sizeof(size));
    packed->ptr += 3;
    packed->left -= 3;
    size_t n = size < packed->left ? size : packed->left;
    n = n < room ? n : room;
    memcpy(to, packed->ptr, n);
    packed->ptr += n;
    packed->left -= n;
    return n;
}

static void fix_items(char *payload, size_t size)
{
    size_t at = 0;
    while (size - at >= sizeof(struct ks_wire_item)) {
        struct ks_wire_item item;
        memcpy(&item, payload + at, sizeof(item));
        size_t length = item.word & 0xFFFFFF;
        if (item.word == 0 || length > size - at - sizeof(item)) {
            return;
        }
        item.crc = ks_wire_crc32c(0, payload + at + sizeof(item), length);
        memcpy(payload + at, &item, sizeof(item));
        at += sizeof(item) + (length + 7) / 8 * 8;
        at = at < size ? at : size;
    }
}

static void fix_slot(char *slot, uint32_t index, uint8_t how, size_t size)
{
    struct ks_wire_slot head;
    memcpy(&head, slot, sizeof(head));
    if (how & FIX_PLACE) {
        head.magic = KS_WIRE_SLOT_MAGIC;
        head.index = index;
    }
    if (how & FIX_ITEMS) {
        fix_items(slot + sizeof(head), KS_WIRE_PAYLOAD_SIZE);
    }
    if (how & FIX_CHECKSUM) {
        head.is_sealed = 1;
        head.size = size > sizeof(head) ? (uint32_t)(size - sizeof(head)) : 0;
        head.crc = ks_wire_crc32c(0, slot + sizeof(head), head.size);
        head.crc = ks_wire_crc32c(head.crc, &head, offsetof(struct ks_wire_slot, size));
    }
    memcpy(slot, &head, sizeof(head));
}

/* Gives the size of the recording; its bytes beyond what was there before are zero again. */
static size_t unpack(struct packed packed, char *to)
{
    uint8_t how = 0;
    uint32_t index = 0;
    struct ks_wire_header header;
    if (packed.left < 3) {
        return 0;
    }
    memset(to, 0, KS_WIRE_HEADER_SIZE);
    size_t size = take_part(&packed, to, KS_WIRE_HEADER_SIZE, &how);
    memcpy(&header, to, sizeof(header));
    if (how & FIX_CHECKSUM) {
        header.crc = ks_wire_crc32c(0, to, offsetof(struct ks_wire_header, crc));
        memcpy(to, &header, sizeof(header));
    }
    to += KS_WIRE_HEADER_SIZE;
    for (; index < SLOTS_MAX && packed.left >= 3; index++, to += KS_WIRE_SLOT_SIZE) {
        memset(to, 0, KS_WIRE_SLOT_SIZE);
        size = take_part(&packed, to, KS_WIRE_SLOT_SIZE, &how);
        fix_slot(to, index, how, size);
    }
    /* An odd byte at the end cuts the last slot where its bytes end. */
    size_t whole = KS_WIRE_HEADER_SIZE + (size_t)index * KS_WIRE_SLOT_SIZE;
    return packed.left == 1 && index > 0 ? whole - KS_WIRE_SLOT_SIZE + size : whole;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char *recording;
    if (size == 0) {
        return 0;
    }
    recording = recording ? recording : malloc(SIZE_MAX_ALL);
    size_t len = unpack((struct packed){data + 1, size - 1}, recording);
    /* Half of the inputs are read in windows, the others strictly: once more is what takes time. */
    size_t window = data[0] & 4 ? 0 : 1 + (data[0] >> 3) * (size_t)KS_WIRE_SLOT_SIZE / 4;
    compare_readings((struct ks_str){recording, len}, 2u << (data[0] & 3), window);
    return 0;
}
