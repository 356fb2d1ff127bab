/* Keys and values that grow by aten::cat: each new token copies those of all tokens before it.
 * Traces do not tell the shapes of a list of tensors; attention tells them, which sees a few
 * queries and more keys each time. The cats between two of its rows that take long enough to copy
 * the keys are those of its layer; the others turn pairs of a rotary embedding, and are short. */
#include "analyze/op_work.h"

#include "analyze/length_chains.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

enum {
    CATS_MAX = 16,        /* between two rows of attention */
    KEYS_PER_QUERY = 4,   /* at least: else it is a prompt */
    ADVANCES_MIN = 2,     /* a chain has three lengths */
    BYTES_PER_NS = 20000, /* no memory is as fast: 3,350 of an H100, 8,000 of a B200 */
    NAME_KNOWN = 1,
    NAME_CAT = 2,
    NAME_ATTENTION = 4,
    NAME_PRODUCT = 8,
};

struct row {
    struct ks_op_row row;
    const struct ks_step *step;
    uint32_t lane;
    uint32_t chain;
    double elements; /* of the keys, or the values */
    double new_elements;
};

struct ks_cache_parts {
    uint8_t *names; /* by string id: NAME_* */
    struct ks_length_chains chains;
    struct row *rows;
    size_t row_count;
    size_t row_capacity;
    struct ks_op_row cats[CATS_MAX]; /* since the last row of attention, the last ones in a ring */
    size_t cat_count;
    uint32_t lane;
};

enum ks_status ks_caches_create(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_arena *scratch = &work->analyzer->scratch;
    size_t names = (size_t)ks_trace_str_count(work->analyzer->trace) + 1;
    work->caches = ks_new(scratch, struct ks_cache_parts, 1);
    if (!work->caches || !(work->caches->names = ks_new(scratch, uint8_t, names))) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow caches: names=%zu", names);
    }
    return KS_OK;
}

void ks_caches_release(struct ks_op_work *work)
{
    if (work->caches) {
        ks_length_chains_release(&work->caches->chains);
        ks_free(work->caches->rows);
    }
}

static unsigned name_of(struct ks_op_work *work, uint32_t name)
{
    static const struct {
        const char *name;
        uint8_t what;
    } known[] = {
        {"aten::cat", NAME_CAT},
        {"aten::scaled_dot_product_attention", NAME_ATTENTION},
        {"aten::matmul", NAME_PRODUCT},
    };
    uint8_t *found = &work->caches->names[name];
    if (*found == 0) {
        struct ks_str text = ks_trace_str(work->analyzer->trace, (struct ks_strid){name});
        *found = NAME_KNOWN;
        for (size_t i = 0; i < KS_COUNT_OF(known); i++) {
            if (ks_str_equal(text, ks_str_from(known[i].name))) {
                *found = (uint8_t)(NAME_KNOWN | known[i].what);
            }
        }
    }
    return *found;
}

/* Queries of a text, and its keys, whose dimension `dim` is their number. */
struct attention {
    const struct ks_shape *keys;
    size_t dim;
    int64_t queries;
};

/* False: it is no attention, or not of a few queries over many keys. */
static bool read_attention(unsigned name, const struct ks_shapes *shapes,
                           struct attention *attention)
{
    const struct ks_shape *first = &shapes->items[0];
    const struct ks_shape *second = &shapes->items[1];
    if (shapes->count < 2 || first->count < 3 || second->count != first->count) {
        return false;
    }
    /* A product with keys that were turned, or all of attention. */
    size_t dim = second->count - (name & NAME_PRODUCT ? 1 : 2);
    *attention = (struct attention){second, dim, first->dims[first->count - 2]};
    return attention->queries > 0 && attention->queries <= second->dims[dim] / KEYS_PER_QUERY;
}

/* Can it have copied them? They are read and written. */
static bool is_long_enough(const struct ks_op_work *work, const struct ks_op_row *cat,
                           const struct ks_op_row *row, double elements)
{
    struct ks_str types = ks_trace_str(work->analyzer->trace, (struct ks_strid){row->types});
    bool is_half =
        ks_str_contains(types, KS_STR("BFloat16")) || ks_str_contains(types, KS_STR("Half"));
    return 2 * (is_half ? 2 : 4) * elements <= BYTES_PER_NS * (double)cat->device_ns;
}

static enum ks_status add_cats(struct ks_op_work *work, const struct ks_op_walk *walk,
                               const struct ks_op_row *row, const struct attention *attention,
                               struct ks_err *err)
{
    struct ks_cache_parts *parts = work->caches;
    int64_t length = attention->keys->dims[attention->dim];
    struct row one = {.lane = walk->lane, .elements = (double)ks_shape_elements(attention->keys)};
    one.new_elements = one.elements * (double)attention->queries / (double)length;
    uint64_t kind =
        ks_length_kind((uint64_t)walk->lane << 32 | row->name, attention->keys, attention->dim);
    KS_TRY(ks_length_chains_note(&parts->chains, kind, length,
                                 ks_sum_add(length, attention->queries), &one.chain, err));
    for (size_t i = 0; i < parts->cat_count && i < CATS_MAX; i++) {
        one.row = parts->cats[i];
        one.step = ks_op_work_step(work, walk, one.row.start_ns);
        if (one.step && is_long_enough(work, &one.row, row, one.elements)) {
            KS_TRY(ks_grow(&parts->rows, parts->row_count, &parts->row_capacity, sizeof(one),
                           "copies of caches", err));
            parts->rows[parts->row_count++] = one;
        }
    }
    return KS_OK;
}

enum ks_status ks_caches_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                              const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_cache_parts *parts = work->caches;
    unsigned name = row->is_op ? name_of(work, row->name) : 0;
    if (parts->lane != walk->lane) {
        parts->lane = walk->lane;
        parts->cat_count = 0;
    }
    if ((name & NAME_CAT) && row->device_ns > 0) {
        parts->cats[parts->cat_count++ % CATS_MAX] = *row;
    }
    if (!(name & (NAME_ATTENTION | NAME_PRODUCT)) || row->dims == 0) {
        return KS_OK;
    }
    struct ks_shapes shapes;
    struct attention attention;
    ks_shapes_read(ks_trace_str(work->analyzer->trace, (struct ks_strid){row->dims}), &shapes);
    enum ks_status status = KS_OK;
    if (read_attention(name, &shapes, &attention)) {
        status = add_cats(work, walk, row, &attention, err);
        parts->cat_count = 0;
    }
    return status;
}

static bool is_cache(const struct ks_length_chain *chain)
{
    return chain->advances >= ADVANCES_MIN;
}

enum ks_status ks_caches_publish(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_cache_parts *parts = work->caches;
    struct ks_cache_cost *cost = &work->analyzer->facts->work.caches;
    size_t steps = work->analyzer->facts->complete_step_count;
    double elements = 0;
    for (size_t i = 0; i < parts->row_count; i++) {
        const struct row *row = &parts->rows[i];
        const struct ks_length_chain *chain = &parts->chains.items[row->chain];
        if (!is_cache(chain)) {
            continue;
        }
        ks_op_work_add(&cost->cost, &row->row, row->step);
        elements += row->elements;
        cost->new_elements += row->new_elements;
        cost->length = chain->length;
        cost->op = (struct ks_strid){row->row.name};
        const struct ks_work_span span = {row->lane, KS_REPLAY_CACHE, row->row.start_ns,
                                          row->row.end_ns};
        KS_TRY(ks_op_work_add_span(work, &span, err));
    }
    cost->new_part = elements > 0 ? cost->new_elements / elements : 0;
    cost->new_elements /= (double)(steps > 0 ? steps : 1);
    ks_op_work_mean(work, &cost->cost);
    return KS_OK;
}
