/* The stack sampler: a thread of ours that looks at the stacks of all Python threads so many times
 * a second, without the GIL and without stopping anybody, and writes them to the recording. One for
 * the process. It takes nothing but its own mapped memory while it runs, holds back all signals
 * from itself, and gives way to other threads.
 *
 * After a fork the child has no such thread; see ks_stack_sampler_after_fork. */
#ifndef KS_CAPTURE_SAMPLER_STACK_SAMPLER_H
#define KS_CAPTURE_SAMPLER_STACK_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/sampler/python_layout.h"
#include "wire/recording.h"

enum {
    KS_SAMPLER_RATE_MAX = 1000, /* Hz; at least 1 */
    KS_SAMPLER_REASON_SIZE = KS_PYTHON_REASON_SIZE,
};

/* 0: it looks. -1: `reason` says in a sentence why not. Looks while no recording is on see nothing
 * and cost next to nothing. */
int ks_stack_sampler_start(const struct ks_python_layout *layout, uint32_t rate_hz,
                           char reason[KS_SAMPLER_REASON_SIZE]);
/* Waits for the look that goes on, at most some milliseconds. Good when it is off. */
void ks_stack_sampler_stop(void);
bool ks_stack_sampler_is_on(void);
/* Of the sampler that is on, or of the last one. */
void ks_stack_sampler_counts(struct ks_wire_sampler *counts);
/* In the child, once it may start threads: starts again when the parent's was on. */
void ks_stack_sampler_after_fork(void);

#endif
