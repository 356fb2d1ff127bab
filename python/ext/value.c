#include "value.h"

#include "errors.h"
#include "site.h"
#include "writer.h"

static int take_integer(struct ks_value *value, PyObject *object)
{
    PyObject *number = PyNumber_Index(object);
    if (!number) {
        return -1;
    }
    int overflow = 0;
    value->kind = KS_WIRE_VALUE_INT;
    value->as.integer = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow != 0) {
        value->kind = KS_WIRE_VALUE_REAL;
        value->as.real = PyLong_AsDouble(number);
        if (PyErr_Occurred()) { // beyond what a double holds
            PyErr_Clear();
            value->as.real = overflow > 0 ? Py_HUGE_VAL : -Py_HUGE_VAL;
        }
    }
    Py_DECREF(number);
    return 0;
}

int ks_value_init(struct ks_value *value, PyObject *object, bool may_be_text)
{
    *value = (struct ks_value){0};
    if (PyFloat_Check(object)) {
        value->kind = KS_WIRE_VALUE_REAL;
        value->as.real = PyFloat_AS_DOUBLE(object);
        return 0;
    }
    if (PyIndex_Check(object)) {
        return take_integer(value, object);
    }
    if (may_be_text && PyUnicode_Check(object)) {
        value->kind = KS_WIRE_VALUE_TEXT;
        value->text = ks_site_text(object, "value");
        return value->text ? 0 : -1;
    }
    ks_raise(KS_FAULT_TYPE, "value must be an int%s, not %.100s",
             may_be_text ? ", a float or a str" : " or a float", Py_TYPE(object)->tp_name);
    return -1;
}

void ks_value_release(struct ks_value *value)
{
    Py_CLEAR(value->text);
}

void ks_value_write(const struct ks_value *value, uint32_t key, uint32_t more)
{
    uint64_t bits = value->as.bits;
    if (value->text) {
        Py_ssize_t size;
        const char *text = PyUnicode_AsUTF8AndSize(value->text, &size);
        bits = ks_capture_string(text, (size_t)size);
    }
    if (key != 0 && (bits != 0 || !value->text)) {
        ks_writer_put(value->kind, key, more, bits);
    }
}
