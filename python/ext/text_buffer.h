/* Text that the library writes piece by piece without the interpreter's lock, for one str. */
#ifndef KS_PYTHON_TEXT_BUFFER_H
#define KS_PYTHON_TEXT_BUFFER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>

/* Zeroed by its owner, ended by ks_text_buffer_release. */
struct ks_text_buffer {
    char *bytes;
    size_t size;
    size_t capacity;
};

/* A ks_write_cb; `user` is the buffer. False: no memory. */
bool ks_text_buffer_write(void *user, const char *bytes, size_t size);
/* The text; what is no UTF-8 becomes U+FFFD. NULL: an exception is set. */
PyObject *ks_text_buffer_str(const struct ks_text_buffer *buffer);
void ks_text_buffer_release(struct ks_text_buffer *buffer);

#endif
