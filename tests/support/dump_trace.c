#include "dump_trace.h"

#include <math.h>

#include "base/err.h"

#define ALL(trace, table) 0, ks_trace_rows(trace, KS_TABLE_##table)

static void put_str(struct ks_text *out, const char *label, struct ks_str s)
{
    if (s.len == 0) {
        return;
    }
    ks_text_printf(out, " %s=\"", label);
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c < 0x20) {
            ks_text_printf(out, "\\x%02x", c);
        } else {
            ks_text_append(out, s.ptr + i, 1);
        }
    }
    ks_text_append(out, "\"", 1);
}

static void put_id(struct ks_text *out, const char *label, const struct ks_trace *trace,
                   uint32_t id)
{
    put_str(out, label, ks_trace_str(trace, (struct ks_strid){id}));
}

/* Numbers that are not `none`. */
static void put_int(struct ks_text *out, const char *label, int64_t value, int64_t none)
{
    if (value != none) {
        ks_text_printf(out, " %s=%lld", label, (long long)value);
    }
}

static void put_double(struct ks_text *out, const char *label, double value)
{
    if (!isnan(value)) {
        ks_text_printf(out, " %s=%.17g", label, value);
    }
}

void dump_counts(const struct ks_source *source, struct ks_text *out)
{
    for (int i = 0; i < KS_STAT_COUNT; i++) {
        if (source->counts[i] != 0) {
            ks_text_printf(out, " %s=%llu", ks_stat_info((enum ks_stat)i)->name,
                           (unsigned long long)source->counts[i]);
        }
    }
}

static void dump_source(const struct ks_trace *trace, const struct ks_source *s,
                        struct ks_text *out)
{
    ks_text_printf(out, "source events=%llu bytes=%llu", (unsigned long long)s->events,
                   (unsigned long long)s->bytes);
    put_int(out, "rank", s->rank, -1);
    put_int(out, "world", s->world_size, -1);
    put_id(out, "backend", trace, s->backend.v);
    if (s->has_base) {
        ks_text_printf(out, " base=%lld", (long long)s->base_ns);
    }
    put_int(out, "start", s->start_ns, KS_TIME_NONE);
    put_int(out, "end", s->end_ns, KS_TIME_NONE);
    ks_text_printf(out, " switches=%d%d%d%d%d", s->record_shapes, s->with_stack, s->profile_memory,
                   s->with_flops, s->with_modules);
    put_id(out, "torch", trace, s->torch_version.v);
    put_id(out, "cuda", trace, s->cuda_version.v);
    put_id(out, "host", trace, s->host_name.v);
    put_id(out, "trace", trace, s->trace_name.v);
    put_id(out, "trace_id", trace, s->trace_id.v);
    for (size_t i = 0; i < s->gpu_count; i++) {
        ks_text_printf(out, " gpu%lld", (long long)s->gpus[i].id);
        put_id(out, "name", trace, s->gpus[i].name.v);
        put_int(out, "memory", s->gpus[i].memory_bytes, 0);
        put_int(out, "sms", s->gpus[i].sm_count, -1);
    }
    dump_counts(s, out);
    ks_text_append(out, "\n", 1);
}

static void dump_track(const struct ks_trace *trace, uint32_t id, struct ks_text *out)
{
    static const char *const KINDS[] = {"none", "process", "thread", "device", "stream", "async"};
    const struct ks_track *t = ks_trace_track(trace, id);
    ks_text_printf(out, "track %u %s source=%u parent=%u", id, KINDS[t->kind], t->source,
                   t->parent);
    put_int(out, "number", t->number, -1);
    put_id(out, "text", trace, t->text.v);
    put_id(out, "name", trace, t->name.v);
    ks_text_append(out, "\n", 1);
}

static enum ks_status dump_slices(const struct ks_trace *trace, struct ks_text *out,
                                  struct ks_err *err)
{
    struct ks_slice_scan scan;
    ks_slice_scan_open(&scan, trace, KS_ALL_COLUMNS, ALL(trace, slice));
    enum ks_status status;
    while ((status = ks_slice_scan_next(&scan, err)) == KS_OK) {
        const struct ks_slice_cols *col = &scan.col;
        for (size_t i = 0; i < scan.count; i++) {
            ks_text_printf(out, "slice %u %lld+%lld %s", col->lane[i], (long long)col->start_ns[i],
                           (long long)col->dur_ns[i],
                           col->category[i] == KS_CATEGORY_NONE
                               ? "none"
                               : ks_category_name((enum ks_category)col->category[i]));
            put_id(out, "name", trace, col->name[i]);
            put_int(out, "ext", col->ext_id[i], -1);
            put_int(out, "corr", col->corr[i], -1);
            put_int(out, "seq", col->seq[i], -1);
            put_int(out, "aux", col->aux[i], -1);
            put_int(out, "parent", col->parent_aux[i], -1);
            put_id(out, "dims", trace, col->dims[i]);
            put_id(out, "types", trace, col->types[i]);
            put_id(out, "concrete", trace, col->concrete[i]);
            put_int(out, "flags", col->flags[i], 0);
            ks_text_append(out, "\n", 1);
        }
    }
    ks_slice_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static void dump_gpu_row(const struct ks_trace *trace, const struct ks_gpu_cols *col, size_t i,
                         struct ks_text *out)
{
    ks_text_printf(out, "gpu %u/%u %lld+%lld %s", col->lane[i], col->stream[i],
                   (long long)col->start_ns[i], (long long)col->dur_ns[i],
                   ks_category_name((enum ks_category)col->category[i]));
    put_id(out, "name", trace, col->name[i]);
    put_int(out, "corr", col->corr[i], -1);
    put_int(out, "ext", col->ext_id[i], -1);
    put_int(out, "bytes", col->bytes[i], -1);
    put_int(out, "launch", col->launch_ns[i], KS_TIME_NONE);
    put_int(out, "launch_end", col->launch_end_ns[i], KS_TIME_NONE);
    put_int(out, "launch_lane", col->launch_lane[i], 0);
    put_id(out, "grid", trace, col->grid[i]);
    put_id(out, "block", trace, col->block[i]);
    put_int(out, "collective", col->collective[i], 0);
    put_double(out, "occupancy", (double)col->occupancy[i]);
    put_double(out, "blocks", (double)col->blocks_per_sm[i]);
    put_double(out, "warps", (double)col->warps_per_sm[i]);
    put_int(out, "shared", col->shared_bytes[i], 0);
    put_int(out, "registers", col->registers[i], 0);
    put_int(out, "flags", col->flags[i], 0);
    ks_text_append(out, "\n", 1);
}

static enum ks_status dump_gpu(const struct ks_trace *trace, struct ks_text *out,
                               struct ks_err *err)
{
    struct ks_gpu_scan scan;
    ks_gpu_scan_open(&scan, trace, KS_ALL_COLUMNS, ALL(trace, gpu));
    enum ks_status status;
    while ((status = ks_gpu_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count; i++) {
            dump_gpu_row(trace, &scan.col, i, out);
        }
    }
    ks_gpu_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status dump_memory(const struct ks_trace *trace, struct ks_text *out,
                                  struct ks_err *err)
{
    struct ks_memory_scan scan;
    ks_memory_scan_open(&scan, trace, KS_ALL_COLUMNS, ALL(trace, memory));
    enum ks_status status;
    while ((status = ks_memory_scan_next(&scan, err)) == KS_OK) {
        const struct ks_memory_cols *col = &scan.col;
        for (size_t i = 0; i < scan.count; i++) {
            ks_text_printf(out, "memory %u %lld bytes=%lld", col->lane[i],
                           (long long)col->start_ns[i], (long long)col->bytes[i]);
            ks_text_printf(out, " addr=%llu", (unsigned long long)col->addr[i]);
            put_int(out, "allocated", col->allocated[i], -1);
            put_int(out, "reserved", col->reserved[i], -1);
            put_int(out, "host_sum", col->host_sum[i], 0);
            put_int(out, "device_sum", col->device_sum[i], 0);
            put_int(out, "device", col->device[i], -1);
            put_int(out, "type", col->device_type[i], 0);
            put_int(out, "flags", col->flags[i], 0);
            ks_text_append(out, "\n", 1);
        }
    }
    ks_memory_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status dump_marks(const struct ks_trace *trace, struct ks_text *out,
                                 struct ks_err *err)
{
    struct ks_mark_scan scan;
    ks_mark_scan_open(&scan, trace, KS_ALL_COLUMNS, ALL(trace, mark));
    enum ks_status status;
    while ((status = ks_mark_scan_next(&scan, err)) == KS_OK) {
        const struct ks_mark_cols *col = &scan.col;
        for (size_t i = 0; i < scan.count; i++) {
            ks_text_printf(out, "mark %u %lld", col->lane[i], (long long)col->start_ns[i]);
            put_id(out, "name", trace, col->name[i]);
            put_id(out, "series", trace, col->series[i]);
            put_id(out, "unit", trace, col->unit[i]);
            put_id(out, "values", trace, col->values[i]);
            put_double(out, "value", col->value[i]);
            put_int(out, "flags", col->flags[i], 0);
            ks_text_append(out, "\n", 1);
        }
    }
    ks_mark_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status dump_samples(const struct ks_trace *trace, struct ks_text *out,
                                   struct ks_err *err)
{
    struct ks_sample_scan scan;
    ks_sample_scan_open(&scan, trace, KS_ALL_COLUMNS, ALL(trace, sample));
    enum ks_status status;
    while ((status = ks_sample_scan_next(&scan, err)) == KS_OK) {
        for (size_t i = 0; i < scan.count; i++) {
            ks_text_printf(out, "sample %u %lld stack=%u weight=%u", scan.col.lane[i],
                           (long long)scan.col.start_ns[i], scan.col.stack[i], scan.col.weight[i]);
            put_int(out, "flags", scan.col.flags[i], 0);
            ks_text_append(out, "\n", 1);
        }
    }
    ks_sample_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static void dump_stacks(const struct ks_trace *trace, struct ks_text *out)
{
    for (uint32_t id = 1; id <= ks_trace_stack_count(trace); id++) {
        const struct ks_stack *stack = ks_trace_stack(trace, id);
        ks_text_printf(out, "stack %u", id);
        put_int(out, "caller", stack->caller, 0);
        put_id(out, "function", trace, stack->function.v);
        put_id(out, "file", trace, stack->file.v);
        ks_text_printf(out, " line=%u first=%u\n", stack->line, stack->first_line);
    }
    for (uint32_t id = 1; id <= ks_trace_call_path_count(trace); id++) {
        const struct ks_call_path *path = ks_trace_call_path(trace, id);
        ks_text_printf(out, "path %u track=%u", id, path->track);
        put_int(out, "parent", path->parent, 0);
        put_id(out, "function", trace, path->function.v);
        put_id(out, "file", trace, path->file.v);
        ks_text_printf(out, " first=%u calls=%lld total=%lld child=%lld", path->first_line,
                       (long long)path->calls, (long long)path->total_ns,
                       (long long)path->child_ns);
        put_int(out, "open", path->open, 0);
        put_int(out, "recursive", path->recursive_calls, 0);
        put_int(out, "kind", path->kind, KS_CALL_PATH);
        ks_text_append(out, "\n", 1);
    }
}

static enum ks_status dump_links(const struct ks_trace *trace, struct ks_text *out,
                                 struct ks_err *err)
{
    struct ks_link_scan scan;
    ks_link_scan_open(&scan, trace, KS_ALL_COLUMNS, ALL(trace, link));
    enum ks_status status;
    while ((status = ks_link_scan_next(&scan, err)) == KS_OK) {
        const struct ks_link_cols *col = &scan.col;
        for (size_t i = 0; i < scan.count; i++) {
            ks_text_printf(out, "link %u %lld+%lld corr=%lld", col->lane[i],
                           (long long)col->start_ns[i], (long long)col->dur_ns[i],
                           (long long)col->corr[i]);
            put_int(out, "first", col->gpu_first_ns[i], KS_TIME_NONE);
            put_int(out, "end", col->gpu_end_ns[i], KS_TIME_NONE);
            put_id(out, "name", trace, col->name[i]);
            put_int(out, "count", col->gpu_count[i], 0);
            put_int(out, "kind", col->kind[i], 0);
            ks_text_append(out, "\n", 1);
        }
    }
    ks_link_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

enum ks_status dump_trace(const struct ks_trace *trace, struct ks_text *out, struct ks_err *err)
{
    for (uint32_t i = 0; i < ks_trace_source_count(trace); i++) {
        dump_source(trace, ks_trace_source(trace, i), out);
    }
    for (uint32_t i = 1; i < ks_trace_track_count(trace); i++) {
        dump_track(trace, i, out);
    }
    KS_TRY(dump_slices(trace, out, err));
    KS_TRY(dump_gpu(trace, out, err));
    KS_TRY(dump_memory(trace, out, err));
    KS_TRY(dump_marks(trace, out, err));
    KS_TRY(dump_samples(trace, out, err));
    dump_stacks(trace, out);
    return dump_links(trace, out, err);
}
