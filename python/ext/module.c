/* The module kinetoscope._kscope: what Python programs write into the process's recording.
 *
 * One interpreter of a process, under its GIL: numbers of sites and tasks are kept for the process.
 * A sub-interpreter is refused; a build of Python without the GIL switches it on for us. */
#include "errors.h"
#include "python/ext/sampler.h"
#include "site.h"
#include "types.h"
#include "writer.h"

static PyObject *start(PyObject *module, PyObject *arguments)
{
    (void)module;
    struct ks_capture_options options = {0};
    char reason[KS_CAPTURE_REASON_SIZE] = "";
    PyObject *folder;
    unsigned long long bytes_max;
    if (!PyArg_ParseTuple(arguments, "O&Kiiii:_start", PyUnicode_FSConverter, &folder, &bytes_max,
                          &options.rank, &options.local_rank, &options.world_size,
                          &options.worker)) {
        return NULL;
    }
    options.folder = PyBytes_AS_STRING(folder);
    options.bytes_max = bytes_max;
    int failed;
    Py_BEGIN_ALLOW_THREADS /* it makes a file */
        failed = ks_capture_start(&options, reason);
    Py_END_ALLOW_THREADS Py_DECREF(folder);
    return failed ? ks_raise(KS_FAULT_RECORDING, "%s", reason) : Py_NewRef(Py_None);
}

static PyObject *stop_recording(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS /* it waits for the disk */
    ks_capture_stop();
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *is_recording(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyBool_FromLong(ks_capture_is_on());
}

static PyObject *recording_path(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    const char *path = ks_capture_path();
    return *path ? PyUnicode_DecodeFSDefault(path) : Py_NewRef(Py_None);
}

static uint32_t string_of(PyObject *text)
{
    Py_ssize_t size;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &size);
    return ks_capture_string(bytes, (size_t)size);
}

static PyObject *note(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *key;
    PyObject *text;
    if (!PyArg_ParseTuple(arguments, "OO:_note", &key, &text)) {
        return NULL;
    }
    key = ks_site_text(key, "key");
    text = key ? ks_site_text(text, "text") : NULL;
    if (text) {
        ks_capture_note(string_of(key), string_of(text));
    }
    bool is_good = text != NULL;
    Py_XDECREF(key);
    Py_XDECREF(text);
    return is_good ? Py_NewRef(Py_None) : NULL;
}

static PyMethodDef functions[] = {
    {"marker", (PyCFunction)(void (*)(void))ks_marker, METH_FASTCALL | METH_KEYWORDS,
     "marker(name, category='custom', **values)\n--\n\n"
     "Records an instant, with values (int, float or str).\n\n"
     "Does nothing while nothing is recorded. Raises TypeError for values of other types."},
    {"stop_recording", stop_recording, METH_NOARGS,
     "stop_recording()\n--\n\nEnds the recording of this process, if there is one."},
    {"is_recording", is_recording, METH_NOARGS,
     "is_recording()\n--\n\nWhether this process records."},
    {"recording_path", recording_path, METH_NOARGS,
     "recording_path()\n--\n\nPath of this process's recording, also when it has ended, or None."},
    {"_start", start, METH_VARARGS,
     "_start(folder, max_bytes, rank, local_rank, world_size, worker, /)\n--\n\n"
     "Starts the recorder in a folder that is there; -1 is an unknown rank. RecordingError."},
    {"_note", note, METH_VARARGS,
     "_note(key, text, /)\n--\n\n"
     "Says something of this process in its recording, also in one that begins later."},
    {0},
};

static int fill_module(PyObject *module)
{
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        ks_raise(KS_FAULT_IMPORT, "kinetoscope cannot record in a sub-interpreter");
        return -1;
    }
    if (ks_errors_add_to(module) < 0 || ks_operation_add_to(module) < 0) {
        return -1;
    }
    if (ks_counter_add_to(module) < 0 || ks_functions_add_to(module) < 0) {
        return -1;
    }
    return ks_sampler_add_type(module) < 0 ? -1 : ks_monitor_add_to(module);
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
    .m_name = "kinetoscope._kscope",
    .m_doc = "Regions, counters and markers of a Python program, in C.",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__kscope(void);
PyMODINIT_FUNC PyInit__kscope(void)
{
    return PyModuleDef_Init(&definition);
}
