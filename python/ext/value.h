/* Values of regions, markers and counters: an int, a float or a text. */
#ifndef KS_PYTHON_VALUE_H
#define KS_PYTHON_VALUE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

#include "capture/shared/recorder.h"

struct ks_value {
    enum ks_wire_event_kind kind; /* KS_WIRE_VALUE_* */
    union {
        int64_t integer;
        double real;
        uint64_t bits;
    } as;
    PyObject *text; /* of KS_WIRE_VALUE_TEXT: owned */
};

/* Takes int (also what has __index__), float and, when `may_be_text`, str. An int of more than 64
 * bits becomes a float. -1: an exception is set. */
int ks_value_init(struct ks_value *value, PyObject *object, bool may_be_text);
void ks_value_release(struct ks_value *value);

/* Writes it for the key with this number, after ks_writer_begin. `more` as in ks_writer_put. */
void ks_value_write(const struct ks_value *value, uint32_t key, uint32_t more);

#endif
