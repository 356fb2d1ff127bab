/* One look at one thread: frames to the id of a stack in the recording. */
#ifndef KS_CAPTURE_SAMPLER_STACK_LOOK_H
#define KS_CAPTURE_SAMPLER_STACK_LOOK_H

#include "capture/sampler/code_table.h"
#include "capture/sampler/frame_reader.h"

enum { KS_STACK_READINGS_MAX = 32, KS_STACK_HEADERS_MAX = 512 /* that one call reads */ };

/* Where a reading was made, to see whether the thread is still there. */
struct ks_stack_witness {
    uint32_t depth; /* of the frame, counted from the outermost */
    uintptr_t frame;
    uintptr_t code;
};

struct ks_stack_look {
    struct ks_frame_reader reader;
    struct ks_code_table codes;
    struct ks_id_map stacks;
    uint32_t last_stack;

    /* Of the look that goes on. */
    struct iovec pieces[KS_STACK_HEADERS_MAX];
    struct ks_code_header headers[KS_FRAMES_MAX];
    uint32_t code_ids[KS_FRAMES_MAX];
    struct ks_code_place places[KS_FRAMES_MAX];
    uint32_t reading_count;
    struct ks_code_reading readings[KS_STACK_READINGS_MAX];
    struct ks_stack_witness witnesses[KS_STACK_READINGS_MAX];
};

/* The struct is large: map it. `layout` must stay. False: no memory. */
bool ks_stack_look_init(struct ks_stack_look *look, const struct ks_python_layout *layout);
void ks_stack_look_release(struct ks_stack_look *look);
/* Before the first look for another recording, which is the recorder's file of that generation. */
void ks_stack_look_reset(struct ks_stack_look *look, uint32_t generation);

/* The first half of it, for the self-check: `look->reader.frames` and `look->headers`, one try. */
enum ks_frames_state ks_stack_look_frames(struct ks_stack_look *look,
                                          const struct ks_python_thread *thread,
                                          struct ks_frame_hints *hints);

/* READ: `stack` is the thread's, 0 when the recording has no room; `holds_gil` says whether it held
 * the GIL. TORN only after two more tries. */
enum ks_frames_state ks_stack_look_at(struct ks_stack_look *look,
                                      const struct ks_python_thread *thread,
                                      struct ks_frame_hints *hints, uint32_t *stack,
                                      bool *holds_gil);

#endif
