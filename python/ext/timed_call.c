/* TimedCall: stands for a function and adds up what its calls take. Transforms and collating run
 * some thousand times a second, in workers too, so this is a C type whose call costs two looks at
 * the clock. What is called inside another call of the same object is part of that one. */
#include "engine_types.h"

#include <structmember.h>
#include <time.h>

struct timed_call {
    PyObject_HEAD PyObject *function;
    long long total_ns;
    Py_ssize_t calls;
    int depth;
};

static long long now_ns(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (long long)time.tv_sec * 1000000000 + time.tv_nsec;
}

static PyObject *make(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static const char *const names[] = {"function", NULL};
    PyObject *function;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O:TimedCall", (char **)(uintptr_t)names,
                                     &function)) {
        return NULL;
    }
    if (!PyCallable_Check(function)) {
        return PyErr_Format(PyExc_TypeError, "TimedCall takes what can be called, not %.100s",
                            Py_TYPE(function)->tp_name);
    }
    struct timed_call *self = (struct timed_call *)type->tp_alloc(type, 0);
    if (self) {
        self->function = Py_NewRef(function);
    }
    return (PyObject *)self;
}

static PyObject *call(struct timed_call *self, PyObject *arguments, PyObject *keywords)
{
    long long began_ns = now_ns();
    self->depth++;
    PyObject *result = PyObject_Call(self->function, arguments, keywords);
    self->depth--;
    if (self->depth == 0) {
        self->total_ns += now_ns() - began_ns;
        self->calls++;
    }
    return result;
}

static PyObject *take(struct timed_call *self, PyObject *unused)
{
    (void)unused;
    PyObject *pair = Py_BuildValue("(Ln)", self->total_ns, self->calls);
    self->total_ns = 0;
    self->calls = 0;
    return pair;
}

/* A copy in another process begins to count anew. */
static PyObject *reduce(struct timed_call *self, PyObject *unused)
{
    (void)unused;
    return Py_BuildValue("(O(O))", Py_TYPE(self), self->function);
}

/* What is asked of it beside its own is asked of the function. */
static PyObject *get(PyObject *self, PyObject *name)
{
    PyObject *own = PyObject_GenericGetAttr(self, name);
    if (own || !PyErr_ExceptionMatches(PyExc_AttributeError)) {
        return own;
    }
    PyErr_Clear();
    PyObject *function = ((struct timed_call *)self)->function;
    return function ? PyObject_GetAttr(function, name)
                    : PyErr_Format(PyExc_AttributeError, "%U", name);
}

static int traverse(struct timed_call *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->function);
    return 0;
}

static int clear(struct timed_call *self)
{
    Py_CLEAR(self->function);
    return 0;
}

static void dealloc(struct timed_call *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    (void)clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"take", (PyCFunction)(void (*)(void))take, METH_NOARGS,
     "take($self)\n--\n\n(ns, calls) since the last time; then it begins at 0."},
    {"__reduce__", (PyCFunction)(void (*)(void))reduce, METH_NOARGS, NULL},
    {0},
};

static PyMemberDef members[] = {
    {"__wrapped__", T_OBJECT, offsetof(struct timed_call, function), READONLY,
     "The function that it stands for."},
    {0},
};

static const char TYPE_DOC[] =
    "TimedCall(function)\n--\n\n"
    "Calls the function, and adds up what that takes (monotonic clock, ns).\n\n"
    "TypeError when it cannot be called. Exceptions pass, and their time counts.";

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)(uintptr_t)TYPE_DOC},
    {Py_tp_new, (void *)make},
    {Py_tp_call, (void *)call},
    {Py_tp_getattro, (void *)get},
    {Py_tp_traverse, (void *)traverse},
    {Py_tp_clear, (void *)clear},
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "kinetoscope._kscope_engine.TimedCall",
    .basicsize = sizeof(struct timed_call),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

int ks_timed_call_add_to(PyObject *module)
{
    return ks_engine_add_type(module, &spec, "TimedCall");
}
