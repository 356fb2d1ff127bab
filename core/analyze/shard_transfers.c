/* Collectives of sharded parameters (FSDP): how long gathers of parameters and sums of their
 * gradients move data, and how much of that no kernel hides (docs/analyses/collectives.md).
 *
 * Where not all ranks were read, a collective moves data for as long as the shortest of the same
 * place in all steps of its rank at most: others may have been waited for in each. It does so at
 * least for the time that its bytes need on the fastest link there is. */
#include "analyze/collectives.h"

#include "analyze/replay.h"
#include "base/err.h"
#include "base/map.h"
#include "measure/sum.h"

enum { GATHER, SCATTER, KINDS };

/* NVLink of the fifth generation, one direction, bytes a ns; those before it are slower. */
static const double link_rate_max = 900;

struct walk {
    struct ks_collective_list *list;
    struct ks_shard_fact *fact;
    struct ks_map counts; /* (step, kind) to the number seen so far */
    struct ks_map least;  /* (source and kind, place in its step) to 1 + shortest */
    uint64_t *places;     /* by row */
};

/* KINDS: neither. */
static int kind_of(const struct walk *walk, const struct ks_collective_row *row)
{
    const struct ks_work_costs *work = &walk->list->analyzer->facts->work;
    unsigned marks = ks_work_costs_marks(work, row->thread, row->launch_ns);
    return marks & KS_REPLAY_GATHER ? GATHER : marks & KS_REPLAY_SCATTER ? SCATTER : KINDS;
}

static uint64_t *least_of(struct walk *walk, const struct ks_collective_row *row, int kind,
                          uint64_t place, bool *is_added)
{
    return ks_map_put(&walk->least, (uint64_t)row->source * KINDS + (uint64_t)kind, place,
                      is_added);
}

static enum ks_status find_places(struct walk *walk, struct ks_err *err)
{
    for (size_t i = 0; i < walk->list->count; i++) {
        const struct ks_collective_row *row = &walk->list->items[i];
        int kind = kind_of(walk, row);
        if (kind == KINDS) {
            continue;
        }
        bool is_added = false;
        uint64_t *count = ks_map_put(&walk->counts, row->step, (uint64_t)kind, NULL);
        uint64_t place = count ? (*count)++ : 0;
        uint64_t *least = count ? least_of(walk, row, kind, place, &is_added) : NULL;
        if (!least) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET,
                           "Cannot look at sharded parameters: count=%zu", walk->list->count);
        }
        uint64_t dur_ns = (uint64_t)ks_sum_sub(row->end_ns, row->start_ns);
        walk->places[i] = place;
        *least = is_added || dur_ns + 1 < *least ? dur_ns + 1 : *least;
    }
    return KS_OK;
}

static int64_t shorter(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Each rank has its own part already. */
static int64_t least_on_link_ns(const struct walk *walk, const struct ks_collective_row *row)
{
    const struct ks_trace *trace = walk->list->analyzer->trace;
    int64_t size = row->meta ? ks_trace_collective(trace, row->meta)->group_size : -1;
    double others = size > 1 ? (double)(size - 1) / (double)size : 0;
    return row->bytes > 0 ? (int64_t)((double)row->bytes * others / link_rate_max) : 0;
}

static void add(struct walk *walk, size_t i, int kind)
{
    const struct ks_collective_row *row = &walk->list->items[i];
    struct ks_shard_cost *cost = kind == GATHER ? &walk->fact->gathers : &walk->fact->scatters;
    int64_t dur_ns = ks_sum_sub(row->end_ns, row->start_ns);
    int64_t exposed_ns = dur_ns > row->hidden_ns ? dur_ns - row->hidden_ns : 0;
    const uint64_t *shortest =
        ks_map_find(&walk->least, (uint64_t)row->source * KINDS + (uint64_t)kind, walk->places[i]);
    bool is_matched = row->least_ns >= 0;
    int64_t most_ns = is_matched ? row->least_ns : (int64_t)*shortest - 1;
    int64_t sure_ns = is_matched ? most_ns : shorter(most_ns, least_on_link_ns(walk, row));
    cost->count += 1;
    cost->matched += is_matched;
    cost->bytes += row->bytes > 0 ? (double)row->bytes : 0;
    cost->bytes_max = row->bytes > cost->bytes_max ? row->bytes : cost->bytes_max;
    cost->transfer_ns = ks_sum_add(cost->transfer_ns, most_ns);
    cost->exposed_ns = ks_sum_add(cost->exposed_ns, shorter(exposed_ns, most_ns));
    cost->exposed_sure_ns = ks_sum_add(cost->exposed_sure_ns, shorter(exposed_ns, sure_ns));
    if (walk->places[i] == 0) {
        cost->first_ns = ks_sum_add(cost->first_ns, shorter(exposed_ns, most_ns));
    }
    if (row->meta) {
        const struct ks_trace *trace = walk->list->analyzer->trace;
        struct ks_str dtype = ks_trace_str(trace, ks_trace_collective(trace, row->meta)->dtype);
        bool is_fp32 = row->bytes > 0 && ks_str_equal(dtype, KS_STR("Float"));
        cost->fp32_bytes += is_fp32 ? (double)row->bytes : 0;
    }
}

static void finish(struct ks_shard_cost *cost, size_t steps)
{
    double by = (double)steps;
    cost->count /= by;
    cost->matched /= by;
    cost->bytes /= by;
    cost->fp32_bytes /= by;
    cost->transfer_ns /= (int64_t)steps;
    cost->exposed_ns /= (int64_t)steps;
    cost->exposed_sure_ns /= (int64_t)steps;
    cost->first_ns /= (int64_t)steps;
}

static enum ks_status look(struct walk *walk, struct ks_err *err)
{
    struct ks_analyzer *analyzer = walk->list->analyzer;
    walk->places = ks_new(&analyzer->scratch, uint64_t, walk->list->count);
    if (!walk->places) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET,
                       "Cannot look at sharded parameters: count=%zu", walk->list->count);
    }
    KS_TRY(find_places(walk, err));
    for (size_t i = 0; i < walk->list->count; i++) {
        int kind = kind_of(walk, &walk->list->items[i]);
        if (kind != KINDS) {
            add(walk, i, kind);
        }
    }
    finish(&walk->fact->gathers, analyzer->facts->complete_step_count);
    finish(&walk->fact->scatters, analyzer->facts->complete_step_count);
    return KS_OK;
}

enum ks_status ks_collectives_look_at_shards(struct ks_collective_list *list, struct ks_err *err)
{
    struct walk walk = {.list = list, .fact = &list->analyzer->facts->comm.shards};
    ks_map_init(&walk.counts);
    ks_map_init(&walk.least);
    enum ks_status status = look(&walk, err);
    ks_map_release(&walk.counts);
    ks_map_release(&walk.least);
    return status;
}
