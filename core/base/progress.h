/* How far a long call has come, for whoever shows it. Written by several threads, read by another:
 * plain numbers that are only ever touched here. */
#ifndef KS_BASE_PROGRESS_H
#define KS_BASE_PROGRESS_H

#include "base/compiler.h"

static inline void ks_progress_add_done(struct ks_progress *progress, uint64_t bytes)
{
    if (progress) {
        __atomic_fetch_add(&progress->bytes_done, bytes, __ATOMIC_RELAXED);
    }
}

static inline void ks_progress_add_total(struct ks_progress *progress, uint64_t bytes)
{
    if (progress) {
        __atomic_fetch_add(&progress->bytes_total, bytes, __ATOMIC_RELAXED);
    }
}

static inline void ks_progress_enter(struct ks_progress *progress, enum ks_stage stage)
{
    if (progress) {
        __atomic_store_n(&progress->stage, stage, __ATOMIC_RELAXED);
    }
}

#endif
