/* The Python threads of the process, found by walking the interpreters' lists without the GIL. */
#ifndef KS_CAPTURE_SAMPLER_THREAD_TABLE_H
#define KS_CAPTURE_SAMPLER_THREAD_TABLE_H

#include "capture/sampler/frame_reader.h"
#include "wire/recording.h"

enum { KS_THREADS_MAX = 4096 };

struct ks_sampled_thread {
    struct ks_python_thread python; /* address 0: free */
    bool is_listed;                 /* the walk that goes on has met it */
    bool has_cpu;
    uint64_t cpu_ns; /* used up to the last look */
    uint32_t stack;  /* at the last look; 0: none */
    uint32_t flags;
    struct ks_wire_sample idle; /* looks that found it where it was; weight 0: none */
    uint64_t idle_since_ns;
    struct ks_frame_hints hints;
};

struct ks_thread_table {
    const struct ks_python_layout *layout;
    struct ks_sampled_thread *threads;
    uint32_t end; /* all that are used lie before it */
};

bool ks_thread_table_init(struct ks_thread_table *table, const struct ks_python_layout *layout);
void ks_thread_table_release(struct ks_thread_table *table);

/* Adds threads that are new, and clears `is_listed` of those that have ended. False: the lists
 * changed meanwhile, and nobody was said to have ended. */
bool ks_thread_table_list(struct ks_thread_table *table, struct ks_self_memory *memory);

#endif
