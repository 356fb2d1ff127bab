/* The rules: one file rule_<id>.c, one line here and one in registry.c. */
#ifndef KS_ADVISE_REGISTRY_H
#define KS_ADVISE_REGISTRY_H

#include "advise/findings.h"

extern const struct ks_rule ks_rule_input_starved;
extern const struct ks_rule ks_rule_input_padding;
extern const struct ks_rule ks_rule_input_tokenize_inline;
extern const struct ks_rule ks_rule_sync_host;
extern const struct ks_rule ks_rule_launch_bound;
extern const struct ks_rule ks_rule_host_python_gap;
extern const struct ks_rule ks_rule_precision_fp32_matmul;
extern const struct ks_rule ks_rule_copy_pageable;
extern const struct ks_rule ks_rule_copy_many_small;
extern const struct ks_rule ks_rule_device_round_trip;
extern const struct ks_rule ks_rule_optimizer_unfused;
extern const struct ks_rule ks_rule_batch_too_small;
extern const struct ks_rule ks_rule_matmul_misaligned;
extern const struct ks_rule ks_rule_attention_backend;
extern const struct ks_rule ks_rule_attention_materialized;
extern const struct ks_rule ks_rule_layout_transposes;
extern const struct ks_rule ks_rule_fusion_pointwise;
extern const struct ks_rule ks_rule_loss_logits;
extern const struct ks_rule ks_rule_precision_cast_churn;
extern const struct ks_rule ks_rule_cudnn_retuning;
extern const struct ks_rule ks_rule_memory_growth;
extern const struct ks_rule ks_rule_memory_allocator_churn;
extern const struct ks_rule ks_rule_inference_grad_enabled;
extern const struct ks_rule ks_rule_compile_recompiles;
extern const struct ks_rule ks_rule_ranks_straggler;
extern const struct ks_rule ks_rule_ranks_imbalance;
extern const struct ks_rule ks_rule_comm_exposed;
extern const struct ks_rule ks_rule_comm_small_buckets;
extern const struct ks_rule ks_rule_comm_redundant_sync;
extern const struct ks_rule ks_rule_comm_fp32_payload;
extern const struct ks_rule ks_rule_fsdp_exposed_gather;
extern const struct ks_rule ks_rule_gpu_throttled;
extern const struct ks_rule ks_rule_host_periodic_stall;
extern const struct ks_rule ks_rule_cpu_oversubscribed;
extern const struct ks_rule ks_rule_cpu_throttled;
extern const struct ks_rule ks_rule_cpu_numa;
extern const struct ks_rule ks_rule_kv_concat;
extern const struct ks_rule ks_rule_kv_disabled;
extern const struct ks_rule ks_rule_inference_unbatched;
extern const struct ks_rule ks_rule_serve_host_gap;
extern const struct ks_rule ks_rule_host_slow_operator;
extern const struct ks_rule ks_rule_compile_graph_breaks;
extern const struct ks_rule ks_rule_compile_graphs_skipped;

#endif
