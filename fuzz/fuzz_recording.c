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
 * What is missing is zero. The recording is read twice: as a whole, and in windows or strictly.
 * What must hold, beside what sanitizers see: windows change nothing; what strict reading accepts,
 * it reads the same, and nothing was repaired in it; strings are UTF-8; no duration is negative;
 * rows are sorted. */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "check_sealed.h"
#include "dump_trace.h"
#include "read_bytes.h"
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

static bool is_undamaged(const struct ks_source *source)
{
    for (int i = 0; i < KS_STAT_COUNT; i++) {
        if (ks_stat_info((enum ks_stat)i)->severity != KS_SEVERITY_INFO && source->counts[i] != 0) {
            return false;
        }
    }
    return true;
}

/* Reads and describes; the text is empty when the recording is refused. */
static enum ks_status describe(struct ks_str bytes, const struct read_bytes_options *options,
                               struct ks_text *out, struct ks_err *err)
{
    struct ks_trace *trace = NULL;
    enum ks_status status = read_bytes(bytes, options, &trace, err);
    if (status != KS_OK) {
        KS_ASSERT(err->status == status && err->message[0] != '\0');
        KS_ASSERT(err->offset >= KS_NO_OFFSET && err->offset <= (int64_t)bytes.len);
        return status;
    }
    check_sealed(trace);
    KS_ASSERT(!options->strict || is_undamaged(ks_trace_source(trace, 0)));
    status = dump_trace(trace, out, err);
    KS_ASSERT(status == KS_OK && !out->failed);
    ks_trace_destroy(trace);
    return KS_OK;
}

static void check_same(const struct ks_text *a, const struct ks_text *b)
{
    bool is_same = a->len == b->len && (a->len == 0 || memcmp(a->ptr, b->ptr, a->len) == 0);
    if (!is_same) { // a person will look at this run
        fprintf(stderr, "---- first\n%.*s---- second\n%.*s", (int)a->len, a->ptr, (int)b->len,
                b->ptr);
    }
    KS_ASSERT(is_same);
}

/* Half of the inputs are read in windows, the others strictly: once more is what takes time. */
static void check(struct ks_str bytes, uint8_t sizes)
{
    struct read_bytes_options options[2] = {{.chunk_rows = 2u << (sizes & 3)}};
    struct ks_text texts[2];
    struct ks_err errs[2] = {0};
    enum ks_status status[2];
    options[1] = options[0];
    options[1].strict = sizes & 4;
    options[1].window = sizes & 4 ? 0 : 1 + (sizes >> 3) * (size_t)KS_WIRE_SLOT_SIZE / 4;
    for (int i = 0; i < 2; i++) {
        ks_text_init(&texts[i]);
        status[i] = describe(bytes, &options[i], &texts[i], &errs[i]);
    }
    KS_ASSERT(options[1].strict ? status[0] == KS_OK || status[1] != KS_OK
                                : status[0] == status[1]);
    if (status[1] == KS_OK) {
        check_same(&texts[0], &texts[1]);
    }
    for (int i = 0; i < 2; i++) {
        ks_text_release(&texts[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char *recording;
    if (size == 0) {
        return 0;
    }
    recording = recording ? recording : malloc(SIZE_MAX_ALL);
    size_t len = unpack((struct packed){data + 1, size - 1}, recording);
    check((struct ks_str){recording, len}, data[0]);
    return 0;
}
