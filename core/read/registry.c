/* All input formats, most particular first: the first whose sniff says yes reads the file. */
#include "read/reader.h"

static const struct ks_reader *const READERS[] = {
    &ks_reader_recording,       &ks_reader_pstats,          &ks_reader_nsys,
    &ks_reader_execution_trace, &ks_reader_memory_timeline, &ks_reader_kineto,
};

const struct ks_reader *ks_reader_find(struct ks_str head)
{
    for (size_t i = 0; i < KS_COUNT_OF(READERS); i++) {
        if (READERS[i]->sniff(head)) {
            return READERS[i];
        }
    }
    return NULL;
}
