/* What a sealed trace is made of. Only store/trace.c reads it, and store/seal.c fills it. */
#ifndef KS_STORE_TRACE_IMPL_H
#define KS_STORE_TRACE_IMPL_H

#include "store/table.h"

struct ks_kst; /* kst_impl.h */

struct ks_trace {
    struct ks_kst *kst;         /* the sealed file that chunks are loaded from; NULL: none */
    struct ks_chunk_pool *pool; /* scans pin chunks of a const trace: only the pool changes then */
    struct ks_strpool *strings;
    struct ks_arena arena; /* sources, and what readers hung onto them */
    struct ks_table tables[KS_TABLE_COUNT];
    struct ks_source **sources;
    uint32_t source_count;
    struct ks_track *tracks;
    uint32_t track_count;
    struct ks_collective *collectives; /* id - 1 */
    uint32_t collective_count;
    struct ks_stack *stacks; /* id - 1 */
    uint32_t stack_count;
    struct ks_call_path *call_paths; /* id - 1 */
    uint32_t call_path_count;
    int64_t origin_ns;
    int64_t start_ns;
    int64_t end_ns;
};

#endif
