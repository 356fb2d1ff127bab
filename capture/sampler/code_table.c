#include "capture/sampler/code_table.h"

#include <string.h>
#include <sys/mman.h>

#include "capture/sampler/line_table.h"
#include "capture/sampler/object_text.h"
#include "capture/shared/recorder.h"

enum {
    CODES_LOG2 = 16,
    CODES = 1 << CODES_LOG2,
    CODES_MAX = CODES / 4 * 3,
    CODES_SIZE = CODES * sizeof(struct ks_code),
    PLACES_LOG2 = 18,
    OBJECT_TYPE = 8, /* offsets of every object */
    OBJECT_SIZE = 16,
    BYTES_DATA = 32,
    UNIT_SIZE = 2,
    UNITS_MAX = 1 << 24,
    MAY_CALL = 1, /* lowest bit of a place's value, which is never 0 */
    PLACE_SHIFT = 2,
    PLACE_KNOWN = 2,
};

bool ks_code_table_init(struct ks_code_table *table, const struct ks_python_layout *layout)
{
    *table = (struct ks_code_table){.layout = layout};
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *codes = mmap(NULL, CODES_SIZE, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (codes == MAP_FAILED) {
        return false;
    }
    table->codes = codes;
    if (!ks_id_map_init(&table->places, PLACES_LOG2)) {
        ks_code_table_release(table);
        return false;
    }
    return true;
}

void ks_code_table_release(struct ks_code_table *table)
{
    if (table->codes) {
        (void)munmap(table->codes, CODES_SIZE);
    }
    ks_id_map_release(&table->places);
    *table = (struct ks_code_table){0};
}

void ks_code_table_reset(struct ks_code_table *table, uint32_t generation)
{
    if (table->code_count > 0 && madvise(table->codes, CODES_SIZE, MADV_DONTNEED) != 0) {
        memset(table->codes, 0, CODES_SIZE);
    }
    table->code_count = 0;
    table->last_id = table->generation == generation ? table->last_id : 0;
    table->generation = generation;
    ks_id_map_reset(&table->places);
}

bool ks_code_table_is_full(const struct ks_code_table *table)
{
    return table->code_count >= CODES_MAX || ks_id_map_is_full(&table->places);
}

/* ------------------------------------------------------------------ what an object says */

bool ks_code_header_take(const struct ks_python_layout *layout, uintptr_t address,
                         const char *bytes, struct ks_code_header *header)
{
    uintptr_t type;
    int64_t unit_count;
    int32_t first_line;
    memcpy(&type, bytes + OBJECT_TYPE, sizeof(type));
    memcpy(&unit_count, bytes + OBJECT_SIZE, sizeof(unit_count));
    memcpy(&first_line, bytes + layout->code_first_line, sizeof(first_line));
    if (type != layout->code_type || unit_count <= 0 || unit_count > UNITS_MAX) {
        return false;
    }
    header->address = address;
    header->first_line = first_line > 0 ? (uint32_t)first_line : 0;
    header->unit_count = (uint32_t)unit_count;
    memcpy(&header->filename, bytes + layout->code_filename, sizeof(uintptr_t));
    memcpy(&header->qualname, bytes + layout->code_qualname, sizeof(uintptr_t));
    memcpy(&header->linetable, bytes + layout->code_linetable, sizeof(uintptr_t));
    return true;
}

bool ks_code_header_unit(const struct ks_python_layout *layout, const struct ks_code_header *header,
                         uintptr_t instruction, int64_t *unit)
{
    int64_t offset = (int64_t)(instruction - (header->address + layout->code_units));
    *unit = offset / UNIT_SIZE;
    return offset % UNIT_SIZE == 0 && *unit >= -1 && *unit < (int64_t)header->unit_count;
}

static bool is_same_code(const struct ks_code_header *a, const struct ks_code_header *b)
{
    return a->address == b->address && a->filename == b->filename && a->qualname == b->qualname &&
           a->linetable == b->linetable && a->first_line == b->first_line &&
           a->unit_count == b->unit_count;
}

/* ------------------------------------------------------------------ finding */

/* Where the code of that address is, or would go. */
static struct ks_code *place_of(const struct ks_code_table *table, uintptr_t address)
{
    uint64_t hash = (uint64_t)address * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t i = (uint32_t)(hash >> 32) & (CODES - 1);
    while (table->codes[i].header.address != 0 && table->codes[i].header.address != address) {
        i = (i + 1) & (CODES - 1);
    }
    return &table->codes[i];
}

uint32_t ks_code_table_find(const struct ks_code_table *table, const struct ks_code_header *header)
{
    const struct ks_code *code = place_of(table, header->address);
    return is_same_code(&code->header, header) ? code->id : 0;
}

bool ks_code_table_find_place(const struct ks_code_table *table, uint32_t id, int64_t unit,
                              struct ks_code_place *place)
{
    uint32_t value = ks_id_map_find(&table->places, id, (uint32_t)(unit + 1), 0);
    *place = (struct ks_code_place){value >> PLACE_SHIFT, (value & MAY_CALL) != 0};
    return value != 0;
}

/* ------------------------------------------------------------------ reading */

static uint32_t read_line(struct ks_self_memory *memory, size_t at, size_t room,
                          const struct ks_code_reading *reading)
{
    int64_t size = 0;
    if (!ks_self_memory_read(memory, at, reading->header.linetable + OBJECT_SIZE, sizeof(size))) {
        return 0;
    }
    memcpy(&size, memory->area + at, sizeof(size));
    if (size <= 0 || (uint64_t)size > room ||
        !ks_self_memory_read(memory, at, reading->header.linetable + BYTES_DATA, (size_t)size)) {
        return 0;
    }
    return ks_line_table_find((const uint8_t *)memory->area + at, (size_t)size,
                              reading->header.first_line, reading->unit);
}

/* Goes over the instructions up to the one that `unit` is part of. Long code is believed. */
static bool read_may_call(const struct ks_code_table *table, struct ks_self_memory *memory,
                          size_t at, size_t room, const struct ks_code_reading *reading)
{
    const struct ks_python_opcodes *opcodes = &table->layout->opcodes;
    size_t size = ((size_t)reading->unit + 1) * UNIT_SIZE;
    if (reading->unit < 0) {
        return false;
    }
    if (size > room) {
        return true;
    }
    uintptr_t units = reading->header.address + table->layout->code_units;
    if (!ks_self_memory_read(memory, at, units, size)) {
        return false;
    }
    const uint8_t *bytes = (const uint8_t *)memory->area + at;
    int64_t i = 0;
    for (;;) {
        uint8_t opcode = bytes[i * UNIT_SIZE];
        if (opcodes->cache_units[opcode] == KS_PYTHON_CACHE_UNKNOWN) {
            return true;
        }
        int64_t next = i + 1 + opcodes->cache_units[opcode];
        if (reading->unit < next) {
            return opcodes->enters_python[opcode];
        }
        i = next;
    }
}

bool ks_code_table_read(const struct ks_code_table *table, struct ks_self_memory *memory, size_t at,
                        size_t size, struct ks_code_reading *reading)
{
    const struct ks_code_header *header = &reading->header;
    reading->has_texts = ks_code_table_find(table, header) == 0;
    if (reading->has_texts &&
        (!ks_object_text_read(memory, at, table->layout, header->qualname, reading->name,
                              sizeof(reading->name), &reading->name_len) ||
         !ks_object_text_read(memory, at, table->layout, header->filename, reading->file,
                              sizeof(reading->file), &reading->file_len))) {
        return false;
    }
    reading->place.line = read_line(memory, at, size, reading);
    reading->place.may_call = read_may_call(table, memory, at, size, reading);
    return true;
}

/* ------------------------------------------------------------------ adding */

static bool add_code(struct ks_code_table *table, const struct ks_code_reading *reading)
{
    struct ks_code *code = place_of(table, reading->header.address);
    struct ks_wire_code item = {
        .id = (table->last_id + 1) | KS_WIRE_CODE_SAMPLED,
        .name = ks_capture_string(reading->name, reading->name_len),
        .file = ks_capture_string(reading->file, reading->file_len),
        .first_line = reading->header.first_line,
    };
    if (!ks_capture_item_of(table->generation, KS_WIRE_CODE, &item, sizeof(item))) {
        return false;
    }
    table->code_count += code->header.address == 0;
    *code = (struct ks_code){.header = reading->header, .id = ++table->last_id};
    return true;
}

bool ks_code_table_add(struct ks_code_table *table, const struct ks_code_reading *reading)
{
    uint32_t id = ks_code_table_find(table, &reading->header);
    struct ks_code_place known;
    if (id == 0 && !(reading->has_texts && add_code(table, reading))) {
        return false;
    }
    id = id == 0 ? table->last_id : id;
    if (!ks_code_table_find_place(table, id, reading->unit, &known)) {
        uint32_t value = reading->place.line << PLACE_SHIFT | PLACE_KNOWN |
                         (reading->place.may_call ? MAY_CALL : 0);
        ks_id_map_add(&table->places, id, (uint32_t)(reading->unit + 1), 0, value);
    }
    return true;
}
