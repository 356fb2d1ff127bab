#include "functions_table.h"

#include <string.h>

#include "functions_recording.h"

enum { ROWS_FIRST = 256, ROWS_MAX = 1 << 20 };

static PyObject *method_of(PyTypeObject *type, const PyMethodDef *method, PyObject *name)
{
    PyObject *bases = type->tp_mro;
    for (Py_ssize_t i = 0; bases && i < PyTuple_GET_SIZE(bases); i++) {
        // Looks into the bases as well: a subclass may hide the method behind one in Python.
        PyObject *found = _PyType_Lookup((PyTypeObject *)PyTuple_GET_ITEM(bases, i), name);
        bool is_method = found && (Py_IS_TYPE(found, &PyMethodDescr_Type) ||
                                   Py_IS_TYPE(found, &PyClassMethodDescr_Type));
        if (is_method && ((PyMethodDescrObject *)found)->d_method == method) {
            return found;
        }
    }
    return NULL;
}

/* A C function in the words of cProfile, so that profiles can be laid side by side; but without the
 * address of a type that those may have. New reference. */
static PyObject *name_c_function(PyObject *callable)
{
    if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) {
        return PyObject_Repr(callable);
    }
    const PyCFunctionObject *function = (PyCFunctionObject *)callable;
    const char *name = function->m_ml->ml_name;
    PyObject *module = function->m_module;
    if (module && !PyUnicode_Check(module)) {
        module = NULL;
    }
    if (!function->m_self) {
        return module ? PyUnicode_FromFormat("<%U.%s>", module, name)
                      : PyUnicode_FromFormat("<%s>", name);
    }
    PyObject *text = PyUnicode_FromString(name);
    PyObject *method = text ? method_of(Py_TYPE(function->m_self), function->m_ml, text) : NULL;
    Py_XDECREF(text);
    if (method) {
        return PyObject_Repr(method);
    }
    PyErr_Clear();
    return module ? PyUnicode_FromFormat("<built-in method %U.%s>", module, name)
                  : PyUnicode_FromFormat("<built-in method %s>", name);
}

/* Functions that are made at run time (pybind11) free their PyMethodDef with themselves. Methods
 * that are bound to an object of the program are not kept: that could be a tensor. */
static PyObject *owner_of(PyObject *callable)
{
    if (PyCode_Check(callable)) {
        return callable;
    }
    if (PyCFunction_Check(callable)) {
        PyObject *self = ((PyCFunctionObject *)callable)->m_self;
        return !self || PyModule_Check(self) || PyCapsule_CheckExact(self) ? callable : NULL;
    }
    return NULL;
}

static int fill_row(struct ks_function *row, const void *key, PyObject *callable)
{
    *row = (struct ks_function){.key = key};
    if (PyCode_Check(callable)) {
        PyCodeObject *code = (PyCodeObject *)callable;
        row->name = Py_NewRef(code->co_name);
#if PY_VERSION_HEX >= 0x030B0000
        row->qualified_name = Py_NewRef(code->co_qualname);
#else
        row->qualified_name = Py_NewRef(code->co_name);
#endif
        row->file = Py_NewRef(code->co_filename);
        row->first_line = code->co_firstlineno;
    } else {
        row->name = PyUnicode_Check(callable) ? Py_NewRef(callable) : name_c_function(callable);
        row->qualified_name = Py_XNewRef(row->name);
        row->file = PyUnicode_InternFromString("~");
    }
    row->owner = Py_XNewRef(owner_of(callable));
    return row->name && row->file ? 0 : -1;
}

static void release_row(struct ks_function *row)
{
    Py_XDECREF(row->owner);
    Py_XDECREF(row->name);
    Py_XDECREF(row->qualified_name);
    Py_XDECREF(row->file);
}

static int reserve_row(struct ks_function_table *table)
{
    if (table->count < table->capacity) {
        return 0;
    }
    uint32_t capacity = table->capacity ? table->capacity * 2 : ROWS_FIRST;
    struct ks_function *rows = NULL;
    if (capacity <= ROWS_MAX) {
        rows = PyMem_RawRealloc(table->rows, capacity * sizeof(*rows));
    }
    if (!rows) {
        return -1;
    }
    table->rows = rows;
    table->capacity = capacity;
    return 0;
}

static uint32_t add_row(struct ks_function_table *table, const void *key, PyObject *callable)
{
    struct ks_function row;
    uint32_t number = table->count;
    if (reserve_row(table) < 0) {
        return 0;
    }
    if (fill_row(&row, key, callable) < 0 ||
        ks_functions_map_add(&table->numbers, (uintptr_t)key, number) < 0) {
        release_row(&row);
        return 0;
    }
    table->rows[number] = row;
    table->count++;
    return number;
}

int ks_function_table_init(struct ks_function_table *table)
{
    *table = (struct ks_function_table){.count = KS_FUNCTION_OTHER};
    PyObject *name = PyUnicode_FromString("(other)");
    uint32_t number = name ? add_row(table, table, name) : 0;
    Py_XDECREF(name);
    if (number == 0) {
        ks_function_table_release(table);
        if (!PyErr_Occurred()) {
            PyErr_NoMemory();
        }
        return -1;
    }
    return 0;
}

void ks_function_table_release(struct ks_function_table *table)
{
    struct ks_function_table old = *table;
    *table = (struct ks_function_table){0}; // letting go of an object may run code of the program
    for (uint32_t i = KS_FUNCTION_OTHER; i < old.count; i++) {
        release_row(&old.rows[i]);
    }
    PyMem_RawFree(old.rows);
    ks_functions_map_release(&old.numbers);
}

uint32_t ks_function_table_get(struct ks_function_table *table, const void *key, PyObject *callable)
{
    uint32_t number = (uint32_t)ks_functions_map_find(&table->numbers, (uintptr_t)key);
    if (number == 0) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        number = add_row(table, key, callable);
        PyErr_Restore(type, value, traceback); // ours, if any, goes
    }
    return number;
}

static uint32_t string_id(PyObject *text)
{
    Py_ssize_t length = 0;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &length);
    if (!bytes) { // a file name that is not UTF-8
        PyErr_Clear();
        bytes = "?";
        length = 1;
    }
    return ks_capture_string(bytes, (size_t)length);
}

bool ks_function_table_describe(struct ks_function_table *table, uint32_t number,
                                uint32_t generation)
{
    struct ks_function *row = &table->rows[number];
    if (row->described_in == generation + UINT64_C(1)) {
        return true;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    struct ks_wire_code code = {
        .id = ks_function_code_id(number),
        .name = string_id(row->qualified_name),
        .file = string_id(row->file),
        .first_line = row->first_line > 0 ? (uint32_t)row->first_line : 0,
    };
    PyErr_Restore(type, value, traceback);
    if (!ks_capture_item(KS_WIRE_CODE, &code, sizeof(code))) {
        return false;
    }
    row->described_in = generation + UINT64_C(1);
    return true;
}
