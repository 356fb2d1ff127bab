#include "capture/sampler/stack_look.h"

#include <string.h>

#include "capture/shared/recorder.h"

enum {
    STACKS_LOG2 = 20,
    TRIES = 3,
    LEARNING_MAX = 16, /* rounds that only make code known */
    OTHER_AT = KS_FRAME_READER_OTHER_AT,
    OTHER_SIZE = KS_FRAME_READER_OTHER_SIZE,
};

enum naming { NAMES_KNOWN, NAMES_WANTED, NAMES_IMPOSSIBLE };

bool ks_stack_look_init(struct ks_stack_look *look, const struct ks_python_layout *layout)
{
    bool is_ready = ks_frame_reader_init(&look->reader, layout);
    is_ready = ks_code_table_init(&look->codes, layout) && is_ready;
    is_ready = ks_id_map_init(&look->stacks, STACKS_LOG2) && is_ready;
    look->last_stack = 0;
    if (!is_ready) {
        ks_stack_look_release(look);
    }
    return is_ready;
}

void ks_stack_look_release(struct ks_stack_look *look)
{
    ks_frame_reader_release(&look->reader);
    ks_code_table_release(&look->codes);
    ks_id_map_release(&look->stacks);
}

void ks_stack_look_reset(struct ks_stack_look *look, uint32_t generation)
{
    ks_code_table_reset(&look->codes, generation);
    ks_id_map_reset(&look->stacks);
    look->last_stack = 0;
}

/* Tables that are full begin anew: what is still in use is written once more, by new ids. */
static void make_room(struct ks_stack_look *look)
{
    if (ks_code_table_is_full(&look->codes) || ks_id_map_is_full(&look->stacks)) {
        ks_code_table_reset(&look->codes, look->codes.generation);
        ks_id_map_reset(&look->stacks);
    }
}

/* ------------------------------------------------------------------ code of the frames */

/* Headers of the code of frames from `first` on; gives the frame behind the last one done, or
 * `first` when one is no code. Neighbours in recursion share a read. */
static uint32_t read_headers(struct ks_stack_look *look, uint32_t first)
{
    const struct ks_frame_reader *reader = &look->reader;
    struct iovec *pieces = look->pieces;
    int count = 0;
    uint32_t end = first;
    for (; end < reader->count; end++) {
        bool is_repeated = end > first && reader->frames[end].code == reader->frames[end - 1].code;
        if (!is_repeated && count == KS_STACK_HEADERS_MAX) {
            break;
        }
        if (!is_repeated) {
            pieces[count].iov_base = (void *)reader->frames[end].code;
            pieces[count++].iov_len = KS_PYTHON_CODE_SIZE;
        }
    }
    size_t want = (size_t)count * KS_PYTHON_CODE_SIZE;
    if (ks_self_memory_gather(&look->reader.memory, OTHER_AT, pieces, count) != want) {
        return first;
    }
    const char *bytes = reader->memory.area + OTHER_AT - KS_PYTHON_CODE_SIZE;
    for (uint32_t i = first; i < end; i++) {
        if (i > first && reader->frames[i].code == reader->frames[i - 1].code) {
            look->headers[i] = look->headers[i - 1];
            continue;
        }
        bytes += KS_PYTHON_CODE_SIZE;
        if (!ks_code_header_take(reader->layout, reader->frames[i].code, bytes,
                                 &look->headers[i])) {
            return first;
        }
    }
    return end;
}

/* The interpreter pushes a frame of its own below each __init__ that it calls itself; it has one
 * string for all its names. */
static bool is_interpreters_own(const struct ks_code_header *header)
{
    return header->filename == header->qualname;
}

static void leave_out_own_frames(struct ks_stack_look *look)
{
    struct ks_frame_reader *reader = &look->reader;
    uint32_t kept = 0;
    bool is_from_c = false;
    for (uint32_t i = reader->count; i-- > 0;) {
        is_from_c = is_from_c || reader->frames[i].is_from_c;
        if (!is_interpreters_own(&look->headers[i])) {
            kept++;
            reader->frames[reader->count - kept] = reader->frames[i];
            reader->frames[reader->count - kept].is_from_c = is_from_c;
            look->headers[reader->count - kept] = look->headers[i];
            is_from_c = false;
        }
    }
    uint32_t first = reader->count - kept;
    memmove(reader->frames, reader->frames + first, kept * sizeof(*reader->frames));
    memmove(look->headers, look->headers + first, kept * sizeof(*look->headers));
    reader->count = kept;
}

static bool read_all_headers(struct ks_stack_look *look)
{
    for (uint32_t i = 0; i < look->reader.count;) {
        uint32_t end = read_headers(look, i);
        if (end == i) {
            return false;
        }
        i = end;
    }
    leave_out_own_frames(look);
    return true;
}

enum ks_frames_state ks_stack_look_frames(struct ks_stack_look *look,
                                          const struct ks_python_thread *thread,
                                          struct ks_frame_hints *hints)
{
    enum ks_frames_state state = ks_frame_reader_read(&look->reader, thread, hints);
    if (state == KS_FRAMES_READ && !read_all_headers(look)) {
        return KS_FRAMES_TORN;
    }
    return state == KS_FRAMES_READ && look->reader.count == 0 ? KS_FRAMES_NONE : state;
}

/* ------------------------------------------------------------------ learning */

static bool want_reading(struct ks_stack_look *look, uint32_t i, int64_t unit)
{
    struct ks_code_reading *reading = &look->readings[look->reading_count];
    reading->header = look->headers[i];
    reading->unit = unit;
    look->witnesses[look->reading_count] = (struct ks_stack_witness){
        .depth = look->reader.count - 1 - i,
        .frame = look->reader.frames[i].address,
        .code = look->reader.frames[i].code,
    };
    if (!ks_code_table_read(&look->codes, &look->reader.memory, OTHER_AT, OTHER_SIZE, reading)) {
        return false;
    }
    look->reading_count++;
    return true;
}

/* Ids and places of all frames, or readings of those that are not known. */
static enum naming name_frames(struct ks_stack_look *look)
{
    const struct ks_frame_reader *reader = &look->reader;
    look->reading_count = 0;
    for (uint32_t i = 0; i < reader->count; i++) {
        int64_t unit;
        if (!ks_code_header_unit(reader->layout, &look->headers[i], reader->frames[i].instruction,
                                 &unit)) {
            return NAMES_IMPOSSIBLE;
        }
        look->code_ids[i] = ks_code_table_find(&look->codes, &look->headers[i]);
        if (look->code_ids[i] != 0 &&
            ks_code_table_find_place(&look->codes, look->code_ids[i], unit, &look->places[i])) {
            continue;
        }
        if (look->reading_count == KS_STACK_READINGS_MAX) {
            break;
        }
        if (!want_reading(look, i, unit)) {
            return NAMES_IMPOSSIBLE;
        }
    }
    return look->reading_count > 0 ? NAMES_WANTED : NAMES_KNOWN;
}

/* Adds what was read of frames that the thread is in still: their code was alive meanwhile. Gives
 * how many. */
static uint32_t add_readings(struct ks_stack_look *look)
{
    uint32_t added = 0;
    for (uint32_t k = 0; k < look->reading_count; k++) {
        const struct ks_stack_witness *witness = &look->witnesses[k];
        if (witness->depth >= look->reader.count) {
            continue;
        }
        uint32_t i = look->reader.count - 1 - witness->depth;
        if (look->reader.frames[i].address == witness->frame &&
            look->reader.frames[i].code == witness->code) {
            added += ks_code_table_add(&look->codes, &look->readings[k]);
        }
    }
    return added;
}

/* Reads the frames once more and keeps what was learned; false: nothing was. */
static bool learn(struct ks_stack_look *look, const struct ks_python_thread *thread,
                  struct ks_frame_hints *hints)
{
    return ks_stack_look_frames(look, thread, hints) == KS_FRAMES_READ && add_readings(look) > 0;
}

/* ------------------------------------------------------------------ the stack */

/* Frames that Python code pushed itself have a caller that stands at a call. */
static bool callers_are_at_calls(const struct ks_stack_look *look)
{
    for (uint32_t i = 1; i < look->reader.count; i++) {
        if (!look->reader.frames[i - 1].is_from_c && !look->places[i].may_call) {
            return false;
        }
    }
    return true;
}

/* Id of the stack, whose outer frames are stacks of their own; 0: no room in the recording. */
static uint32_t intern_stack(struct ks_stack_look *look)
{
    uint32_t stack = 0;
    for (uint32_t i = look->reader.count; i-- > 0;) {
        uint32_t code = look->code_ids[i] | KS_WIRE_CODE_SAMPLED;
        uint32_t line = look->places[i].line;
        uint32_t found = ks_id_map_find(&look->stacks, stack, code, line);
        if (found == 0) {
            struct ks_wire_stack item = {look->last_stack + 1, stack, code, line};
            uint32_t generation = look->codes.generation;
            if (!ks_capture_item_of(generation, KS_WIRE_STACK, &item, sizeof(item))) {
                return 0;
            }
            found = ++look->last_stack;
            ks_id_map_add(&look->stacks, stack, code, line, found);
        }
        stack = found;
    }
    return stack;
}

enum ks_frames_state ks_stack_look_at(struct ks_stack_look *look,
                                      const struct ks_python_thread *thread,
                                      struct ks_frame_hints *hints, uint32_t *stack,
                                      bool *holds_gil)
{
    int tries = 0, rounds = 0;
    make_room(look);
    while (tries < TRIES && rounds++ < LEARNING_MAX) {
        enum ks_frames_state state = ks_stack_look_frames(look, thread, hints);
        if (state == KS_FRAMES_GONE || state == KS_FRAMES_NONE) {
            return state;
        }
        if (state == KS_FRAMES_TORN) {
            tries++;
            continue;
        }
        *holds_gil = look->reader.holds_gil;
        enum naming named = name_frames(look);
        if (named == NAMES_KNOWN && callers_are_at_calls(look)) {
            *stack = intern_stack(look);
            return KS_FRAMES_READ;
        }
        if (named != NAMES_WANTED || !learn(look, thread, hints)) {
            tries++;
        }
    }
    return KS_FRAMES_TORN;
}
