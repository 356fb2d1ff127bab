/* Profiles of cProfile, down to sealed tables.
 *
 * The first byte chooses the size of a window, 0: read strictly. The rest is the file, behind the
 * two bytes by which a profile is known: its dict, and the tuple that its first key is. What must
 * hold is what fuzz_readings.h says. */
#include <stdlib.h>

#include "fuzz_readings.h"

enum { SIZE_MAX_ALL = 64 * 1024, HEAD_SIZE = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char *file;
    if (size == 0 || size > SIZE_MAX_ALL) {
        return 0;
    }
    file = file ? file : malloc(SIZE_MAX_ALL + HEAD_SIZE);
    KS_ASSERT(file);
    memcpy(file, "\xfb\xa9\x03", HEAD_SIZE);
    memcpy(file + HEAD_SIZE, data + 1, size - 1);
    compare_readings((struct ks_str){file, size - 1 + HEAD_SIZE}, 2, data[0]);
    return 0;
}
