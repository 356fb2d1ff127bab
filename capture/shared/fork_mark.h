/* Tells a child from its parent where no fork handler runs: the system call clone() and _Fork()
 * call none. The mark lies in a page that the kernel empties in every child that has a copy of our
 * memory (MADV_WIPEONFORK, Linux 4.14). Children that share the memory share the mark. */
#ifndef KS_CAPTURE_SHARED_FORK_MARK_H
#define KS_CAPTURE_SHARED_FORK_MARK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ks_fork_mark {
    _Atomic uint32_t value;
    _Atomic uint32_t claimed_by; /* the thread that sees to the child; 0 none */
};

/* Never NULL; written by fork_mark.c only. */
extern struct ks_fork_mark *ks_fork_mark;

/* Once in a process. False: older kernels; then only fork() is noticed, by its handlers. */
bool ks_fork_mark_init(void);
/* What was set in this process; 0: nothing. */
static inline uint32_t ks_fork_mark_get(void)
{
    return atomic_load_explicit(&ks_fork_mark->value, memory_order_acquire);
}
void ks_fork_mark_set(uint32_t value);
/* This is a child that nobody has told so. */
bool ks_fork_mark_is_lost(void);
/* In such a child: true for the one thread that shall make it a process of its own, and then sets
 * the mark. */
bool ks_fork_mark_claim(void);
/* The others wait for that; false where they cannot: in a signal handler of the one thread. */
bool ks_fork_mark_wait(void);

#endif
