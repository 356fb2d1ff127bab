/* Frames and stacks of memory snapshots, each kept once, so that equal stacks are equal numbers,
 * also those of two snapshots that share a pool. A stack is the frame that called last and the
 * stack it was called from; 0 is the stack without a frame. Texts lie in the string pool, which
 * must live longer. */
#ifndef KS_SNAPSHOT_STACK_POOL_H
#define KS_SNAPSHOT_STACK_POOL_H

#include "base/map.h"
#include "store/strpool.h"

struct ks_stack_frame {
    struct ks_strid name;
    struct ks_strid file;
    int64_t line;
};

struct ks_stack_node {
    uint32_t parent; /* the stack of the caller */
    uint32_t frame;
    uint32_t user;   /* innermost frame in the user's own code; 0: none */
    uint32_t python; /* innermost frame in Python; 0: none */
    uint32_t native; /* innermost frame that is not of the allocator or the unwinder; 0: none */
};

/* Stacks that were asked for lately; a snapshot asks for few, but for each of them often. */
enum { KS_STACK_RECENT = 4096 };

struct ks_stack_pool {
    struct ks_strpool *strings; /* not owned */
    struct ks_map frame_ids;    /* (file and name, line) */
    struct ks_map node_ids;     /* (parent, frame) */
    struct ks_stack_frame *frames;
    struct ks_stack_node *nodes;
    size_t frame_count, frame_capacity; /* with frame 0, which is none */
    size_t node_count, node_capacity;   /* with stack 0 */
    uint32_t recent[KS_STACK_RECENT];   /* by parent and frame; 0: none */
};

enum ks_status ks_stack_pool_init(struct ks_stack_pool *pool, struct ks_strpool *strings,
                                  struct ks_err *err) KS_MUST_CHECK;
void ks_stack_pool_release(struct ks_stack_pool *pool);
enum ks_status ks_stack_pool_frame(struct ks_stack_pool *pool, struct ks_stack_frame frame,
                                   uint32_t *id, struct ks_err *err) KS_MUST_CHECK;
/* The stack in which `frame` was called from `parent`. */
enum ks_status ks_stack_pool_push(struct ks_stack_pool *pool, uint32_t parent, uint32_t frame,
                                  uint32_t *id, struct ks_err *err) KS_MUST_CHECK;
/* The frame that stands for a stack: in the user's code, else in Python, else in C++; 0: none. */
uint32_t ks_stack_pool_place(const struct ks_stack_pool *pool, uint32_t stack);
struct ks_str ks_stack_pool_name(const struct ks_stack_pool *pool, uint32_t frame);
struct ks_str ks_stack_pool_file(const struct ks_stack_pool *pool, uint32_t frame);
/* Orders by text, which does not depend on what was read first. */
int ks_stack_pool_compare_frames(const struct ks_stack_pool *pool, uint32_t left, uint32_t right);
int ks_stack_pool_compare(const struct ks_stack_pool *pool, uint32_t left, uint32_t right);
/* Does a flame graph show the frame? As torch.cuda._memory_viz decides it. */
bool ks_stack_pool_is_shown(const struct ks_stack_pool *pool, uint32_t frame);

#endif
