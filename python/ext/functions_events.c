/* Events by PyEval_SetProfile, before CPython 3.12. A profile function belongs to a thread: those
 * that exist get it from us, those that begin get it at their first event, from a hook that
 * threading.setprofile() installs. */
#include "functions.h"

#if PY_VERSION_HEX < 0x030C0000

#include <string.h>

#include <frameobject.h>

const uint32_t ks_functions_mechanism = 1;

static int leave_thread(struct ks_function_thread *thread)
{
    (void)thread; // some greenlet had kept us when the profiler stopped
    PyEval_SetProfile(NULL, NULL);
    return 0;
}

static int profile_event(PyObject *object, PyFrameObject *frame, int what, PyObject *arg)
{
    struct ks_function_thread *thread = (struct ks_function_thread *)object;
    if (__builtin_expect(!thread->profiler, 0)) {
        return leave_thread(thread);
    }
    if (what == PyTrace_CALL || what == PyTrace_RETURN) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        if (what == PyTrace_CALL) {
            ks_call_tree_enter(&thread->tree, code, (PyObject *)code);
        } else {
            ks_call_tree_leave(&thread->tree, code);
        }
        Py_DECREF(code); // the frame holds it as well
    } else if (thread->has_c_calls && what != PyTrace_LINE && PyCFunction_Check(arg)) {
        const PyMethodDef *method = ((PyCFunctionObject *)arg)->m_ml;
        if (what == PyTrace_C_CALL) {
            ks_call_tree_enter(&thread->tree, method, arg);
        } else {
            ks_call_tree_leave(&thread->tree, method);
        }
    }
    return 0;
}

/* Called by Python with the first event of a new thread: (frame, name of the event, argument). */
static PyObject *thread_began(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    struct ks_function_profiler *self = (struct ks_function_profiler *)object;
    if (!self->is_on || count != 3 || !PyFrame_Check(args[0])) {
        PyEval_SetProfile(NULL, NULL);
        Py_RETURN_NONE;
    }
    struct ks_function_thread *thread = ks_functions_attach(self);
    if (!thread) {
        PyErr_Clear(); // this thread goes unseen, and works
        PyEval_SetProfile(NULL, NULL);
        Py_RETURN_NONE;
    }
    PyEval_SetProfile(profile_event, (PyObject *)thread);
    if (PyUnicode_Check(args[1]) && PyUnicode_CompareWithASCIIString(args[1], "call") == 0) {
        profile_event((PyObject *)thread, (PyFrameObject *)args[0], PyTrace_CALL, NULL);
    }
    Py_DECREF(thread);
    Py_RETURN_NONE;
}

static PyMethodDef thread_began_method = {"thread_began", (PyCFunction)(void (*)(void))thread_began,
                                          METH_FASTCALL, NULL};

/* ------------------------------------------------------------------ who else profiles */

static bool is_a(PyTypeObject *type, const char *name)
{
    for (; type; type = type->tp_base) {
        if (strcmp(type->tp_name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* The object beside the function of sys.setprofile() is called, those of C profilers are their own
 * business. NULL: no C profiler is on in this thread. */
static const char *name_of_other(const PyThreadState *state)
{
    PyObject *object = state->c_profilefunc ? state->c_profileobj : NULL;
    if (!object || PyCallable_Check(object)) {
        return NULL;
    }
    if (is_a(Py_TYPE(object), "_lsprof.Profiler")) {
        return "cProfile";
    }
    return is_a(Py_TYPE(object), "TraceContext") ? "torch.profiler(with_stack=True)"
                                                 : Py_TYPE(object)->tp_name;
}

static PyThreadState *first_thread(void)
{
    return PyInterpreterState_ThreadHead(PyInterpreterState_Get());
}

int ks_functions_check(struct ks_function_profiler *self)
{
    (void)self;
    for (PyThreadState *state = first_thread(); state; state = PyThreadState_Next(state)) {
        const char *other = name_of_other(state);
        if (other) {
            PyErr_Format(PyExc_RuntimeError,
                         "Cannot start the function profiler: %s is on, and Python lets one "
                         "profiler see function calls at a time; stop that one first",
                         other);
            return -1;
        }
    }
    if (PyThreadState_Get()->c_profilefunc) {
        return PyErr_WarnEx(PyExc_RuntimeWarning,
                            "The function set by sys.setprofile() is not called while the function "
                            "profiler is on",
                            1);
    }
    return 0;
}

/* ------------------------------------------------------------------ one thread */

int ks_functions_bind(struct ks_function_profiler *self, struct ks_function_thread *thread)
{
    PyThreadState *state = PyThreadState_Get();
    self->before.thread = state;
    self->before.function = state->c_profilefunc;
    self->before.object = Py_XNewRef(state->c_profileobj);
    return _PyEval_SetProfile(state, profile_event, (PyObject *)thread);
}

static void give_back(struct ks_function_profiler *self, PyThreadState *state)
{
    Py_tracefunc function = NULL;
    PyObject *object = NULL;
    if (state == self->before.thread) {
        function = self->before.function;
        object = self->before.object;
    }
    if (_PyEval_SetProfile(state, function, object) < 0) {
        PyErr_Clear(); // an audit hook objects; our function leaves by itself at the next event
    }
}

static void forget_before(struct ks_function_profiler *self)
{
    struct ks_function_before before = self->before;
    self->before = (struct ks_function_before){0};
    Py_XDECREF(before.object);
    Py_XDECREF(before.threading_hook);
}

void ks_functions_unbind(struct ks_function_profiler *self)
{
    PyThreadState *state = PyThreadState_Get();
    if (state->c_profilefunc == profile_event) {
        give_back(self, state);
    }
    forget_before(self);
}

/* ------------------------------------------------------------------ all threads */

static PyObject *swap_threading_hook(PyObject *hook)
{
    PyObject *threading = PyImport_ImportModule("threading");
    if (!threading) {
        return NULL;
    }
    PyObject *before = PyObject_CallMethod(threading, "getprofile", NULL);
    PyObject *done = before ? PyObject_CallMethod(threading, "setprofile", "O", hook) : NULL;
    Py_DECREF(threading);
    if (!done) {
        Py_CLEAR(before);
    }
    Py_XDECREF(done);
    return before;
}

static int install_here(struct ks_function_profiler *self)
{
    struct ks_function_thread *thread = ks_functions_attach(self);
    if (!thread) {
        return -1;
    }
    int status = ks_functions_bind(self, thread);
    Py_DECREF(thread);
    return status;
}

/* Threads that run already get a function by which each makes its own tree at its next event: nodes
 * of the recording are handed out to the thread that asks. */
static int begin_event(PyObject *object, PyFrameObject *frame, int what, PyObject *arg)
{
    struct ks_function_profiler *self = (struct ks_function_profiler *)object;
    struct ks_function_thread *thread = self->is_on ? ks_functions_attach(self) : NULL;
    if (!thread) {
        PyErr_Clear();
        PyEval_SetProfile(NULL, NULL);
        return 0;
    }
    PyEval_SetProfile(profile_event, (PyObject *)thread);
    int status = profile_event((PyObject *)thread, frame, what, arg);
    Py_DECREF(thread);
    return status;
}

int ks_functions_install(struct ks_function_profiler *self)
{
    self->hook = PyCFunction_New(&thread_began_method, (PyObject *)self);
    PyObject *before = self->hook ? swap_threading_hook(self->hook) : NULL;
    if (!before) {
        Py_CLEAR(self->hook);
        return -1;
    }
    if (install_here(self) < 0) {
        Py_XDECREF(swap_threading_hook(before));
        Py_DECREF(before);
        Py_CLEAR(self->hook);
        return -1;
    }
    self->before.threading_hook = before;
    for (PyThreadState *state = first_thread(); state; state = PyThreadState_Next(state)) {
        if (!state->c_profilefunc && _PyEval_SetProfile(state, begin_event, (PyObject *)self) < 0) {
            PyErr_Clear();
        }
    }
    return 0;
}

static void restore_threading_hook(struct ks_function_profiler *self)
{
    PyObject *threading = PyImport_ImportModule("threading");
    PyObject *now = threading ? PyObject_CallMethod(threading, "getprofile", NULL) : NULL;
    if (now == self->hook) { // otherwise the program has set its own meanwhile
        Py_XDECREF(PyObject_CallMethod(threading, "setprofile", "O", self->before.threading_hook));
    }
    Py_XDECREF(now);
    Py_XDECREF(threading);
    PyErr_Clear();
}

int ks_functions_uninstall(struct ks_function_profiler *self)
{
    bool is_ours = false;
    for (PyThreadState *state = first_thread(); state; state = PyThreadState_Next(state)) {
        if (state->c_profilefunc == profile_event || state->c_profilefunc == begin_event) {
            is_ours = is_ours || state == self->before.thread;
            give_back(self, state);
        }
    }
    restore_threading_hook(self);
    // Only the thread that started us must still have had it: others may have ended.
    bool is_alive = false;
    for (PyThreadState *state = first_thread(); state; state = PyThreadState_Next(state)) {
        is_alive = is_alive || state == self->before.thread;
    }
    forget_before(self);
    Py_CLEAR(self->hook);
    return is_alive && !is_ours;
}

#endif
