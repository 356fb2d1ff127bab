#include "errors.h"

#include <stdarg.h>

static PyObject *recording_error;

static PyObject *type_of(enum ks_fault fault)
{
    switch (fault) {
    case KS_FAULT_RECORDING: return recording_error;
    case KS_FAULT_TYPE: return PyExc_TypeError;
    case KS_FAULT_VALUE: return PyExc_ValueError;
    case KS_FAULT_IMPORT: return PyExc_ImportError;
    }
    return PyExc_SystemError;
}

void *ks_raise(enum ks_fault fault, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    PyErr_FormatV(type_of(fault), format, arguments);
    va_end(arguments);
    return NULL;
}

int ks_errors_add_to(PyObject *module)
{
    recording_error = PyErr_NewExceptionWithDoc(
        "kinetoscope.RecordingError",
        "A recording could not be started; the message says why. The program can go on without.",
        PyExc_RuntimeError, NULL);
    return PyModule_AddObjectRef(module, "RecordingError", recording_error);
}
