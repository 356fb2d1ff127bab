/* The types: FunctionProfiler, which users see, and what a thread holds while it is profiled. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "functions.h"

#include <marshal.h>
#include <structmember.h>

enum { PATHS_MAX_DEFAULT = 1 << 18, PATHS_MAX_MAX = 1 << 24, CALIBRATION_ROUNDS = 5 };

static PyTypeObject *thread_type;
static struct ks_function_profiler *active; /* the one that is on; a reference */
/* That of `kscope run`, a reference: it lets go while one of the program's is on. */
static struct ks_function_profiler *of_run;
static bool is_run_waiting;

/* ------------------------------------------------------------------ threads */

static void thread_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    ks_call_tree_release(&((struct ks_function_thread *)object)->tree);
    type->tp_free(object);
    Py_DECREF(type);
}

/* sys.getprofile() gives a program this object; when it puts it back by sys.setprofile(), that must
 * not fail. Python then calls it with events instead of us: they are let pass. */
static PyObject *thread_call(PyObject *object, PyObject *args, PyObject *kwargs)
{
    (void)object;
    (void)args;
    (void)kwargs;
    Py_RETURN_NONE;
}

static PyType_Slot thread_slots[] = {
    {Py_tp_dealloc, thread_dealloc},
    {Py_tp_call, thread_call},
    {0, NULL},
};

static PyType_Spec thread_spec = {
    .name = "kinetoscope.FunctionThread",
    .basicsize = sizeof(struct ks_function_thread),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = thread_slots,
};

static struct ks_function_thread *new_thread(struct ks_function_profiler *self, bool is_recorded)
{
    struct ks_function_thread *thread =
        (struct ks_function_thread *)thread_type->tp_alloc(thread_type, 0);
    if (thread) {
        ks_call_tree_init(&thread->tree, &self->shared, is_recorded);
        thread->profiler = self;
        thread->has_c_calls = self->has_c_calls;
        thread->tid = PyThread_get_thread_native_id();
    }
    return thread;
}

bool ks_functions_can_go_on(const struct ks_function_profiler *self,
                            const struct ks_function_thread *thread)
{
    const struct ks_call_tree *tree = &thread->tree;
    return tree->shared == &self->shared && tree->is_recorded == self->shared.is_recorded &&
           tree->is_tsc == self->shared.is_tsc;
}

/* One whose thread has ended, so that a program which starts a thread for each request does not
 * make us grow. Slots of the recording belong to a thread for ever. */
static struct ks_function_thread *find_idle(struct ks_function_profiler *self)
{
    unsigned long tid = PyThread_get_thread_native_id();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(self->threads); i++) {
        PyObject *object = PyList_GET_ITEM(self->threads, i);
        struct ks_function_thread *thread = (struct ks_function_thread *)object;
        if (Py_REFCNT(object) == 1 && ks_functions_can_go_on(self, thread) &&
            (!thread->tree.is_recorded || thread->tid == tid)) {
            return thread;
        }
    }
    return NULL;
}

struct ks_function_thread *ks_functions_attach(struct ks_function_profiler *self)
{
    struct ks_function_thread *thread = find_idle(self);
    if (thread) {
        if (ks_call_tree_is_stale(&thread->tree)) {
            ks_call_tree_restart(&thread->tree);
        }
        ks_call_tree_close(&thread->tree);
        thread->profiler = self;
        thread->tid = PyThread_get_thread_native_id();
        return (struct ks_function_thread *)Py_NewRef((PyObject *)thread);
    }
    thread = new_thread(self, self->shared.is_recorded);
    if (thread && PyList_Append(self->threads, (PyObject *)thread) < 0) {
        Py_CLEAR(thread);
    }
    return thread;
}

/* ------------------------------------------------------------------ our own cost */

static const char calibration_code[] = "def called(): pass\n"
                                       "def loop(times):\n"
                                       "    for _ in times: called()\n"
                                       "def measure():\n"
                                       "    loop(range(1000))\n";

/* The shortest of some rounds, in ticks for a thousand calls; 0: it failed. */
static uint64_t measure(PyObject *function, bool is_tsc)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < CALIBRATION_ROUNDS; i++) {
        uint64_t begin = ks_functions_tick(is_tsc);
        PyObject *done = PyObject_CallNoArgs(function);
        uint64_t ticks = ks_functions_tick(is_tsc) - begin;
        if (!done) {
            return 0;
        }
        Py_DECREF(done);
        least = ticks < least ? ticks : least;
    }
    return least;
}

static uint64_t measure_profiled(struct ks_function_profiler *self, PyObject *function)
{
    struct ks_function_thread *thread = new_thread(self, false);
    if (!thread || ks_functions_bind(self, thread) < 0) {
        Py_XDECREF((PyObject *)thread);
        return 0;
    }
    uint64_t ticks = measure(function, self->shared.is_tsc);
    ks_functions_unbind(self);
    Py_DECREF(thread);
    return ticks;
}

static int calibrate(struct ks_function_profiler *self)
{
    PyObject *names = PyDict_New();
    PyObject *done = NULL;
    if (names && PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()) == 0) {
        done = PyRun_String(calibration_code, Py_file_input, names, names);
    }
    PyObject *function = done ? PyDict_GetItemString(names, "measure") : NULL; // borrowed
    uint64_t plain = function ? measure(function, self->shared.is_tsc) : 0;
    uint64_t profiled = plain ? measure_profiled(self, function) : 0;
    Py_XDECREF(done);
    Py_XDECREF(names);
    if (PyErr_Occurred()) {
        return -1;
    }
    self->cost_ticks = profiled > plain ? (profiled - plain) / 1000 : 0;
    self->is_calibrated = true;
    return 0;
}

static void write_item(const struct ks_function_profiler *self, uint64_t stop_tick)
{
    struct ks_wire_functions item = {
        .has_c_calls = self->has_c_calls,
        .mechanism = ks_functions_mechanism,
        .cost_ticks = self->cost_ticks,
        .start_tick = self->start_tick,
        .stop_tick = stop_tick,
    };
    if (self->shared.is_recorded && ks_functions_can_record()) {
        ks_capture_item(KS_WIRE_FUNCTIONS, &item, sizeof(item)); // a loss is counted in the file
    }
}

/* ------------------------------------------------------------------ on and off */

static struct ks_function_thread *thread_at(struct ks_function_profiler *self, Py_ssize_t i)
{
    return (struct ks_function_thread *)PyList_GET_ITEM(self->threads, i);
}

/* Trees that are there stay as they are; new ones go where this says. */
static void choose_clock(struct ks_function_profiler *self)
{
    bool is_recorded = ks_functions_can_record();
    bool is_tsc = is_recorded ? ks_capture_lane()->is_tsc : ks_functions_clock_is_tsc();
    if (is_tsc != self->shared.is_tsc) {
        self->shared.is_tsc = is_tsc;
        self->is_calibrated = false; // in ticks of the other clock
    }
    self->shared.is_recorded = is_recorded;
}

static bool is_main_interpreter(void)
{
    return PyInterpreterState_Get() == PyInterpreterState_Main();
}

/* Trees are changed under the lock of the main interpreter. */
static int check_interpreter(void)
{
    if (!is_main_interpreter()) {
        PyErr_SetString(PyExc_RuntimeError, "Cannot start the function profiler in a "
                                            "subinterpreter: it is for the main interpreter");
        return -1;
    }
#ifdef Py_GIL_DISABLED
    PyObject *ask = PySys_GetObject("_is_gil_enabled"); // borrowed
    PyObject *answer = ask ? PyObject_CallNoArgs(ask) : NULL;
    bool is_locked = answer == Py_True;
    Py_XDECREF(answer);
    if (!is_locked) {
        PyErr_Clear();
        PyErr_SetString(PyExc_RuntimeError,
                        "Cannot start the function profiler: this Python runs without its global "
                        "lock; PYTHON_GIL=1 turns that on");
        return -1;
    }
#endif
    return 0;
}

static int start_alone(struct ks_function_profiler *self)
{
    if (active) {
        PyErr_SetString(PyExc_RuntimeError,
                        active == self ? "Cannot start the function profiler: it is on already"
                                       : "Cannot start the function profiler: another one is on, "
                                         "and it sees all threads; stop that one first");
        return -1;
    }
    if (check_interpreter() < 0 || ks_functions_check(self) < 0) {
        return -1;
    }
    choose_clock(self);
    if (!self->is_calibrated && calibrate(self) < 0) {
        return -1;
    }
    self->start_tick = ks_functions_tick(self->shared.is_tsc);
    write_item(self, 0);
    self->is_on = true;
    if (ks_functions_install(self) < 0) {
        self->is_on = false;
        return -1;
    }
    active = (struct ks_function_profiler *)Py_NewRef((PyObject *)self);
    return 0;
}

static int stop(struct ks_function_profiler *self)
{
    if (!self->is_on) {
        PyErr_SetString(PyExc_RuntimeError, "Cannot stop the function profiler: it is not on");
        return -1;
    }
    int taken = ks_functions_uninstall(self);
    self->is_on = false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(self->threads); i++) {
        struct ks_function_thread *thread = thread_at(self, i);
        thread->profiler = NULL;
        if (ks_call_tree_is_stale(&thread->tree)) {
            ks_call_tree_restart(&thread->tree);
        }
        ks_call_tree_close(&thread->tree);
    }
    write_item(self, ks_functions_tick(self->shared.is_tsc));
    active = NULL;
    Py_DECREF(self); // the caller has another
    if (taken) {
        return PyErr_WarnEx(PyExc_RuntimeWarning,
                            "Another profiler took over while the function profiler was on; calls "
                            "from then on are missing",
                            1);
    }
    return 0;
}

/* What it counted stays; that it was replaced is no news. */
static void let_go(void)
{
    if (stop(of_run) < 0) {
        PyErr_Clear();
    }
    is_run_waiting = true;
}

/* Keeps an exception that is set. */
static void take_back(void)
{
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    is_run_waiting = false;
    if (start_alone(of_run) < 0) {
        PyErr_Clear();
    }
    PyErr_Restore(kind, value, traceback);
}

static int start(struct ks_function_profiler *self)
{
    if (active && active == of_run && self != of_run) {
        let_go();
    }
    int status = start_alone(self);
    if (status < 0 && is_run_waiting && !active) {
        take_back();
    }
    return status;
}

static int stop_own(struct ks_function_profiler *self)
{
    int status = stop(self);
    if (is_run_waiting && !active && self != of_run) {
        take_back();
    }
    return status;
}

static PyObject *profiler_start(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (start((struct ks_function_profiler *)object) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *profiler_lets_go(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (!of_run) {
        of_run = (struct ks_function_profiler *)Py_NewRef(object);
    }
    Py_RETURN_NONE;
}

static PyObject *profiler_stop(PyObject *object, PyObject *unused)
{
    (void)unused;
    if (stop_own((struct ks_function_profiler *)object) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *profiler_enter(PyObject *object, PyObject *unused)
{
    (void)unused;
    return start((struct ks_function_profiler *)object) < 0 ? NULL : Py_NewRef(object);
}

static PyObject *profiler_exit(PyObject *object, PyObject *const *args, Py_ssize_t count)
{
    (void)args;
    (void)count;
    struct ks_function_profiler *self = (struct ks_function_profiler *)object;
    if (self->is_on && stop_own(self) < 0) { // the block may have stopped it itself
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *profiler_clear(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct ks_function_profiler *self = (struct ks_function_profiler *)object;
    if (self->is_on) {
        PyErr_SetString(PyExc_RuntimeError, "Cannot clear the function profiler while it is on");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(self->threads); i++) {
        ks_call_tree_reset(&thread_at(self, i)->tree);
    }
    self->shared.calls_without_path = 0;
    Py_RETURN_NONE;
}

/* ------------------------------------------------------------------ results */

static PyObject *profiler_stats(PyObject *object, PyObject *unused)
{
    (void)unused;
    return ks_functions_stats((struct ks_function_profiler *)object);
}

static int write_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t done = write(fd, bytes, size);
        if (done < 0 && errno != EINTR) {
            return -1;
        }
        bytes += done > 0 ? done : 0;
        size -= done > 0 ? (size_t)done : 0;
    }
    return 0;
}

/* Whole or not at all. -1: errno says why. */
static int write_file(const char *path, PyObject *bytes)
{
    char other[4096];
    int length = PyOS_snprintf(other, sizeof(other), "%s.%ld.part", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof(other)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = open(other, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        return -1;
    }
    int status = write_all(fd, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
    if (close(fd) < 0 || status < 0 || rename(other, path) < 0) {
        int fault = errno;
        unlink(other);
        errno = fault;
        return -1;
    }
    return 0;
}

static PyObject *profiler_dump_stats(PyObject *object, PyObject *path)
{
    PyObject *name = NULL;
    if (!PyUnicode_FSConverter(path, &name)) {
        return NULL;
    }
    PyObject *stats = ks_functions_stats((struct ks_function_profiler *)object);
    PyObject *bytes = stats ? PyMarshal_WriteObjectToString(stats, Py_MARSHAL_VERSION) : NULL;
    int status = -1;
    if (bytes) {
        Py_BEGIN_ALLOW_THREADS;
        status = write_file(PyBytes_AS_STRING(name), bytes);
        Py_END_ALLOW_THREADS;
        if (status < 0) {
            PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path);
        }
    }
    Py_XDECREF(bytes);
    Py_XDECREF(stats);
    Py_DECREF(name);
    if (status < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *get_is_on(PyObject *object, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((struct ks_function_profiler *)object)->is_on);
}

static PyObject *get_cost(PyObject *object, void *closure)
{
    (void)closure;
    struct ks_function_profiler *self = (struct ks_function_profiler *)object;
    double rate = ks_functions_seconds_per_tick(self->shared.is_tsc);
    return PyFloat_FromDouble((double)self->cost_ticks * rate);
}

static PyObject *get_paths(PyObject *object, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLong(((struct ks_function_profiler *)object)->shared.path_count);
}

static PyObject *get_calls_without_path(PyObject *object, void *closure)
{
    (void)closure;
    struct ks_function_profiler *self = (struct ks_function_profiler *)object;
    return PyLong_FromUnsignedLongLong(self->shared.calls_without_path);
}

/* ------------------------------------------------------------------ the type */

static PyMethodDef profiler_methods[] = {
    {"start", profiler_start, METH_NOARGS,
     "start($self, /)\n--\n\nStarts counting calls of all threads, now and to come.\n\n"
     "Raises RuntimeError when it is on, or when another profiler holds what it needs."},
    {"stop", profiler_stop, METH_NOARGS,
     "stop($self, /)\n--\n\nStops; calls that are open count as if they returned now.\n\n"
     "Raises RuntimeError when it is not on. start() goes on adding to what was counted."},
    {"_lets_go", profiler_lets_go, METH_NOARGS,
     "_lets_go($self, /)\n--\n\nFrom now on it lets go while another one is on."},
    {"stats", profiler_stats, METH_NOARGS,
     "stats($self, /)\n--\n\nWhat was counted, as the dictionary of pstats:\n"
     "{(file, line, name): (calls that are not recursive, calls, own time, cumulative time,\n"
     "callers)}, times in seconds. Also while it is on."},
    {"dump_stats", profiler_dump_stats, METH_O,
     "dump_stats($self, path, /)\n--\n\nWrites stats() to a file that pstats.Stats(path) and its "
     "viewers open.\n\nRaises OSError; the file is written whole or not at all."},
    {"clear", profiler_clear, METH_NOARGS,
     "clear($self, /)\n--\n\nForgets what was counted. Raises RuntimeError while it is on."},
    {"__enter__", profiler_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))profiler_exit, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef profiler_getset[] = {
    {"is_on", get_is_on, NULL, "Whether it counts at the moment.", NULL},
    {"cost_per_call", get_cost, NULL,
     "Seconds that profiling adds to a call, measured at the first start.", NULL},
    {"paths", get_paths, NULL, "Number of call paths seen.", NULL},
    {"calls_without_path", get_calls_without_path, NULL,
     "Calls on paths beyond max_paths: counted for their function, their caller is '(other)'.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static int profiler_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char c_calls_name[] = "c_calls", max_paths_name[] = "max_paths";
    static char *names[] = {c_calls_name, max_paths_name, NULL};
    struct ks_function_profiler *self = (struct ks_function_profiler *)object;
    int has_c_calls = 1;
    long paths_max = PATHS_MAX_DEFAULT;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$pl:FunctionProfiler", names, &has_c_calls,
                                     &paths_max)) {
        return -1;
    }
    if (paths_max < 1 || paths_max > PATHS_MAX_MAX) {
        PyErr_Format(PyExc_ValueError, "max_paths must be from 1 to %d, not %ld", PATHS_MAX_MAX,
                     paths_max);
        return -1;
    }
    if (self->threads) {
        PyErr_SetString(PyExc_RuntimeError, "A FunctionProfiler is made once");
        return -1;
    }
    self->has_c_calls = has_c_calls;
    self->shared.paths_max = (uint32_t)paths_max;
    self->shared.is_tsc = ks_functions_clock_is_tsc();
    self->shared.hidden_begin = profiler_methods;
    self->shared.hidden_end = profiler_methods + sizeof(profiler_methods) / sizeof(PyMethodDef);
    if (ks_function_table_init(&self->shared.table) < 0) {
        return -1;
    }
    self->threads = PyList_New(0);
    return self->threads ? 0 : -1;
}

static void profiler_dealloc(PyObject *object)
{
    struct ks_function_profiler *self = (struct ks_function_profiler *)object;
    PyTypeObject *type = Py_TYPE(object);
    // Threads may outlive us in the hands of the program; their trees do not.
    for (Py_ssize_t i = 0; self->threads && i < PyList_GET_SIZE(self->threads); i++) {
        ks_call_tree_release(&thread_at(self, i)->tree);
    }
    Py_CLEAR(self->threads);
    ks_function_table_release(&self->shared.table);
    type->tp_free(object);
    Py_DECREF(type);
}

static const char profiler_doc[] =
    "FunctionProfiler(*, c_calls=True, max_paths=262144)\n--\n\n"
    "Counts and times each call of a Python function in all threads.\n\n"
    "c_calls: whether calls of functions written in C count as well.\n"
    "max_paths: different call paths that are told apart, 1 to 16777216.\n"
    "A context manager: `with FunctionProfiler() as profiler: ...`. Results: stats(),\n"
    "dump_stats(path); while start_recording() is on they are in the recording as well.";

static PyType_Slot profiler_slots[] = {
    {Py_tp_doc, (char *)(uintptr_t)profiler_doc},
    {Py_tp_init, profiler_init},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_dealloc, profiler_dealloc},
    {Py_tp_methods, profiler_methods},
    {Py_tp_getset, profiler_getset},
    {0, NULL},
};

static PyType_Spec profiler_spec = {
    .name = "kinetoscope.FunctionProfiler",
    .basicsize = sizeof(struct ks_function_profiler),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = profiler_slots,
};

int ks_functions_add_to(PyObject *module)
{
    if (!is_main_interpreter()) {
        PyErr_SetString(PyExc_ImportError,
                        "Cannot load the function profiler in a subinterpreter: it is for the main "
                        "interpreter");
        return -1;
    }
    ks_functions_clock_init();
    if (!thread_type) {
        thread_type = (PyTypeObject *)PyType_FromSpec(&thread_spec);
    }
    PyObject *type = thread_type ? PyType_FromSpec(&profiler_spec) : NULL;
    int status = type ? PyModule_AddObjectRef(module, "FunctionProfiler", type) : -1;
    Py_XDECREF(type);
    return status;
}
