/* The type kinetoscope.profile_operation: a labelled region. The object holds a name, a category
 * and their number, and nothing of the regions that are open: these are begins and ends in the
 * lanes of threads, so that one object serves any number of threads, tasks and calls at once.
 *
 * A with-block asks the type for __enter__ and __exit__, and would make an object of each that is
 * bound to this one, which costs more than all the rest. Ours are descriptors that give the object
 * itself: called without arguments it begins, with the three of __exit__ it ends the region, and
 * with one it decorates that. */
#include "errors.h"
#include "site.h"
#include "types.h"
#include "value.h"
#include "writer.h"

#include <structmember.h>

struct operation {
    PyObject ob_base;
    vectorcallfunc call;
    struct ks_site site;
};

/* __enter__ or __exit__ in the type. */
struct border {
    PyObject ob_base;
    vectorcallfunc call;
    enum ks_wire_event_kind kind;
};

static PyTypeObject *operation_type;

static inline void write_border(PyObject *self, enum ks_wire_event_kind kind)
{
    struct ks_site *site = &((struct operation *)self)->site;
    if (ks_writer_begin()) {
        uint32_t id = ks_site_id(site);
        if (__builtin_expect(id != 0, 1)) {
            ks_writer_put(kind, id, 0, ks_writer_tick());
        }
    }
}

static PyObject *operation_begin(PyObject *self, PyObject *unused)
{
    (void)unused;
    write_border(self, KS_WIRE_BEGIN);
    Py_RETURN_NONE;
}

static PyObject *operation_end(PyObject *self, PyObject *unused)
{
    (void)unused;
    write_border(self, KS_WIRE_END);
    Py_RETURN_NONE;
}

/* The low bits of the site tell which of the regions that are open it belongs to. */
static void write_value(struct operation *operation, PyObject *key, const struct ks_value *value)
{
    if (ks_writer_begin()) {
        uint32_t site = ks_site_id(&operation->site);
        ks_value_write(value, ks_site_of_key(key), (site & 0xFFFF) << 8);
    }
}

static PyObject *operation_set(PyObject *self, PyObject *const *arguments, Py_ssize_t count)
{
    struct ks_value value;
    if (count != 2) {
        return ks_raise(KS_FAULT_TYPE, "set() takes a key and a value");
    }
    PyObject *key = ks_site_text(arguments[0], "key");
    if (!key) {
        return NULL;
    }
    int failed = ks_value_init(&value, arguments[1], true);
    if (failed == 0) {
        write_value((struct operation *)self, key, &value);
        ks_value_release(&value);
    }
    Py_DECREF(key);
    return failed == 0 ? Py_NewRef(Py_None) : NULL;
}

/* Which kind of function it is, and what stands for it, Python says. */
static PyObject *decorate(PyObject *self, PyObject *function)
{
    PyObject *module = PyImport_ImportModule("kinetoscope._decorate");
    PyObject *decorated =
        module ? PyObject_CallMethod(module, "decorate", "OO", self, function) : NULL;
    Py_XDECREF(module);
    return decorated;
}

static PyObject *operation_call(PyObject *self, PyObject *const *arguments, size_t flags,
                                PyObject *keywords)
{
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    if (__builtin_expect(!keywords, 1)) {
        switch (count) {
        case 0: write_border(self, KS_WIRE_BEGIN); return Py_NewRef(self);
        case 1: return decorate(self, arguments[0]);
        case 3: write_border(self, KS_WIRE_END); Py_RETURN_FALSE;
        default: break;
        }
    }
    return ks_raise(KS_FAULT_TYPE, "profile_operation decorates one function");
}

/* ------------------------------------------------------------------ __enter__ and __exit__ */

static PyObject *border_of(PyObject *self, PyObject *object, PyObject *type)
{
    (void)type;
    return Py_NewRef(object ? object : self);
}

/* As a function of the type, which contextlib.ExitStack takes. */
static PyObject *border_call(PyObject *self, PyObject *const *arguments, size_t flags,
                             PyObject *keywords)
{
    enum ks_wire_event_kind kind = ((struct border *)self)->kind;
    if (keywords || PyVectorcall_NARGS(flags) < 1 || !Py_IS_TYPE(arguments[0], operation_type)) {
        return ks_raise(KS_FAULT_TYPE, "__enter__ and __exit__ need a profile_operation");
    }
    write_border(arguments[0], kind);
    return Py_NewRef(kind == KS_WIRE_BEGIN ? arguments[0] : Py_False);
}

static PyMemberDef border_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct border, call), READONLY, NULL},
    {0},
};

static PyType_Slot border_slots[] = {
    {Py_tp_descr_get, (void *)border_of},
    {Py_tp_call, (void *)PyVectorcall_Call},
    {Py_tp_members, border_members},
    {0},
};

static PyType_Spec border_spec = {
    .name = "kinetoscope._kscope.border",
    .basicsize = sizeof(struct border),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = border_slots,
};

static int add_border(PyTypeObject *type, const char *name, enum ks_wire_event_kind kind)
{
    struct border *border = PyObject_New(struct border, type);
    if (!border) {
        return -1;
    }
    border->call = border_call;
    border->kind = kind;
    int failed = PyDict_SetItemString(operation_type->tp_dict, name, (PyObject *)border);
    Py_DECREF(border);
    return failed;
}

static int add_borders(void)
{
    PyTypeObject *type = (PyTypeObject *)PyType_FromSpec(&border_spec);
    if (!type || add_border(type, "__enter__", KS_WIRE_BEGIN) < 0 ||
        add_border(type, "__exit__", KS_WIRE_END) < 0) {
        Py_XDECREF(type);
        return -1;
    }
    Py_DECREF(type);
    PyType_Modified(operation_type);
    return 0;
}

/* ------------------------------------------------------------------ the type */

static PyObject *operation_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static const char *const names[] = {"name", "category", NULL};
    PyObject *name;
    PyObject *category = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|O:profile_operation",
                                     (char **)(uintptr_t)names, &name, &category)) {
        return NULL;
    }
    struct operation *self = (struct operation *)type->tp_alloc(type, 0);
    if (self && ks_site_init(&self->site, name, category) < 0) {
        Py_CLEAR(self);
    }
    if (self) {
        self->call = operation_call;
    }
    return (PyObject *)self;
}

static void operation_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    ks_site_release(&((struct operation *)self)->site);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *operation_repr(PyObject *self)
{
    const struct ks_site *site = &((struct operation *)self)->site;
    return PyUnicode_FromFormat("profile_operation(%R, %R)", site->name, site->category);
}

static PyObject *operation_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    const struct ks_site *site = &((struct operation *)self)->site;
    return Py_BuildValue("O(OO)", Py_TYPE(self), site->name, site->category);
}

static PyMethodDef operation_methods[] = {
    {"begin", operation_begin, METH_NOARGS,
     "begin($self, /)\n--\n\nBegins the region, for code where a with-block does not fit."},
    {"end", operation_end, METH_NOARGS,
     "end($self, /)\n--\n\nEnds the region that the last begin() of this thread or task began."},
    {"set", (PyCFunction)(void (*)(void))operation_set, METH_FASTCALL,
     "set($self, key, value, /)\n--\n\n"
     "Attaches a value (int, float or str) to the innermost open region of this object.\n\n"
     "Raises TypeError for other types, whether or not anything is recorded."},
    {"__reduce__", operation_reduce, METH_NOARGS, NULL},
    {0},
};

static PyMemberDef operation_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct operation, call), READONLY, NULL},
    {"name", T_OBJECT_EX, offsetof(struct operation, site.name), READONLY, "Name of the region."},
    {"category", T_OBJECT_EX, offsetof(struct operation, site.category), READONLY,
     "Category of the region."},
    {0},
};

static const char operation_doc[] =
    "profile_operation(name, category='custom')\n--\n\n"
    "A labelled region of the program: context manager, decorator, or begin() and end().\n\n"
    "The object can be kept, and used again, in any thread or task, also while it is in use. As\n"
    "a decorator it takes functions, coroutine functions, generators and asynchronous\n"
    "generators; generators count only while they run. Does nothing while nothing is recorded.\n"
    "Raises TypeError when name or category is no str.";

static PyType_Slot operation_slots[] = {
    {Py_tp_doc, (void *)(uintptr_t)operation_doc},
    {Py_tp_new, (void *)operation_new},
    {Py_tp_dealloc, (void *)operation_dealloc},
    {Py_tp_call, (void *)PyVectorcall_Call},
    {Py_tp_repr, (void *)operation_repr},
    {Py_tp_methods, operation_methods},
    {Py_tp_members, operation_members},
    {0},
};

static PyType_Spec operation_spec = {
    .name = "kinetoscope.profile_operation",
    .basicsize = sizeof(struct operation),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = operation_slots,
};

int ks_operation_add_to(PyObject *module)
{
    operation_type = (PyTypeObject *)PyType_FromSpec(&operation_spec);
    if (!operation_type || add_borders() < 0) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "profile_operation", (PyObject *)operation_type);
}
