#include "advise/registry.h"

/* input.tokenize_inline comes before host.python_gap, which leaves to it what it finds. */
static const struct ks_rule *const rules[] = {
    &ks_rule_input_starved,
    &ks_rule_sync_host,
    &ks_rule_launch_bound,
    &ks_rule_input_tokenize_inline,
    &ks_rule_host_python_gap,
    &ks_rule_precision_fp32_matmul,
    &ks_rule_copy_pageable,
    &ks_rule_copy_many_small,
    &ks_rule_device_round_trip,
    &ks_rule_optimizer_unfused,
    &ks_rule_batch_too_small,
    &ks_rule_matmul_misaligned,
    &ks_rule_attention_backend,
    &ks_rule_attention_materialized,
    &ks_rule_layout_transposes,
    &ks_rule_fusion_pointwise,
    &ks_rule_loss_logits,
    &ks_rule_cudnn_retuning,
    &ks_rule_memory_growth,
    &ks_rule_memory_allocator_churn,
    &ks_rule_inference_grad_enabled,
    &ks_rule_compile_recompiles,
    &ks_rule_ranks_straggler,
    &ks_rule_ranks_imbalance,
    &ks_rule_comm_exposed,
    &ks_rule_comm_small_buckets,
    &ks_rule_comm_redundant_sync,
    &ks_rule_comm_fp32_payload,
    &ks_rule_host_periodic_stall,
    &ks_rule_cpu_oversubscribed,
    &ks_rule_cpu_throttled,
    &ks_rule_cpu_numa,
    &ks_rule_kv_concat,
    &ks_rule_kv_disabled,
    &ks_rule_inference_unbatched,
    &ks_rule_serve_host_gap,
    &ks_rule_fsdp_exposed_gather,
    &ks_rule_gpu_throttled,
    &ks_rule_host_slow_operator,
    &ks_rule_compile_graph_breaks,
    &ks_rule_compile_graphs_skipped,
    &ks_rule_input_padding,
    &ks_rule_precision_cast_churn,
};

const struct ks_rule *ks_rule_at(size_t index)
{
    return index < KS_COUNT_OF(rules) ? rules[index] : NULL;
}
