/* Which Python frames operators were called from, as torch says it: what of frames is open where an
 * operator begins, innermost first; what a node of autograd calls has the stack of the operator
 * that made the node (docs/analyses/stacks.md). Memory: the stacks, and one entry for each number
 * of autograd. */
#ifndef KS_ANALYZE_OPERATOR_STACKS_H
#define KS_ANALYZE_OPERATOR_STACKS_H

#include "analyze/registry.h"
#include "base/map.h"

/* More frames than the first mean whole stacks, which are there already: so many from inside need
 * that many entries a stack. Texts end at the second: a file could ask for the square of its depth.
 */
enum { KS_STACK_DEPTH_MAX = 64, KS_STACK_SHOWN_MAX = 256 };

/* Ids of stacks; 0: no frame was open. */
struct ks_operator_stacks {
    const struct ks_trace *trace;
    size_t depth; /* frames that tell stacks apart, 0: stacks are not asked for */
    bool is_whole;
    struct ks_stack_node {
        uint32_t next; /* the frame around it; in a group: the frame inside of it */
        uint32_t name;
        uint32_t group; /* of the stack, once it was asked for; 0: not yet */
    } * nodes;          /* ids from 1; of calls and of groups */
    size_t node_count;
    size_t node_capacity;
    struct ks_map calls;  /* (frame around, name) -> id */
    struct ks_map groups; /* (frame inside, name) -> id */
    struct ks_map makers; /* (source, number) -> 1 + stack of the first operator with it */
    struct ks_stack_frame {
        int64_t end_ns;
        uint32_t stack;
    } * frames; /* open ones */
    size_t frame_count;
    size_t frame_capacity;
    struct ks_stack_frame *inside; /* open nodes of autograd, with the stacks of their makers */
    size_t inside_count;
    size_t inside_capacity;
    int64_t engine_end_ns; /* the engine's row of a node ... */
    uint32_t engine_node;  /* ... and the name of the node's own row */
    bool is_noting;        /* makers, in a first pass over all lanes */
};

struct ks_stack_row {
    uint32_t source;
    uint32_t name;
    int64_t start_ns;
    int64_t end_ns;
    int64_t number; /* Sequence number, -1 none */
    int64_t thread; /* Fwd thread id */
};

void ks_operator_stacks_init(struct ks_operator_stacks *stacks, const struct ks_trace *trace,
                             int64_t depth);
void ks_operator_stacks_release(struct ks_operator_stacks *stacks);

void ks_operator_stacks_begin_lane(struct ks_operator_stacks *stacks);
/* Rows of a lane come in their order; a frame opens. */
enum ks_status ks_operator_stacks_open(struct ks_operator_stacks *stacks, uint32_t name,
                                       int64_t start_ns, int64_t end_ns, struct ks_err *err)
    KS_MUST_CHECK;
/* The stack of the next row that is no frame. In the first pass it notes who makes nodes. */
enum ks_status ks_operator_stacks_find(struct ks_operator_stacks *stacks,
                                       const struct ks_stack_row *row, uint32_t *stack,
                                       struct ks_err *err) KS_MUST_CHECK;

/* Id of the innermost frames of a stack, the same for equal ones. */
enum ks_status ks_operator_stacks_group(struct ks_operator_stacks *stacks, uint32_t stack,
                                        uint32_t *group, struct ks_err *err) KS_MUST_CHECK;
/* Gives each operator the text of its group, which lives in `arena`. */
enum ks_status ks_operator_stacks_name(const struct ks_operator_stacks *stacks,
                                       struct ks_operator_fact *operators, size_t count,
                                       struct ks_arena *arena, struct ks_err *err) KS_MUST_CHECK;
/* Fills facts->stacks: operators with names, added up by group. */
enum ks_status ks_operator_stacks_sum(const struct ks_operator_stacks *stacks,
                                      const struct ks_operator_fact *operators, size_t count,
                                      struct ks_analyzer *analyzer, struct ks_err *err)
    KS_MUST_CHECK;

#endif
