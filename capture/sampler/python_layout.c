#include "capture/sampler/python_layout.h"

#include <string.h>

enum { MINOR_SHIFT = 16 };

/* Release builds for 64 bit machines; computed from the interpreters' own headers. */
static const struct ks_python_layout LAYOUT_3_11 = {
    .runtime_interpreters = 40,
    .interp_next = 0,
    .interp_threads = 16,
    .runtime_gil = 360,
    .gil_holder = 8,
    .gil_locked = 16,
    .thread_size = 320,
    .thread_next = 8,
    .thread_interp = 16,
    .thread_native_id = 160,
    .thread_chunk = 296,
    .thread_frame = 56,
    .has_cframe = true,
    .cframe_frame = 8,
    .frame_code = 32,
    .frame_previous = 48,
    .frame_instruction = 56,
    .frame_owner = 69,
    .frame_is_entry = 68,
    .owner_max = 2,
    .owner_generator = 1,
    .owner_c_stack = UINT32_MAX,
    .code_first_line = 72,
    .code_filename = 112,
    .code_qualname = 128,
    .code_linetable = 136,
    .code_units = 184,
    .text_data = 48,
    .text_data_wide = 72,
};

static const struct ks_python_layout LAYOUT_3_12 = {
    .runtime_interpreters = 40,
    .interp_next = 0,
    .interp_threads = 72,
    .interp_gil = 384,
    .gil_holder = 8,
    .gil_locked = 16,
    .thread_size = 256,
    .thread_next = 8,
    .thread_interp = 16,
    .thread_native_id = 144,
    .thread_chunk = 232,
    .thread_frame = 56,
    .has_cframe = true,
    .cframe_frame = 0,
    .frame_code = 0,
    .frame_previous = 8,
    .frame_instruction = 56,
    .frame_owner = 70,
    .owner_max = 3,
    .owner_generator = 1,
    .owner_c_stack = 3,
    .code_first_line = 68,
    .code_filename = 112,
    .code_qualname = 128,
    .code_linetable = 136,
    .code_units = 192,
    .text_data = 40,
    .text_data_wide = 56,
};

/* The head of _PyRuntime in 3.13, which is there for readers like us. */
struct debug_offsets_3_13 {
    char cookie[8];
    uint64_t version;
    uint64_t is_free_threaded;
    struct {
        uint64_t size, finalizing, interpreters_head;
    } runtime;
    struct {
        uint64_t size, id, next, threads_head, gc, imports_modules, sysdict, builtins, ceval_gil;
        uint64_t gil, gil_is_enabled, gil_locked, gil_holder;
    } interp;
    struct {
        uint64_t size, prev, next, interp, current_frame, thread_id, native_id, chunk, status;
    } thread;
    struct {
        uint64_t size, previous, executable, instr_ptr, localsplus, owner;
    } frame;
    struct {
        uint64_t size, filename, name, qualname, linetable, first_line, argcount, localsplusnames;
        uint64_t localspluskinds, code_adaptive;
    } code;
    uint64_t object[2], type[4], tuple[3], list[3], dict[3], number[2], integer[3], bytes[3];
    struct {
        uint64_t size, state, length, ascii_size;
    } text;
};

static bool refuse(char reason[KS_PYTHON_REASON_SIZE], const char *sentence)
{
    size_t size = strlen(sentence);
    size = size < KS_PYTHON_REASON_SIZE ? size : KS_PYTHON_REASON_SIZE - 1;
    memcpy(reason, sentence, size);
    reason[size] = '\0';
    return false;
}

static uint32_t largest(const uint64_t *offsets, size_t count)
{
    uint64_t most = 0;
    for (size_t i = 0; i < count; i++) {
        most = offsets[i] > most ? offsets[i] : most;
    }
    return most > UINT32_MAX ? UINT32_MAX : (uint32_t)most;
}

static void take_offsets_3_13(const struct debug_offsets_3_13 *told, struct ks_python_layout *to)
{
    enum { DATA_STACK_SIZE = 3 * sizeof(uintptr_t) }; /* chunk, top and limit */
    const uint64_t read[] = {told->thread.next, told->thread.interp, told->thread.native_id,
                             told->thread.current_frame, told->thread.chunk};
    to->runtime_interpreters = (uint32_t)told->runtime.interpreters_head;
    to->interp_next = (uint32_t)told->interp.next;
    to->interp_threads = (uint32_t)told->interp.threads_head;
    to->interp_gil = (uint32_t)told->interp.ceval_gil;
    to->gil_holder = (uint32_t)(told->interp.gil_holder - told->interp.gil);
    to->gil_locked = (uint32_t)(told->interp.gil_locked - told->interp.gil);
    to->thread_size = largest(read, sizeof(read) / sizeof(*read)) + DATA_STACK_SIZE;
    to->thread_next = (uint32_t)told->thread.next;
    to->thread_interp = (uint32_t)told->thread.interp;
    to->thread_native_id = (uint32_t)told->thread.native_id;
    to->thread_chunk = (uint32_t)told->thread.chunk;
    to->thread_frame = (uint32_t)told->thread.current_frame;
    to->frame_code = (uint32_t)told->frame.executable;
    to->frame_previous = (uint32_t)told->frame.previous;
    to->frame_instruction = (uint32_t)told->frame.instr_ptr;
    to->frame_owner = (uint32_t)told->frame.owner;
    to->owner_max = 3;
    to->owner_generator = 1;
    to->owner_c_stack = 3;
    to->code_first_line = (uint32_t)told->code.first_line;
    to->code_filename = (uint32_t)told->code.filename;
    to->code_qualname = (uint32_t)told->code.qualname;
    to->code_linetable = (uint32_t)told->code.linetable;
    to->code_units = (uint32_t)told->code.code_adaptive;
    to->text_data = (uint32_t)told->text.ascii_size;
    to->text_data_wide = to->text_data + 2 * (uint32_t)sizeof(uintptr_t);
}

static bool ask_3_13(uint32_t version, uintptr_t runtime, struct ks_python_layout *layout,
                     char reason[KS_PYTHON_REASON_SIZE])
{
    const struct debug_offsets_3_13 *told = (const void *)runtime;
    if (memcmp(told->cookie, "xdebugpy", sizeof(told->cookie)) != 0 || told->version != version) {
        return refuse(reason, "This Python does not tell where it keeps its stacks.");
    }
    if (told->is_free_threaded) {
        return refuse(reason, "Stacks of a free-threaded Python cannot be read (yet).");
    }
    take_offsets_3_13(told, layout);
    return true;
}

/* Whether all that we read lies in what we copy. */
static bool fits(const struct ks_python_layout *layout)
{
    enum { WORD = sizeof(uintptr_t) };
    const uint32_t frame[] = {layout->frame_code, layout->frame_previous,
                              layout->frame_instruction};
    const uint32_t code[] = {layout->code_filename, layout->code_qualname, layout->code_linetable,
                             layout->code_first_line};
    for (size_t i = 0; i < sizeof(frame) / sizeof(*frame); i++) {
        if (frame[i] > KS_PYTHON_FRAME_SIZE - WORD) {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof(code) / sizeof(*code); i++) {
        if (code[i] > KS_PYTHON_CODE_SIZE - WORD) {
            return false;
        }
    }
    return layout->thread_size <= KS_PYTHON_THREAD_SIZE_MAX &&
           layout->frame_owner < KS_PYTHON_FRAME_SIZE;
}

bool ks_python_layout_find(uint32_t version, uintptr_t runtime, uintptr_t code_type,
                           struct ks_python_layout *layout, char reason[KS_PYTHON_REASON_SIZE])
{
    if (sizeof(uintptr_t) != sizeof(uint64_t) || runtime == 0) {
        return refuse(reason, "Stacks can be read in 64 bit programs only.");
    }
    *layout = (struct ks_python_layout){0};
    bool is_known = true;
    switch (version >> MINOR_SHIFT) {
    case 0x030B: *layout = LAYOUT_3_11; break;
    case 0x030C: *layout = LAYOUT_3_12; break;
    case 0x030D: is_known = ask_3_13(version, runtime, layout, reason); break;
    default: is_known = refuse(reason, "Stacks can be read in Python 3.11, 3.12 and 3.13 only.");
    }
    if (!is_known) {
        return false;
    }
    layout->version = version;
    layout->runtime = runtime;
    layout->code_type = code_type;
    return fits(layout) || refuse(reason, "This Python keeps its stacks where we do not look.");
}
