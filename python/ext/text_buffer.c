#include "text_buffer.h"

enum { CAPACITY_MIN = 64 * 1024 };

static bool grow(struct ks_text_buffer *buffer, size_t size)
{
    size_t capacity = buffer->capacity ? buffer->capacity : CAPACITY_MIN;
    while (capacity - buffer->size < size) {
        if (capacity > (size_t)PY_SSIZE_T_MAX / 2) {
            return false;
        }
        capacity *= 2;
    }
    char *bytes = PyMem_RawRealloc(buffer->bytes, capacity);
    if (!bytes) {
        return false;
    }
    buffer->bytes = bytes;
    buffer->capacity = capacity;
    return true;
}

bool ks_text_buffer_write(void *user, const char *bytes, size_t size)
{
    struct ks_text_buffer *buffer = user;
    if (size == 0) {
        return true;
    }
    if (buffer->capacity - buffer->size < size && !grow(buffer, size)) {
        return false;
    }
    memcpy(buffer->bytes + buffer->size, bytes, size);
    buffer->size += size;
    return true;
}

PyObject *ks_text_buffer_str(const struct ks_text_buffer *buffer)
{
    return PyUnicode_DecodeUTF8(buffer->bytes ? buffer->bytes : "", (Py_ssize_t)buffer->size,
                                "replace");
}

void ks_text_buffer_release(struct ks_text_buffer *buffer)
{
    PyMem_RawFree(buffer->bytes);
    *buffer = (struct ks_text_buffer){0};
}
