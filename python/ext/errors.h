/* What the extension raises. Nothing else here sets an exception but through these. */
#ifndef KS_PYTHON_ERRORS_H
#define KS_PYTHON_ERRORS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

enum ks_fault {
    KS_FAULT_RECORDING, /* RecordingError: the recorder did not start, and says why */
    KS_FAULT_TYPE,      /* TypeError: an argument is of a kind that cannot be recorded */
    KS_FAULT_VALUE,     /* ValueError: an argument is out of range */
    KS_FAULT_IMPORT,    /* ImportError: this interpreter is none that we can work in */
};

/* Sets the exception of `fault`, with a sentence as of printf (of PyErr_Format). Always NULL. */
void *ks_raise(enum ks_fault fault, const char *format, ...);

/* Makes RecordingError and adds it to a module. -1: an exception is set. */
int ks_errors_add_to(PyObject *module);

#endif
