/* Walks the host rows of a trace and tells, for each operator and each call into the runtime, which
 * operator causes it and which line of the user's program makes it. Threads with Python frames come
 * before those without, so that the work of the autograd thread finds its forward operators. */
#ifndef KS_ANALYZE_CALL_WALK_H
#define KS_ANALYZE_CALL_WALK_H

#include "analyze/registry.h"

enum {
    KS_CALL_OPERATOR = 1, /* an operator or annotation; only on threads with a known place */
    KS_CALL_SYNC = 2,     /* waits for the device */
    KS_CALL_COPY = 4,     /* meant to copy */
    KS_CALL_LAUNCH = 8,   /* meant to launch kernels or a graph */
};

/* What a call does whose name has these flags (row_names.h): KS_CALL_SYNC, _COPY, _LAUNCH. */
unsigned ks_call_kinds_of(unsigned name_flags);

struct ks_call {
    uint32_t source;
    uint32_t lane;
    int64_t start_ns;
    int64_t end_ns;
    int64_t corr; /* of a call into the runtime; -1 none */
    uint32_t name;
    uint32_t op; /* name of the cause: outermost aten operator, else innermost operator, else
                     * the call itself */
    int64_t op_start_ns;
    int64_t op_end_ns;
    uint32_t place; /* index into the places, or KS_PLACE_NONE */
    unsigned kinds;
};

struct ks_call_places {
    struct ks_place *items; /* ks_alloc; texts of the trace's pool */
    size_t count;
    size_t capacity;
};

typedef enum ks_status (*ks_call_cb)(void *user, const struct ks_call *call, struct ks_err *err);

/* `places` zeroed; the caller frees places->items, also after an error. `has_frames`: some thread
 * has Python frames. */
enum ks_status ks_call_walk(struct ks_analyzer *analyzer, ks_call_cb visit, void *user,
                            struct ks_call_places *places, bool *has_frames, struct ks_err *err)
    KS_MUST_CHECK;

#endif
