#include "cache/cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#define KS_LOG_DOMAIN "cache"
#include "base/log.h"
#include "cache/cache_folder.h"
#include "cache/facts_file.h"
#include "store/kst.h"

struct ks_cache {
    struct ks_cache_folder folder;
    const struct ks_log *log;
    bool has_trace; /* found or written: `trace_id` is its */
    uint64_t trace_id;
    /* Of the trace that is being written: */
    const struct ks_trace *trace; /* NULL: none */
    struct ks_cache_draft draft;
    bool has_thread;
    pthread_t thread;
    atomic_bool stop;
    enum ks_status status; /* of writing; the thread's until it is joined */
    struct ks_err err;
};

struct ks_cache *ks_cache_open(const struct ks_cache_options *options)
{
    struct ks_cache *cache = ks_alloc(1, sizeof(*cache));
    if (!cache) {
        return NULL;
    }
    cache->log = options->log;
    cache->draft.fd = -1;
    const char *why =
        ks_cache_folder_open(&cache->folder, options->path,
                             options->bytes_max ? options->bytes_max : KS_CACHE_BYTES_DEFAULT);
    if (why) {
        KS_LOG(cache->log, KS_LOG_DEBUG, "no cache in %s: %s", cache->folder.path, why);
        ks_free(cache);
        return NULL;
    }
    return cache;
}

static void join(struct ks_cache *cache)
{
    if (cache->has_thread) {
        (void)pthread_join(cache->thread, NULL);
        cache->has_thread = false;
    }
}

void ks_cache_close(struct ks_cache *cache)
{
    if (!cache) {
        return;
    }
    atomic_store(&cache->stop, true);
    join(cache);
    if (cache->trace) {
        ks_cache_draft_drop(&cache->folder, &cache->draft);
    }
    ks_cache_folder_close(&cache->folder);
    ks_free(cache);
}

/* ------------------------------------------------------------------ names */

static void name_trace(const struct ks_cache_key *key, char name[KS_CACHE_NAME_SIZE])
{
    snprintf(name, KS_CACHE_NAME_SIZE, "%016llx%016llx.kst", (unsigned long long)key->trace[0],
             (unsigned long long)key->trace[1]);
}

static void name_facts(const struct ks_cache_key *key, char name[KS_CACHE_NAME_SIZE])
{
    snprintf(name, KS_CACHE_NAME_SIZE, "%016llx%016llx.%016llx.facts",
             (unsigned long long)key->trace[0], (unsigned long long)key->trace[1],
             (unsigned long long)key->facts);
}

/* ------------------------------------------------------------------ finding */

struct ks_trace *ks_cache_find_trace(struct ks_cache *cache, const struct ks_cache_key *key,
                                     uint64_t chunk_bytes_max)
{
    char name[KS_CACHE_NAME_SIZE];
    struct ks_trace *trace = NULL;
    struct ks_err err = {0};
    name_trace(key, name);
    int fd = ks_cache_folder_find(&cache->folder, name);
    if (fd < 0) {
        return NULL;
    }
    enum ks_status status = ks_kst_open(fd, chunk_bytes_max, &trace, &cache->trace_id, &err);
    if (status != KS_OK) {
        KS_LOG(cache->log, KS_LOG_DEBUG, "not used: %s: %s", name, err.message);
        if (status == KS_ERR_FORMAT || status == KS_ERR_UNSUPPORTED) {
            ks_cache_forget(cache, key);
        }
        return NULL;
    }
    KS_LOG(cache->log, KS_LOG_DEBUG, "trace is %s/%s", cache->folder.path, name);
    cache->has_trace = true;
    return trace;
}

bool ks_cache_find_facts(struct ks_cache *cache, const struct ks_cache_key *key,
                         const struct ks_trace *trace, struct ks_facts *facts,
                         struct ks_findings *findings)
{
    char name[KS_CACHE_NAME_SIZE];
    struct ks_err err = {0};
    name_facts(key, name);
    int fd = ks_cache_folder_find(&cache->folder, name);
    if (fd < 0) {
        return false;
    }
    enum ks_status status = ks_facts_file_read(fd, cache->trace_id, trace, facts, findings, &err);
    (void)close(fd);
    if (status != KS_OK) {
        KS_LOG(cache->log, KS_LOG_DEBUG, "not used: %s: %s", name, err.message);
        if (status == KS_ERR_FORMAT) {
            ks_cache_folder_remove(&cache->folder, name);
        }
        return false;
    }
    KS_LOG(cache->log, KS_LOG_DEBUG, "facts are %s/%s", cache->folder.path, name);
    return true;
}

void ks_cache_forget(struct ks_cache *cache, const struct ks_cache_key *key)
{
    char name[KS_CACHE_NAME_SIZE];
    name_trace(key, name);
    ks_cache_folder_remove(&cache->folder, name);
    name_facts(key, name);
    ks_cache_folder_remove(&cache->folder, name);
    cache->has_trace = false;
}

/* ------------------------------------------------------------------ writing */

static void *write_trace(void *user)
{
    struct ks_cache *cache = user;
    cache->status =
        ks_kst_write(cache->trace, cache->draft.fd, &cache->stop, &cache->trace_id, &cache->err);
    return NULL;
}

void ks_cache_begin_trace(struct ks_cache *cache, const struct ks_trace *trace, bool may_thread)
{
    KS_ASSERT(!cache->trace && !cache->has_trace);
    if (!ks_cache_draft_open(&cache->folder, &cache->draft)) {
        KS_LOG(cache->log, KS_LOG_DEBUG, "cannot write to %s: %s", cache->folder.path,
               strerror(errno));
        ks_cache_draft_drop(&cache->folder, &cache->draft);
        return;
    }
    cache->trace = trace;
    cache->has_thread = may_thread && pthread_create(&cache->thread, NULL, write_trace, cache) == 0;
}

static void keep_trace(struct ks_cache *cache, const struct ks_cache_key *key)
{
    char name[KS_CACHE_NAME_SIZE];
    bool had_thread = cache->has_thread;
    join(cache);
    if (!had_thread) {
        (void)write_trace(cache);
    }
    name_trace(key, name);
    cache->trace = NULL;
    if (cache->status != KS_OK) {
        KS_LOG(cache->log, KS_LOG_DEBUG, "not kept: %s", cache->err.message);
        ks_cache_draft_drop(&cache->folder, &cache->draft);
        return;
    }
    cache->has_trace = ks_cache_draft_publish(&cache->folder, &cache->draft, name);
    KS_LOG(cache->log, KS_LOG_DEBUG, "trace is %skept as %s/%s", cache->has_trace ? "" : "not ",
           cache->folder.path, name);
}

static void keep_facts(struct ks_cache *cache, const struct ks_cache_key *key,
                       const struct ks_facts *facts, const struct ks_findings *findings)
{
    char name[KS_CACHE_NAME_SIZE];
    struct ks_cache_draft draft;
    struct ks_err err = {0};
    name_facts(key, name);
    if (!ks_cache_draft_open(&cache->folder, &draft)) {
        ks_cache_draft_drop(&cache->folder, &draft);
        return;
    }
    if (ks_facts_file_write(draft.fd, cache->trace_id, facts, findings, &err) != KS_OK) {
        KS_LOG(cache->log, KS_LOG_DEBUG, "not kept: %s", err.message);
        ks_cache_draft_drop(&cache->folder, &draft);
        return;
    }
    bool is_kept = ks_cache_draft_publish(&cache->folder, &draft, name);
    KS_LOG(cache->log, KS_LOG_DEBUG, "facts are %skept as %s/%s", is_kept ? "" : "not ",
           cache->folder.path, name);
}

void ks_cache_keep(struct ks_cache *cache, const struct ks_cache_key *key,
                   const struct ks_facts *facts, const struct ks_findings *findings)
{
    if (cache->trace) {
        keep_trace(cache, key);
    }
    if (cache->has_trace && facts) {
        keep_facts(cache, key, facts, findings);
    }
}
