/* Report: an open report of the library. Opening, analysing and writing run without the
 * interpreter's lock; a second thread that asks meanwhile is refused: the library allows one. */
#include "engine_types.h"

#include <stdbool.h>

#include "column_values.h"
#include "comparison_capsule.h"
#include "engine_errors.h"
#include "text_buffer.h"

struct report_object {
    PyObject_HEAD struct ks_report *report; /* NULL: closed */
    bool is_busy;
};

static const char *const FORMATS[] = {"screen", "json", "table", "markdown", "sarif"};
static const char *const EXPORTS[] = {"csv",      "folded", "speedscope", "chrome",
                                      "perfetto", "sqlite", "parquet",    "arrow"};
static const char *const WEIGHTS[] = {"self_cpu", "device", "functions", "samples"};

/* Place of a word in a list, which is the value of the library's enum; -1: ValueError. */
static int word_of(const char *word, const char *const *words, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(word, words[i]) == 0) {
            return (int)i;
        }
    }
    ks_engine_refuse(PyExc_ValueError, "no %s is called '%s'", what, word);
    return -1;
}

#define WORD_OF(word, words, what) word_of(word, words, sizeof(words) / sizeof(*(words)), what)

static bool begin_use(struct report_object *self)
{
    if (!self->report || self->is_busy) {
        ks_engine_refuse(PyExc_RuntimeError, self->report ? "another thread uses this report"
                                                          : "this report is closed");
        return false;
    }
    self->is_busy = true;
    return true;
}

/* ------------------------------------------------------------------ opening */

/* Paths as bytes of the file system in `kept`, which owns them. -1: an exception is set. */
static int fill_paths(PyObject *list, PyObject *kept, const char **paths)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) {
        PyObject *bytes = NULL;
        if (!PyUnicode_FSConverter(PyList_GET_ITEM(list, i), &bytes)) {
            return -1;
        }
        int status = PyList_Append(kept, bytes);
        paths[i] = PyBytes_AS_STRING(bytes);
        Py_DECREF(bytes);
        if (status < 0) {
            return -1;
        }
    }
    return 0;
}

static int open_paths(struct report_object *self, const struct ks_report_options *options)
{
    struct ks_err err = {0};
    enum ks_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = ks_report_open(options, &self->report, &err);
    Py_END_ALLOW_THREADS;
    if (status != KS_OK) {
        ks_engine_raise(&err);
        return -1;
    }
    return 0;
}

/* Room for the paths of both lists, or NULL with an exception. */
static const char **collect_paths(PyObject *list, PyObject *stacks, PyObject *kept)
{
    size_t count = (size_t)PyList_GET_SIZE(list);
    size_t stacks_count = stacks ? (size_t)PyList_GET_SIZE(stacks) : 0;
    const char **paths = PyMem_Calloc(count + stacks_count + 1, sizeof(*paths));
    if (!paths) {
        PyErr_NoMemory();
        return NULL;
    }
    if (fill_paths(list, kept, paths) < 0 ||
        (stacks && fill_paths(stacks, kept, paths + count) < 0)) {
        PyMem_Free(paths);
        return NULL;
    }
    return paths;
}

static PyObject *make(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static const char *const names[] = {"paths", "stacks", "by_shape", NULL};
    PyObject *list;
    PyObject *stacks = NULL;
    int by_shape = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!|$O!p:Report",
                                     (char **)(uintptr_t)names, &PyList_Type, &list, &PyList_Type,
                                     &stacks, &by_shape)) {
        return NULL;
    }
    struct report_object *self = (struct report_object *)type->tp_alloc(type, 0);
    PyObject *kept = PyList_New(0);
    const char **paths = self && kept ? collect_paths(list, stacks, kept) : NULL;
    struct ks_report_options options = {.group_by_shape = by_shape};
    if (paths) {
        options.paths = paths;
        options.path_count = (size_t)PyList_GET_SIZE(list);
        options.stacks_paths = paths + options.path_count;
        options.stacks_path_count = stacks ? (size_t)PyList_GET_SIZE(stacks) : 0;
    }
    if (!paths || open_paths(self, &options) < 0) {
        Py_CLEAR(self);
    }
    PyMem_Free(paths);
    Py_XDECREF(kept);
    return (PyObject *)self;
}

static PyObject *close_report(struct report_object *self, PyObject *unused)
{
    (void)unused;
    if (self->is_busy) {
        return ks_engine_refuse(PyExc_RuntimeError, "another thread uses this report");
    }
    ks_report_close(self->report);
    self->report = NULL;
    Py_RETURN_NONE;
}

static void dealloc(struct report_object *self)
{
    PyTypeObject *type = Py_TYPE(self);
    ks_report_close(self->report);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

/* ------------------------------------------------------------------ writing */

/* The str of what was written, or the exception of what went wrong. */
static PyObject *finish(struct report_object *self, struct ks_text_buffer *text,
                        enum ks_status status, const struct ks_err *err)
{
    self->is_busy = false;
    PyObject *result = status == KS_OK ? ks_text_buffer_str(text) : ks_engine_raise(err);
    ks_text_buffer_release(text);
    return result;
}

static PyObject *write_report(struct report_object *self, PyObject *arguments, PyObject *keywords)
{
    static const char *const names[] = {"format", "table", "sort", "limit", "width", NULL};
    const char *format;
    struct ks_report_style style = {0};
    Py_ssize_t limit = 0;
    Py_ssize_t width = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "s|$zznn:write",
                                     (char **)(uintptr_t)names, &format, &style.table, &style.sort,
                                     &limit, &width)) {
        return NULL;
    }
    int number = WORD_OF(format, FORMATS, "format of a report");
    if (number < 0 || !begin_use(self)) {
        return NULL;
    }
    style.format = (enum ks_report_format)number;
    style.row_limit = limit > 0 ? (size_t)limit : 0;
    style.width = width > 0 ? (size_t)width : 0;
    struct ks_text_buffer text = {0};
    struct ks_err err = {0};
    enum ks_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = ks_report_write(self->report, &style, ks_text_buffer_write, &text, &err);
    Py_END_ALLOW_THREADS;
    return finish(self, &text, status, &err);
}

static PyObject *query(struct report_object *self, PyObject *arguments)
{
    const char *sql;
    Py_ssize_t size;
    PyObject *capsule = NULL;
    const struct ks_comparison *comparison = NULL;
    if (!PyArg_ParseTuple(arguments, "s#|O:query", &sql, &size, &capsule) ||
        !ks_comparison_capsule_get(capsule, &comparison)) {
        return NULL;
    }
    struct ks_query_options options = {
        .sql = sql,
        .sql_size = (size_t)size,
        .style = {.format = KS_QUERY_JSON},
        .comparison = comparison,
    };
    struct ks_query_result result = {0};
    struct ks_text_buffer text = {0};
    struct ks_err err = {0};
    enum ks_status status;
    if (!begin_use(self)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = ks_query_write(self->report, &options, ks_text_buffer_write, &text, &result, &err);
    Py_END_ALLOW_THREADS;
    return finish(self, &text, status, &err);
}

/* ------------------------------------------------------------------ exports */

static bool write_to_file(void *user, const char *bytes, size_t size)
{
    return fwrite(bytes, 1, size, user) == size;
}

/* KS_ERR_IO with the sentence of errno. */
static enum ks_status fail_file(struct ks_err *err, const char *path)
{
    *err = (struct ks_err){.status = KS_ERR_IO, .offset = KS_NO_OFFSET};
    (void)snprintf(err->message, sizeof(err->message), "Cannot write %s: %s", path,
                   strerror(errno));
    return KS_ERR_IO;
}

/* What an export, or a page, is written by; `file` is for write_to_file. */
typedef enum ks_status (*file_writer)(struct ks_report *report, const void *what, FILE *file,
                                      struct ks_err *err);

static enum ks_status write_path(struct ks_report *report, file_writer write, const void *what,
                                 const char *path, struct ks_err *err)
{
    FILE *file = fopen(path, "wbe");
    if (!file) {
        return fail_file(err, path);
    }
    enum ks_status status = write(report, what, file, err);
    if (fclose(file) != 0 && status == KS_OK) {
        status = fail_file(err, path);
    }
    return status;
}

static enum ks_status write_export(struct ks_report *report, const void *options, FILE *file,
                                   struct ks_err *err)
{
    return ks_export_write(report, options, write_to_file, file, err);
}

static enum ks_status write_page(struct ks_report *report, const void *options, FILE *file,
                                 struct ks_err *err)
{
    return ks_report_write_page(report, options, write_to_file, file, err);
}

static enum ks_status export_to(struct ks_report *report, const struct ks_export_options *options,
                                const char *path, struct ks_err *err)
{
    return options->format == KS_EXPORT_SQLITE
               ? ks_export_write_file(report, options, path, err)
               : write_path(report, write_export, options, path, err);
}

static enum ks_status page_to(struct ks_report *report, const struct ks_comparison *comparison,
                              const char *path, struct ks_err *err)
{
    const struct ks_page_options options = {.comparison = comparison};
    enum ks_status status = ks_page_can_write(err);
    return status == KS_OK ? write_path(report, write_page, &options, path, err) : status;
}

static PyObject *html(struct report_object *self, PyObject *arguments)
{
    PyObject *path = NULL;
    PyObject *capsule = NULL;
    const struct ks_comparison *comparison = NULL;
    if (!PyArg_ParseTuple(arguments, "O&|O:html", PyUnicode_FSConverter, &path, &capsule)) {
        return NULL;
    }
    if (!ks_comparison_capsule_get(capsule, &comparison) || !begin_use(self)) {
        Py_DECREF(path);
        return NULL;
    }
    struct ks_err err = {0};
    enum ks_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = page_to(self->report, comparison, PyBytes_AS_STRING(path), &err);
    Py_END_ALLOW_THREADS;
    self->is_busy = false;
    Py_DECREF(path);
    if (status == KS_ERR_UNSUPPORTED) {
        return ks_engine_refuse(PyExc_NotImplementedError, "%s", err.message);
    }
    return status == KS_OK ? Py_NewRef(Py_None) : ks_engine_raise(&err);
}

static PyObject *export_file(struct report_object *self, PyObject *arguments, PyObject *keywords)
{
    static const char *const names[] = {"path", "format", "table", "weight", NULL};
    PyObject *path = NULL;
    const char *format;
    const char *weight = "self_cpu";
    struct ks_export_options options = {0};
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O&s|$zs:export",
                                     (char **)(uintptr_t)names, PyUnicode_FSConverter, &path,
                                     &format, &options.table, &weight)) {
        return NULL;
    }
    int of_format = WORD_OF(format, EXPORTS, "format of an export");
    int of_weight = of_format < 0 ? -1 : WORD_OF(weight, WEIGHTS, "weight of stacks");
    if (of_weight < 0 || !begin_use(self)) {
        Py_DECREF(path);
        return NULL;
    }
    options.format = (enum ks_export_format)of_format;
    options.weight = (enum ks_export_weight)of_weight;
    struct ks_err err = {0};
    enum ks_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = export_to(self->report, &options, PyBytes_AS_STRING(path), &err);
    Py_END_ALLOW_THREADS;
    self->is_busy = false;
    Py_DECREF(path);
    return status == KS_OK ? Py_NewRef(Py_None) : ks_engine_raise(&err);
}

/* ------------------------------------------------------------------ comparing */

static PyObject *compare(struct report_object *self, PyObject *other)
{
    if (!Py_IS_TYPE(other, Py_TYPE(self))) {
        return ks_engine_refuse(PyExc_TypeError, "this is no Report");
    }
    struct report_object *before = (struct report_object *)other;
    if (!begin_use(self)) {
        return NULL;
    }
    if (before != self && !begin_use(before)) {
        self->is_busy = false;
        return NULL;
    }
    struct ks_comparison *comparison = NULL;
    struct ks_err err = {0};
    enum ks_status status;
    Py_BEGIN_ALLOW_THREADS;
    status = ks_comparison_open(before->report, self->report, &comparison, &err);
    Py_END_ALLOW_THREADS;
    self->is_busy = before->is_busy = false;
    return status == KS_OK ? ks_comparison_capsule(comparison) : ks_engine_raise(&err);
}

/* ------------------------------------------------------------------ columns */

static const char CAPSULE[] = "arrow_array_stream"; /* as Arrow's PyCapsule interface names it */

static void drop_stream(PyObject *capsule)
{
    struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, CAPSULE);
    if (stream->release) { // nobody took it
        stream->release(stream);
    }
    PyMem_RawFree(stream);
}

/* -1: an exception is set, and there is nothing to release. */
static int open_stream(struct report_object *self, const char *table, const char *name,
                       struct ArrowArrayStream *stream)
{
    struct ks_err err = {0};
    enum ks_status status;
    if (!begin_use(self)) {
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = ks_export_stream(self->report, table, name, stream, &err);
    Py_END_ALLOW_THREADS;
    self->is_busy = false;
    if (status != KS_OK) {
        ks_engine_raise(&err);
        return -1;
    }
    return 0;
}

static PyObject *columns(struct report_object *self, PyObject *arguments)
{
    const char *table;
    if (!PyArg_ParseTuple(arguments, "s:columns", &table)) {
        return NULL;
    }
    struct ArrowArrayStream *stream = PyMem_RawCalloc(1, sizeof(*stream));
    if (!stream) {
        return PyErr_NoMemory();
    }
    if (open_stream(self, table, NULL, stream) < 0) {
        PyMem_RawFree(stream);
        return NULL;
    }
    PyObject *capsule = PyCapsule_New(stream, CAPSULE, drop_stream);
    if (!capsule) {
        stream->release(stream);
        PyMem_RawFree(stream);
    }
    return capsule;
}

static PyObject *column_names(struct report_object *self, PyObject *arguments)
{
    const char *table;
    struct ArrowSchema schema;
    struct ks_err err = {0};
    if (!PyArg_ParseTuple(arguments, "s:column_names", &table) || !begin_use(self)) {
        return NULL;
    }
    enum ks_status status = ks_export_schema(self->report, table, &schema, &err);
    self->is_busy = false;
    if (status != KS_OK) {
        return ks_engine_raise(&err);
    }
    PyObject *names = ks_column_names(&schema);
    schema.release(&schema);
    return names;
}

static PyObject *column(struct report_object *self, PyObject *arguments)
{
    const char *table;
    const char *name;
    struct ArrowArrayStream stream;
    if (!PyArg_ParseTuple(arguments, "ss:column", &table, &name) ||
        open_stream(self, table, name, &stream) < 0) {
        return NULL;
    }
    PyObject *values = ks_column_values(&stream);
    stream.release(&stream);
    return values;
}

/* ------------------------------------------------------------------ the type */

static PyMethodDef methods[] = {
    {"write", (PyCFunction)(void (*)(void))write_report, METH_VARARGS | METH_KEYWORDS,
     "write($self, format, *, table=None, sort=None, limit=0, width=0)\n--\n\n"
     "The report as text: screen, json, table, markdown or sarif. ValueError: the message lists "
     "what would fit."},
    {"query", (PyCFunction)(void (*)(void))query, METH_VARARGS,
     "query($self, sql, comparison=None, /)\n--\n\n"
     "Rows of a SELECT as a JSON document (docs/query.md). ValueError says what is wrong in it. "
     "`comparison`: fills the tables fact_compare_*."},
    {"export", (PyCFunction)(void (*)(void))export_file, METH_VARARGS | METH_KEYWORDS,
     "export($self, path, format, *, table=None, weight='self_cpu')\n--\n\n"
     "Writes a file for other programs (docs/export.md). After an error it holds anything."},
    {"html", (PyCFunction)(void (*)(void))html, METH_VARARGS,
     "html($self, path, comparison=None, /)\n--\n\n"
     "Writes the report as one page, with a view of the comparison. After an error the file holds "
     "anything."},
    {"compare", (PyCFunction)compare, METH_O,
     "compare($self, before, /)\n--\n\n"
     "A capsule for write_comparison: this run, and the Report of an earlier one."},
    {"columns", (PyCFunction)(void (*)(void))columns, METH_VARARGS,
     "columns($self, table, /)\n--\n\n"
     "A table as a capsule of Arrow's C stream interface, which holds a copy of all rows."},
    {"column_names", (PyCFunction)(void (*)(void))column_names, METH_VARARGS,
     "column_names($self, table, /)\n--\n\nA list of str."},
    {"column", (PyCFunction)(void (*)(void))column, METH_VARARGS,
     "column($self, table, name, /)\n--\n\n"
     "('q' or 'd', bytearray) of numbers, where NaN is unknown, or a list of str and None."},
    {"close", (PyCFunction)(void (*)(void))close_report, METH_NOARGS,
     "close($self)\n--\n\nFrees what it holds; it cannot be asked any more."},
    {0},
};

static const char TYPE_DOC[] =
    "Report(paths, *, stacks=[], by_shape=False)\n--\n\n"
    "Reads a list of paths and analyses them. OSError, TraceError, ValueError, MemoryError.";

static PyType_Slot slots[] = {
    {Py_tp_doc, (void *)(uintptr_t)TYPE_DOC},
    {Py_tp_new, (void *)make},
    {Py_tp_dealloc, (void *)dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "kinetoscope._kscope_engine.Report",
    .basicsize = sizeof(struct report_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int ks_report_type_add_to(PyObject *module)
{
    return ks_engine_add_type(module, &spec, "Report");
}
