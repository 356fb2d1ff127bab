/* kinetoscope's stack sampler as a Python type. The sampling itself is capture/sampler/. */
#ifndef KS_PYTHON_EXT_SAMPLER_H
#define KS_PYTHON_EXT_SAMPLER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "capture/sampler/python_layout.h"

/* Adds the type StackSampler; -1: an exception is set. */
int ks_sampler_add_type(PyObject *module);

/* Finds the layout of this interpreter and compares what is read by it with what the public API
 * says, with the GIL held: several depths, generators, calls from C, names in all widths. -1 with
 * an exception set: RuntimeError says in a sentence why stacks cannot be read here. */
int ks_sampler_check(struct ks_python_layout *layout);

#endif
