/* Panels as a picture in SVG. */
#ifndef KS_PYTHON_EXT_MONITOR_SVG_H
#define KS_PYTHON_EXT_MONITOR_SVG_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "monitor_panels.h"

/* The whole picture as a str; NULL: an exception is set. */
PyObject *ks_monitor_svg(const struct ks_panels *panels);

#endif
