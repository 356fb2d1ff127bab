#include "python/ext/sampler.h"

#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/sampler/stack_sampler.h"
#include "capture/shared/recorder.h"

enum { RATE_DEFAULT = 100 };

typedef struct {
    PyObject_HEAD uint32_t rate_hz;
    bool is_of_run; /* of `kscope run`: lets go while one of the program's is on */
} StackSampler;

/* Of the process: there is one sampler. */
static struct ks_python_layout layout;
static bool is_checked;
static bool has_fork_hook;
static StackSampler *of_run; /* a reference, or NULL */
static bool is_run_waiting;
static PyObject *thread_start; /* threading.Thread.start as it was; NULL: ours is not in place */
static PyObject *our_start;

/* ------------------------------------------------------------------ names of threads */

static void write_name(unsigned long tid, PyObject *name)
{
    Py_ssize_t len = 0;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &len) : NULL;
    if (text && tid > 0 && ks_capture_is_on()) {
        uint32_t item[2] = {(uint32_t)tid, ks_capture_string(text, (size_t)len)};
        (void)ks_capture_item(KS_WIRE_THREAD, item, sizeof(item));
    }
}

/* Forked children keep their parent's `native_id` up to 3.12, so the own one is not asked there. A
 * thread without a name is none of the program's faults. */
static void name_thread(PyObject *thread, bool is_own)
{
    PyObject *name = PyObject_GetAttrString(thread, "name");
    PyObject *number = name ? PyObject_GetAttrString(thread, "native_id") : NULL;
    if (name && is_own) {
        write_name((unsigned long)syscall(SYS_gettid), name);
    } else if (number && PyLong_Check(number)) {
        write_name(PyLong_AsUnsignedLong(number), name);
    }
    PyErr_Clear();
    Py_XDECREF(name);
    Py_XDECREF(number);
}

static void name_all_threads(void)
{
    PyObject *threading = PyImport_ImportModule("threading");
    PyObject *own = threading ? PyObject_CallMethod(threading, "current_thread", NULL) : NULL;
    PyObject *threads = own ? PyObject_CallMethod(threading, "enumerate", NULL) : NULL;
    for (Py_ssize_t i = 0; threads && PyList_Check(threads) && i < PyList_GET_SIZE(threads); i++) {
        PyObject *thread = PyList_GET_ITEM(threads, i);
        name_thread(thread, thread == own);
    }
    PyErr_Clear();
    Py_XDECREF(threads);
    Py_XDECREF(own);
    Py_XDECREF(threading);
}

/* Stands in for threading.Thread.start while a sampler is on. */
static PyObject *start_and_name(PyObject *unused, PyObject *args, PyObject *keywords)
{
    (void)unused;
    PyObject *original = thread_start;
    if (!original) {
        PyErr_SetString(PyExc_RuntimeError, "threading.Thread.start was put back meanwhile");
        return NULL;
    }
    Py_INCREF(original);
    PyObject *result = PyObject_Call(original, args, keywords);
    Py_DECREF(original);
    if (result && PyTuple_GET_SIZE(args) > 0) {
        name_thread(PyTuple_GET_ITEM(args, 0), false);
    }
    return result;
}

static PyMethodDef START_DEFINITION = {
    "start", (PyCFunction)(void (*)(void))start_and_name, METH_VARARGS | METH_KEYWORDS,
    "Start the thread's activity.\n\nIt must be called at most once per thread object."};

static PyObject *thread_class(void)
{
    PyObject *threading = PyImport_ImportModule("threading");
    PyObject *found = threading ? PyObject_GetAttrString(threading, "Thread") : NULL;
    Py_XDECREF(threading);
    return found;
}

/* Names are nice to have: nothing here fails the sampler. */
static void hook_thread_start(void)
{
    PyObject *threads = thread_class();
    PyObject *original = threads ? PyObject_GetAttrString(threads, "start") : NULL;
    if (original && !our_start) {
        PyObject *function = PyCFunction_New(&START_DEFINITION, NULL);
        our_start = function ? PyInstanceMethod_New(function) : NULL;
        Py_XDECREF(function);
    }
    if (original && our_start && !thread_start &&
        PyObject_SetAttrString(threads, "start", our_start) == 0) {
        thread_start = original;
        original = NULL;
    }
    PyErr_Clear();
    Py_XDECREF(original);
    Py_XDECREF(threads);
}

/* Puts it back, unless somebody else has put theirs over it. */
static void unhook_thread_start(void)
{
    PyObject *threads = thread_class();
    PyObject *current = threads ? PyObject_GetAttrString(threads, "start") : NULL;
    bool is_ours = current && PyInstanceMethod_Check(our_start ? our_start : Py_None) &&
                   current == PyInstanceMethod_GET_FUNCTION(our_start);
    if (thread_start && is_ours && PyObject_SetAttrString(threads, "start", thread_start) == 0) {
        Py_CLEAR(thread_start);
    }
    PyErr_Clear();
    Py_XDECREF(current);
    Py_XDECREF(threads);
}

/* ------------------------------------------------------------------ children */

static PyObject *after_fork(PyObject *unused, PyObject *no_arguments)
{
    (void)unused;
    (void)no_arguments;
    ks_stack_sampler_after_fork();
    if (ks_stack_sampler_is_on()) {
        name_all_threads();
    }
    Py_RETURN_NONE;
}

static PyMethodDef AFTER_FORK_DEFINITION = {"after_fork", after_fork, METH_NOARGS, NULL};

static int hook_fork(void)
{
    if (has_fork_hook) {
        return 0;
    }
    PyObject *os = PyImport_ImportModule("os");
    PyObject *hook = os ? PyObject_GetAttrString(os, "register_at_fork") : NULL;
    PyObject *function = hook ? PyCFunction_New(&AFTER_FORK_DEFINITION, NULL) : NULL;
    PyObject *keywords = function ? Py_BuildValue("{s:O}", "after_in_child", function) : NULL;
    PyObject *none = keywords ? PyTuple_New(0) : NULL;
    PyObject *result = none ? PyObject_Call(hook, none, keywords) : NULL;
    has_fork_hook = result != NULL;
    Py_XDECREF(os);
    Py_XDECREF(hook);
    Py_XDECREF(function);
    Py_XDECREF(keywords);
    Py_XDECREF(none);
    Py_XDECREF(result);
    return has_fork_hook ? 0 : -1;
}

/* ------------------------------------------------------------------ the type */

static int sampler_init(StackSampler *self, PyObject *args, PyObject *keywords)
{
    static char rate_name[] = "rate_hz";
    static char *names[] = {rate_name, NULL};
    long rate_hz = RATE_DEFAULT;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|l:StackSampler", names, &rate_hz)) {
        return -1;
    }
    if (rate_hz < 1 || rate_hz > KS_SAMPLER_RATE_MAX) {
        PyErr_Format(PyExc_ValueError, "rate_hz must be 1 to %d, not %ld", KS_SAMPLER_RATE_MAX,
                     rate_hz);
        return -1;
    }
    self->rate_hz = (uint32_t)rate_hz;
    return 0;
}

static int check_once(void)
{
    if (is_checked) {
        return 0;
    }
    if (ks_sampler_check(&layout) != 0) {
        return -1;
    }
    is_checked = true;
    return 0;
}

PyDoc_STRVAR(
    START_DOC,
    "start($self, /)\n--\n\n"
    "Start looking at the stacks of all Python threads, rate_hz times a second, from a\n"
    "thread that never takes the GIL. What it sees goes to the recording that is on; while\n"
    "none is on it sees nothing. Children made by fork go on by themselves.\n\n"
    "Raises RuntimeError when one is on already, or when this interpreter's stacks\n"
    "cannot be read; the message says why.");

static void stop_looking(void)
{
    if (ks_stack_sampler_is_on()) {
        name_all_threads(); // some were given their names late
        Py_BEGIN_ALLOW_THREADS;
        ks_stack_sampler_stop();
        Py_END_ALLOW_THREADS;
        unhook_thread_start();
    }
}

static PyObject *sampler_start(StackSampler *self, PyObject *unused)
{
    (void)unused;
    char reason[KS_SAMPLER_REASON_SIZE];
    if (check_once() != 0 || hook_fork() != 0) {
        return NULL;
    }
    if (of_run && !self->is_of_run && !is_run_waiting && ks_stack_sampler_is_on()) {
        stop_looking();
        is_run_waiting = true;
    }
    if (ks_stack_sampler_start(&layout, self->rate_hz, reason) != 0) {
        PyErr_SetString(PyExc_RuntimeError, reason);
        return NULL;
    }
    hook_thread_start();
    name_all_threads();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(STOP_DOC, "stop($self, /)\n--\n\n"
                       "Stop looking. Does nothing when no sampler is on.");

static PyObject *sampler_stop(StackSampler *self, PyObject *unused)
{
    (void)unused;
    stop_looking();
    if (is_run_waiting) {
        is_run_waiting = false;
        PyObject *started = self->is_of_run ? NULL : sampler_start(of_run, NULL);
        Py_XDECREF(started);
        PyErr_Clear();
    }
    Py_RETURN_NONE;
}

static PyObject *sampler_lets_go(StackSampler *self, PyObject *unused)
{
    (void)unused;
    if (!of_run) {
        of_run = (StackSampler *)Py_NewRef((PyObject *)self);
        self->is_of_run = true;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(COUNTS_DOC,
             "counts($self, /)\n--\n\n"
             "What the sampler that is on, or the last one, has done: a dict of ints.\n\n"
             "looks: times it looked; samples: stacks it saw, one for each thread and look;\n"
             "torn: stacks that changed under its eyes three times, and were left out;\n"
             "late: looks that came later than twice the interval; cpu_ns: CPU time that it used\n"
             "itself, up to the last whole second while it is on; rate_hz.");

static PyObject *sampler_counts(StackSampler *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    struct ks_wire_sampler counts;
    ks_stack_sampler_counts(&counts);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:I}", "looks", (unsigned long long)counts.looks,
                         "samples", (unsigned long long)counts.samples, "torn",
                         (unsigned long long)counts.torn, "late", (unsigned long long)counts.late,
                         "cpu_ns", (unsigned long long)counts.cpu_ns, "rate_hz", counts.rate_hz);
}

static PyObject *sampler_enter(StackSampler *self, PyObject *unused)
{
    PyObject *started = sampler_start(self, unused);
    if (!started) {
        return NULL;
    }
    Py_DECREF(started);
    Py_INCREF(self);
    return (PyObject *)self;
}

static PyObject *sampler_exit(StackSampler *self, PyObject *args)
{
    (void)args;
    return sampler_stop(self, NULL);
}

static PyObject *sampler_get_rate(StackSampler *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(self->rate_hz);
}

static PyObject *sampler_get_is_on(StackSampler *self, void *unused)
{
    (void)self;
    (void)unused;
    return PyBool_FromLong(ks_stack_sampler_is_on());
}

static PyMethodDef METHODS[] = {
    {"start", (PyCFunction)sampler_start, METH_NOARGS, START_DOC},
    {"stop", (PyCFunction)sampler_stop, METH_NOARGS, STOP_DOC},
    {"_lets_go", (PyCFunction)sampler_lets_go, METH_NOARGS,
     "_lets_go($self, /)\n--\n\nFrom now on it lets go while another one is on."},
    {"counts", (PyCFunction)sampler_counts, METH_NOARGS, COUNTS_DOC},
    {"__enter__", (PyCFunction)sampler_enter, METH_NOARGS, "start(), and give the sampler."},
    {"__exit__", (PyCFunction)sampler_exit, METH_VARARGS, "stop()."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef GETTERS[] = {
    {"rate_hz", (getter)sampler_get_rate, NULL, "Looks a second.", NULL},
    {"is_on", (getter)sampler_get_is_on, NULL, "Whether this process is being sampled.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(TYPE_DOC,
             "StackSampler(rate_hz=100)\n--\n\n"
             "Looks at the stacks of all Python threads of this process 1 to 1000 times a second\n"
             "and writes them to the recording, without the GIL and without stopping a thread.\n"
             "A process has one at a time. Works as a context manager, too.\n\n"
             "Raises ValueError for other rates.");

static PyType_Slot SLOTS[] = {
    {Py_tp_doc, (void *)(uintptr_t)TYPE_DOC},
    {Py_tp_init, sampler_init},
    {Py_tp_methods, METHODS},
    {Py_tp_getset, GETTERS},
    {0, NULL},
};

static PyType_Spec SPEC = {
    .name = "kinetoscope.StackSampler",
    .basicsize = sizeof(StackSampler),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = SLOTS,
};

int ks_sampler_add_type(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&SPEC);
    if (!type) {
        return -1;
    }
    int failed = PyModule_AddObjectRef(module, "StackSampler", type);
    Py_DECREF(type);
    return failed;
}
