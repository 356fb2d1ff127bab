/* Writes events of the calling thread, inline into its lane: a look at the clock and two stores.
 *
 * Tasks of asyncio share a thread, so that regions of two tasks overlap without one being in the
 * other. Before an event of another task than the last one, a KS_WIRE_TRACK says so. The
 * interpreter counts in each thread how often the context changed, as it does around each step of a
 * task: as long as that count is what it was, so is the task, and nobody need be asked. */
#ifndef KS_PYTHON_WRITER_H
#define KS_PYTHON_WRITER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>

#include "capture/shared/recorder.h"

struct ks_writer {
    struct ks_capture_lane *lane;
    uint64_t context; /* as ks_writer_context said when the task was last looked up */
    uint32_t track;   /* the number of the task that the lane is in; 0: of none */
    uint32_t generation;
};

extern _Thread_local struct ks_writer ks_writer __attribute__((tls_model("initial-exec")));

/* Whether something records, when there is no room in the lane. */
bool ks_writer_ask(void);
/* Makes the lane be in the current task. Leaves an exception that is set as it is. */
void ks_writer_follow_task(uint64_t context);

static inline uint64_t ks_writer_context(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    const PyThreadState *thread = PyThreadState_GetUnchecked();
#else
    const PyThreadState *thread = _PyThreadState_UncheckedGet();
#endif
    return thread->context_ver ^ thread->id << 48;
}

/* False: nothing records. To be asked before each event; then the lane is in the current task. */
static inline bool ks_writer_begin(void)
{
    const struct ks_capture_lane *lane = ks_writer.lane;
    if (__builtin_expect(!lane || lane->next == lane->end, 0) && !ks_writer_ask()) {
        return false;
    }
    uint64_t context = ks_writer_context();
    if (__builtin_expect(context != ks_writer.context || ks_writer.track != 0, 0)) {
        ks_writer_follow_task(context);
    }
    return true;
}

static inline uint64_t ks_writer_tick(void)
{
#ifdef __x86_64__
    if (__builtin_expect(ks_writer.lane->is_tsc != 0, 1)) {
        return __builtin_ia32_rdtsc();
    }
#endif
    return ks_capture_tick();
}

/* The room is taken before it is filled: a signal handler that records goes behind it. */
static inline void ks_writer_put(enum ks_wire_event_kind kind, uint32_t id, uint32_t more,
                                 uint64_t tick)
{
    struct ks_capture_lane *lane = ks_writer.lane;
    struct ks_wire_event *event = lane->next;
    uint64_t word = id | (uint64_t)kind << 32 | (uint64_t)more << 40;
    if (__builtin_expect(event == lane->end, 0)) {
        ks_capture_event_slow(lane, tick, word);
        return;
    }
    lane->next = event + 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    event->tick = tick;
    __atomic_store_n(&event->word, word, __ATOMIC_RELEASE);
}

#endif
