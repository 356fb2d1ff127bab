#include "base/grow.h"

#include <string.h>

#include "base/alloc.h"

enum { BYTES_MIN = 64 }; /* a million threads may have a list of one each */

enum ks_status ks_grow_array(void *array, size_t count, size_t *capacity, size_t size,
                             const char *what, struct ks_err *err)
{
    void *items;
    memcpy(&items, array, sizeof(items)); /* a pointer to what, only the caller knows */
    size_t wanted = *capacity <= SIZE_MAX / 2 ? 2 * *capacity : SIZE_MAX;
    size_t least = size < BYTES_MIN ? BYTES_MIN / size : 1;
    wanted = wanted < least ? least : wanted;
    void *grown = ks_realloc(items, wanted, size);
    if (!grown) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep %s: count=%zu", what, count);
    }
    memcpy(array, &grown, sizeof(grown));
    *capacity = wanted;
    return KS_OK;
}
