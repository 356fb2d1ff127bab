/* `_kscope_engine`: the library behind the program `kscope`, for Python. It records nothing; what
 * records is `_kscope`, which stays small for programs that only label regions. */
#include "engine_errors.h"
#include "engine_types.h"

static PyMethodDef functions[] = {
    {"summarize", ks_py_summarize, METH_O,
     "summarize(values, /)\n--\n\n"
     "count, total, mean, std (of a sample), min, max, p50, p90, p95, p99 of a sequence of finite "
     "numbers; all 0 without any."},
    {"slope", ks_py_slope, METH_VARARGS,
     "slope(x, y, /)\n--\n\nHow much y grows when x grows by 1, by least squares; 0 for less than "
     "two different x."},
    {"kv_cache_bytes", (PyCFunction)(void (*)(void))ks_py_kv_cache_bytes,
     METH_VARARGS | METH_KEYWORDS,
     "kv_cache_bytes(*, layers, kv_heads, head_size, batch, tokens, element_bytes)\n--\n\n"
     "Bytes of the keys and values of so many tokens. OverflowError when that is too many."},
    {"advise", (PyCFunction)(void (*)(void))ks_py_advise, METH_VARARGS | METH_KEYWORDS,
     "advise(*, batches=..., batch_s=..., transform_s=..., workers=..., total_s=..., "
     "device_s=..., memory_percent=..., gpu_free_share=...)\n--\n\n"
     "[(id, sentence)]: what such numbers allow to say. NaN: not known."},
    {"write_comparison", (PyCFunction)(void (*)(void))ks_py_write_comparison,
     METH_VARARGS | METH_KEYWORDS,
     "write_comparison(comparison, format, *, limit=0, width=0)\n--\n\n"
     "What Report.compare() gave as text: screen or json."},
    {0},
};

int ks_engine_add_type(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromSpec(spec);
    int status = type ? PyModule_AddObjectRef(module, name, type) : -1;
    Py_XDECREF(type);
    return status;
}

static int fill_module(PyObject *module)
{
    if (ks_engine_errors_add_to(module) < 0 || ks_timed_call_add_to(module) < 0 ||
        ks_memory_curve_type_add_to(module) < 0 || ks_trial_type_add_to(module) < 0) {
        return -1;
    }
    return ks_report_type_add_to(module);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)fill_module},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "kinetoscope._kscope_engine",
    .m_doc = "Reports, summaries and advice, in C.",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__kscope_engine(void);
PyMODINIT_FUNC PyInit__kscope_engine(void)
{
    return PyModuleDef_Init(&definition);
}
