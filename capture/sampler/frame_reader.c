#include "capture/sampler/frame_reader.h"

#include <string.h>

enum {
    SINGLE_SIZE = 4096, /* single reads come first in the area, then the two copies */
    COPY_SIZE_MAX = (KS_FRAME_READER_OTHER_AT - SINGLE_SIZE) / 2,
    AREA_SIZE = KS_FRAME_READER_OTHER_AT + KS_FRAME_READER_OTHER_SIZE,
    CHUNK_HEADER_SIZE = 24,
    CHUNK_TOP = 16,
    TOP_AFTER_CHUNK = 8, /* in the thread state, beside its pointer to the chunk */
    LIMIT_AFTER_CHUNK = 16,
    RETURNING_SIZE = 512, /* a frame that returns lies above the top for a moment */
    GIL_SIZE = 24,
    ROUNDS_MAX = 6,
    PIECE_THREAD = 0,
    PIECE_CFRAME = 1,
    PIECE_GIL = 2,
    PIECE_CHUNK = KS_FRAME_PIECES_HEAD,
};

enum walk_state { WALK_WHOLE, WALK_WANTS_MORE, WALK_BROKEN };

bool ks_frame_reader_init(struct ks_frame_reader *reader, const struct ks_python_layout *layout)
{
    reader->layout = layout;
    return ks_self_memory_init(&reader->memory, AREA_SIZE);
}

void ks_frame_reader_release(struct ks_frame_reader *reader)
{
    ks_self_memory_release(&reader->memory);
}

static uintptr_t word_at(const char *bytes, uint32_t offset)
{
    uintptr_t word;
    memcpy(&word, bytes + offset, sizeof(word));
    return word;
}

static const char *first_copy(const struct ks_frame_reader *reader)
{
    return reader->memory.area + SINGLE_SIZE;
}

static const char *second_copy(const struct ks_frame_reader *reader)
{
    return first_copy(reader) + reader->copy_size;
}

/* ------------------------------------------------------------------ what to copy */

static bool add_piece(struct ks_frame_reader *reader, uintptr_t from, size_t size)
{
    if (size > COPY_SIZE_MAX - reader->copy_size || reader->piece_count == KS_FRAME_PIECES_MAX) {
        return false;
    }
    reader->pieces[reader->piece_count++] =
        (struct ks_frame_piece){from, (uint32_t)size, reader->copy_size};
    reader->copy_size += (uint32_t)size;
    return true;
}

/* The chunk in use, up to its top and a little further. */
static bool add_top_chunk(struct ks_frame_reader *reader, const char *state)
{
    uint32_t at = reader->layout->thread_chunk;
    uintptr_t chunk = word_at(state, at);
    uintptr_t top = word_at(state, at + TOP_AFTER_CHUNK);
    uintptr_t limit = word_at(state, at + LIMIT_AFTER_CHUNK);
    if (chunk == 0) {
        return true; // it has called nothing yet
    }
    if (top < chunk || limit < top || limit - chunk > COPY_SIZE_MAX) {
        return false;
    }
    uintptr_t end = limit - top > RETURNING_SIZE ? top + RETURNING_SIZE : limit;
    reader->chunk_count = 1;
    return add_piece(reader, chunk, end - chunk);
}

/* Chunks that are full, from the newest on. */
static bool add_older_chunks(struct ks_frame_reader *reader)
{
    const char *header = reader->memory.area;
    if (reader->chunk_count == 0 ||
        !ks_self_memory_read(&reader->memory, 0, reader->pieces[PIECE_CHUNK].from,
                             CHUNK_HEADER_SIZE)) {
        return reader->chunk_count == 0;
    }
    uintptr_t chunk = word_at(header, 0);
    while (chunk != 0) {
        if (reader->chunk_count == KS_FRAME_CHUNKS_MAX ||
            !ks_self_memory_read(&reader->memory, 0, chunk, CHUNK_HEADER_SIZE)) {
            return false;
        }
        uintptr_t top = word_at(header, CHUNK_TOP);
        if (top > COPY_SIZE_MAX / sizeof(uintptr_t) ||
            !add_piece(reader, chunk, CHUNK_HEADER_SIZE + top * sizeof(uintptr_t))) {
            return false;
        }
        reader->chunk_count++;
        chunk = word_at(header, 0);
    }
    return true;
}

static void add_outside(struct ks_frame_reader *reader, const struct ks_frame_hints *hints)
{
    for (uint32_t i = 0; i < hints->count; i++) {
        (void)add_piece(reader, hints->outside[i], KS_PYTHON_FRAME_SIZE);
    }
}

/* Begins the list of pieces; GONE when the thread is another one now. */
static enum ks_frames_state begin(struct ks_frame_reader *reader,
                                  const struct ks_python_thread *thread,
                                  struct ks_frame_hints *hints)
{
    const struct ks_python_layout *layout = reader->layout;
    const char *state = reader->memory.area;
    if (!ks_self_memory_read(&reader->memory, 0, thread->address, layout->thread_size) ||
        word_at(state, layout->thread_interp) != thread->interp ||
        word_at(state, layout->thread_native_id) != thread->native_id) {
        return KS_FRAMES_GONE;
    }
    uintptr_t frame = word_at(state, layout->thread_frame);
    if (frame == 0) {
        return KS_FRAMES_NONE;
    }
    reader->piece_count = reader->chunk_count = reader->copy_size = 0;
    bool fits = add_piece(reader, thread->address, layout->thread_size);
    fits = fits &&
           (layout->has_cframe
                ? add_piece(reader, frame + layout->cframe_frame, sizeof(uintptr_t))
                : add_piece(reader, thread->address + layout->thread_frame, sizeof(uintptr_t)));
    fits = fits && add_piece(reader, thread->gil, GIL_SIZE);
    fits = fits && add_top_chunk(reader, state);
    if (fits && hints->has_older_chunks) {
        fits = add_older_chunks(reader);
        hints->has_older_chunks = reader->chunk_count > 1;
    }
    add_outside(reader, hints);
    return fits ? KS_FRAMES_READ : KS_FRAMES_TORN;
}

/* ------------------------------------------------------------------ copying */

/* A piece that is not mapped any more goes, unless nothing is right without it. */
static bool drop_unreadable(struct ks_frame_reader *reader, size_t got)
{
    uint32_t i = 0;
    while (i < reader->piece_count && reader->pieces[i].at + reader->pieces[i].size <= got) {
        i++;
    }
    uint32_t fixed = KS_FRAME_PIECES_HEAD + reader->chunk_count;
    if (i < fixed || i == reader->piece_count) {
        return false;
    }
    reader->copy_size -= reader->pieces[i].size;
    reader->piece_count--;
    for (; i < reader->piece_count; i++) {
        reader->pieces[i] = reader->pieces[i + 1];
        reader->pieces[i].at -= KS_PYTHON_FRAME_SIZE;
    }
    return true;
}

static bool copy_twice(struct ks_frame_reader *reader)
{
    struct iovec pieces[2 * KS_FRAME_PIECES_MAX];
    for (;;) {
        uint32_t count = reader->piece_count;
        for (uint32_t i = 0; i < count; i++) {
            pieces[i].iov_base = (void *)reader->pieces[i].from;
            pieces[i].iov_len = reader->pieces[i].size;
            pieces[count + i] = pieces[i];
        }
        size_t want = 2 * (size_t)reader->copy_size;
        size_t got = 0;
        if (2 * count <= KS_SELF_MEMORY_PIECES_MAX) {
            got = ks_self_memory_gather(&reader->memory, SINGLE_SIZE, pieces, (int)(2 * count));
        }
        if (got == want) {
            return true;
        }
        size_t in_copy = got < reader->copy_size ? got : got - reader->copy_size;
        if (!drop_unreadable(reader, in_copy)) {
            return false;
        }
    }
}

/* ------------------------------------------------------------------ walking */

static bool is_in_piece(const struct ks_frame_piece *piece, uintptr_t address, uint32_t *at)
{
    if (address < piece->from || address - piece->from > piece->size ||
        piece->size - (address - piece->from) < KS_PYTHON_FRAME_SIZE) {
        return false;
    }
    *at = piece->at + (uint32_t)(address - piece->from);
    return true;
}

/* Where in a copy the frame lies; frames outside come in the order of the look before. */
static bool find_frame(struct ks_frame_reader *reader, uintptr_t address, uint32_t *at)
{
    enum { SEARCH_MAX = 16 };
    uint32_t outside = PIECE_CHUNK + reader->chunk_count;
    for (uint32_t i = PIECE_CHUNK; i < outside; i++) {
        if (is_in_piece(&reader->pieces[i], address, at)) {
            return true;
        }
    }
    uint32_t count = reader->piece_count - outside;
    for (uint32_t i = 0; i < count && i < SEARCH_MAX; i++) {
        uint32_t k = (reader->cursor + i) % count;
        if (reader->pieces[outside + k].from == address) {
            *at = reader->pieces[outside + k].at;
            reader->cursor = k + 1;
            return true;
        }
    }
    return false;
}

/* The frame's bytes: from the copy, or read now and wanted for the next copy. */
static const char *fetch_frame(struct ks_frame_reader *reader, uintptr_t address, uint32_t *at,
                               bool *wants_more)
{
    if (find_frame(reader, address, at)) {
        return first_copy(reader) + *at;
    }
    uint32_t copy_size = reader->copy_size; // of the copies that are there
    *wants_more = true;
    *at = 0;
    if (!ks_self_memory_read(&reader->memory, 0, address, KS_PYTHON_FRAME_SIZE) ||
        reader->piece_count == KS_FRAME_PIECES_MAX) {
        return NULL;
    }
    struct ks_frame_piece piece = {address, KS_PYTHON_FRAME_SIZE, copy_size};
    reader->pieces[reader->piece_count++] = piece;
    reader->cursor = 0;
    return reader->memory.area;
}

static bool add_frame(struct ks_frame_reader *reader, uintptr_t address, const char *bytes)
{
    const struct ks_python_layout *layout = reader->layout;
    uint32_t owner = (unsigned char)bytes[layout->frame_owner];
    if (owner > layout->owner_max) {
        return false;
    }
    if (owner == layout->owner_c_stack) {
        if (reader->count > 0) {
            reader->frames[reader->count - 1].is_from_c = true;
        }
        return true;
    }
    reader->frames[reader->count++] = (struct ks_python_frame){
        .address = address,
        .code = word_at(bytes, layout->frame_code),
        .instruction = word_at(bytes, layout->frame_instruction),
        .is_from_c = layout->frame_is_entry != 0 && bytes[layout->frame_is_entry] != 0,
    };
    return true;
}

static enum walk_state walk(struct ks_frame_reader *reader)
{
    uintptr_t address = word_at(first_copy(reader), reader->pieces[PIECE_CFRAME].at);
    bool wants_more = false, is_generator = false;
    reader->count = reader->visited_count = reader->cursor = 0;
    while (address != 0) {
        uint32_t at = 0;
        if (address % sizeof(uintptr_t) != 0 || reader->visited_count == KS_FRAMES_MAX) {
            return WALK_BROKEN; // too deep, or going in circles
        }
        const char *bytes = fetch_frame(reader, address, &at, &wants_more);
        if (!bytes || !add_frame(reader, address, bytes)) {
            return wants_more ? WALK_WANTS_MORE : WALK_BROKEN;
        }
        reader->visited[reader->visited_count++] = at;
        is_generator =
            (unsigned char)bytes[reader->layout->frame_owner] == reader->layout->owner_generator;
        address = word_at(bytes, reader->layout->frame_previous);
    }
    if (wants_more) {
        return WALK_WANTS_MORE;
    }
    /* A generator that is entered or left is cut off from its caller for a moment. */
    return is_generator ? WALK_BROKEN : WALK_WHOLE;
}

/* Pieces that a walk asked for lie behind the others in the next copy. */
static void place_pieces(struct ks_frame_reader *reader)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < reader->piece_count; i++) {
        if (reader->pieces[i].size > COPY_SIZE_MAX - at) {
            reader->piece_count = i;
            break;
        }
        reader->pieces[i].at = at;
        at += reader->pieces[i].size;
    }
    reader->copy_size = at;
}

/* ------------------------------------------------------------------ judging */

static bool is_same(const struct ks_frame_reader *reader, uint32_t at, uint32_t offset, size_t size)
{
    return memcmp(first_copy(reader) + at + offset, second_copy(reader) + at + offset, size) == 0;
}

static bool is_same_frame(const struct ks_frame_reader *reader, uint32_t at, bool is_innermost)
{
    const struct ks_python_layout *layout = reader->layout;
    return is_same(reader, at, layout->frame_code, sizeof(uintptr_t)) &&
           is_same(reader, at, layout->frame_previous, sizeof(uintptr_t)) &&
           is_same(reader, at, layout->frame_owner, 1) &&
           (is_innermost || is_same(reader, at, layout->frame_instruction, sizeof(uintptr_t)));
}

/* Whether both copies tell of one stack. */
static bool copies_agree(const struct ks_frame_reader *reader)
{
    enum { CHUNK_FIELDS_SIZE = LIMIT_AFTER_CHUNK };
    const struct ks_python_layout *layout = reader->layout;
    if (!is_same(reader, 0, layout->thread_frame, sizeof(uintptr_t)) ||
        !is_same(reader, 0, layout->thread_chunk, CHUNK_FIELDS_SIZE) ||
        !is_same(reader, reader->pieces[PIECE_CFRAME].at, 0, sizeof(uintptr_t))) {
        return false;
    }
    for (uint32_t i = 0; i < reader->visited_count; i++) {
        if (!is_same_frame(reader, reader->visited[i], i == 0)) {
            return false;
        }
    }
    return true;
}

/* The walk's frames outside of the data stack are the next look's guess. */
static void take_hints(const struct ks_frame_reader *reader, struct ks_frame_hints *hints)
{
    uint32_t outside = PIECE_CHUNK + reader->chunk_count;
    uint32_t first_at = outside < reader->piece_count ? reader->pieces[outside].at : UINT32_MAX;
    hints->count = 0;
    for (uint32_t i = 0; i < reader->visited_count; i++) {
        uint32_t at = reader->visited[i];
        if (at >= first_at && hints->count < KS_FRAMES_OUTSIDE_MAX) {
            uint32_t k = outside + (at - first_at) / KS_PYTHON_FRAME_SIZE;
            hints->outside[hints->count++] = reader->pieces[k].from;
        }
    }
}

static void read_gil(struct ks_frame_reader *reader, const struct ks_python_thread *thread)
{
    const char *gil = first_copy(reader) + reader->pieces[PIECE_GIL].at;
    int is_locked = 0;
    memcpy(&is_locked, gil + reader->layout->gil_locked, sizeof(is_locked));
    reader->holds_gil =
        is_locked == 1 && word_at(gil, reader->layout->gil_holder) == thread->address;
}

/* Whether the chunk in use has older ones that the pieces lack. */
static bool lacks_chunks(const struct ks_frame_reader *reader)
{
    return reader->chunk_count == 1 &&
           word_at(first_copy(reader), reader->pieces[PIECE_CHUNK].at) != 0;
}

static enum ks_frames_state copy_and_walk(struct ks_frame_reader *reader,
                                          const struct ks_python_thread *thread,
                                          struct ks_frame_hints *hints)
{
    for (int round = 0; round < ROUNDS_MAX; round++) {
        if (!copy_twice(reader)) {
            return KS_FRAMES_TORN;
        }
        if (lacks_chunks(reader)) {
            hints->has_older_chunks = true;
            return KS_FRAMES_TORN;
        }
        enum walk_state walked = walk(reader);
        if (walked == WALK_BROKEN) {
            return KS_FRAMES_TORN;
        }
        if (walked == WALK_WHOLE) {
            read_gil(reader, thread);
            take_hints(reader, hints);
            return copies_agree(reader) ? KS_FRAMES_READ : KS_FRAMES_TORN;
        }
        place_pieces(reader);
    }
    return KS_FRAMES_TORN;
}

enum ks_frames_state ks_frame_reader_read(struct ks_frame_reader *reader,
                                          const struct ks_python_thread *thread,
                                          struct ks_frame_hints *hints)
{
    reader->count = 0;
    bool knew_of_chunks = hints->has_older_chunks;
    enum ks_frames_state state = begin(reader, thread, hints);
    if (state == KS_FRAMES_READ) {
        state = copy_and_walk(reader, thread, hints);
    }
    if (state == KS_FRAMES_TORN && !knew_of_chunks && hints->has_older_chunks) {
        state = begin(reader, thread, hints);
        state = state == KS_FRAMES_READ ? copy_and_walk(reader, thread, hints) : state;
    }
    return state;
}
