/* Events by sys.monitoring, from CPython 3.12 on. The interpreter calls C functions directly, for
 * all threads; nothing is installed in a thread. */
#include "functions.h"

#if PY_VERSION_HEX >= 0x030C0000

const uint32_t ks_functions_mechanism = 2;

/* The calling thread's; kept alive by a capsule in the dictionary of its thread state. */
static __thread struct ks_function_thread *here __attribute__((tls_model("initial-exec")));

static const char capsule_name[] = "kinetoscope.functions";

static void thread_ended(PyObject *capsule)
{
    struct ks_function_thread *thread = PyCapsule_GetPointer(capsule, capsule_name);
    if (here == thread) {
        here = NULL;
    }
    Py_XDECREF((PyObject *)thread);
}

static int keep_thread(struct ks_function_thread *thread)
{
    PyObject *state = PyThreadState_GetDict(); // borrowed
    PyObject *capsule = state ? PyCapsule_New(thread, capsule_name, thread_ended) : NULL;
    if (!capsule) {
        return -1;
    }
    Py_INCREF(thread); // the capsule's
    int status = PyDict_SetItemString(state, capsule_name, capsule);
    Py_DECREF(capsule);
    return status;
}

static struct ks_function_thread *attach_here(struct ks_function_profiler *self)
{
    if (!self->is_on) {
        return NULL; // an event on its way while we stop, or of another thread while we measure
    }
    if (here && ks_functions_can_go_on(self, here)) {
        here->profiler = self;
        return here;
    }
    PyObject *error = PyErr_GetRaisedException();
    struct ks_function_thread *thread = ks_functions_attach(self);
    if (thread && keep_thread(thread) == 0) {
        here = thread;
    } else {
        Py_CLEAR(thread); // this call goes unseen; the next one tries again
    }
    PyErr_SetRaisedException(error);
    Py_XDECREF((PyObject *)thread); // the capsule has it
    return thread;
}

static inline struct ks_function_thread *thread_of(PyObject *self)
{
    struct ks_function_thread *thread = here;
    if (__builtin_expect(thread && (PyObject *)thread->profiler == self, 1)) {
        return thread;
    }
    return attach_here((struct ks_function_profiler *)self);
}

static PyObject *call_began(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)count;
    struct ks_function_thread *thread = thread_of(self);
    if (thread) {
        ks_call_tree_enter(&thread->tree, args[0], args[0]);
    }
    Py_RETURN_NONE;
}

static PyObject *call_ended(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)count;
    struct ks_function_thread *thread = thread_of(self);
    if (thread) {
        ks_call_tree_leave(&thread->tree, args[0]);
    }
    Py_RETURN_NONE;
}

/* What cProfile calls a C function, too; NULL: a class, a Python function or anything else. Static
 * types have their methods for ever, so a method without its object is as good. */
static const PyMethodDef *method_of(PyObject *callable)
{
    if (PyCFunction_Check(callable)) {
        return ((PyCFunctionObject *)callable)->m_ml;
    }
    return Py_IS_TYPE(callable, &PyMethodDescr_Type) ? ((PyMethodDescrObject *)callable)->d_method
                                                     : NULL;
}

static PyObject *c_call_began(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)count;
    const PyMethodDef *method = method_of(args[2]);
    struct ks_function_thread *thread = method ? thread_of(self) : NULL;
    if (thread) {
        ks_call_tree_enter(&thread->tree, method, args[2]);
    }
    Py_RETURN_NONE;
}

static PyObject *c_call_ended(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)count;
    const PyMethodDef *method = method_of(args[2]);
    struct ks_function_thread *thread = method ? thread_of(self) : NULL;
    if (thread) {
        ks_call_tree_leave(&thread->tree, method);
    }
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ registering */

#define CALLBACK(function)                                                                         \
    {                                                                                              \
#function, (PyCFunction)(void (*)(void))(function), METH_FASTCALL, NULL                    \
    }

static PyMethodDef began_method = CALLBACK(call_began);
static PyMethodDef ended_method = CALLBACK(call_ended);
static PyMethodDef c_began_method = CALLBACK(c_call_began);
static PyMethodDef c_ended_method = CALLBACK(c_call_ended);

static const struct event {
    const char *name;
    PyMethodDef *method;
    bool is_of_c;
} events[] = {
    {"PY_START", &began_method, false}, {"PY_RESUME", &began_method, false},
    {"PY_THROW", &began_method, false}, {"PY_RETURN", &ended_method, false},
    {"PY_YIELD", &ended_method, false}, {"PY_UNWIND", &ended_method, false},
    {"CALL", &c_began_method, true},    {"C_RETURN", &c_ended_method, true},
    {"C_RAISE", &c_ended_method, true},
};

enum { EVENT_COUNT = sizeof(events) / sizeof(events[0]), TOOL_FIRST = 2, TOOL_LAST = 4 };

static int value_of_event(PyObject *monitoring, const char *name)
{
    PyObject *names = PyObject_GetAttrString(monitoring, "events");
    PyObject *value = names ? PyObject_GetAttrString(names, name) : NULL;
    int event = value ? (int)PyLong_AsLong(value) : -1;
    Py_XDECREF(value);
    Py_XDECREF(names);
    return event;
}

/* `callback` is borrowed; None takes one away. */
static int register_callback(PyObject *monitoring, int tool, int event, PyObject *callback)
{
    PyObject *before =
        PyObject_CallMethod(monitoring, "register_callback", "iiO", tool, event, callback);
    Py_XDECREF(before);
    return before ? 0 : -1;
}

static int set_events(PyObject *monitoring, int tool, int mask)
{
    PyObject *done = PyObject_CallMethod(monitoring, "set_events", "ii", tool, mask);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

static int register_all(struct ks_function_profiler *self, PyObject *monitoring)
{
    int mask = 0;
    for (int i = 0; i < EVENT_COUNT; i++) {
        if (events[i].is_of_c && !self->has_c_calls) {
            continue;
        }
        int event = value_of_event(monitoring, events[i].name);
        PyObject *callback = event > 0 ? PyCFunction_New(events[i].method, (PyObject *)self) : NULL;
        int status = callback ? register_callback(monitoring, self->tool, event, callback) : -1;
        Py_XDECREF(callback);
        if (status < 0) {
            return -1;
        }
        // C_RETURN and C_RAISE come with CALL.
        mask |= events[i].is_of_c && events[i].method == &c_ended_method ? 0 : event;
    }
    return set_events(monitoring, self->tool, mask);
}

/* cProfile takes the first of them, and does not start where it is taken. */
static int take_tool(PyObject *monitoring)
{
    for (int tool = TOOL_LAST; tool >= TOOL_FIRST; tool--) {
        PyObject *done = PyObject_CallMethod(monitoring, "use_tool_id", "is", tool, "kinetoscope");
        if (done) {
            Py_DECREF(done);
            return tool;
        }
        if (!PyErr_ExceptionMatches(PyExc_ValueError)) {
            return -1;
        }
        PyErr_Clear();
    }
    PyErr_SetString(PyExc_RuntimeError,
                    "Cannot start the function profiler: other tools hold the ids 2, 3 and 4 of "
                    "sys.monitoring; stop one of them first");
    return -1;
}

static PyObject *monitoring_of_sys(void)
{
    PyObject *monitoring = PySys_GetObject("monitoring"); // borrowed
    if (!monitoring) {
        PyErr_SetString(PyExc_RuntimeError, "Cannot start the function profiler: sys.monitoring "
                                            "is missing");
    }
    return monitoring;
}

static void let_go(struct ks_function_profiler *self)
{
    PyObject *error = PyErr_GetRaisedException();
    PyObject *monitoring = monitoring_of_sys();
    if (monitoring && set_events(monitoring, self->tool, 0) < 0) {
        PyErr_Clear();
    }
    for (int i = 0; monitoring && i < EVENT_COUNT; i++) {
        int event = value_of_event(monitoring, events[i].name);
        if (event <= 0 || register_callback(monitoring, self->tool, event, Py_None) < 0) {
            PyErr_Clear();
        }
    }
    PyObject *done = NULL;
    if (monitoring) {
        done = PyObject_CallMethod(monitoring, "free_tool_id", "i", self->tool);
    }
    Py_XDECREF(done);
    PyErr_Clear();
    PyErr_SetRaisedException(error);
}

static int take_hold(struct ks_function_profiler *self)
{
    PyObject *monitoring = monitoring_of_sys();
    int tool = monitoring ? take_tool(monitoring) : -1;
    if (tool < 0) {
        return -1;
    }
    self->tool = tool;
    if (register_all(self, monitoring) < 0) {
        let_go(self);
        return -1;
    }
    return 0;
}

int ks_functions_check(struct ks_function_profiler *self)
{
    (void)self; // tools do not disturb each other; take_tool() says when there are too many
    return 0;
}

int ks_functions_bind(struct ks_function_profiler *self, struct ks_function_thread *thread)
{
    here = thread;
    if (take_hold(self) < 0) {
        here = NULL;
        return -1;
    }
    return 0;
}

void ks_functions_unbind(struct ks_function_profiler *self)
{
    let_go(self);
    here = NULL;
}

int ks_functions_install(struct ks_function_profiler *self)
{
    return take_hold(self);
}

int ks_functions_uninstall(struct ks_function_profiler *self)
{
    let_go(self);
    return 0;
}

#endif
