#include "engine_errors.h"

#include <stdarg.h>

static PyObject *trace_error;

static PyObject *type_of(enum ks_status status)
{
    switch (status) {
    case KS_ERR_IO: return PyExc_OSError;
    case KS_ERR_USAGE: return PyExc_ValueError;
    case KS_ERR_NOMEM: return PyExc_MemoryError;
    case KS_OK:
    case KS_END:
    case KS_ERR_FORMAT:
    case KS_ERR_LIMIT:
    case KS_ERR_UNSUPPORTED:
    case KS_ERR_CANCELLED: break;
    }
    return trace_error;
}

PyObject *ks_engine_raise(const struct ks_err *err)
{
    PyObject *text = PyUnicode_DecodeUTF8(err->message, (Py_ssize_t)strlen(err->message),
                                          "replace"); // a message may quote a path
    if (text) {
        PyErr_SetObject(type_of(err->status), text);
        Py_DECREF(text);
    }
    return NULL;
}

PyObject *ks_engine_refuse(PyObject *type, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    PyErr_FormatV(type, format, arguments);
    va_end(arguments);
    return NULL;
}

int ks_engine_errors_add_to(PyObject *module)
{
    trace_error = PyErr_NewExceptionWithDoc(
        "kinetoscope.TraceError",
        "A trace cannot be read: it is none, or exceeds a limit. The message says what and where.",
        PyExc_ValueError, NULL);
    return PyModule_AddObjectRef(module, "TraceError", trace_error);
}
