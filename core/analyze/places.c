#include "analyze/places.h"

#include <stdio.h>
#include <stdlib.h>

#include "analyze/place_table.h"
#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "measure/sum.h"

void ks_place_table_init(struct ks_place_table *table)
{
    *table = (struct ks_place_table){0};
    ks_map_init(&table->index);
}

void ks_place_table_release(struct ks_place_table *table)
{
    ks_map_release(&table->index);
    ks_free(table->uses);
    table->uses = NULL;
}

static enum ks_status fail_nomem(struct ks_err *err, size_t count)
{
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep places: count=%zu", count);
}

enum ks_status ks_place_table_add(struct ks_place_table *table, const struct ks_place_use *use,
                                  struct ks_err *err)
{
    KS_TRY(
        ks_grow(&table->uses, table->count, &table->capacity, sizeof(*table->uses), "places", err));
    uint64_t key = (uint64_t)use->op.v << 8 | (uint64_t)use->kind;
    bool added = false;
    uint64_t *slot = ks_map_put(&table->index, key, use->place, &added);
    if (!slot) {
        return fail_nomem(err, table->count);
    }
    if (added) {
        table->uses[table->count++] =
            (struct ks_place_use){.op = use->op, .kind = use->kind, .place = use->place};
        *slot = table->count;
    }
    struct ks_place_use *mine = &table->uses[*slot - 1];
    mine->calls += use->calls;
    mine->total_ns = ks_sum_add(mine->total_ns, use->total_ns);
    return KS_OK;
}

enum ks_status ks_place_table_note(struct ks_place_table *table, const struct ks_call *call,
                                   struct ks_err *err)
{
    static const struct {
        unsigned bit;
        enum ks_place_kind kind;
    } kinds[] = {{KS_CALL_OPERATOR, KS_PLACE_OPERATOR},
                 {KS_CALL_SYNC, KS_PLACE_SYNC},
                 {KS_CALL_COPY, KS_PLACE_COPY},
                 {KS_CALL_LAUNCH, KS_PLACE_LAUNCH}};
    if (call->place == KS_PLACE_NONE) {
        return KS_OK;
    }
    for (size_t i = 0; i < KS_COUNT_OF(kinds); i++) {
        if (call->kinds & kinds[i].bit) {
            struct ks_place_use use = {.op = {call->op},
                                       .kind = kinds[i].kind,
                                       .place = call->place,
                                       .calls = 1,
                                       .total_ns = ks_sum_sub(call->end_ns, call->start_ns)};
            KS_TRY(ks_place_table_add(table, &use, err));
        }
    }
    return KS_OK;
}

int ks_place_compare(const struct ks_place *a, const struct ks_place *b)
{
    if (!a || !b) {
        return (a == NULL) - (b == NULL);
    }
    int order = ks_str_compare(a->file, b->file);
    return order ? order : (a->line > b->line) - (a->line < b->line);
}

static int compare_uses(const void *left, const void *right, void *user)
{
    const struct ks_facts *facts = user;
    const struct ks_place_use *a = left;
    const struct ks_place_use *b = right;
    int order =
        ks_str_compare(ks_trace_str(facts->trace, a->op), ks_trace_str(facts->trace, b->op));
    if (order || a->kind != b->kind) {
        return order ? order : (a->kind > b->kind) - (a->kind < b->kind);
    }
    if (a->calls != b->calls) {
        return a->calls > b->calls ? -1 : 1;
    }
    if (a->total_ns != b->total_ns) {
        return a->total_ns > b->total_ns ? -1 : 1;
    }
    order = ks_place_compare(&facts->places[a->place], &facts->places[b->place]);
    return order ? order : (a->place > b->place) - (a->place < b->place);
}

static bool is_same_group(const struct ks_place_use *a, const struct ks_place_use *b)
{
    return a->op.v == b->op.v && a->kind == b->kind;
}

static void sort_uses(struct ks_facts *facts)
{
    struct ks_place_use *uses = facts->place_uses;
    size_t count = facts->place_use_count;
    if (count > 0) {
        qsort_r(uses, count, sizeof(*uses), compare_uses, facts);
    }
    for (size_t begin = 0, end; begin < count; begin = end) {
        int64_t calls = 0;
        for (end = begin; end < count && is_same_group(&uses[begin], &uses[end]); end++) {
            calls += uses[end].calls;
        }
        for (size_t i = begin; i < end; i++) {
            uses[i].all_calls = calls;
        }
    }
}

enum ks_status ks_place_table_publish(const struct ks_place_table *table, struct ks_facts *facts,
                                      struct ks_err *err)
{
    facts->place_uses = ks_new(&facts->arena, struct ks_place_use, table->count + 1);
    if (!facts->place_uses) {
        return fail_nomem(err, table->count);
    }
    if (table->count > 0) {
        memcpy(facts->place_uses, table->uses, table->count * sizeof(*table->uses));
    }
    facts->place_use_count = table->count;
    sort_uses(facts);
    return KS_OK;
}

static enum ks_status copy_text(struct ks_facts *facts, struct ks_str *text, struct ks_err *err)
{
    text->ptr = ks_arena_copy(&facts->arena, text->ptr, text->len);
    return text->ptr ? KS_OK : fail_nomem(err, facts->place_count);
}

static enum ks_status write_text(struct ks_facts *facts, struct ks_place *place, struct ks_err *err)
{
    enum { NUMBER_SIZE = 32 };
    size_t size = place->file.len + place->function.len + NUMBER_SIZE;
    char *text = ks_new(&facts->arena, char, size);
    if (!text) {
        return fail_nomem(err, facts->place_count);
    }
    snprintf(text, size, "%.*s:%lld (%.*s)", (int)place->file.len, place->file.ptr,
             (long long)place->line, (int)place->function.len, place->function.ptr);
    place->text = ks_str_from(text);
    return KS_OK;
}

enum ks_status ks_place_table_keep(const struct ks_place *places, size_t count,
                                   struct ks_facts *facts, struct ks_err *err)
{
    facts->places = ks_new(&facts->arena, struct ks_place, count + 1);
    if (!facts->places) {
        return fail_nomem(err, count);
    }
    for (size_t i = 0; i < count; i++) {
        struct ks_place *place = &facts->places[facts->place_count++];
        *place = places[i];
        KS_TRY(copy_text(facts, &place->file, err));
        KS_TRY(copy_text(facts, &place->function, err));
        KS_TRY(write_text(facts, place, err));
    }
    return KS_OK;
}

enum ks_status ks_place_table_adopt(const struct ks_facts *framed, struct ks_facts *facts,
                                    struct ks_err *err)
{
    KS_TRY(ks_place_table_keep(framed->places, framed->place_count, facts, err));
    facts->place_uses = ks_new(&facts->arena, struct ks_place_use, framed->place_use_count + 1);
    if (!facts->place_uses) {
        return fail_nomem(err, framed->place_count);
    }
    for (size_t i = 0; i < framed->place_use_count; i++) {
        struct ks_place_use use = framed->place_uses[i];
        use.op = ks_trace_str_find(facts->trace, ks_trace_str(framed->trace, use.op));
        if (use.op.v != 0) {
            facts->place_uses[facts->place_use_count++] = use;
        }
    }
    sort_uses(facts);
    return KS_OK;
}

uint32_t ks_places_twin_source(const struct ks_trace *framed, const struct ks_trace *trace,
                               uint32_t source)
{
    int64_t rank = ks_trace_source(trace, source)->rank;
    for (uint32_t i = 0; i < ks_trace_source_count(framed); i++) {
        if (ks_trace_source(framed, i)->rank == rank) {
            return i;
        }
    }
    return 0;
}

/* The first of a group has most calls. */
bool ks_places_find(const struct ks_facts *facts, struct ks_strid op, enum ks_place_kind kind,
                    struct ks_place_match *match)
{
    struct ks_str name = ks_trace_str(facts->trace, op);
    size_t begin = 0;
    size_t end = facts->place_use_count;
    while (begin < end) {
        size_t middle = begin + (end - begin) / 2;
        const struct ks_place_use *use = &facts->place_uses[middle];
        int order = ks_str_compare(ks_trace_str(facts->trace, use->op), name);
        if (order < 0 || (order == 0 && use->kind < kind)) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    *match = (struct ks_place_match){0};
    const struct ks_place_use *use = &facts->place_uses[begin];
    if (begin == facts->place_use_count || use->op.v != op.v || use->kind != kind) {
        return false;
    }
    *match = (struct ks_place_match){.place = &facts->places[use->place],
                                     .calls = use->calls,
                                     .total_ns = use->total_ns,
                                     .share = (double)use->calls / (double)use->all_calls};
    return true;
}
