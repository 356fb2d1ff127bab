#include "report_cache.h"

#include <time.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/build_id.h"
#include "base/err.h"
#define KS_LOG_DOMAIN "cache"
#include "base/log.h"
#include "base/proc.h"
#include "base/text.h"
#include "store/kst.h"

/* The clock of files ticks more slowly than this: one that was changed less before it was looked at
 * could change again without a sign of it. */
static const int64_t TICK_NS = 20000000;

/* What decides what is read and computed is part of the key, and so is each new member of these:
 * take it into the key, then count it here. */
_Static_assert(sizeof(struct ks_scope) == 56, "a new member of the scope belongs into the key");
_Static_assert(sizeof(struct ks_report_options) == 184,
               "a new option belongs into the key, unless no byte of a report hangs on it");

static void count_warnings(void *user, enum ks_log_level level, const char *domain,
                           const char *text)
{
    struct ks_report_cache *self = user;
    self->has_warned = self->has_warned || level <= KS_LOG_WARN;
    if (self->outer.cb) {
        self->outer.cb(self->outer.user, level, domain, text);
    }
}

/* ------------------------------------------------------------------ keys */

static void add_number(XXH3_state_t *hash, uint64_t number)
{
    (void)XXH3_128bits_update(hash, &number, sizeof(number));
}

static void add_print(XXH3_state_t *hash, const struct ks_fingerprint *print)
{
    add_number(hash, print->low);
    add_number(hash, print->high);
}

static void make_key(struct ks_cache_key *key, XXH3_state_t *hash,
                     const struct ks_report_options *options, const struct ks_fingerprint *input,
                     const struct ks_fingerprint *stacks)
{
    struct ks_str build = ks_build_id();
    (void)XXH3_128bits_reset(hash);
    (void)XXH3_128bits_update(hash, build.ptr, build.len);
    add_number(hash, KS_KST_VERSION);
    add_print(hash, input);
    add_number(hash, options->strict);
    add_number(hash, (uint64_t)options->run);
    add_number(hash, (uint64_t)options->window);
    add_number(hash, options->rank_given);
    add_number(hash, (uint64_t)options->rank);
    XXH128_hash_t trace = XXH3_128bits_digest(hash);
    key->trace[0] = trace.high64;
    key->trace[1] = trace.low64;
    add_number(hash, options->group_by_shape);
    add_number(hash, (uint64_t)options->group_by_stack);
    add_number(hash, options->step_range_given);
    add_number(hash, (uint64_t)options->step_first);
    add_number(hash, (uint64_t)options->step_last);
    add_number(hash, options->device_given);
    add_number(hash, (uint64_t)options->device);
    add_print(hash, stacks);
    key->facts = XXH3_128bits_digest(hash).low64;
}

/* Looks at the input and at the recordings with stacks. False: they cannot be known without being
 * read. */
static enum ks_status look(const struct ks_report_options *options, struct ks_stacks_list *stacks,
                           struct ks_cache_key *key, struct ks_fingerprint *input,
                           struct ks_err *err)
{
    struct ks_fingerprint framed = {.is_whole = true, .newest_ns = INT64_MIN};
    struct ks_read_options read = {
        .paths = options->paths,
        .path_count = options->path_count,
        .window = options->window,
        .stacks = stacks,
    };
    KS_TRY(ks_fingerprint_take(&read, input, err));
    if (stacks->count > 0) {
        read = (struct ks_read_options){
            .paths = stacks->paths, .path_count = stacks->count, .any_run = true};
        KS_TRY(ks_fingerprint_take(&read, &framed, err));
    }
    XXH3_state_t *hash = XXH3_createState();
    if (!hash) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot look at files: no memory");
    }
    make_key(key, hash, options, input, &framed);
    (void)XXH3_freeState(hash);
    input->is_whole = input->is_whole && framed.is_whole;
    input->newest_ns = framed.newest_ns > input->newest_ns ? framed.newest_ns : input->newest_ns;
    return KS_OK;
}

static bool is_settled(const struct ks_fingerprint *input)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - TICK_NS > input->newest_ns;
}

/* ------------------------------------------------------------------ begin and end */

static void open_cache(struct ks_report_cache *self, const struct ks_report_options *options,
                       const struct ks_fingerprint *input)
{
    if (!input->is_whole || !is_settled(input)) {
        KS_LOG(&self->outer, KS_LOG_DEBUG, "no cache: the input is no file, or is being written");
    } else if (ks_build_id().len == 0) {
        KS_LOG(&self->outer, KS_LOG_DEBUG, "no cache: this program was linked without a build id");
    } else {
        struct ks_cache_options how = {
            .path = options->cache_dir, .bytes_max = options->cache_bytes_max, .log = &self->outer};
        self->cache = ks_cache_open(&how);
    }
}

enum ks_status ks_report_cache_begin(struct ks_report_cache *self,
                                     const struct ks_report_options *options,
                                     struct ks_stacks_list *stacks, bool *has_listed,
                                     struct ks_err *err)
{
    struct ks_fingerprint input = {0};
    struct ks_err ignored = {0};
    *has_listed = false;
    *self = (struct ks_report_cache){.outer = {options->log, options->log_user, KS_LOG_DEBUG}};
    self->log = (struct ks_log){count_warnings, self, KS_LOG_DEBUG};
    if (options->path_count == 0) {
        return KS_OK;
    }
    size_t explicit_count = stacks->count;
    enum ks_status status = look(options, stacks, &self->key, &input, &ignored);
    if (status == KS_ERR_NOMEM) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "%s", ignored.message);
    }
    if (status != KS_OK) { // reading will say what is wrong
        stacks->count = explicit_count;
        return KS_OK;
    }
    *has_listed = true;
    self->bytes = input.is_whole ? input.bytes : 0;
    if (options->cache) {
        open_cache(self, options, &input);
    }
    return KS_OK;
}

struct ks_trace *ks_report_cache_find_trace(struct ks_report_cache *self, uint64_t chunk_bytes_max)
{
    struct ks_trace *trace =
        self->cache ? ks_cache_find_trace(self->cache, &self->key, chunk_bytes_max) : NULL;
    self->is_trace_found = trace != NULL;
    return trace;
}

bool ks_report_cache_find_facts(struct ks_report_cache *self, const struct ks_trace *trace,
                                struct ks_facts *facts, struct ks_findings *findings)
{
    self->is_complete = self->cache && self->is_trace_found &&
                        ks_cache_find_facts(self->cache, &self->key, trace, facts, findings);
    return self->is_complete;
}

void ks_report_cache_forget(struct ks_report_cache *self)
{
    ks_cache_forget(self->cache, &self->key);
    self->is_trace_found = false;
    self->is_complete = false;
}

/* A process that still runs says something else the next time, without a file that changes. */
static bool is_running(const struct ks_trace *trace)
{
    for (uint32_t i = 0; i < ks_trace_source_count(trace); i++) {
        if (ks_trace_source(trace, i)->is_running) {
            return true;
        }
    }
    return false;
}

void ks_report_cache_take_trace(struct ks_report_cache *self, const struct ks_trace *trace,
                                unsigned threads)
{
    unsigned count = threads ? threads : ks_processor_count();
    if (self->cache && !self->has_warned && !is_running(trace)) {
        ks_cache_begin_trace(self->cache, trace, count > 1);
    }
}

/* Is the input still what was looked at before it was read? */
static bool is_unchanged(const struct ks_report_cache *self,
                         const struct ks_report_options *options)
{
    struct ks_arena arena;
    ks_arena_init(&arena);
    struct ks_stacks_list stacks = {.arena = &arena};
    struct ks_cache_key key;
    struct ks_fingerprint input = {0};
    struct ks_err ignored = {0};
    bool is_same = ks_stacks_list_add(&stacks, options->stacks_paths, options->stacks_path_count,
                                      &ignored) == KS_OK &&
                   look(options, &stacks, &key, &input, &ignored) == KS_OK && input.is_whole &&
                   key.trace[0] == self->key.trace[0] && key.trace[1] == self->key.trace[1] &&
                   key.facts == self->key.facts;
    ks_arena_release(&arena);
    return is_same;
}

void ks_report_cache_end(struct ks_report_cache *self, const struct ks_report_options *options,
                         const struct ks_facts *facts, const struct ks_findings *findings)
{
    if (self->cache && facts && !self->is_complete && !self->has_warned &&
        is_unchanged(self, options)) {
        ks_cache_keep(self->cache, &self->key, facts, findings);
    }
    ks_cache_close(self->cache);
    self->cache = NULL;
}
