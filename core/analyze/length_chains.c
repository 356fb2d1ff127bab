#include "analyze/length_chains.h"

#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"

/* FNV-1a, of whole numbers. */
static uint64_t mix(uint64_t hash, uint64_t value)
{
    for (int i = 0; i < 8; i++) {
        hash = (hash ^ (value & 0xff)) * 0x100000001b3u;
        value >>= 8;
    }
    return hash;
}

uint64_t ks_length_kind(uint64_t seed, const struct ks_shape *shape, size_t without)
{
    uint64_t hash = mix(mix(0xcbf29ce484222325u, seed), without);
    for (size_t i = 0; i < shape->count; i++) {
        hash = mix(hash, i == without ? 0 : (uint64_t)shape->dims[i]);
    }
    return hash;
}

/* Position among the open chains, or their number. */
static size_t find(const struct ks_length_chains *chains, uint64_t kind, int64_t length)
{
    for (size_t i = 0; i < chains->open_count; i++) {
        const struct ks_length_chain *chain = &chains->items[chains->open[i]];
        if (chain->kind == kind && (chain->length == length || chain->next == length)) {
            return i;
        }
    }
    return chains->open_count;
}

/* Puts the chain at this position first; the one behind the last position is closed. */
static void put_first(struct ks_length_chains *chains, size_t at, uint32_t index)
{
    at = at < KS_LENGTH_CHAINS_OPEN ? at : KS_LENGTH_CHAINS_OPEN - 1;
    memmove(chains->open + 1, chains->open, at * sizeof(*chains->open));
    chains->open[0] = index;
    chains->open_count += at == chains->open_count;
}

enum ks_status ks_length_chains_note(struct ks_length_chains *chains, uint64_t kind, int64_t length,
                                     int64_t next, uint32_t *index, struct ks_err *err)
{
    size_t at = find(chains, kind, length);
    if (at < chains->open_count) {
        *index = chains->open[at];
        struct ks_length_chain *chain = &chains->items[*index];
        bool is_repeat = chain->length == length;
        chain->repeats += is_repeat;
        chain->advances += !is_repeat;
        chain->rows = is_repeat ? chain->rows + 1 : 1;
        chain->length = length;
        chain->next = next;
    } else {
        KS_TRY(ks_grow(&chains->items, chains->count, &chains->capacity, sizeof(*chains->items),
                       "texts that grow", err));
        *index = (uint32_t)chains->count;
        chains->items[chains->count++] =
            (struct ks_length_chain){.kind = kind, .length = length, .next = next, .rows = 1};
    }
    put_first(chains, at, *index);
    return KS_OK;
}

void ks_length_chains_release(struct ks_length_chains *chains)
{
    ks_free(chains->items);
}
