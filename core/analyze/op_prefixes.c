/* Forward passes over a whole text for each new token: the same embedding, or the same attention,
 * sees a length that is one more than that of the pass before. A pass goes from its first row of a
 * length to the first row of the next length. */
#include "analyze/op_work.h"

#include <stdlib.h>

#include "analyze/length_chains.h"
#include "analyze/step_lookup.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

enum {
    LENGTH_MIN = 16,  /* what a few tokens cost is next to nothing */
    ADVANCES_MIN = 3, /* four lengths in a row are no accident */
    MATRIX = 2,
    NAME_KNOWN = 1,
    NAME_EMBEDDING = 2,
    NAME_ATTENTION = 4,
    NAME_PRODUCT = 8,
};

/* The first row of a length. */
struct pass {
    int64_t start_ns;
    const struct ks_step *step;
    uint64_t kind;
    uint32_t lane;
    uint32_t chain;
    uint32_t name;
};

/* Bytes of what one pass reads whatever its length is. */
struct reading {
    double weight_bytes;
    double cache_bytes;
};

struct ks_prefix_parts {
    uint8_t *names; /* by string id: NAME_* */
    struct ks_length_chains chains;
    struct pass *passes;
    struct reading *readings; /* of the pass at the same index, until the next of any kind */
    size_t pass_count;
    size_t pass_capacity;
    size_t reading_capacity;
};

enum ks_status ks_prefixes_create(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_arena *scratch = &work->analyzer->scratch;
    size_t names = (size_t)ks_trace_str_count(work->analyzer->trace) + 1;
    work->prefixes = ks_new(scratch, struct ks_prefix_parts, 1);
    if (!work->prefixes || !(work->prefixes->names = ks_new(scratch, uint8_t, names))) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow passes: names=%zu", names);
    }
    return KS_OK;
}

void ks_prefixes_release(struct ks_op_work *work)
{
    if (work->prefixes) {
        ks_length_chains_release(&work->prefixes->chains);
        ks_free(work->prefixes->passes);
        ks_free(work->prefixes->readings);
    }
}

/* ------------------------------------------------------------ rows */

static unsigned name_of(struct ks_op_work *work, uint32_t name)
{
    static const struct {
        const char *name;
        uint8_t what;
    } known[] = {
        {"aten::embedding", NAME_EMBEDDING},
        {"aten::scaled_dot_product_attention", NAME_ATTENTION},
        {"aten::mm", NAME_PRODUCT},
        {"aten::addmm", NAME_PRODUCT},
        {"aten::_addmm_activation", NAME_PRODUCT},
    };
    uint8_t *found = &work->prefixes->names[name];
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

/* The shape whose dimension `*dim` is the length of the text; NULL: the row does not say. */
static const struct ks_shape *find_length(unsigned name, const struct ks_shapes *shapes,
                                          size_t *dim)
{
    const struct ks_shape *second = &shapes->items[1];
    if (shapes->count < 2) {
        return NULL;
    }
    if (name & NAME_EMBEDDING) { /* table, numbers of the tokens */
        *dim = second->count - 1;
        return second->count <= 2 ? second : NULL;
    }
    const struct ks_shape *query = &shapes->items[0];
    *dim = query->count - 2;
    bool is_whole = query->count >= 3 && ks_shape_equal(query, second); /* as many keys */
    return is_whole ? query : NULL;
}

static double bytes_of(const struct ks_op_work *work, const struct ks_op_row *row,
                       const struct ks_shape *shape)
{
    struct ks_str types = ks_trace_str(work->analyzer->trace, (struct ks_strid){row->types});
    bool is_half =
        ks_str_contains(types, KS_STR("BFloat16")) || ks_str_contains(types, KS_STR("Half"));
    return (is_half ? 2.0 : 4.0) * (double)ks_shape_elements(shape);
}

/* Factors of products, and keys with their values. */
static void note_reading(struct ks_op_work *work, const struct ks_op_row *row, unsigned name,
                         const struct ks_shapes *shapes)
{
    struct ks_prefix_parts *parts = work->prefixes;
    if (parts->pass_count == 0 || shapes->count < 2) {
        return;
    }
    struct reading *reading = &parts->readings[parts->pass_count - 1];
    const struct ks_shape *last = &shapes->items[shapes->count - 1];
    if (name & NAME_PRODUCT) {
        reading->weight_bytes += last->count == MATRIX ? bytes_of(work, row, last) : 0;
    } else if (name & NAME_ATTENTION) {
        reading->cache_bytes += 2 * bytes_of(work, row, &shapes->items[1]);
    }
}

static enum ks_status add_pass(struct ks_op_work *work, const struct pass *pass, struct ks_err *err)
{
    struct ks_prefix_parts *parts = work->prefixes;
    KS_TRY(ks_grow(&parts->passes, parts->pass_count, &parts->pass_capacity, sizeof(*pass),
                   "passes", err));
    KS_TRY(ks_grow(&parts->readings, parts->pass_count, &parts->reading_capacity,
                   sizeof(*parts->readings), "passes", err));
    parts->passes[parts->pass_count] = *pass;
    parts->readings[parts->pass_count++] = (struct reading){0};
    return KS_OK;
}

enum ks_status ks_prefixes_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_prefix_parts *parts = work->prefixes;
    unsigned name = row->is_op && row->dims != 0 ? name_of(work, row->name) : 0;
    if (!(name & (NAME_EMBEDDING | NAME_ATTENTION | NAME_PRODUCT))) {
        return KS_OK;
    }
    struct ks_shapes shapes;
    ks_shapes_read(ks_trace_str(work->analyzer->trace, (struct ks_strid){row->dims}), &shapes);
    size_t dim = 0;
    const struct ks_shape *shape = name & NAME_PRODUCT ? NULL : find_length(name, &shapes, &dim);
    const struct ks_step *step =
        shape && shape->dims[dim] >= LENGTH_MIN ? ks_op_work_step(work, walk, row->start_ns) : NULL;
    if (step) {
        uint64_t seed = (uint64_t)walk->lane << 32 | row->name;
        int64_t first = shapes.items[0].dims[0]; /* tells tables of an embedding apart */
        struct pass pass = {.start_ns = row->start_ns,
                            .step = step,
                            .kind = ks_length_kind(seed ^ (uint64_t)first << 16, shape, dim),
                            .lane = walk->lane,
                            .name = row->name};
        int64_t length = shape->dims[dim];
        KS_TRY(ks_length_chains_note(&parts->chains, pass.kind, length, ks_sum_add(length, 1),
                                     &pass.chain, err));
        if (parts->chains.items[pass.chain].rows == 1) {
            KS_TRY(add_pass(work, &pass, err));
        }
    }
    note_reading(work, row, name, &shapes);
    return KS_OK;
}

/* ------------------------------------------------------------ passes */

/* The chain that grows most often tells where passes begin. */
static const struct ks_length_chain *find_best(const struct ks_length_chains *chains)
{
    const struct ks_length_chain *best = NULL;
    for (size_t i = 0; i < chains->count; i++) {
        const struct ks_length_chain *chain = &chains->items[i];
        if (chain->advances >= ADVANCES_MIN && (!best || chain->advances > best->advances)) {
            best = chain;
        }
    }
    return best;
}

static void note_step(struct ks_prefix_cost *cost, int64_t number)
{
    if (cost->step_count > 0 && cost->steps[cost->step_count - 1] == number) {
        return;
    }
    if (cost->step_count < KS_COST_STEPS_MAX) {
        cost->steps[cost->step_count++] = number;
    }
}

/* Passes of the kind, whichever text they belong to, as long as that grows. What kinds read between
 * two of them adds up. */
static void keep_passes(struct ks_op_work *work, uint64_t kind, struct ks_work_span *spans)
{
    struct ks_prefix_parts *parts = work->prefixes;
    struct ks_work_costs *costs = &work->analyzer->facts->work;
    struct ks_prefix_cost *cost = &costs->prefixes;
    bool is_open = false;
    double count = 0;
    for (size_t i = 0; i < parts->pass_count; i++) {
        const struct pass *pass = &parts->passes[i];
        const struct ks_length_chain *chain = &parts->chains.items[pass->chain];
        struct ks_work_span *last = is_open ? &spans[costs->pass_count - 1] : NULL;
        if (pass->kind == kind) {
            if (last && last->lane == pass->lane && pass->start_ns < last->until_ns) {
                last->until_ns = pass->start_ns;
            }
            is_open = chain->advances >= ADVANCES_MIN;
            if (is_open) {
                int64_t end_ns = ks_sum_add(pass->step->host_start_ns, pass->step->host_ns);
                spans[costs->pass_count++] =
                    (struct ks_work_span){pass->lane, KS_REPLAY_PREFIX, pass->start_ns, end_ns};
                count++;
                cost->length = chain->length;
                cost->op = (struct ks_strid){pass->name};
                note_step(cost, pass->step->number);
            }
        }
        if (is_open) {
            cost->weight_bytes += parts->readings[i].weight_bytes;
            cost->cache_bytes += parts->readings[i].cache_bytes;
        }
    }
    size_t steps = work->analyzer->facts->complete_step_count;
    cost->passes = count / (double)(steps > 0 ? steps : 1);
    cost->weight_bytes /= count > 0 ? count : 1;
    cost->cache_bytes /= count > 0 ? count : 1;
}

static int compare_passes(const void *left, const void *right)
{
    const struct ks_work_span *a = left;
    const struct ks_work_span *b = right;
    if (a->lane != b->lane) {
        return a->lane < b->lane ? -1 : 1;
    }
    return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

enum ks_status ks_prefixes_publish(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_prefix_parts *parts = work->prefixes;
    struct ks_facts *facts = work->analyzer->facts;
    const struct ks_length_chain *best = find_best(&parts->chains);
    if (!best) {
        return KS_OK;
    }
    facts->work.passes = ks_new(&facts->arena, struct ks_work_span, parts->pass_count + 1);
    if (!facts->work.passes) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep passes: count=%zu",
                       parts->pass_count);
    }
    keep_passes(work, best->kind, facts->work.passes);
    qsort(facts->work.passes, facts->work.pass_count, sizeof(*facts->work.passes), compare_passes);
    return KS_OK;
}
