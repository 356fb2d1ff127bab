/* What the module is made of. Each adds its part to the module; -1: an exception is set. */
#ifndef KS_PYTHON_TYPES_H
#define KS_PYTHON_TYPES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

int ks_operation_add_to(PyObject *module);
int ks_counter_add_to(PyObject *module);
int ks_functions_add_to(PyObject *module); /* FunctionProfiler: functions.h */
int ks_monitor_add_to(PyObject *module);   /* SystemMonitor */

/* Function of the module. */
PyObject *ks_marker(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                    PyObject *keywords);

#endif
