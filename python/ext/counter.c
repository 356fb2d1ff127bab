/* The type kinetoscope.counter: a number over time. */
#include "site.h"
#include "types.h"
#include "value.h"
#include "writer.h"

#include <structmember.h>

struct counter {
    PyObject ob_base;
    struct ks_site site;
    PyObject *unit;
    struct ks_value value;
    uint32_t generation; /* of the file that the unit was written to, plus 1 */
};

/* Once in each file; the item itself may begin one. */
static void write_unit(struct counter *self, uint32_t site)
{
    Py_ssize_t size;
    if (ks_capture_generation() + 1 == self->generation || PyUnicode_GET_LENGTH(self->unit) == 0) {
        return;
    }
    const char *text = PyUnicode_AsUTF8AndSize(self->unit, &size);
    if (text) {
        const uint32_t ids[2] = {site, ks_capture_string(text, (size_t)size)};
        ks_capture_item(KS_WIRE_UNIT, ids, sizeof(ids));
        self->generation = ks_capture_generation() + 1;
    }
    PyErr_Clear();
}

static void write_counter(struct counter *self)
{
    if (!ks_writer_begin()) {
        return;
    }
    uint32_t id = ks_site_id(&self->site);
    if (id != 0) {
        write_unit(self, id);
        ks_writer_put(KS_WIRE_COUNTER, id, 0, ks_writer_tick());
        ks_value_write(&self->value, id, 0);
    }
}

static double as_real(const struct ks_value *value)
{
    return value->kind == KS_WIRE_VALUE_INT ? (double)value->as.integer : value->as.real;
}

/* Sums of int stay int as long as 64 bits hold them. */
static void add(struct ks_value *to, const struct ks_value *value)
{
    int64_t sum;
    if (to->kind == KS_WIRE_VALUE_INT && value->kind == KS_WIRE_VALUE_INT &&
        !__builtin_add_overflow(to->as.integer, value->as.integer, &sum)) {
        to->as.integer = sum;
    } else {
        double real = as_real(to) + as_real(value);
        *to = (struct ks_value){.kind = KS_WIRE_VALUE_REAL, .as.real = real};
    }
}

static PyObject *counter_add(PyObject *object, PyObject *amount)
{
    struct counter *self = (struct counter *)object;
    struct ks_value value;
    if (ks_value_init(&value, amount, false) < 0) {
        return NULL;
    }
    add(&self->value, &value);
    write_counter(self);
    Py_RETURN_NONE;
}

static PyObject *counter_set(PyObject *object, PyObject *amount)
{
    struct counter *self = (struct counter *)object;
    struct ks_value value;
    if (ks_value_init(&value, amount, false) < 0) {
        return NULL;
    }
    self->value = value;
    write_counter(self);
    Py_RETURN_NONE;
}

static PyObject *counter_value(PyObject *object, void *unused)
{
    (void)unused;
    const struct ks_value *value = &((struct counter *)object)->value;
    return value->kind == KS_WIRE_VALUE_INT ? PyLong_FromLongLong(value->as.integer)
                                            : PyFloat_FromDouble(value->as.real);
}

static PyObject *counter_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static const char *const names[] = {"name", "category", "unit", NULL};
    PyObject *name;
    PyObject *category = NULL;
    PyObject *unit = NULL;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|OO:counter", (char **)(uintptr_t)names,
                                     &name, &category, &unit)) {
        return NULL;
    }
    struct counter *self = (struct counter *)type->tp_alloc(type, 0);
    if (!self || ks_site_init(&self->site, name, category) < 0) {
        Py_XDECREF(self);
        return NULL;
    }
    self->value.kind = KS_WIRE_VALUE_INT;
    self->unit = unit ? ks_site_text(unit, "unit") : PyUnicode_InternFromString("");
    if (!self->unit) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void counter_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    struct counter *self = (struct counter *)object;
    ks_site_release(&self->site);
    Py_CLEAR(self->unit);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *counter_repr(PyObject *object)
{
    const struct counter *self = (struct counter *)object;
    return PyUnicode_FromFormat("counter(%R, %R, %R)", self->site.name, self->site.category,
                                self->unit);
}

/* A copy in another process counts on its own, from zero. */
static PyObject *counter_reduce(PyObject *object, PyObject *unused)
{
    (void)unused;
    const struct counter *self = (struct counter *)object;
    return Py_BuildValue("O(OOO)", Py_TYPE(object), self->site.name, self->site.category,
                         self->unit);
}

static PyMethodDef counter_methods[] = {
    {"add", counter_add, METH_O,
     "add($self, amount, /)\n--\n\nAdds an int or a float, and records the sum."},
    {"set", counter_set, METH_O,
     "set($self, value, /)\n--\n\nMakes it an int or a float, and records that."},
    {"__reduce__", counter_reduce, METH_NOARGS, NULL},
    {0},
};

static PyMemberDef counter_members[] = {
    {"name", T_OBJECT_EX, offsetof(struct counter, site.name), READONLY, "Name of the counter."},
    {"category", T_OBJECT_EX, offsetof(struct counter, site.category), READONLY,
     "Category of the counter."},
    {"unit", T_OBJECT_EX, offsetof(struct counter, unit), READONLY, "Unit, or an empty str."},
    {0},
};

static PyGetSetDef counter_getters[] = {
    {"value", counter_value, NULL, "What it stands at, also while nothing is recorded.", NULL},
    {0},
};

static const char counter_doc[] =
    "counter(name, category='custom', unit='')\n--\n\n"
    "A number over time, such as tokens or a queue's length. Each change is recorded.\n\n"
    "It counts also while nothing is recorded. Raises TypeError when an argument is no str, and\n"
    "its methods for amounts that are no number.";

static PyType_Slot counter_slots[] = {
    {Py_tp_doc, (void *)(uintptr_t)counter_doc},
    {Py_tp_new, (void *)counter_new},
    {Py_tp_dealloc, (void *)counter_dealloc},
    {Py_tp_repr, (void *)counter_repr},
    {Py_tp_methods, counter_methods},
    {Py_tp_members, counter_members},
    {Py_tp_getset, counter_getters},
    {0},
};

static PyType_Spec counter_spec = {
    .name = "kinetoscope.counter",
    .basicsize = sizeof(struct counter),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = counter_slots,
};

int ks_counter_add_to(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&counter_spec);
    int failed = type ? PyModule_AddObjectRef(module, "counter", type) : -1;
    Py_XDECREF(type);
    return failed;
}
