/* Two runs compared, as a capsule that owns a struct ks_comparison: it is never changed, so that
 * any thread may use it. */
#ifndef KS_PYTHON_COMPARISON_CAPSULE_H
#define KS_PYTHON_COMPARISON_CAPSULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <kscope/kscope.h>

#include <stdbool.h>

/* Takes it over; NULL: an exception is set, and it is closed. */
PyObject *ks_comparison_capsule(struct ks_comparison *comparison);
/* What is inside; NULL for None and NULL. False: it is something else, and TypeError is set. */
bool ks_comparison_capsule_get(PyObject *capsule, const struct ks_comparison **out);

#endif
