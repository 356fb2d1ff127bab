/* The rank that others wait for, as the rules about ranks see it (docs/analyses/collectives.md). */
#ifndef KS_ADVISE_LATE_RANK_H
#define KS_ADVISE_LATE_RANK_H

#include "advise/findings.h"

struct ks_late_rank {
    const struct ks_rank_fact *rank; /* NULL: none comes last for a reason of its own */
    enum ks_idle_cause cause;        /* what it does more than the others most of all */
    int64_t excess_ns; /* ... and how long, all causes of its own together; launching: alone */
};

/* Can waiting of ranks be compared? False: `check` says why not. */
bool ks_late_rank_can_judge(const struct ks_facts *facts, struct ks_check *check);

/* The rank that others wait for in nearly each step, if what it does more than they explains the
 * waiting: code between operators, waiting for batches, reading values or asking for memory; else
 * launching (KS_IDLE_LAUNCH), which is weak: ranks differ in what recording costs them. */
struct ks_late_rank ks_late_rank_find(const struct ks_facts *facts);

/* Does it come last in nearly each step, and for a share of the step worth having? */
bool ks_late_rank_is_steady(const struct ks_facts *facts);

#endif
