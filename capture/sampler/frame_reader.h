/* The Python frames of one thread, read while it runs on and without the GIL.
 *
 * One call copies the thread state, the used part of its data stack and the frames that lie
 * elsewhere (generators, marks on the C stack), twice over. A stack counts only when both copies
 * agree about all frames and callers' instructions and when the walk ends at the first frame of the
 * thread: then all of it was true at one moment, the one between the copies. Where frames lie
 * elsewhere is guessed from the look before; a wrong guess costs another round. */
#ifndef KS_CAPTURE_SAMPLER_FRAME_READER_H
#define KS_CAPTURE_SAMPLER_FRAME_READER_H

#include "capture/sampler/python_layout.h"
#include "capture/sampler/self_memory.h"

enum {
    KS_FRAMES_MAX = 4096,
    KS_FRAME_CHUNKS_MAX = 64,    /* 16 KiB each, unless a function has very many locals */
    KS_FRAMES_OUTSIDE_MAX = 440, /* both copies are read in one call of at most 1024 pieces */
};

enum ks_frames_state {
    KS_FRAMES_READ,
    KS_FRAMES_NONE, /* the thread runs no Python */
    KS_FRAMES_TORN, /* it moved meanwhile, or is deeper than our limits */
    KS_FRAMES_GONE, /* the thread has ended */
};

struct ks_python_thread {
    uintptr_t address; /* of the thread state */
    uintptr_t interp;
    uintptr_t gil;
    uint64_t native_id;
};

/* What the last look found: frames outside of the data stack, innermost first. */
struct ks_frame_hints {
    bool has_older_chunks;
    uint32_t count;
    uintptr_t outside[KS_FRAMES_OUTSIDE_MAX];
};

struct ks_python_frame {
    uintptr_t address;
    uintptr_t code;
    uintptr_t instruction;
    bool is_from_c; /* it was called by C code, whatever its caller's instruction is */
};

struct ks_frame_piece {
    uintptr_t from;
    uint32_t size;
    uint32_t at;
};

enum {
    KS_FRAME_PIECES_HEAD = 3, /* thread state, what its cframe says, GIL */
    KS_FRAME_PIECES_MAX = KS_FRAME_PIECES_HEAD + KS_FRAME_CHUNKS_MAX + KS_FRAMES_OUTSIDE_MAX,
};

struct ks_frame_reader {
    const struct ks_python_layout *layout;
    struct ks_self_memory memory;
    struct ks_python_frame frames[KS_FRAMES_MAX]; /* innermost first */
    uint32_t count;
    bool holds_gil;

    /* Of the look that goes on. */
    struct ks_frame_piece pieces[KS_FRAME_PIECES_MAX];
    uint32_t piece_count;
    uint32_t chunk_count;
    uint32_t cursor; /* where among the pieces outside the next one is expected */
    uint32_t copy_size;
    uint32_t visited_count; /* frames, and marks of calls from C, by their place in a copy */
    uint32_t visited[KS_FRAMES_MAX];
};

/* False: no memory. `layout` must stay. */
bool ks_frame_reader_init(struct ks_frame_reader *reader, const struct ks_python_layout *layout);
void ks_frame_reader_release(struct ks_frame_reader *reader);

/* One try; fills `frames`, `count` and `holds_gil`. */
enum ks_frames_state ks_frame_reader_read(struct ks_frame_reader *reader,
                                          const struct ks_python_thread *thread,
                                          struct ks_frame_hints *hints);

/* A part of the memory that other reads may use. */
enum {
    KS_FRAME_READER_OTHER_AT = 1u << 21,
    KS_FRAME_READER_OTHER_SIZE = 1u << 20,
};

#endif
