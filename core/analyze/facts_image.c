/* Which members of struct ks_facts point to what. A new array needs a line here; what is forgotten
 * is noticed when facts are packed, which is then refused, and by a test over all traces. */
#include "analyze/facts_image.h"

#include "base/err.h"

#define ARRAY(member, count, type) KS_IMAGE_ARRAY_OF(struct ks_facts, member, count, type)

static const struct ks_image_type step_type = KS_IMAGE_PLAIN(ks_step);
static const struct ks_image_type step_range_type = KS_IMAGE_PLAIN(ks_step_range);
static const struct ks_image_type step_span_type = KS_IMAGE_PLAIN(ks_step_span_fact);
static const struct ks_image_type device_type = KS_IMAGE_PLAIN(ks_device_fact);
static const struct ks_image_type stream_type = KS_IMAGE_PLAIN(ks_stream_fact);
static const struct ks_image_type kernel_type = KS_IMAGE_PLAIN(ks_kernel_fact);
static const struct ks_image_type region_type = KS_IMAGE_PLAIN(ks_region_fact);
static const struct ks_image_type step_region_type = KS_IMAGE_PLAIN(ks_step_region);
static const struct ks_image_type autograd_type = KS_IMAGE_PLAIN(ks_autograd_fact);
static const struct ks_image_type mark_type = KS_IMAGE_PLAIN(ks_mark_fact);
static const struct ks_image_type function_type = KS_IMAGE_PLAIN(ks_function_fact);
static const struct ks_image_type function_edge_type = KS_IMAGE_PLAIN(ks_function_edge);
static const struct ks_image_type sample_type = KS_IMAGE_PLAIN(ks_sample_fact);
static const struct ks_image_type copy_type = KS_IMAGE_PLAIN(ks_copy_fact);
static const struct ks_image_type place_use_type = KS_IMAGE_PLAIN(ks_place_use);
static const struct ks_image_type place_call_type = KS_IMAGE_PLAIN(ks_place_call);
static const struct ks_image_type trip_span_type = KS_IMAGE_PLAIN(ks_trip_span);
static const struct ks_image_type input_type = KS_IMAGE_PLAIN(ks_input_fact);
static const struct ks_image_type work_span_type = KS_IMAGE_PLAIN(ks_work_span);
static const struct ks_image_type memory_type = KS_IMAGE_PLAIN(ks_memory_fact);
static const struct ks_image_type rank_type = KS_IMAGE_PLAIN(ks_rank_fact);
static const struct ks_image_type graph_type = KS_IMAGE_PLAIN(ks_graph_fact);
static const struct ks_image_type cpu_type = KS_IMAGE_PLAIN(ks_cpu_fact);
static const struct ks_image_type source_type = KS_IMAGE_PLAIN(ks_source_fact);

static const struct ks_image_field place_fields[] = {
    KS_IMAGE_STR_IN(struct ks_place, file),
    KS_IMAGE_STR_IN(struct ks_place, function),
    KS_IMAGE_STR_IN(struct ks_place, text),
};
static const struct ks_image_type place_type = KS_IMAGE_TYPE(ks_place, place_fields);

static const struct ks_image_field module_fields[] = {
    KS_IMAGE_STR_IN(struct ks_module_fact, name),
    KS_IMAGE_STR_IN(struct ks_module_fact, class_name),
    KS_IMAGE_STR_IN(struct ks_module_fact, tree_name),
};
static const struct ks_image_type module_type = KS_IMAGE_TYPE(ks_module_fact, module_fields);

static const struct ks_image_field sequence_fields[] = {
    KS_IMAGE_STR_IN(struct ks_sequence_fact, text),
};
static const struct ks_image_type sequence_type = KS_IMAGE_TYPE(ks_sequence_fact, sequence_fields);

static const struct ks_image_field operator_fields[] = {
    KS_IMAGE_STR_IN(struct ks_operator_fact, stack),
};
static const struct ks_image_type operator_type = KS_IMAGE_TYPE(ks_operator_fact, operator_fields);

static const struct ks_image_field stack_fields[] = {
    KS_IMAGE_STR_IN(struct ks_stack_fact, stack),
};
static const struct ks_image_type stack_type = KS_IMAGE_TYPE(ks_stack_fact, stack_fields);

static const struct ks_image_field time_place_fields[] = {
    KS_IMAGE_STR_IN(struct ks_time_place, file),
};
static const struct ks_image_type time_place_type = KS_IMAGE_TYPE(ks_time_place, time_place_fields);

static const struct ks_image_field site_fields[] = {
    KS_IMAGE_REF_TO(struct ks_call_site, place, place_type),
};
static const struct ks_image_type site_type = KS_IMAGE_TYPE(ks_call_site, site_fields);

static const struct ks_image_field trip_fields[] = {
    KS_IMAGE_REF_TO(struct ks_round_trip, site, site_type),
};
static const struct ks_image_type trip_type = KS_IMAGE_TYPE(ks_round_trip, trip_fields);

static const struct ks_image_field step_cost_fields[] = {
    KS_IMAGE_REF_TO(struct ks_step_cost, worst, site_type),
};
static const struct ks_image_type step_cost_type = KS_IMAGE_TYPE(ks_step_cost, step_cost_fields);

static const struct ks_image_field trip_cost_fields[] = {
    KS_IMAGE_REF_TO(struct ks_trip_cost, worst, trip_type),
};
static const struct ks_image_type trip_cost_type = KS_IMAGE_TYPE(ks_trip_cost, trip_cost_fields);

static const struct ks_image_field mean_step_fields[] = {
    KS_IMAGE_TEXT_IN(struct ks_mean_step, obstacle),
    KS_IMAGE_STRUCTS(struct ks_mean_step, reads, 1, step_cost_type),
    KS_IMAGE_STRUCTS(struct ks_mean_step, small_copies, 1, step_cost_type),
    KS_IMAGE_STRUCTS(struct ks_mean_step, pageable, 1, step_cost_type),
    KS_IMAGE_STRUCTS(struct ks_mean_step, trips, 1, trip_cost_type),
};
static const struct ks_image_type mean_step_type = KS_IMAGE_TYPE(ks_mean_step, mean_step_fields);

static const struct ks_image_field work_fields[] = {
    KS_IMAGE_ARRAY_OF(struct ks_work_costs, spans, span_count, work_span_type),
    KS_IMAGE_ARRAY_OF(struct ks_work_costs, passes, pass_count, work_span_type),
};
static const struct ks_image_type work_type = KS_IMAGE_TYPE(ks_work_costs, work_fields);

static const struct ks_image_field comm_fields[] = {
    KS_IMAGE_ARRAY_OF(struct ks_comm_fact, ranks, rank_count, rank_type),
};
static const struct ks_image_type comm_type = KS_IMAGE_TYPE(ks_comm_fact, comm_fields);

static const struct ks_image_field tokenize_fields[] = {
    KS_IMAGE_STR_IN(struct ks_tokenize_fact, file),
    KS_IMAGE_STR_IN(struct ks_tokenize_fact, function),
};
static const struct ks_image_type tokenize_type = KS_IMAGE_TYPE(ks_tokenize_fact, tokenize_fields);

static const struct ks_image_field facts_fields[] = {
    KS_IMAGE_NOT(struct ks_facts, arena),
    KS_IMAGE_NOT(struct ks_facts, trace),
    ARRAY(steps, step_count, step_type),
    ARRAY(step_ranges, source_count, step_range_type),
    ARRAY(step_spans, step_span_count, step_span_type),
    ARRAY(step_span_ranges, source_count, step_range_type),
    ARRAY(devices, device_count, device_type),
    ARRAY(streams, stream_count, stream_type),
    ARRAY(operators, operator_count, operator_type),
    ARRAY(stacks, stack_count, stack_type),
    ARRAY(kernels, kernel_count, kernel_type),
    ARRAY(copies, copy_count, copy_type),
    ARRAY(regions, region_count, region_type),
    ARRAY(step_regions, step_region_count, step_region_type),
    ARRAY(modules, module_count, module_type),
    ARRAY(autograd, autograd_count, autograd_type),
    ARRAY(sequences, sequence_count, sequence_type),
    ARRAY(marks, mark_count, mark_type),
    ARRAY(functions, function_count, function_type),
    ARRAY(function_edges, function_edge_count, function_edge_type),
    ARRAY(samples, sample_count, sample_type),
    ARRAY(places, place_count, place_type),
    ARRAY(place_uses, place_use_count, place_use_type),
    ARRAY(place_calls, place_call_count, place_call_type),
    ARRAY(time_places, time_place_count, time_place_type),
    ARRAY(syncs, sync_count, site_type),
    ARRAY(copy_sites, copy_site_count, site_type),
    ARRAY(round_trips, round_trip_count, trip_type),
    ARRAY(trip_spans, trip_span_count, trip_span_type),
    KS_IMAGE_STRUCTS(struct ks_facts, work, 1, work_type),
    ARRAY(memory, memory_count, memory_type),
    KS_IMAGE_STRUCTS(struct ks_facts, comm, 1, comm_type),
    ARRAY(graphs, source_count, graph_type),
    ARRAY(inputs, input_count, input_type),
    KS_IMAGE_STRUCTS(struct ks_facts, tokenizing, 1, tokenize_type),
    ARRAY(cpus, cpu_count, cpu_type),
    ARRAY(sources, source_count, source_type),
    KS_IMAGE_NOT(struct ks_facts, replays),
    KS_IMAGE_NOT(struct ks_facts, what_ifs),
    KS_IMAGE_STRUCTS(struct ks_facts, mean_step, 1, mean_step_type),
};

const struct ks_image_type ks_facts_image_type = KS_IMAGE_TYPE(ks_facts, facts_fields);

enum ks_status ks_facts_pack(const struct ks_facts *facts, struct ks_text *out, struct ks_err *err)
{
    return ks_image_pack(facts, &ks_facts_image_type, &facts->arena, out, err);
}

enum ks_status ks_facts_unpack(char *bytes, size_t size, const struct ks_trace *trace,
                               struct ks_arena *arena, struct ks_facts *facts, struct ks_err *err)
{
    struct ks_facts found;
    KS_TRY(ks_image_unpack(bytes, size, &ks_facts_image_type, &found, err));
    if (found.source_count != ks_trace_source_count(trace)) {
        return ks_fail(err, KS_ERR_FORMAT, KS_NO_OFFSET,
                       "Cannot read facts: sources=%zu, the trace has %u", found.source_count,
                       ks_trace_source_count(trace));
    }
    found.replays = ks_new(arena, struct ks_replay *, found.source_count + 1);
    if (!found.replays) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot read facts: no memory");
    }
    found.trace = trace;
    found.arena = *arena;
    *facts = found;
    ks_arena_init(arena);
    return KS_OK;
}
