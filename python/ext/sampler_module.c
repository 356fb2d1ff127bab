/* A module with the stack sampler alone, by which its tests run under several interpreters. */
#include "python/ext/sampler.h"

#include "capture/shared/recorder.h"

static PyObject *start_recording(PyObject *module, PyObject *folder)
{
    (void)module;
    char reason[KS_CAPTURE_REASON_SIZE];
    struct ks_capture_options options = {.folder = PyUnicode_AsUTF8(folder),
                                         .rank = -1,
                                         .local_rank = -1,
                                         .world_size = -1,
                                         .worker = -1};
    if (!options.folder) {
        return NULL;
    }
    if (ks_capture_start(&options, reason) != 0) {
        PyErr_SetString(PyExc_OSError, reason);
        return NULL;
    }
    return PyUnicode_DecodeFSDefault(ks_capture_path());
}

static PyObject *stop_recording(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    ks_capture_stop();
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"start_recording", start_recording, METH_O, "Begin a recording in the folder; its path."},
    {"stop_recording", stop_recording, METH_NOARGS, "End the recording."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef DEFINITION = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_kscope_sampler",
    .m_size = -1,
    .m_methods = METHODS,
};

PyMODINIT_FUNC PyInit__kscope_sampler(void);

PyMODINIT_FUNC PyInit__kscope_sampler(void)
{
    PyObject *module = PyModule_Create(&DEFINITION);
    if (module && ks_sampler_add_type(module) != 0) {
        Py_CLEAR(module);
    }
    return module;
}
