/* Code objects that stacks named, and places in them. Code objects die and others take their
 * address, so an entry holds only while the object there has the same line, name, file and table.
 *
 * What a code object says is read while its thread runs on. It counts only when the thread is seen
 * to be still in that frame afterwards: read, look again, then add. */
#ifndef KS_CAPTURE_SAMPLER_CODE_TABLE_H
#define KS_CAPTURE_SAMPLER_CODE_TABLE_H

#include "capture/sampler/id_map.h"
#include "capture/sampler/python_layout.h"
#include "capture/sampler/self_memory.h"

enum {
    KS_CODE_NAME_SIZE = 512,
    KS_CODE_FILE_SIZE = 1024,
};

/* A code object's own words. */
struct ks_code_header {
    uintptr_t address;
    uintptr_t filename;
    uintptr_t qualname;
    uintptr_t linetable;
    uint32_t first_line;
    uint32_t unit_count;
};

struct ks_code {
    struct ks_code_header header; /* address 0: free */
    uint32_t id;                  /* without KS_WIRE_CODE_SAMPLED */
    uint32_t reserved;
};

/* A place in code: what its line is, and whether the instruction there may call Python code. */
struct ks_code_place {
    uint32_t line;
    bool may_call;
};

/* What was read of a place or of a whole code object, and is to be added. */
struct ks_code_reading {
    struct ks_code_header header;
    int64_t unit;
    struct ks_code_place place;
    bool has_texts;
    size_t name_len;
    size_t file_len;
    char name[KS_CODE_NAME_SIZE];
    char file[KS_CODE_FILE_SIZE];
};

struct ks_code_table {
    const struct ks_python_layout *layout;
    struct ks_code *codes;
    uint32_t code_count;
    uint32_t generation; /* of the recorder's file that ids are of */
    uint32_t last_id;
    struct ks_id_map places;
};

bool ks_code_table_init(struct ks_code_table *table, const struct ks_python_layout *layout);
void ks_code_table_release(struct ks_code_table *table);
/* Forgets all; ids go on, unless the recording is another one. */
void ks_code_table_reset(struct ks_code_table *table, uint32_t generation);
bool ks_code_table_is_full(const struct ks_code_table *table);

/* Takes the words out of the object's first KS_PYTHON_CODE_SIZE bytes. False: it is no code. */
bool ks_code_header_take(const struct ks_python_layout *layout, uintptr_t address,
                         const char *bytes, struct ks_code_header *header);
/* Which unit the instruction pointer of a frame is at; false: none of this code's. */
bool ks_code_header_unit(const struct ks_python_layout *layout, const struct ks_code_header *header,
                         uintptr_t instruction, int64_t *unit);

/* Id of the code, 0: not known. */
uint32_t ks_code_table_find(const struct ks_code_table *table, const struct ks_code_header *header);
bool ks_code_table_find_place(const struct ks_code_table *table, uint32_t id, int64_t unit,
                              struct ks_code_place *place);

/* Reads what is not known of `reading->header` and `->unit`, by the memory's area from `at` to
 * `at + size`. False: it cannot be read. */
bool ks_code_table_read(const struct ks_code_table *table, struct ks_self_memory *memory, size_t at,
                        size_t size, struct ks_code_reading *reading);
/* Adds it, and writes it to the recording. False: no room there. */
bool ks_code_table_add(struct ks_code_table *table, const struct ks_code_reading *reading);

#endif
