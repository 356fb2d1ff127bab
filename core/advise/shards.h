/* What rules about collectives ask of fsdp.exposed_gather, which comes before them for the time
 * that both explain. */
#ifndef KS_ADVISE_SHARDS_H
#define KS_ADVISE_SHARDS_H

#include "advise/findings.h"

/* Are exposed gathers of sharded parameters worth a finding? Then `*finding` has its savings. */
enum ks_status ks_shards_judge(const struct ks_facts *facts, struct ks_finding *finding,
                               bool *is_found, struct ks_err *err) KS_MUST_CHECK;

/* Code of the repair: collectives of FSDP that carry 16 bits. */
#define KS_SHARDS_16_BITS                                                                          \
    "from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard\n"                       \
    "policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)\n"     \
    "fully_shard(model, mp_policy=policy)  # and each block that is a unit of its own"

/* Does FSDP sum up gradients? Its settings differ from those of DistributedDataParallel. */
static inline bool ks_shards_are_there(const struct ks_facts *facts)
{
    return facts->comm.shards.gathers.count > 0 || facts->comm.shards.scatters.count > 0;
}

#endif
