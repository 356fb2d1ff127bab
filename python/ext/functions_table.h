/* The functions that a function profiler has met: code objects of Python and methods of C. Each has
 * a number from 1; in the recording its id is the odd number of that rank. A code object is kept
 * alive, or another function could come to live at its address; a C function is known by its
 * PyMethodDef. */
#ifndef KS_PYTHON_FUNCTIONS_TABLE_H
#define KS_PYTHON_FUNCTIONS_TABLE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#include "functions_map.h"

enum { KS_FUNCTION_OTHER = 1 }; /* stands for the paths beyond the limit */

struct ks_function {
    const void *key;
    PyObject *owner; /* keeps `key` from being used again; NULL: it lives as long as its module */
    PyObject *name;  /* str, as pstats shows it */
    PyObject *qualified_name;
    PyObject *file;        /* "~" for C */
    int first_line;        /* 0 for C */
    uint64_t described_in; /* generation of the recorder's file, plus 1; 0: in none */
};

struct ks_function_table {
    struct ks_function *rows; /* row 0 is not used */
    uint32_t count;           /* with row 0 */
    uint32_t capacity;
    struct ks_functions_map numbers;
};

/* -1: an exception is set. */
int ks_function_table_init(struct ks_function_table *table);
void ks_function_table_release(struct ks_function_table *table);

/* Number of the function `callable` (a code object, a built-in function or a method descriptor),
 * whose key is `key`. 0: no memory. Leaves an exception that is set as it is. */
uint32_t ks_function_table_get(struct ks_function_table *table, const void *key,
                               PyObject *callable);
static inline uint32_t ks_function_code_id(uint32_t number)
{
    return number * 2 - 1;
}

/* Describes a function in the recording that is on, unless it is there already. False: no room. */
bool ks_function_table_describe(struct ks_function_table *table, uint32_t number,
                                uint32_t generation);

#endif
