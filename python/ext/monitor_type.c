/* kinetoscope's system monitor as a Python type. The measuring itself is capture/monitor/, whose
 * functions are called by one thread at a time: by a lock of ours, since a look, and the driver of
 * GPUs, may take so long that the interpreter's is not held meanwhile. */
#include "capture/monitor/system_monitor.h"

#include <unistd.h>

#include "errors.h"
#include "monitor_panels.h"
#include "monitor_svg.h"
#include "types.h"

enum { RATE_DEFAULT = 10 };

typedef struct {
    PyObject_HEAD uint32_t rate_hz;
    PyObject *root; /* bytes */
    pid_t pid;      /* in which it was started; a forked child has none of it */
    bool is_on;
    int64_t from_ns; /* of the curves' clock: what it answers for */
    int64_t to_ns;   /* INT64_MAX while it is on */
} SystemMonitor;

static bool has_exit_hook;
static PyThread_type_lock calls; /* held by who calls the monitor */
static pid_t calls_pid;          /* a forked child makes one of its own */

/* Waits without the interpreter's lock, and is back with it. -1: an exception is set. */
static int begin_call(void)
{
    if (!calls || calls_pid != getpid()) {
        calls = PyThread_allocate_lock();
        calls_pid = getpid();
    }
    if (!calls) {
        PyErr_NoMemory();
        return -1;
    }
    if (!PyThread_acquire_lock(calls, NOWAIT_LOCK)) {
        Py_BEGIN_ALLOW_THREADS;
        (void)PyThread_acquire_lock(calls, WAIT_LOCK);
        Py_END_ALLOW_THREADS;
    }
    return 0;
}

static void end_call(void)
{
    PyThread_release_lock(calls);
}

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

static int end_now(SystemMonitor *self)
{
    if (!is_on(self)) {
        self->is_on = false;
        return 0;
    }
    if (begin_call() != 0) {
        return -1;
    }
    if (is_on(self)) { /* still: another thread may have stopped it meanwhile */
        Py_BEGIN_ALLOW_THREADS;
        ks_system_monitor_stop();
        Py_END_ALLOW_THREADS;
        self->to_ns = ks_system_monitor_now_ns();
        self->is_on = false;
    }
    end_call();
    return 0;
}

static void monitor_dealloc(SystemMonitor *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject *type_raised, *raised, *trace; /* it may end while an exception passes by */
    PyErr_Fetch(&type_raised, &raised, &trace);
    if (end_now(self) != 0) {
        PyErr_Clear();
    }
    PyErr_Restore(type_raised, raised, trace);
    Py_XDECREF(self->root);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *end_all(PyObject *unused, PyObject *no_arguments)
{
    (void)unused;
    (void)no_arguments;
    if (begin_call() != 0) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    ks_system_monitor_end();
    Py_END_ALLOW_THREADS;
    end_call();
    Py_RETURN_NONE;
}

static PyMethodDef END_DEFINITION = {"end_monitor", end_all, METH_NOARGS, NULL};

static int hook_exit(void)
{
    if (has_exit_hook) {
        return 0;
    }
    PyObject *atexit = PyImport_ImportModule("atexit");
    PyObject *function = atexit ? PyCFunction_New(&END_DEFINITION, NULL) : NULL;
    PyObject *result = function ? PyObject_CallMethod(atexit, "register", "O", function) : NULL;
    has_exit_hook = result != NULL;
    Py_XDECREF(atexit);
    Py_XDECREF(function);
    Py_XDECREF(result);
    return has_exit_hook ? 0 : -1;
}

PyDoc_STRVAR(START_DOC,
             "start($self, /)\n--\n\n"
             "Start measuring, rate_hz times a second, from a thread that never takes the GIL.\n"
             "What it measures goes to the recording that is on, and can be asked for here. All\n"
             "monitors of a process share one thread, which goes as fast as the fastest asks for.\n"
             "Children made by fork have none. Does nothing when this one is on.\n\n"
             "Raises RuntimeError when it cannot start; the message says why.");

/* -1: `reason` says why not. */
static int start_now(SystemMonitor *self, char reason[KS_MONITOR_REASON_SIZE])
{
    const struct ks_system_monitor_options options = {
        .rate_hz = self->rate_hz, .root = self->root ? PyBytes_AS_STRING(self->root) : NULL};
    int64_t now_ns = ks_system_monitor_now_ns();
    int failed;
    Py_BEGIN_ALLOW_THREADS;
    failed = ks_system_monitor_start(&options, reason);
    Py_END_ALLOW_THREADS;
    if (failed) {
        return -1;
    }
    self->is_on = true;
    self->pid = getpid();
    self->from_ns = now_ns - 1;
    self->to_ns = INT64_MAX;
    return 0;
}

static PyObject *monitor_start(SystemMonitor *self, PyObject *unused)
{
    (void)unused;
    char reason[KS_MONITOR_REASON_SIZE];
    if (hook_exit() != 0 || begin_call() != 0) {
        return NULL;
    }
    int failed = is_on(self) ? 0 : start_now(self, reason);
    end_call();
    if (failed) {
        PyErr_SetString(PyExc_RuntimeError, reason);
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(STOP_DOC, "stop($self, /)\n--\n\n"
                       "Stop measuring, with a last look. What was measured can be asked for.\n"
                       "Does nothing when this one is not on.");

static PyObject *monitor_stop(SystemMonitor *self, PyObject *unused)
{
    (void)unused;
    return end_now(self) == 0 ? Py_NewRef(Py_None) : NULL;
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
        struct ks_curve_summary curve = {0};
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
    if (begin_call() != 0) {
        return NULL;
    }
    if (is_on(self)) {
        Py_BEGIN_ALLOW_THREADS;
        ks_system_monitor_look();
        Py_END_ALLOW_THREADS;
    }
    end_call();
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

/* ------------------------------------------------------------------ in a few words */

/* The device whose curve came highest; false: there is none. */
static bool find_highest(const SystemMonitor *self, enum ks_metric metric,
                         struct ks_curve_summary *out)
{
    struct ks_curves *curves = curves_of(self);
    uint32_t count = metric < KS_METRIC_SINGLE_COUNT ? 1 : KS_METRIC_GPUS_MAX;
    bool is_found = false;
    for (uint32_t i = 0; curves && i < count; i++) {
        struct ks_curve_summary curve = {0};
        if (ks_curves_summary(curves, ks_series_of(metric, i), self->from_ns, self->to_ns,
                              &curve) &&
            (!is_found || curve.max > out->max)) {
            *out = curve;
            is_found = true;
        }
    }
    return is_found;
}

PyDoc_STRVAR(SUMMARY_DOC,
             "summary($self, /)\n--\n\n"
             "Mean and highest value of what most people ask for, from start() to stop(): a dict\n"
             "of dicts. cpu and memory of the machine in percent; gpu_memory in GB and gpu in\n"
             "percent, of the GPU that came highest; process_cpu in percent of one core,\n"
             "process_memory in GB. What cannot be known here is not in it.");

static PyObject *monitor_summary(SystemMonitor *self, PyObject *unused)
{
    static const struct {
        const char *key;
        enum ks_metric metric;
        double scale;
    } PARTS[] = {
        {"cpu", KS_METRIC_CPU_MACHINE, 1},          {"memory", KS_METRIC_MEMORY_MACHINE, 1},
        {"gpu_memory", KS_METRIC_GPU_MEMORY, 1e-9}, {"gpu", KS_METRIC_GPU_BUSY, 1},
        {"process_cpu", KS_METRIC_CPU_PROCESS, 1},  {"process_memory", KS_METRIC_MEMORY_RSS, 1e-9},
    };
    (void)unused;
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < sizeof(PARTS) / sizeof(*PARTS); i++) {
        struct ks_curve_summary curve = {0};
        if (!find_highest(self, PARTS[i].metric, &curve)) {
            continue;
        }
        PyObject *part = Py_BuildValue("{s:d,s:d}", "mean", curve.mean * PARTS[i].scale, "max",
                                       curve.max * PARTS[i].scale);
        if (!part || PyDict_SetItemString(dict, PARTS[i].key, part) != 0) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(part);
    }
    return dict;
}

/* ------------------------------------------------------------------ pictures */

static void choose_panels(const SystemMonitor *self, struct ks_panels *panels)
{
    int64_t now_ns = ks_system_monitor_now_ns();
    ks_panels_choose(panels, curves_of(self), self->from_ns,
                     self->to_ns < now_ns ? self->to_ns : now_ns);
}

PyDoc_STRVAR(SVG_DOC, "svg($self, /)\n--\n\n"
                      "A picture of the curves from start() to stop(): the text of an SVG file.");

static PyObject *monitor_svg(SystemMonitor *self, PyObject *unused)
{
    (void)unused;
    struct ks_panels panels;
    choose_panels(self, &panels);
    return ks_monitor_svg(&panels);
}

/* (label, times, means, lowest, highest). */
static PyObject *describe_curve(const struct ks_panels *panels, const struct ks_panel *panel,
                                const struct ks_panel_curve *curve)
{
    struct ks_curve_point points[KS_CURVE_POINTS_MAX];
    uint32_t count =
        ks_curves_points(panels->source, curve->series, panels->from_ns, panels->to_ns, points);
    PyObject *lists[4] = {PyList_New(count), PyList_New(count), PyList_New(count),
                          PyList_New(count)};
    bool is_good = lists[0] && lists[1] && lists[2] && lists[3];
    for (uint32_t i = 0; is_good && i < count; i++) {
        double seconds = (double)(points[i].end_ns - panels->from_ns) / 1e9;
        const double values[4] = {
            seconds * panels->time_scale, (double)points[i].mean * panel->scale,
            (double)points[i].min * panel->scale, (double)points[i].max * panel->scale};
        for (int j = 0; is_good && j < 4; j++) {
            PyObject *value = PyFloat_FromDouble(values[j]);
            is_good = value && PyList_SetItem(lists[j], i, value) == 0;
        }
    }
    PyObject *all =
        is_good ? Py_BuildValue("(sOOOO)", curve->label, lists[0], lists[1], lists[2], lists[3])
                : NULL;
    for (int j = 0; j < 4; j++) {
        Py_XDECREF(lists[j]);
    }
    return all;
}

static PyObject *describe_panel(const struct ks_panels *panels, const struct ks_panel *panel)
{
    PyObject *curves = PyList_New(0);
    for (uint32_t i = 0; curves && i < panel->curve_count; i++) {
        PyObject *curve = describe_curve(panels, panel, &panel->curves[i]);
        if (!curve || PyList_Append(curves, curve) != 0) {
            Py_CLEAR(curves);
        }
        Py_XDECREF(curve);
    }
    return curves ? Py_BuildValue("(ssdN)", panel->title, panel->unit, panel->top, curves) : NULL;
}

PyDoc_STRVAR(PANELS_DOC,
             "panels($self, /)\n--\n\n"
             "What svg() draws, for other programs that draw: the unit of time, and a list of\n"
             "panels (title, unit, highest mark, curves). A curve is a label and lists of times,\n"
             "means, lowest and highest values, scaled to the units.");

static PyObject *monitor_panels(SystemMonitor *self, PyObject *unused)
{
    (void)unused;
    struct ks_panels panels;
    choose_panels(self, &panels);
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < panels.count; i++) {
        PyObject *panel = describe_panel(&panels, &panels.list[i]);
        if (!panel || PyList_Append(list, panel) != 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(panel);
    }
    return list ? Py_BuildValue("(sN)", panels.time_unit, list) : NULL;
}

/* ------------------------------------------------------------------ about itself */

PyDoc_STRVAR(COUNTS_DOC, "counts($self, /)\n--\n\n"
                         "What the monitor of this process has done: a dict of ints.\n\n"
                         "looks: times it looked; late: looks that came later than twice the\n"
                         "interval; cpu_ns: CPU time that it used itself; gpu_cpu_ns: and in the\n"
                         "driver of GPUs; rate_hz: looks a second.");

static PyObject *monitor_counts(SystemMonitor *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    struct ks_system_monitor_counts counts;
    ks_system_monitor_counts(&counts);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:I}", "looks", (unsigned long long)counts.looks, "late",
                         (unsigned long long)counts.late, "cpu_ns",
                         (unsigned long long)counts.cpu_ns, "gpu_cpu_ns",
                         (unsigned long long)counts.gpu_cpu_ns, "rate_hz", counts.rate_hz);
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
    {"summary", (PyCFunction)monitor_summary, METH_NOARGS, SUMMARY_DOC},
    {"svg", (PyCFunction)monitor_svg, METH_NOARGS, SVG_DOC},
    {"panels", (PyCFunction)monitor_panels, METH_NOARGS, PANELS_DOC},
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
             "Measures what this process, its control group, the machine and its GPUs are at, up\n"
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
