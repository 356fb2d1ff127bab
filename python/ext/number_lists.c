/* Lists of numbers from Python: what they come to, and how they grow. */
#include "engine_types.h"

#include <math.h>

#include "engine_errors.h"

/* Numbers of a sequence in memory of ours; NULL: an exception is set. */
static double *numbers_of(PyObject *values, size_t *count)
{
    PyObject *list = PySequence_Fast(values, "values must be a sequence of numbers");
    if (!list) {
        return NULL;
    }
    *count = (size_t)PySequence_Fast_GET_SIZE(list);
    double *numbers = PyMem_Malloc((*count + 1) * sizeof(*numbers));
    for (size_t i = 0; numbers && i < *count; i++) {
        numbers[i] = PyFloat_AsDouble(PySequence_Fast_GET_ITEM(list, (Py_ssize_t)i));
        if (!isfinite(numbers[i]) && !PyErr_Occurred()) {
            ks_engine_refuse(PyExc_ValueError, "values must be finite, number %zu is not", i);
        }
        if (PyErr_Occurred()) {
            PyMem_Free(numbers);
            numbers = NULL;
        }
    }
    Py_DECREF(list);
    return numbers || PyErr_Occurred() ? numbers : (double *)PyErr_NoMemory();
}

PyObject *ks_py_summarize(PyObject *module, PyObject *values)
{
    (void)module;
    size_t count = 0;
    double *numbers = numbers_of(values, &count);
    if (!numbers) {
        return NULL;
    }
    struct ks_summary sums = ks_summarize(numbers, count);
    PyMem_Free(numbers);
    return Py_BuildValue("{snsdsdsdsdsdsdsdsdsd}", "count", (Py_ssize_t)sums.count, "total",
                         sums.total, "mean", sums.mean, "std", sums.std, "min", sums.min, "max",
                         sums.max, "p50", sums.p50, "p90", sums.p90, "p95", sums.p95, "p99",
                         sums.p99);
}

PyObject *ks_py_slope(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *of_x;
    PyObject *of_y;
    if (!PyArg_ParseTuple(arguments, "OO:slope", &of_x, &of_y)) {
        return NULL;
    }
    size_t x_count = 0;
    size_t y_count = 0;
    double *x = numbers_of(of_x, &x_count);
    double *y = x ? numbers_of(of_y, &y_count) : NULL;
    PyObject *result = NULL;
    if (y && x_count != y_count) {
        ks_engine_refuse(PyExc_ValueError, "x and y must be of one length, not %zu and %zu",
                         x_count, y_count);
    } else if (y) {
        result = PyFloat_FromDouble(ks_slope(x, y, x_count));
    }
    PyMem_Free(x);
    PyMem_Free(y);
    return result;
}
