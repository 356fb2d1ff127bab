#include "capture/sampler/line_table.h"

/* An entry: one byte 1 CCCC LLL (kind, units - 1), then what the kind asks for. */
enum {
    KIND_SHIFT = 3,
    KIND_MASK = 15,
    UNITS_MASK = 7,
    KIND_ONE_LINE = 10, /* 10, 11, 12: so many lines on, and two columns */
    KIND_NO_COLUMNS = 13,
    KIND_LONG = 14,
    KIND_NONE = 15,
    MORE = 0x40, /* of a number in pieces of six bits, the lowest first */
    PIECE_MASK = 0x3f,
    PIECE_BITS = 6,
    SHIFT_MAX = 60,
};

struct cursor {
    const uint8_t *next;
    const uint8_t *end;
};

static uint64_t take_number(struct cursor *at)
{
    uint64_t number = 0;
    for (unsigned shift = 0; at->next < at->end; shift += PIECE_BITS) {
        uint8_t piece = *at->next++;
        if (shift <= SHIFT_MAX) {
            number |= (uint64_t)(piece & PIECE_MASK) << shift;
        }
        if (!(piece & MORE)) {
            break;
        }
    }
    return number;
}

/* The sign is in the lowest bit. */
static int64_t take_signed(struct cursor *at)
{
    uint64_t number = take_number(at);
    return number & 1 ? -(int64_t)(number >> 1) : (int64_t)(number >> 1);
}

static void skip(struct cursor *at, ptrdiff_t count)
{
    at->next = at->end - at->next > count ? at->next + count : at->end;
}

/* How many lines the entry goes on. */
static int64_t take_entry(struct cursor *at, unsigned kind)
{
    if (kind == KIND_NONE) {
        return 0;
    }
    if (kind < KIND_ONE_LINE) {
        skip(at, 1);
        return 0;
    }
    if (kind < KIND_NO_COLUMNS) {
        skip(at, 2);
        return (int64_t)kind - KIND_ONE_LINE;
    }
    int64_t lines = take_signed(at);
    for (int i = 0; kind == KIND_LONG && i < 3; i++) {
        (void)take_number(at);
    }
    return lines;
}

uint32_t ks_line_table_find(const uint8_t *table, size_t size, uint32_t first_line, int64_t unit)
{
    struct cursor at = {table, table + size};
    int64_t line = first_line, units = 0;
    if (unit < 0) {
        return first_line;
    }
    while (at.next < at.end) {
        uint8_t head = *at.next++;
        unsigned kind = (head >> KIND_SHIFT) & KIND_MASK;
        line += take_entry(&at, kind);
        units += (head & UNITS_MASK) + 1;
        if (unit < units) {
            return kind != KIND_NONE && line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
        }
    }
    return 0;
}
