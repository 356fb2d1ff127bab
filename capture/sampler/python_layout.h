/* Where CPython keeps what we read: thread states, frames, code. Private to the interpreter, the
 * same within a minor version; 3.13 tells itself. Nothing is trusted until the self-check of
 * python/ext/sampler_check.c has compared it with the public API in the running process. */
#ifndef KS_CAPTURE_SAMPLER_PYTHON_LAYOUT_H
#define KS_CAPTURE_SAMPLER_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KS_PYTHON_REASON_SIZE = 128,
    KS_PYTHON_THREAD_SIZE_MAX = 512,
    KS_PYTHON_FRAME_SIZE = 72, /* the part of a frame before its locals, in all versions */
    KS_PYTHON_CODE_SIZE = 144,
    KS_PYTHON_OPCODES = 256,
    KS_PYTHON_CACHE_UNKNOWN = 255, /* the opcode hides another one */
};

/* What an opcode does, for the check that a caller's instruction is a call. */
struct ks_python_opcodes {
    uint8_t cache_units[KS_PYTHON_OPCODES]; /* code units behind it that are no instructions */
    bool enters_python[KS_PYTHON_OPCODES];  /* may push the frame of a Python function itself */
};

struct ks_python_layout {
    uint32_t version;    /* PY_VERSION_HEX */
    uintptr_t runtime;   /* &_PyRuntime */
    uintptr_t code_type; /* &PyCode_Type */
    struct ks_python_opcodes opcodes;

    uint32_t runtime_interpreters; /* offsets */
    uint32_t interp_next;
    uint32_t interp_threads;
    uint32_t interp_gil; /* of the pointer to the GIL; 0: see runtime_gil */
    uint32_t runtime_gil;
    uint32_t gil_holder; /* of these two in the GIL */
    uint32_t gil_locked;
    uint32_t thread_size; /* of the part of a thread state that we read */
    uint32_t thread_next;
    uint32_t thread_interp;
    uint32_t thread_native_id;
    uint32_t thread_chunk; /* of the data stack; its top follows */
    uint32_t thread_frame; /* pointer to the frame, or where has_cframe to what points to it */
    bool has_cframe;
    uint32_t cframe_frame;
    uint32_t frame_code;
    uint32_t frame_previous;
    uint32_t frame_instruction;
    uint32_t frame_owner;
    uint32_t frame_is_entry; /* 0: frames on the C stack mark calls from C instead */
    uint32_t owner_max;
    uint32_t owner_generator;
    uint32_t owner_c_stack; /* above owner_max: there are none */
    uint32_t code_first_line;
    uint32_t code_filename;
    uint32_t code_qualname;
    uint32_t code_linetable;
    uint32_t code_units; /* where the instructions begin */
    uint32_t text_data;  /* of a string that is all ASCII, of others */
    uint32_t text_data_wide;
};

/* False: `reason` says in a sentence why stacks of this interpreter cannot be read. Leaves the
 * opcodes empty. */
bool ks_python_layout_find(uint32_t version, uintptr_t runtime, uintptr_t code_type,
                           struct ks_python_layout *layout, char reason[KS_PYTHON_REASON_SIZE]);

#endif
