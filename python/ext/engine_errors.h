/* What `_kscope_engine` raises: one place maps what the library says to Python's exceptions. */
#ifndef KS_PYTHON_ENGINE_ERRORS_H
#define KS_PYTHON_ENGINE_ERRORS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <kscope/kscope.h>

/* Sets the exception for a failed call: OSError (KS_ERR_IO), MemoryError, ValueError (arguments
 * that do not fit), TraceError for the rest. Always NULL. */
PyObject *ks_engine_raise(const struct ks_err *err);

/* Sets ValueError or RuntimeError with a sentence as of PyErr_Format. Always NULL. */
PyObject *ks_engine_refuse(PyObject *type, const char *format, ...);

/* Makes TraceError and adds it to a module. -1: an exception is set. */
int ks_engine_errors_add_to(PyObject *module);

#endif
