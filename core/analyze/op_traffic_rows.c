/* The traffic of the operators of a trace: read once for each kind, shapes and types. */
#include "analyze/op_work.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/map.h"

struct ks_traffic_parts {
    uint8_t *kinds;      /* by string id: 1 + enum ks_traffic_kind, 0 not looked up */
    struct ks_map index; /* (name and types, dims) -> 1 + item */
    struct ks_traffic *items;
    size_t count;
    size_t capacity;
};

enum ks_status ks_traffic_create(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_arena *scratch = &work->analyzer->scratch;
    work->traffic = ks_new(scratch, struct ks_traffic_parts, 1);
    uint8_t *kinds =
        ks_new(scratch, uint8_t, (size_t)ks_trace_str_count(work->analyzer->trace) + 1);
    if (!work->traffic || !kinds) {
        work->traffic = NULL;
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow memory traffic");
    }
    ks_map_init(&work->traffic->index);
    work->traffic->kinds = kinds;
    return KS_OK;
}

void ks_traffic_release(struct ks_op_work *work)
{
    if (work->traffic) {
        ks_map_release(&work->traffic->index);
        ks_free(work->traffic->items);
    }
}

static enum ks_traffic_kind kind_of(struct ks_op_work *work, uint32_t name)
{
    uint8_t *kind = &work->traffic->kinds[name];
    if (*kind == 0) {
        struct ks_str text = ks_trace_str(work->analyzer->trace, (struct ks_strid){name});
        struct ks_str aten = KS_STR("aten::");
        enum ks_traffic_kind found =
            ks_str_starts(text, aten)
                ? ks_traffic_kind_of((struct ks_str){text.ptr + aten.len, text.len - aten.len})
                : KS_TRAFFIC_NONE;
        *kind = (uint8_t)(1 + found);
    }
    return (enum ks_traffic_kind)(*kind - 1);
}

enum ks_status ks_op_work_traffic(struct ks_op_work *work, const struct ks_op_row *row,
                                  const struct ks_traffic **traffic, struct ks_err *err)
{
    struct ks_traffic_parts *parts = work->traffic;
    const struct ks_trace *trace = work->analyzer->trace;
    *traffic = NULL;
    if (row->launches == row->inner_launches || row->dims == 0 || row->types == 0 ||
        kind_of(work, row->name) == KS_TRAFFIC_NONE) {
        return KS_OK;
    }
    KS_TRY(ks_grow(&parts->items, parts->count, &parts->capacity, sizeof(*parts->items),
                   "memory traffic", err));
    uint64_t key = (uint64_t)row->types << 32 | row->name;
    uint64_t *slot = ks_map_put(&parts->index, key, row->dims, NULL);
    if (!slot) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow memory traffic");
    }
    if (*slot == 0) {
        ks_traffic_read(kind_of(work, row->name), ks_trace_str(trace, (struct ks_strid){row->dims}),
                        ks_trace_str(trace, (struct ks_strid){row->types}),
                        &parts->items[parts->count]);
        *slot = ++parts->count;
    }
    const struct ks_traffic *item = &parts->items[*slot - 1];
    *traffic = item->largest > 0 || item->output.elements > 0 ? item : NULL;
    return KS_OK;
}
