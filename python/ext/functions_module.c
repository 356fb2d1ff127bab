/* The module kinetoscope._kscope_functions: the function profiler alone. */
#include "functions.h"

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT, .m_name = "kinetoscope._kscope_functions",
    .m_doc = "The function profiler.",
    .m_size = -1, // one interpreter: one profiler is on in a process
};

PyMODINIT_FUNC PyInit__kscope_functions(void);

PyMODINIT_FUNC PyInit__kscope_functions(void)
{
    PyObject *module = PyModule_Create(&module_def);
    if (module && ks_functions_add_to(module) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
