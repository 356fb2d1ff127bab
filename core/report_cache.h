/* How a report uses the cache: what it is found by, and when it is kept. */
#ifndef KS_REPORT_CACHE_H
#define KS_REPORT_CACHE_H

#include "cache/cache.h"
#include "read/fingerprint.h"

struct ks_report_cache {
    struct ks_cache *cache; /* NULL: none is used */
    struct ks_cache_key key;
    struct ks_log log;
    struct ks_log outer; /* where lines of `log` go; warnings are counted on the way */
    bool has_warned;     /* a report without its warnings would not be the same: it is not kept */
    bool is_trace_found;
    bool is_complete; /* facts were found too */
    uint64_t bytes;   /* of the input, decompressed; 0: not known */
};

/* Looks at the input. `stacks` gets the recordings with stacks (explicit ones stand in it already).
 * Without a cache nothing but the size of the input is found out; `has_listed` tells whether stacks
 * were handed over. */
enum ks_status ks_report_cache_begin(struct ks_report_cache *self,
                                     const struct ks_report_options *options,
                                     struct ks_stacks_list *stacks, bool *has_listed,
                                     struct ks_err *err) KS_MUST_CHECK;
struct ks_trace *ks_report_cache_find_trace(struct ks_report_cache *self, uint64_t chunk_bytes_max);
bool ks_report_cache_find_facts(struct ks_report_cache *self, const struct ks_trace *trace,
                                struct ks_facts *facts, struct ks_findings *findings);
/* What was found is damaged. */
void ks_report_cache_forget(struct ks_report_cache *self);
/* A trace was read: starts to write it. */
void ks_report_cache_take_trace(struct ks_report_cache *self, const struct ks_trace *trace,
                                unsigned threads);
/* The report was written, or failed (`facts` NULL). Keeps what is new and worth it, and ends. */
void ks_report_cache_end(struct ks_report_cache *self, const struct ks_report_options *options,
                         const struct ks_facts *facts, const struct ks_findings *findings);

#endif
