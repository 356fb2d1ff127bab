#include "site.h"

#include "capture/shared/recorder.h"
#include "errors.h"

enum { KEYS_MAX = 4096 }; /* beyond, the recorder is asked each time: keys are made up then */

static PyObject *keys; /* dict: key to number */

/* The start of `bytes` that is whole characters. */
static Py_ssize_t cut(const char *bytes, Py_ssize_t size)
{
    if (size <= KS_SITE_BYTES_MAX) {
        return size;
    }
    size = KS_SITE_BYTES_MAX;
    while (size > 0 && ((unsigned char)bytes[size] & 0xC0) == 0x80) {
        size--;
    }
    return size;
}

static PyObject *make_clean(PyObject *text)
{
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace");
    if (!bytes) {
        return NULL;
    }
    const char *start = PyBytes_AS_STRING(bytes);
    PyObject *clean = PyUnicode_DecodeUTF8(start, cut(start, PyBytes_GET_SIZE(bytes)), "replace");
    Py_DECREF(bytes);
    return clean;
}

PyObject *ks_site_text(PyObject *text, const char *what)
{
    if (!PyUnicode_Check(text)) {
        return ks_raise(KS_FAULT_TYPE, "%s must be a str, not %.100s", what,
                        Py_TYPE(text)->tp_name);
    }
    Py_ssize_t size;
    if (PyUnicode_AsUTF8AndSize(text, &size) && size <= KS_SITE_BYTES_MAX) {
        return Py_NewRef(text);
    }
    PyErr_Clear(); // lone surrogates, or too long
    PyObject *clean = make_clean(text);
    if (clean && !PyUnicode_AsUTF8AndSize(clean, &size)) {
        Py_CLEAR(clean);
    }
    return clean;
}

int ks_site_init(struct ks_site *site, PyObject *name, PyObject *category)
{
    site->id = 0;
    site->category = NULL;
    site->name = ks_site_text(name, "name");
    if (!site->name) {
        return -1;
    }
    site->category =
        category ? ks_site_text(category, "category") : PyUnicode_InternFromString("custom");
    if (!site->category) {
        ks_site_release(site);
        return -1;
    }
    return 0;
}

void ks_site_release(struct ks_site *site)
{
    Py_CLEAR(site->name);
    Py_CLEAR(site->category);
}

uint32_t ks_site_look_up(struct ks_site *site)
{
    Py_ssize_t name_size;
    Py_ssize_t category_size;
    const char *name = PyUnicode_AsUTF8AndSize(site->name, &name_size);
    const char *category = PyUnicode_AsUTF8AndSize(site->category, &category_size);
    site->id = ks_capture_site(name, (size_t)name_size, category, (size_t)category_size);
    return site->id;
}

static uint32_t known_key(PyObject *key)
{
    PyObject *number = keys ? PyDict_GetItemWithError(keys, key) : NULL;
    return number ? (uint32_t)PyLong_AsUnsignedLong(number) : 0;
}

static void remember_key(PyObject *key, uint32_t id)
{
    if (!keys) {
        keys = PyDict_New();
    }
    if (!keys || PyDict_GET_SIZE(keys) >= KEYS_MAX) {
        PyErr_Clear();
        return;
    }
    PyObject *number = PyLong_FromUnsignedLong(id);
    if (!number || PyDict_SetItem(keys, key, number) < 0) {
        PyErr_Clear();
    }
    Py_XDECREF(number);
}

uint32_t ks_site_of_key(PyObject *key)
{
    static const char category[] = "value";
    uint32_t id = known_key(key);
    if (id == 0) {
        Py_ssize_t size;
        const char *text = PyUnicode_AsUTF8AndSize(key, &size);
        id = ks_capture_site(text, (size_t)size, category, sizeof(category) - 1);
        if (id != 0) {
            remember_key(key, id);
        }
    }
    return id;
}
