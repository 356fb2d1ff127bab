#include "tune/knobs.h"

#include <string.h>

/* docs/tuning.md shows the same table; a test holds the two together. */
static const struct {
    const char *id;
    const char *why;
} faults[] = {
    {"attention.materialized", "the scores are computed by the model's own code"},
    {"comm.exposed", "ranks and their buckets are set up by the script"},
    {"comm.fp32_payload", "ranks and their buckets are set up by the script"},
    {"comm.redundant_sync", "only the script knows which backward pass is the last one"},
    {"comm.small_buckets", "ranks and their buckets are set up by the script"},
    {"compile.graph_breaks", "the break is a line of the script"},
    {"compile.recompiles", "the shapes that change come from the script"},
    {"copy.many_small", "the script makes these copies one by one"},
    {"cpu.numa", "the process is placed by whoever starts it"},
    {"cpu.throttled", "the limit is one of the container or the machine"},
    {"device.round_trip", "a line of the script takes tensors to the CPU and back"},
    {"fsdp.exposed_gather", "sharding is set up by the script"},
    {"fsdp.reshard_unneeded", "sharding is set up by the script"},
    {"fsdp.wrap", "sharding is set up by the script"},
    {"gpu.shared", "another process uses the GPU"},
    {"gpu.throttled", "the GPU's clocks are a matter of power and cooling"},
    {"host.periodic_stall", "the script does this work itself, every so many steps"},
    {"host.python_gap", "the time goes into the script's own Python"},
    {"host.slow_operator", "the operator is one that the script calls"},
    {"inference.grad_enabled", "whether gradients are wanted, only the script knows"},
    {"inference.unbatched", "which inputs may be put together, only the script knows"},
    {"input.padding", "how inputs are put into batches is the collate function's business"},
    {"input.tokenize_inline", "the text is tokenised by a line of the script"},
    {"kv.concat", "the cache is kept by the model's own code"},
    {"kv.disabled", "the cache is switched by the script's call of generate"},
    {"loss.logits", "the loss is computed by the script's own code"},
    {"matmul.misaligned", "the dimensions are the model's"},
    {"memory.allocator_churn", "the sizes that change come from the script"},
    {"memory.growth", "the script keeps what it could let go"},
    {"moe.expert_loop", "the experts are called by the model's own code"},
    {"moe.imbalance", "the router is the model's"},
    {"pipeline.bubble", "the schedule of the pipeline is set up by the script"},
    {"precision.cast_churn", "where parameters are cast is the script's autocast"},
    {"ranks.imbalance", "the work is dealt out by the script"},
    {"ranks.straggler", "one rank is late, for a reason of its own"},
    {"recompute.unneeded", "checkpointing is a call in the model's own code"},
    {"serve.host_gap", "the loop of the engine is the script's"},
    {"sync.host", "a line of the script waits for the GPU"},
};

const char *ks_not_tunable(const char *finding_id)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        if (strcmp(faults[i].id, finding_id) == 0) {
            return faults[i].why;
        }
    }
    return NULL;
}

const char *ks_not_tunable_id(size_t index)
{
    return index < sizeof(faults) / sizeof(faults[0]) ? faults[index].id : NULL;
}
