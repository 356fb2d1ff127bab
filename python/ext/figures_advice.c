/* Numbers that a program took itself, and what they allow to say. */
#include "engine_types.h"

#include <math.h>

#include <kscope/kscope.h>

/* Appends (id, sentence); once one could not be made the rest is left out. */
static void append(void *user, const char *id, const char *sentence)
{
    PyObject *pair = PyErr_Occurred() ? NULL : Py_BuildValue("(ss)", id, sentence);
    if (pair) {
        (void)PyList_Append(user, pair);
        Py_DECREF(pair);
    }
}

PyObject *ks_py_advise(PyObject *module, PyObject *arguments, PyObject *keywords)
{
    (void)module;
    static const char *const names[] = {"batches",        "batch_s",        "transform_s",
                                        "workers",        "total_s",        "device_s",
                                        "memory_percent", "gpu_free_share", NULL};
    const double none = (double)NAN;
    struct ks_run_figures figures = {none, none, none, none, none, none, none, none};
    if (!PyArg_ParseTupleAndKeywords(
            arguments, keywords, "|$dddddddd:advise", (char **)(uintptr_t)names, &figures.batches,
            &figures.batch_s, &figures.transform_s, &figures.workers, &figures.total_s,
            &figures.device_s, &figures.memory_percent, &figures.gpu_free_share)) {
        return NULL;
    }
    PyObject *said = PyList_New(0);
    if (said) {
        ks_figures_advise(&figures, append, said);
    }
    if (PyErr_Occurred()) {
        Py_CLEAR(said);
    }
    return said;
}
