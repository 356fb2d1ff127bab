/* What the host does between the iterations of an engine that decodes: it reads what the device
 * computed, waits for that, and looks at it before it launches the next iteration, while the device
 * has nothing to do. An iteration decodes when its step says so, or an embedding or attention in it
 * sees one token a text. */
#include "analyze/op_work.h"

#include "analyze/shapes.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

enum {
    GAP_NS_MIN = 20 * 1000, /* Python comes from one operator to the next in 5 to 10 us */
    NAME_KNOWN = 1,
    NAME_EMBEDDING = 2,
    NAME_ATTENTION = 4,
};

/* Reading a result, and the time until the device gets work again. */
struct reading {
    struct ks_op_row row;
    const struct ks_step *step;
    int64_t gap_end_ns;
    uint32_t lane;
    bool is_decoding; /* since the reading before, which was ... */
    bool is_first;    /* ... not seen */
};

struct ks_reading_parts {
    uint8_t *names; /* by string id: NAME_* */
    struct reading *readings;
    size_t reading_count;
    size_t reading_capacity;
    struct reading last; /* that waits for the next launch, when it has a step */
    bool is_decoding;    /* since the last one */
    bool is_first;       /* there was none on this thread */
    uint32_t lane;
};

enum ks_status ks_readings_create(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_arena *scratch = &work->analyzer->scratch;
    size_t names = (size_t)ks_trace_str_count(work->analyzer->trace) + 1;
    work->readings = ks_new(scratch, struct ks_reading_parts, 1);
    if (!work->readings || !(work->readings->names = ks_new(scratch, uint8_t, names))) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot follow readings: names=%zu", names);
    }
    work->readings->lane = UINT32_MAX;
    return KS_OK;
}

void ks_readings_release(struct ks_op_work *work)
{
    if (work->readings) {
        ks_free(work->readings->readings);
    }
}

static unsigned name_of(struct ks_op_work *work, uint32_t name)
{
    uint8_t *found = &work->readings->names[name];
    if (*found == 0) {
        struct ks_str text = ks_trace_str(work->analyzer->trace, (struct ks_strid){name});
        bool is_attention = ks_str_equal(text, KS_STR("aten::scaled_dot_product_attention"));
        *found = (uint8_t)(NAME_KNOWN | (is_attention ? NAME_ATTENTION : 0) |
                           (ks_str_equal(text, KS_STR("aten::embedding")) ? NAME_EMBEDDING : 0));
    }
    return *found;
}

/* Does the row see one token of each text? */
static bool sees_one_token(struct ks_op_work *work, const struct ks_op_row *row)
{
    unsigned name = row->dims != 0 ? name_of(work, row->name) : NAME_KNOWN;
    if (name == NAME_KNOWN) {
        return false;
    }
    struct ks_shapes shapes;
    ks_shapes_read(ks_trace_str(work->analyzer->trace, (struct ks_strid){row->dims}), &shapes);
    if (shapes.count < 2) {
        return false;
    }
    const struct ks_shape *first = &shapes.items[0];
    const struct ks_shape *second = &shapes.items[1];
    if (name & NAME_EMBEDDING) {
        return second->count == 2 && second->dims[1] == 1;
    }
    return first->count >= 3 && second->count == first->count &&
           first->dims[first->count - 2] == 1 && second->dims[first->count - 2] > 1;
}

static bool is_reading(const struct ks_op_work *work, const struct ks_op_walk *walk,
                       const struct ks_op_row *row)
{
    return row->syncs > 0 &&
           ks_op_work_has_copy(work, walk->lane, row->start_ns, row->end_ns, KS_COPY_TO_HOST);
}

/* The device gets work again, or is asked for another result. */
static enum ks_status end_gap(struct ks_op_work *work, int64_t at_ns, struct ks_err *err)
{
    struct ks_reading_parts *parts = work->readings;
    struct reading *last = &parts->last;
    if (last->step && ks_sum_sub(at_ns, last->row.end_ns) >= GAP_NS_MIN) {
        KS_TRY(ks_grow(&parts->readings, parts->reading_count, &parts->reading_capacity,
                       sizeof(*last), "readings", err));
        last->gap_end_ns = at_ns;
        parts->readings[parts->reading_count++] = *last;
    }
    last->step = NULL;
    return KS_OK;
}

enum ks_status ks_readings_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                                const struct ks_op_row *row, struct ks_err *err)
{
    struct ks_reading_parts *parts = work->readings;
    if (!row->is_op) {
        return KS_OK;
    }
    if (parts->lane != walk->lane) {
        parts->lane = walk->lane;
        parts->last = (struct reading){0};
        parts->is_decoding = false;
        parts->is_first = true;
    }
    parts->is_decoding = parts->is_decoding || sees_one_token(work, row);
    if ((row->around & KS_NAME_ATEN) || row->launches == 0) {
        return KS_OK;
    }
    KS_TRY(end_gap(work, row->start_ns, err));
    if (is_reading(work, walk, row)) {
        parts->last = (struct reading){.row = *row,
                                       .step = ks_op_work_step(work, walk, row->start_ns),
                                       .lane = walk->lane,
                                       .is_decoding = parts->is_decoding,
                                       .is_first = parts->is_first};
        parts->is_decoding = parts->is_first = false;
    }
    return KS_OK;
}

/* The first one of a thread is like the next. */
static bool is_of_engine(const struct ks_reading_parts *parts, size_t i)
{
    const struct reading *reading = &parts->readings[i];
    const struct reading *next = i + 1 < parts->reading_count ? reading + 1 : NULL;
    return reading->is_decoding || reading->step->kind == KS_STEP_DECODE ||
           reading->step->kind == KS_STEP_MIXED ||
           (reading->is_first && next && next->lane == reading->lane && next->is_decoding);
}

enum ks_status ks_readings_publish(struct ks_op_work *work, struct ks_err *err)
{
    struct ks_reading_parts *parts = work->readings;
    struct ks_reading_cost *cost = &work->analyzer->facts->work.readings;
    int64_t gap_ns = 0;
    for (size_t i = 0; i < parts->reading_count; i++) {
        const struct reading *reading = &parts->readings[i];
        if (!is_of_engine(parts, i)) {
            continue;
        }
        ks_op_work_add(&cost->cost, &reading->row, reading->step);
        gap_ns = ks_sum_add(gap_ns, ks_sum_sub(reading->gap_end_ns, reading->row.end_ns));
        cost->op = (struct ks_strid){reading->row.name};
        const struct ks_work_span spans[] = {
            {reading->lane, KS_REPLAY_READING, reading->row.start_ns, reading->row.end_ns},
            {reading->lane, KS_REPLAY_READ_GAP, reading->row.end_ns, reading->gap_end_ns},
        };
        for (size_t j = 0; j < KS_COUNT_OF(spans); j++) {
            KS_TRY(ks_op_work_add_span(work, &spans[j], err));
        }
    }
    ks_op_work_mean(work, &cost->cost);
    cost->gap_ns = ks_op_work_mean_ns(work, gap_ns);
    return KS_OK;
}
