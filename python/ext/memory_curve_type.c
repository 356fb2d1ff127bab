/* MemoryCurve: what is alive while a program is walked through, by kinds, and at the peak; and the
 * size of a cache of keys and values. Pieces come and go some ten thousand times in a walk. */
#include "engine_types.h"

#include <kscope/kscope.h>

#include "engine_errors.h"

struct memory_curve {
    PyObject_HEAD PyObject *names; /* tuple: the name of each kind */
    struct ks_memory_curve curve;
};

static Py_ssize_t kind_count(const struct memory_curve *self)
{
    return PyTuple_GET_SIZE(self->names);
}

/* Reads {name: ranks}, or nothing. -1: an exception is set. */
static int take_shares(struct memory_curve *self, PyObject *shares)
{
    if (shares == Py_None) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < kind_count(self); i++) {
        PyObject *share = PyObject_GetItem(shares, PyTuple_GET_ITEM(self->names, i));
        if (!share && !PyErr_ExceptionMatches(PyExc_KeyError)) {
            return -1;
        }
        PyErr_Clear();
        self->curve.shares[i] = share ? PyLong_AsLongLong(share) : 1;
        Py_XDECREF(share);
        if (self->curve.shares[i] < 1) {
            if (!PyErr_Occurred()) {
                ks_engine_refuse(PyExc_ValueError, "a share must be at least 1");
            }
            return -1;
        }
    }
    return 0;
}

static int fill(struct memory_curve *self, PyObject *kinds, long long block, PyObject *shares)
{
    self->names = PySequence_Tuple(kinds);
    if (!self->names) {
        return -1;
    }
    if (kind_count(self) > KS_MEMORY_KINDS_MAX) {
        ks_engine_refuse(PyExc_ValueError, "at most %d kinds, not %zd", KS_MEMORY_KINDS_MAX,
                         kind_count(self));
        return -1;
    }
    if (block < 1) {
        ks_engine_refuse(PyExc_ValueError, "block must be at least 1, not %lld", block);
        return -1;
    }
    self->curve.block = block;
    return take_shares(self, shares);
}

static PyObject *make(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static const char *const names[] = {"kinds", "block", "shares", NULL};
    PyObject *kinds;
    PyObject *shares = Py_None;
    long long block = 1;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|$LO:MemoryCurve",
                                     (char **)(uintptr_t)names, &kinds, &block, &shares)) {
        return NULL;
    }
    struct memory_curve *self = (struct memory_curve *)type->tp_alloc(type, 0);
    if (self && fill(self, kinds, block, shares) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int check_kind(const struct memory_curve *self, Py_ssize_t kind)
{
    if (kind < 0 || kind >= kind_count(self)) {
        PyErr_Format(PyExc_IndexError, "there is no kind %zd", kind);
        return -1;
    }
    return 0;
}

static PyObject *change(struct memory_curve *self, PyObject *arguments)
{
    Py_ssize_t kind;
    long long bytes;
    if (!PyArg_ParseTuple(arguments, "nL:change", &kind, &bytes) || check_kind(self, kind) < 0) {
        return NULL;
    }
    ks_memory_curve_change(&self->curve, (size_t)kind, bytes);
    Py_RETURN_NONE;
}

static PyObject *move(struct memory_curve *self, PyObject *arguments)
{
    Py_ssize_t from;
    Py_ssize_t to;
    long long bytes;
    if (!PyArg_ParseTuple(arguments, "nnL:move", &from, &to, &bytes) ||
        check_kind(self, from) < 0 || check_kind(self, to) < 0) {
        return NULL;
    }
    ks_memory_curve_move(&self->curve, (size_t)from, (size_t)to, bytes);
    Py_RETURN_NONE;
}

static PyObject *restart(struct memory_curve *self, PyObject *unused)
{
    (void)unused;
    ks_memory_curve_restart(&self->curve);
    Py_RETURN_NONE;
}

/* {name of each kind: bytes, "total": bytes} */
static PyObject *by_name(const struct memory_curve *self, const int64_t *bytes, int64_t total)
{
    PyObject *figures = PyDict_New();
    for (Py_ssize_t i = 0; figures && i <= kind_count(self); i++) {
        bool is_last = i == kind_count(self);
        PyObject *value = PyLong_FromLongLong(is_last ? total : bytes[i]);
        PyObject *name =
            is_last ? PyUnicode_FromString("total") : Py_NewRef(PyTuple_GET_ITEM(self->names, i));
        if (!value || !name || PyDict_SetItem(figures, name, value) < 0) {
            Py_CLEAR(figures);
        }
        Py_XDECREF(value);
        Py_XDECREF(name);
    }
    return figures;
}

static PyObject *now(struct memory_curve *self, PyObject *unused)
{
    (void)unused;
    return by_name(self, self->curve.now, self->curve.total);
}

static PyObject *peak(struct memory_curve *self, PyObject *unused)
{
    (void)unused;
    return by_name(self, self->curve.at_peak, self->curve.peak);
}

static void dealloc(struct memory_curve *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_CLEAR(self->names);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"change", (PyCFunction)(void (*)(void))change, METH_VARARGS,
     "change($self, kind, bytes, /)\n--\n\nA piece comes; it goes when bytes are negative."},
    {"move", (PyCFunction)(void (*)(void))move, METH_VARARGS,
     "move($self, kind, to, bytes, /)\n--\n\nA piece is of another kind from now on."},
    {"restart", (PyCFunction)(void (*)(void))restart, METH_NOARGS,
     "restart($self)\n--\n\nThe peak counts from now on."},
    {"now", (PyCFunction)(void (*)(void))now, METH_NOARGS,
     "now($self)\n--\n\n{kind: bytes, \"total\": bytes} of what is there."},
    {"peak", (PyCFunction)(void (*)(void))peak, METH_NOARGS,
     "peak($self)\n--\n\nAs now(), at the peak."},
    {0},
};

static const char TYPE_DOC[] =
    "MemoryCurve(kinds, *, block=1, shares=None)\n--\n\n"
    "Memory by kinds as it comes and goes, in bytes. `kinds`: their names; they are numbered in\n"
    "this order. `block`: pieces are rounded up to multiples of it. `shares`: {name: ranks that\n"
    "share the kind}. ValueError for more kinds than there may be, or a number below 1.";

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)(uintptr_t)TYPE_DOC},
    {Py_tp_new, (void *)make},
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "kinetoscope._kscope_engine.MemoryCurve",
    .basicsize = sizeof(struct memory_curve),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int ks_memory_curve_type_add_to(PyObject *module)
{
    return ks_engine_add_type(module, &spec, "MemoryCurve");
}

PyObject *ks_py_kv_cache_bytes(PyObject *module, PyObject *arguments, PyObject *keywords)
{
    (void)module;
    static const char *const names[] = {"layers", "kv_heads",      "head_size", "batch",
                                        "tokens", "element_bytes", NULL};
    long long sizes[6] = {0};
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "$LLLLLL:kv_cache_bytes",
                                     (char **)(uintptr_t)names, &sizes[0], &sizes[1], &sizes[2],
                                     &sizes[3], &sizes[4], &sizes[5])) {
        return NULL;
    }
    for (size_t i = 0; i < 6; i++) {
        if (sizes[i] < 0) {
            return ks_engine_refuse(PyExc_ValueError, "%s must not be negative", names[i]);
        }
    }
    struct ks_kv_shape shape = {(uint64_t)sizes[0], (uint64_t)sizes[1], (uint64_t)sizes[2],
                                (uint64_t)sizes[3], (uint64_t)sizes[4], (uint64_t)sizes[5]};
    uint64_t bytes = ks_kv_bytes(&shape);
    if (bytes == UINT64_MAX) {
        return ks_engine_refuse(PyExc_OverflowError, "such a cache has too many bytes");
    }
    return PyLong_FromUnsignedLongLong(bytes);
}
