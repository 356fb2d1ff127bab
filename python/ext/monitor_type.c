/* kinetoscope's system monitor as a Python type. The measuring itself is capture/monitor/. The
 * lock of the interpreter is held all along: nothing here takes long, and the monitor's functions
 * are called by one thread at a time. */
#include "capture/monitor/system_monitor.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "errors.h"
#include "types.h"

enum { RATE_DEFAULT = 10, KEY_SIZE = 64 };

typedef struct {
    PyObject_HEAD uint32_t rate_hz;
    PyObject *root; /* bytes */
    pid_t pid;      /* in which it was started; a forked child has none of it */
    bool is_on;
    int64_t from_ns; /* of the curves' clock: what it answers for */
    int64_t to_ns;   /* INT64_MAX while it is on */
} SystemMonitor;

static bool is_on(const SystemMonitor *self)
{
    return self->is_on && self->pid == getpid();
}

/* Curves that this monitor may answer from; NULL: it was never started here. */
static struct ks_curves *curves_of(const SystemMonitor *self)
{
    return self->from_ns > 0 && self->pid == getpid() ? ks_system_monitor_curves() : NULL;
}

/* ------------------------------------------------------------------ life */

static int monitor_init(SystemMonitor *self, PyObject *args, PyObject *keywords)
{
    static char rate_name[] = "rate_hz";
    static char root_name[] = "root";
    static char *names[] = {rate_name, root_name, NULL};
    long rate_hz = RATE_DEFAULT;
    PyObject *root = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|l$O&:SystemMonitor", names, &rate_hz,
                                     PyUnicode_FSConverter, &root)) {
        return -1;
    }
    if (rate_hz < 0 || rate_hz > KS_MONITOR_RATE_MAX) {
        Py_XDECREF(root);
        ks_raise(KS_FAULT_VALUE, "rate_hz must be 0 to %d, not %ld", KS_MONITOR_RATE_MAX, rate_hz);
        return -1;
    }
    self->rate_hz = (uint32_t)rate_hz;
    Py_XSETREF(self->root, root);
    return 0;
}

static void end_now(SystemMonitor *self)
{
    if (is_on(self)) {
        ks_system_monitor_stop();
        self->to_ns = ks_system_monitor_now_ns();
    }
    self->is_on = false;
}

static void monitor_dealloc(SystemMonitor *self)
{
    PyTypeObject *type = Py_TYPE(self);
    end_now(self);
    Py_XDECREF(self->root);
    type->tp_free(self);
    Py_DECREF(type);
}

PyDoc_STRVAR(START_DOC,
             "start($self, /)\n--\n\n"
             "Start measuring, rate_hz times a second, from a thread that never takes the GIL.\n"
             "What it measures goes to the recording that is on, and can be asked for here. All\n"
             "monitors of a process share one thread, which goes as fast as the fastest asks for.\n"
             "Children made by fork have none. Does nothing when this one is on.\n\n"
             "Raises RuntimeError when it cannot start; the message says why.");

static PyObject *monitor_start(SystemMonitor *self, PyObject *unused)
{
    (void)unused;
    char reason[KS_MONITOR_REASON_SIZE];
    const struct ks_system_monitor_options options = {
        .rate_hz = self->rate_hz, .root = self->root ? PyBytes_AS_STRING(self->root) : NULL};
    if (is_on(self)) {
        Py_RETURN_NONE;
    }
    int64_t now_ns = ks_system_monitor_now_ns();
    if (ks_system_monitor_start(&options, reason) != 0) {
        PyErr_SetString(PyExc_RuntimeError, reason);
        return NULL;
    }
    self->is_on = true;
    self->pid = getpid();
    self->from_ns = now_ns - 1;
    self->to_ns = INT64_MAX;
    Py_RETURN_NONE;
}

PyDoc_STRVAR(STOP_DOC, "stop($self, /)\n--\n\n"
                       "Stop measuring, with a last look. What was measured can be asked for.\n"
                       "Does nothing when this one is not on.");

static PyObject *monitor_stop(SystemMonitor *self, PyObject *unused)
{
    (void)unused;
    end_now(self);
    Py_RETURN_NONE;
}

static PyObject *monitor_enter(SystemMonitor *self, PyObject *unused)
{
    PyObject *started = monitor_start(self, unused);
    if (!started) {
        return NULL;
    }
    Py_DECREF(started);
    return Py_NewRef((PyObject *)self);
}

static PyObject *monitor_exit(SystemMonitor *self, PyObject *args)
{
    (void)args;
    return monitor_stop(self, NULL);
}

/* ------------------------------------------------------------------ asking */

/* "cpu.process", "cpu.core.3". */
static PyObject *key_of(uint32_t series)
{
    const char *name = ks_metric_kinds[ks_series_metric(series)].name;
    int32_t index = ks_series_index(series);
    return index < 0 ? PyUnicode_FromString(name) : PyUnicode_FromFormat("%s.%d", name, (int)index);
}

/* Puts `value` (a new reference, NULL: an exception is set) at the series's key. */
static int put(PyObject *dict, uint32_t series, PyObject *value)
{
    PyObject *key = value ? key_of(series) : NULL;
    int failed = key ? PyDict_SetItem(dict, key, value) : -1;
    Py_XDECREF(key);
    Py_XDECREF(value);
    return failed;
}

static PyObject *describe_last(uint32_t series, const struct ks_curve_summary *curve)
{
    (void)series;
    return PyFloat_FromDouble(curve->last);
}

static PyObject *describe(uint32_t series, const struct ks_curve_summary *curve)
{
    return Py_BuildValue("{s:d,s:d,s:d,s:d,s:s}", "mean", curve->mean, "min", curve->min, "max",
                         curve->max, "last", curve->last, "unit",
                         ks_metric_kinds[ks_series_metric(series)].unit);
}

/* A dict of all curves that have values, each as `make` describes it. */
static PyObject *each_curve(const SystemMonitor *self,
                            PyObject *(*make)(uint32_t, const struct ks_curve_summary *))
{
    struct ks_curves *curves = curves_of(self);
    PyObject *dict = PyDict_New();
    for (uint32_t i = 0; dict && curves && i < KS_SERIES_COUNT; i++) {
        struct ks_curve_summary curve;
        if (ks_curves_summary(curves, i, self->from_ns, self->to_ns, &curve) &&
            put(dict, i, make(i, &curve)) != 0) {
            Py_CLEAR(dict);
        }
    }
    return dict;
}

PyDoc_STRVAR(LATEST_DOC,
             "latest($self, /)\n--\n\n"
             "The latest value of each metric since this monitor was started: a dict, with\n"
             "\"cpu.core.0\" for the first core. What cannot be known here is not in it.");

static PyObject *monitor_latest(SystemMonitor *self, PyObject *unused)
{
    (void)unused;
    return each_curve(self, describe_last);
}

PyDoc_STRVAR(LOOK_DOC, "look($self, /)\n--\n\n"
                       "Measure once more, now, and give latest(). While this monitor is off it\n"
                       "measures nothing.");

static PyObject *monitor_look(SystemMonitor *self, PyObject *unused)
{
    (void)unused;
    if (is_on(self)) {
        ks_system_monitor_look();
    }
    return each_curve(self, describe_last);
}

PyDoc_STRVAR(METRICS_DOC,
             "metrics($self, /)\n--\n\n"
             "What each metric was like from start() to stop(): a dict of dicts with mean, min,\n"
             "max, last and unit. Means are weighted by time.");

static PyObject *monitor_metrics(SystemMonitor *self, PyObject *unused)
{
    (void)unused;
    return each_curve(self, describe);
}

PyDoc_STRVAR(COUNTS_DOC,
             "counts($self, /)\n--\n\n"
             "What the monitor of this process has done: a dict of ints.\n\n"
             "looks: times it looked; late: looks that came later than twice the\n"
             "interval; cpu_ns: CPU time that it used itself; rate_hz: looks a second.");

static PyObject *monitor_counts(SystemMonitor *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    struct ks_system_monitor_counts counts;
    ks_system_monitor_counts(&counts);
    return Py_BuildValue("{s:K,s:K,s:K,s:I}", "looks", (unsigned long long)counts.looks, "late",
                         (unsigned long long)counts.late, "cpu_ns",
                         (unsigned long long)counts.cpu_ns, "rate_hz", counts.rate_hz);
}

static PyObject *get_rate(SystemMonitor *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(self->rate_hz);
}

static PyObject *get_is_on(SystemMonitor *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(is_on(self));
}

/* ------------------------------------------------------------------ the type */

static PyMethodDef METHODS[] = {
    {"start", (PyCFunction)monitor_start, METH_NOARGS, START_DOC},
    {"stop", (PyCFunction)monitor_stop, METH_NOARGS, STOP_DOC},
    {"look", (PyCFunction)monitor_look, METH_NOARGS, LOOK_DOC},
    {"latest", (PyCFunction)monitor_latest, METH_NOARGS, LATEST_DOC},
    {"metrics", (PyCFunction)monitor_metrics, METH_NOARGS, METRICS_DOC},
    {"counts", (PyCFunction)monitor_counts, METH_NOARGS, COUNTS_DOC},
    {"__enter__", (PyCFunction)monitor_enter, METH_NOARGS, "start(), and give the monitor."},
    {"__exit__", (PyCFunction)monitor_exit, METH_VARARGS, "stop()."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef GETTERS[] = {
    {"rate_hz", (getter)get_rate, NULL, "Looks a second that it asks for.", NULL},
    {"is_on", (getter)get_is_on, NULL, "Whether it was started in this process.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyDoc_STRVAR(TYPE_DOC,
             "SystemMonitor(rate_hz=10, *, root='')\n--\n\n"
             "Measures what this process, its control group and the machine are at, up\n"
             "to 100 times a second, and writes it to the recording. With rate_hz=0 it measures\n"
             "when look() is called. Works as a context manager, too. `root` stands before the\n"
             "paths of all files that it reads.\n\n"
             "Raises ValueError for other rates.");

static PyType_Slot SLOTS[] = {
    {Py_tp_doc, (void *)(uintptr_t)TYPE_DOC},
    {Py_tp_init, monitor_init},
    {Py_tp_dealloc, monitor_dealloc},
    {Py_tp_methods, METHODS},
    {Py_tp_getset, GETTERS},
    {0, NULL},
};

static PyType_Spec SPEC = {
    .name = "kinetoscope.SystemMonitor",
    .basicsize = sizeof(SystemMonitor),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = SLOTS,
};

int ks_monitor_add_to(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&SPEC);
    if (!type) {
        return -1;
    }
    int failed = PyModule_AddObjectRef(module, "SystemMonitor", type);
    Py_DECREF(type);
    return failed;
}
