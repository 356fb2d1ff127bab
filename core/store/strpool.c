#include "store/strpool.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/seed.h"

#ifdef KS_SMALL_LIMITS /* fuzzing: small pools are made quickly, and grow with few strings */
enum { SLOTS_MIN = 4, STRINGS_MIN = 2, RECENT_BITS = 2 };
#else
enum {
    SLOTS_MIN = 1024,
    STRINGS_MIN = 256,
    RECENT_BITS = 11, /* 2,048 entries of 24 bytes stay in the first two cache levels */
};
#endif
enum { RECENT_COUNT = 1 << RECENT_BITS };

/* The hash stands beside the id: a wrong slot is nearly never followed, and a table that grows
 * needs no text. Of 2^32 hashes a million texts share a hundred, each for a comparison more. */
struct slot {
    uint32_t id; /* 0: free */
    uint32_t hash;
};

/* A string seen lately. Traces repeat few names, so most lookups end here, without a hash of the
 * whole text; up to 16 bytes even without looking at the stored text. */
struct recent {
    uint64_t first; /* 8 bytes at each end, see load_ends */
    uint64_t last;
    uint32_t len;
    uint32_t id; /* 0: free */
};

struct ks_strpool {
    struct ks_arena bytes;
    struct ks_str *strings;
    uint32_t count;
    uint32_t capacity;
    struct slot *slots;
    size_t slot_count; /* power of two */
    uint64_t seed;
    bool is_sealed; /* texts are known, slots are not */
    struct recent recent[RECENT_COUNT];
};

enum ks_status ks_strpool_create(struct ks_strpool **out, struct ks_err *err)
{
    struct ks_strpool *pool = ks_alloc(1, sizeof(*pool));
    if (!pool) {
        goto failed;
    }
    ks_arena_init(&pool->bytes);
    pool->seed = ks_seed_random();
    pool->strings = ks_alloc(STRINGS_MIN, sizeof(*pool->strings));
    pool->slots = ks_hash_alloc(SLOTS_MIN, sizeof(*pool->slots));
    if (!pool->strings || !pool->slots) {
        goto failed;
    }
    pool->capacity = STRINGS_MIN;
    pool->slot_count = SLOTS_MIN;
    pool->strings[0] = KS_STR("");
    pool->count = 1;
    *out = pool;
    return KS_OK;

failed:
    ks_strpool_destroy(pool);
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot create string pool: slots=%d",
                   SLOTS_MIN);
}

enum ks_status ks_strpool_create_sealed(uint32_t count, size_t size, struct ks_strpool **out,
                                        char **bytes, struct ks_err *err)
{
    struct ks_strpool *pool = ks_alloc(1, sizeof(*pool));
    if (pool) {
        ks_arena_init(&pool->bytes);
        pool->is_sealed = true;
        pool->strings = ks_alloc(count, sizeof(*pool->strings));
        pool->capacity = count;
        *bytes = ks_new(&pool->bytes, char, size);
    }
    if (!pool || !pool->strings || !*bytes) {
        ks_strpool_destroy(pool);
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot create string pool: size=%zu",
                       size);
    }
    pool->strings[0] = (struct ks_str){*bytes, 0};
    *out = pool;
    return KS_OK;
}

bool ks_strpool_seal(struct ks_strpool *pool, const uint32_t *lengths, size_t size)
{
    const char *next = pool->strings[0].ptr;
    size_t left = size;
    if (lengths[0] != 0) {
        return false;
    }
    for (uint32_t id = 0; id < pool->capacity; id++) {
        size_t len = lengths[id];
        if (len > KS_STR_LEN_MAX || len >= left || next[len] != '\0') {
            return false;
        }
        pool->strings[id] = (struct ks_str){next, len};
        next += len + 1;
        left -= len + 1;
    }
    pool->count = pool->capacity;
    return left == 0;
}

void ks_strpool_destroy(struct ks_strpool *pool)
{
    if (!pool) {
        return;
    }
    ks_arena_release(&pool->bytes);
    ks_free(pool->strings);
    ks_hash_free(pool->slots, pool->slot_count, sizeof(*pool->slots));
    ks_free(pool);
}

/* The slot of `s`, or the free one where it belongs; the table is never full. */
static struct slot *find_slot(const struct ks_strpool *pool, struct ks_str s, uint32_t hash)
{
    size_t mask = pool->slot_count - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        struct slot *slot = &pool->slots[i];
        if (slot->id == 0 || (slot->hash == hash && ks_str_equal(pool->strings[slot->id], s))) {
            return slot;
        }
    }
}

static uint32_t hash_of(const struct ks_strpool *pool, struct ks_str s)
{
    return (uint32_t)XXH3_64bits_withSeed(s.ptr, s.len, pool->seed);
}

static enum ks_status grow_strings(struct ks_strpool *pool, struct ks_err *err)
{
    uint32_t capacity = pool->capacity > UINT32_MAX / 2 ? UINT32_MAX : pool->capacity * 2;
    struct ks_str *strings = ks_realloc(pool->strings, capacity, sizeof(*strings));
    if (!strings) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot grow string pool: strings=%u",
                       capacity);
    }
    pool->strings = strings;
    pool->capacity = capacity;
    return KS_OK;
}

static enum ks_status grow_slots(struct ks_strpool *pool, struct ks_err *err)
{
    size_t slot_count = pool->slot_count * 2;
    struct slot *slots = ks_hash_alloc(slot_count, sizeof(*slots));
    if (!slots) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot grow string pool: slots=%zu",
                       slot_count);
    }
    size_t mask = slot_count - 1;
    for (size_t old = 0; old < pool->slot_count; old++) {
        struct slot slot = pool->slots[old];
        if (slot.id != 0) {
            size_t i = slot.hash & mask;
            while (slots[i].id != 0) {
                i = (i + 1) & mask;
            }
            slots[i] = slot;
        }
    }
    ks_hash_free(pool->slots, pool->slot_count, sizeof(*pool->slots));
    pool->slots = slots;
    pool->slot_count = slot_count;
    return KS_OK;
}

static enum ks_status reserve_one(struct ks_strpool *pool, struct ks_err *err)
{
    if (pool->count == UINT32_MAX) {
        return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET, "Cannot intern string: strings=%u",
                       pool->count);
    }
    if (pool->count == pool->capacity) {
        KS_TRY(grow_strings(pool, err));
    }
    if (pool->count >= pool->slot_count / 2) {
        KS_TRY(grow_slots(pool, err));
    }
    return KS_OK;
}

/* Both ends of the text as numbers; together with the length they are the whole text up to 16
 * bytes. */
static void load_ends(struct ks_str s, uint64_t *first, uint64_t *last)
{
    if (s.len >= 8) {
        memcpy(first, s.ptr, 8);
        memcpy(last, s.ptr + s.len - 8, 8);
    } else if (s.len >= 4) {
        uint32_t low = 0;
        uint32_t high = 0;
        memcpy(&low, s.ptr, 4);
        memcpy(&high, s.ptr + s.len - 4, 4);
        *first = low;
        *last = high;
    } else {
        *first = (unsigned char)s.ptr[0];
        *last = (uint64_t)(unsigned char)s.ptr[s.len / 2] << 8 | (unsigned char)s.ptr[s.len - 1];
    }
}

/* The middle counts too: names of one family (kernels, files of one package) share both ends. */
static size_t recent_index(struct ks_str s, uint64_t first, uint64_t last)
{
    uint64_t middle = s.len;
    if (s.len > 16) {
        memcpy(&middle, s.ptr + s.len / 2 - 4, 8);
        middle += s.len;
    }
    uint64_t mixed =
        (first ^ middle * 0x165667B19E3779F9u) * 0x9E3779B97F4A7C15u ^ last * 0xC2B2AE3D27D4EB4Fu;
    return (size_t)((mixed ^ mixed >> 32) * 0x9E3779B97F4A7C15u >> (64 - RECENT_BITS));
}

/* Looks the whole table up, and adds the string when it is new. */
static enum ks_status intern_slowly(struct ks_strpool *pool, struct ks_str s, uint32_t *id,
                                    struct ks_err *err)
{
    uint32_t hash = hash_of(pool, s);
    struct slot *slot = find_slot(pool, s, hash);
    if (slot->id != 0) {
        *id = slot->id;
        return KS_OK;
    }

    /* Everything that can fail comes first; the pool changes only after that. */
    KS_TRY(reserve_one(pool, err));
    char *bytes = ks_arena_copy(&pool->bytes, s.ptr, s.len);
    if (!bytes) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot intern string: len=%zu", s.len);
    }
    *id = pool->count++;
    pool->strings[*id] = (struct ks_str){bytes, s.len};
    slot = find_slot(pool, s, hash); // reserve_one may have moved the table
    *slot = (struct slot){*id, hash};
    return KS_OK;
}

enum ks_status ks_strpool_intern(struct ks_strpool *pool, struct ks_str s, struct ks_strid *out,
                                 struct ks_err *err)
{
    if (s.len == 0) {
        *out = (struct ks_strid){0};
        return KS_OK;
    }
    KS_ASSERT(!pool->is_sealed);
    if (s.len > KS_STR_LEN_MAX) {
        return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET, "Cannot intern string: len=%zu", s.len);
    }

    uint64_t first = 0;
    uint64_t last = 0;
    load_ends(s, &first, &last);
    struct recent *recent = &pool->recent[recent_index(s, first, last)];
    if (recent->id != 0 && recent->first == first && recent->last == last && recent->len == s.len &&
        (s.len <= 16 || memcmp(pool->strings[recent->id].ptr + 8, s.ptr + 8, s.len - 16) == 0)) {
        *out = (struct ks_strid){recent->id};
        return KS_OK;
    }

    uint32_t id = 0;
    KS_TRY(intern_slowly(pool, s, &id, err));
    *recent = (struct recent){first, last, (uint32_t)s.len, id};
    *out = (struct ks_strid){id};
    return KS_OK;
}

/* A few texts are looked up in a whole query: that is not worth a table. */
static struct ks_strid find_slowly(const struct ks_strpool *pool, struct ks_str s)
{
    for (uint32_t id = 1; id < pool->count; id++) {
        if (ks_str_equal(pool->strings[id], s)) {
            return (struct ks_strid){id};
        }
    }
    return (struct ks_strid){0};
}

struct ks_strid ks_strpool_find(const struct ks_strpool *pool, struct ks_str s)
{
    if (s.len == 0 || s.len > KS_STR_LEN_MAX) {
        return (struct ks_strid){0};
    }
    if (pool->is_sealed) {
        return find_slowly(pool, s);
    }
    return (struct ks_strid){find_slot(pool, s, hash_of(pool, s))->id};
}

struct ks_str ks_strpool_get(const struct ks_strpool *pool, struct ks_strid id)
{
    KS_ASSERT(id.v < pool->count);
    return pool->strings[id.v];
}

uint32_t ks_strpool_count(const struct ks_strpool *pool)
{
    return pool->count;
}
