/* The function kinetoscope.marker: an instant, with values. */
#include "errors.h"
#include "site.h"
#include "types.h"
#include "value.h"
#include "writer.h"

struct arguments {
    PyObject *name; /* borrowed, like all here */
    PyObject *category;
    PyObject *const *values;
    PyObject *keys; /* tuple, or NULL */
    /* Where name and category are among the values, or -1. */
    Py_ssize_t name_index;
    Py_ssize_t category_index;
};

/* -1: an exception is set. */
static int take_arguments(struct arguments *out, PyObject *const *arguments, Py_ssize_t count,
                          PyObject *keywords)
{
    *out = (struct arguments){
        .values = arguments + count, .keys = keywords, .name_index = -1, .category_index = -1};
    if (count > 2) {
        ks_raise(KS_FAULT_TYPE, "marker takes a name and a category, and values by keyword");
        return -1;
    }
    out->name = count > 0 ? arguments[0] : NULL;
    out->category = count > 1 ? arguments[1] : NULL;
    for (Py_ssize_t i = 0; keywords && i < PyTuple_GET_SIZE(keywords); i++) {
        PyObject *key = PyTuple_GET_ITEM(keywords, i);
        if (!out->name && PyUnicode_CompareWithASCIIString(key, "name") == 0) {
            out->name = out->values[i];
            out->name_index = i;
        } else if (!out->category && PyUnicode_CompareWithASCIIString(key, "category") == 0) {
            out->category = out->values[i];
            out->category_index = i;
        }
    }
    if (!out->name) {
        ks_raise(KS_FAULT_TYPE, "marker needs a name");
        return -1;
    }
    return 0;
}

/* Writes the values, or with `id` 0 only looks whether they can be. */
static int each_value(const struct arguments *arguments, uint32_t id)
{
    Py_ssize_t count = arguments->keys ? PyTuple_GET_SIZE(arguments->keys) : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        struct ks_value value;
        if (i == arguments->name_index || i == arguments->category_index) {
            continue;
        }
        if (ks_value_init(&value, arguments->values[i], true) < 0) {
            return -1;
        }
        PyObject *key = id != 0 ? ks_site_text(PyTuple_GET_ITEM(arguments->keys, i), "key") : NULL;
        if (key) {
            ks_value_write(&value, ks_site_of_key(key), KS_WIRE_OF_MARK);
            Py_DECREF(key);
        }
        PyErr_Clear();
        ks_value_release(&value);
    }
    return 0;
}

PyObject *ks_marker(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                    PyObject *keywords)
{
    (void)module;
    struct arguments taken;
    struct ks_site site;
    if (take_arguments(&taken, arguments, count, keywords) < 0 || each_value(&taken, 0) < 0 ||
        ks_site_init(&site, taken.name, taken.category) < 0) {
        return NULL;
    }
    uint32_t id = ks_writer_begin() ? ks_site_id(&site) : 0;
    if (id != 0) {
        ks_writer_put(KS_WIRE_MARK, id, 0, ks_writer_tick());
        (void)each_value(&taken, id);
    }
    ks_site_release(&site);
    Py_RETURN_NONE;
}
