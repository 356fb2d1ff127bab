#include "comparison_capsule.h"

#include <string.h>

#include "engine_errors.h"
#include "engine_types.h"
#include "text_buffer.h"

static const char NAME[] = "kinetoscope.comparison";

static void drop(PyObject *capsule)
{
    ks_comparison_close(PyCapsule_GetPointer(capsule, NAME));
}

PyObject *ks_comparison_capsule(struct ks_comparison *comparison)
{
    PyObject *capsule = PyCapsule_New(comparison, NAME, drop);
    if (!capsule) {
        ks_comparison_close(comparison);
    }
    return capsule;
}

bool ks_comparison_capsule_get(PyObject *capsule, const struct ks_comparison **out)
{
    *out = NULL;
    if (!capsule || capsule == Py_None) {
        return true;
    }
    if (!PyCapsule_IsValid(capsule, NAME)) {
        ks_engine_refuse(PyExc_TypeError, "this is no comparison of two reports");
        return false;
    }
    *out = PyCapsule_GetPointer(capsule, NAME);
    return true;
}

static bool read_format(const char *word, enum ks_report_format *format)
{
    *format = strcmp(word, "json") == 0 ? KS_REPORT_JSON : KS_REPORT_SCREEN;
    if (*format == KS_REPORT_SCREEN && strcmp(word, "screen") != 0) {
        ks_engine_refuse(PyExc_ValueError, "no format of a comparison is called '%s'", word);
        return false;
    }
    return true;
}

PyObject *ks_py_write_comparison(PyObject *module, PyObject *arguments, PyObject *keywords)
{
    (void)module;
    static const char *const names[] = {"comparison", "format", "limit", "width", NULL};
    PyObject *capsule = NULL;
    const char *format = NULL;
    Py_ssize_t limit = 0;
    Py_ssize_t width = 0;
    const struct ks_comparison *comparison = NULL;
    struct ks_report_style style = {0};
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "Os|$nn:write_comparison",
                                     (char **)(uintptr_t)names, &capsule, &format, &limit,
                                     &width) ||
        !read_format(format, &style.format) || !ks_comparison_capsule_get(capsule, &comparison)) {
        return NULL;
    }
    if (!comparison) {
        return ks_engine_refuse(PyExc_TypeError, "this is no comparison of two reports");
    }
    style.row_limit = limit > 0 ? (size_t)limit : 0;
    style.width = width > 0 ? (size_t)width : 0;
    struct ks_text_buffer text = {0};
    struct ks_err err = {0};
    enum ks_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = ks_comparison_write(comparison, &style, ks_text_buffer_write, &text, &err);
    Py_END_ALLOW_THREADS;
    PyObject *result = status == KS_OK ? ks_text_buffer_str(&text) : ks_engine_raise(&err);
    ks_text_buffer_release(&text);
    return result;
}
