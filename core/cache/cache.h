/* What was read and computed once, kept for the next time: the sealed trace, by what its input
 * looks like, and facts and findings, by that and by what was asked.
 *
 * A trace is written while its analyses run, on a thread of its own, and gets its name only when
 * the report is done with and the input is still what it was. The cache makes nothing fail: what
 * is missing, damaged or not ours is not there, and what cannot be written is not written. */
#ifndef KS_CACHE_CACHE_H
#define KS_CACHE_CACHE_H

#include "advise/findings.h"
#include "base/log.h"

struct ks_cache;

struct ks_cache_options {
    const char *path;   /* folder; NULL: the user's */
    uint64_t bytes_max; /* of all files; 0: KS_CACHE_BYTES_DEFAULT */
    const struct ks_log *log;
};

#define KS_CACHE_BYTES_DEFAULT ((uint64_t)8 << 30)

/* What a trace and its facts are found by. */
struct ks_cache_key {
    uint64_t trace[2]; /* hash of input and of how it is read */
    uint64_t facts;    /* of what is computed */
};

/* NULL: there is none that can be used; the log says why. */
struct ks_cache *ks_cache_open(const struct ks_cache_options *options);
/* Ends what is still being written, without a trace of it. NULL is fine. */
void ks_cache_close(struct ks_cache *cache);

/* Looks for the trace; `cache` remembers which it was. NULL: there is none. */
struct ks_trace *ks_cache_find_trace(struct ks_cache *cache, const struct ks_cache_key *key,
                                     uint64_t chunk_bytes_max);
/* Facts and findings of the trace that was found; false: there are none. */
bool ks_cache_find_facts(struct ks_cache *cache, const struct ks_cache_key *key,
                         const struct ks_trace *trace, struct ks_facts *facts,
                         struct ks_findings *findings);
/* The trace that was found is damaged: takes it, and all facts under the key, out of the cache. */
void ks_cache_forget(struct ks_cache *cache, const struct ks_cache_key *key);

/* Starts to write a trace that was not found, at once when `may_thread`, else in ks_cache_keep. It
 * must live until then, or until the cache is closed. */
void ks_cache_begin_trace(struct ks_cache *cache, const struct ks_trace *trace, bool may_thread);
/* Gives names to the trace that was begun, if one was, and to facts and findings (NULL: none) of
 * the trace that was begun or found. */
void ks_cache_keep(struct ks_cache *cache, const struct ks_cache_key *key,
                   const struct ks_facts *facts, const struct ks_findings *findings);

#endif
