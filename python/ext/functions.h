/* The type kinetoscope.FunctionProfiler, a deterministic profiler of Python functions.
 *
 * functions_events.c (before CPython 3.12) and functions_monitoring.c (from it on) bring the events
 * of the interpreter into the tree of their thread; functions_stats.c makes pstats' dictionary of
 * all trees. One profiler is on at a time. All of this runs under the GIL. */
#ifndef KS_PYTHON_FUNCTIONS_H
#define KS_PYTHON_FUNCTIONS_H

#include "functions_tree.h"

/* What one thread was seen doing. It is also the object that the interpreter hands to us with each
 * event; while nobody but its profiler refers to it, its thread is gone. */
struct ks_function_thread {
    PyObject ob_base;
    struct ks_call_tree tree;
    struct ks_function_profiler *profiler; /* while that is on, else NULL */
    bool has_c_calls;
    unsigned long tid;
};

/* What was in our place, and goes back there (before 3.12). */
struct ks_function_before {
    PyThreadState *thread;
    Py_tracefunc function;
    PyObject *object;
    PyObject *threading_hook;
};

struct ks_function_profiler {
    PyObject ob_base;
    struct ks_call_shared shared;
    PyObject *threads; /* list of struct ks_function_thread */
    bool has_c_calls;
    bool is_on;
    bool is_calibrated;
    uint64_t cost_ticks; /* of the two events of a call */
    uint64_t start_tick;
    struct ks_function_before before;
    PyObject *hook; /* of threads that begin (before 3.12) */
    int tool;       /* of sys.monitoring */
};

/* Adds the types to a module. -1: an exception is set. */
int ks_functions_add_to(PyObject *module);

/* ------------------------------------------------------------------ of the mechanism */

/* As in struct ks_wire_functions. */
extern const uint32_t ks_functions_mechanism;
/* Raises when another profiler holds what we need; -1 then. */
int ks_functions_check(struct ks_function_profiler *self);
/* Events of the calling thread go to `thread` until ks_functions_unbind; for measuring our cost. */
int ks_functions_bind(struct ks_function_profiler *self, struct ks_function_thread *thread);
void ks_functions_unbind(struct ks_function_profiler *self);
/* Events of all threads, present and future, go to this profiler. */
int ks_functions_install(struct ks_function_profiler *self);
/* Sets no exception. Number of threads in which another profiler had taken our place. */
int ks_functions_uninstall(struct ks_function_profiler *self);

/* ------------------------------------------------------------------ of the profiler */

/* The thread object for the calling thread, new or one whose thread is gone. New reference. */
struct ks_function_thread *ks_functions_attach(struct ks_function_profiler *self);
/* Whether what a thread counted before is added to: it writes where this profiler does now. */
bool ks_functions_can_go_on(const struct ks_function_profiler *self,
                            const struct ks_function_thread *thread);
/* pstats' dictionary: {(file, line, name): (cc, nc, tt, ct, callers)}. New reference. */
PyObject *ks_functions_stats(struct ks_function_profiler *self);

#endif
