#include "column_values.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { VALIDITY, VALUES, TEXT };

/* A column under way. */
struct column {
    char format; /* of Arrow: 'l' int64, 'g' float64, 'u' UTF-8 */
    bool has_unknown;
    PyObject *values; /* bytearray of int64 or float64, or list */
};

static bool is_known(const struct ArrowArray *array, int64_t row)
{
    const uint8_t *valid = array->buffers[VALIDITY];
    return !valid || (valid[row / 8] >> row % 8 & 1) != 0;
}

/* ------------------------------------------------------------------ texts */

static PyObject *text_at(const struct ArrowArray *array, int64_t row)
{
    const int32_t *ends = array->buffers[VALUES];
    const char *text = array->buffers[TEXT];
    if (!is_known(array, row)) {
        return Py_NewRef(Py_None);
    }
    return PyUnicode_DecodeUTF8(text + ends[row], ends[row + 1] - ends[row], "strict");
}

static int add_texts(struct column *column, const struct ArrowArray *array)
{
    for (int64_t row = 0; row < array->length; row++) {
        PyObject *text = text_at(array, row);
        int status = text ? PyList_Append(column->values, text) : -1;
        Py_XDECREF(text);
        if (status < 0) {
            return -1;
        }
    }
    return 0;
}

/* ------------------------------------------------------------------ numbers */

/* Room for more values of eight bytes; NULL with an exception. */
static char *make_room(PyObject *bytes, int64_t count)
{
    Py_ssize_t size = PyByteArray_GET_SIZE(bytes);
    if (PyByteArray_Resize(bytes, size + (Py_ssize_t)count * 8) < 0) {
        return NULL;
    }
    return PyByteArray_AS_STRING(bytes) + size;
}

static int add_numbers(struct column *column, const struct ArrowArray *array)
{
    char *to = make_room(column->values, array->length);
    if (!to) {
        return -1;
    }
    if (array->length > 0) {
        memcpy(to, array->buffers[VALUES], (size_t)array->length * 8);
    }
    return 0;
}

static double number_at(const struct column *column, const struct ArrowArray *array, int64_t row)
{
    if (!is_known(array, row)) {
        return (double)NAN;
    }
    const void *values = array->buffers[VALUES];
    return column->format == 'g' ? ((const double *)values)[row]
                                 : (double)((const int64_t *)values)[row];
}

static int add_reals(struct column *column, const struct ArrowArray *array)
{
    char *to = make_room(column->values, array->length);
    for (int64_t row = 0; to && row < array->length; row++) {
        double number = number_at(column, array, row);
        memcpy(to + row * 8, &number, sizeof(number));
    }
    return to ? 0 : -1;
}

/* What was whole so far becomes real, since something is unknown from here on. */
static void make_real(struct column *column)
{
    char *bytes = PyByteArray_AS_STRING(column->values);
    Py_ssize_t count = column->format == 'l' ? PyByteArray_GET_SIZE(column->values) / 8 : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        int64_t whole;
        memcpy(&whole, bytes + i * 8, sizeof(whole));
        double real = (double)whole;
        memcpy(bytes + i * 8, &real, sizeof(real));
    }
    column->has_unknown = true;
}

static int add(struct column *column, const struct ArrowArray *array)
{
    if (column->format == 'u') {
        return add_texts(column, array);
    }
    if (array->null_count != 0 && !column->has_unknown) {
        make_real(column);
    }
    return column->has_unknown ? add_reals(column, array) : add_numbers(column, array);
}

/* ------------------------------------------------------------------ the stream */

static int find_format(struct ArrowArrayStream *stream, struct column *column)
{
    struct ArrowSchema schema;
    if (stream->get_schema(stream, &schema) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    column->format = schema.children[0]->format[0];
    schema.release(&schema);
    return 0;
}

static int add_batches(struct ArrowArrayStream *stream, struct column *column)
{
    for (;;) {
        struct ArrowArray batch;
        if (stream->get_next(stream, &batch) != 0) {
            PyErr_NoMemory();
            return -1;
        }
        if (!batch.release) {
            return 0;
        }
        int status = add(column, batch.children[0]);
        batch.release(&batch);
        if (status < 0) {
            return -1;
        }
    }
}

PyObject *ks_column_names(const struct ArrowSchema *schema)
{
    PyObject *names = PyList_New(schema->n_children);
    for (int64_t i = 0; names && i < schema->n_children; i++) {
        PyObject *name = PyUnicode_FromString(schema->children[i]->name);
        if (!name) {
            Py_CLEAR(names);
            break;
        }
        PyList_SET_ITEM(names, i, name);
    }
    return names;
}

PyObject *ks_column_values(struct ArrowArrayStream *stream)
{
    struct column column = {0};
    if (find_format(stream, &column) < 0) {
        return NULL;
    }
    bool is_text = column.format == 'u';
    column.values = is_text ? PyList_New(0) : PyByteArray_FromStringAndSize(NULL, 0);
    if (!column.values || add_batches(stream, &column) < 0) {
        Py_XDECREF(column.values);
        return NULL;
    }
    if (is_text) {
        return column.values;
    }
    bool is_whole = column.format == 'l' && !column.has_unknown;
    return Py_BuildValue("(sN)", is_whole ? "q" : "d", column.values);
}
