/* Name and category of what is recorded, and the number that both have in recordings. */
#ifndef KS_PYTHON_SITE_H
#define KS_PYTHON_SITE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

enum { KS_SITE_BYTES_MAX = 1000 }; /* of a name, a category, a text; the rest is cut off */

struct ks_site {
    PyObject *name; /* these two: str that has UTF-8 */
    PyObject *category;
    uint32_t id; /* 0 until something was recorded */
};

/* A str of at most KS_SITE_BYTES_MAX bytes of UTF-8; what has no UTF-8 is written as \udcXX. New
 * reference; NULL: `text`, in the sentence `what`, is no str, or there is no memory. */
PyObject *ks_site_text(PyObject *text, const char *what);

/* -1: an exception is set, and the site holds nothing. `category` may be NULL: "custom". */
int ks_site_init(struct ks_site *site, PyObject *name, PyObject *category);
void ks_site_release(struct ks_site *site);

/* Asks the recorder, while it is on. 0: it has no room. */
uint32_t ks_site_look_up(struct ks_site *site);

static inline uint32_t ks_site_id(struct ks_site *site)
{
    return __builtin_expect(site->id != 0, 1) ? site->id : ks_site_look_up(site);
}

/* The number of a key of values. 0: no room. Sets no exception. */
uint32_t ks_site_of_key(PyObject *key);

#endif
