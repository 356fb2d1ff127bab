/* Where sharded parameters are gathered and their gradients summed up (FSDP), by the annotations
 * around the calls that start the collectives (docs/analyses/op_work.md). */
#include "analyze/op_work.h"

enum ks_status ks_shards_note(struct ks_op_work *work, const struct ks_op_walk *walk,
                              const struct ks_op_row *row, struct ks_err *err)
{
    if (row->is_op || row->launches == 0) {
        return KS_OK;
    }
    unsigned class = ks_op_work_class(work, row->name);
    unsigned marks = class & KS_OP_GATHER    ? (unsigned)KS_REPLAY_GATHER
                     : class & KS_OP_SCATTER ? (unsigned)KS_REPLAY_SCATTER
                                             : 0u;
    const struct ks_work_span span = {walk->lane, marks, row->start_ns, row->end_ns};
    return marks ? ks_op_work_add_span(work, &span, err) : KS_OK;
}
