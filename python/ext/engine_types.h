/* What `_kscope_engine` is made of. Each adds its part to the module; -1: an exception is set. */
#ifndef KS_PYTHON_ENGINE_TYPES_H
#define KS_PYTHON_ENGINE_TYPES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Makes a type of the spec, which lives as long as the module, and adds it. */
int ks_engine_add_type(PyObject *module, PyType_Spec *spec, const char *name);

int ks_report_type_add_to(PyObject *module);
int ks_timed_call_add_to(PyObject *module);
int ks_memory_curve_type_add_to(PyObject *module);
int ks_trial_type_add_to(PyObject *module);

/* Functions of the module. */
PyObject *ks_py_summarize(PyObject *module, PyObject *values);
PyObject *ks_py_slope(PyObject *module, PyObject *arguments);
PyObject *ks_py_kv_cache_bytes(PyObject *module, PyObject *arguments, PyObject *keywords);
PyObject *ks_py_advise(PyObject *module, PyObject *arguments, PyObject *keywords);
PyObject *ks_py_write_comparison(PyObject *module, PyObject *arguments, PyObject *keywords);

#endif
