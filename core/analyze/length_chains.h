/* Rows of one kind whose length grows from one to a later one: a text that is generated token by
 * token. A chain goes on with a row of its last length, which another layer has as well, or of the
 * length that the last row led to. Memory: the chains. */
#ifndef KS_ANALYZE_LENGTH_CHAINS_H
#define KS_ANALYZE_LENGTH_CHAINS_H

#include "analyze/shapes.h"
#include "base/err.h"

/* Texts that grow at the same time, in turns. */
enum { KS_LENGTH_CHAINS_OPEN = 64 };

struct ks_length_chain {
    uint64_t kind;
    int64_t length; /* of its last row */
    int64_t next;   /* that it leads to */
    int64_t repeats;
    int64_t advances;
    uint32_t rows; /* of the last length */
};

struct ks_length_chains {
    struct ks_length_chain *items; /* ks_alloc */
    size_t count;
    size_t capacity;
    uint32_t open[KS_LENGTH_CHAINS_OPEN]; /* the last ones, latest first */
    size_t open_count;
};

/* A number for what rows of a kind have in common: `seed`, and the shape but for one dimension. */
uint64_t ks_length_kind(uint64_t seed, const struct ks_shape *shape, size_t without);

/* `*index`: the chain that a row of this kind and length belongs to, a new one if to none. */
enum ks_status ks_length_chains_note(struct ks_length_chains *chains, uint64_t kind, int64_t length,
                                     int64_t next, uint32_t *index, struct ks_err *err)
    KS_MUST_CHECK;
void ks_length_chains_release(struct ks_length_chains *chains);

#endif
