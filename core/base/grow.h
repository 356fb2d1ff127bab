/* Arrays that grow by one item at a time: pointer, count and capacity lie in the caller's struct,
 * the memory is from ks_alloc and its owner's to free. */
#ifndef KS_BASE_GROW_H
#define KS_BASE_GROW_H

#include "base/err.h"

/* Makes room; see ks_grow. */
enum ks_status ks_grow_array(void *array, size_t count, size_t *capacity, size_t size,
                             const char *what, struct ks_err *err) KS_MUST_CHECK;

/* Room for one more item of `size` bytes behind `count`. `array` is the address of the pointer to
 * the items, which may be NULL; new bytes are not zeroed. An error leaves all as it was, and says
 * "Cannot keep <what>". */
KS_MUST_CHECK static inline enum ks_status ks_grow(void *array, size_t count, size_t *capacity,
                                                   size_t size, const char *what,
                                                   struct ks_err *err)
{
    return count < *capacity ? KS_OK : ks_grow_array(array, count, capacity, size, what, err);
}

#endif
