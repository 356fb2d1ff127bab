#include "capture/sampler/thread_table.h"

#include <string.h>
#include <sys/mman.h>

enum { TABLE_SIZE = KS_THREADS_MAX * sizeof(struct ks_sampled_thread), INTERPRETERS_MAX = 64 };

bool ks_thread_table_init(struct ks_thread_table *table, const struct ks_python_layout *layout)
{
    *table = (struct ks_thread_table){.layout = layout};
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *threads = mmap(NULL, TABLE_SIZE, PROT_READ | PROT_WRITE, flags, -1, 0);
    table->threads = threads == MAP_FAILED ? NULL : threads;
    return table->threads != NULL;
}

void ks_thread_table_release(struct ks_thread_table *table)
{
    if (table->threads) {
        (void)munmap(table->threads, TABLE_SIZE);
    }
    *table = (struct ks_thread_table){0};
}

static bool read_word(struct ks_self_memory *memory, uintptr_t from, uintptr_t *word)
{
    if (!ks_self_memory_read(memory, 0, from, sizeof(*word))) {
        return false;
    }
    memcpy(word, memory->area, sizeof(*word));
    return true;
}

/* The thread's entry, looked for from `*place` on, since lists keep their order; or a free one. */
static struct ks_sampled_thread *find_entry(struct ks_thread_table *table, uint32_t *place,
                                            const struct ks_python_thread *thread)
{
    uint32_t free = KS_THREADS_MAX;
    for (uint32_t i = 0; i < table->end; i++) {
        uint32_t k = (*place + i) % table->end;
        const struct ks_python_thread *known = &table->threads[k].python;
        if (known->address == thread->address && known->native_id == thread->native_id &&
            known->interp == thread->interp) {
            *place = k + 1;
            return &table->threads[k];
        }
        free = known->address == 0 && k < free ? k : free;
    }
    if (free == KS_THREADS_MAX) {
        free = table->end;
    }
    if (free == KS_THREADS_MAX) {
        return NULL;
    }
    table->end += free == table->end;
    table->threads[free] = (struct ks_sampled_thread){.python = *thread};
    return &table->threads[free];
}

static bool list_threads(struct ks_thread_table *table, struct ks_self_memory *memory,
                         uintptr_t interp, uintptr_t gil, uint32_t *place)
{
    const struct ks_python_layout *layout = table->layout;
    const char *state = memory->area;
    uintptr_t address;
    if (!read_word(memory, interp + layout->interp_threads, &address)) {
        return false;
    }
    for (uint32_t i = 0; address != 0 && i < KS_THREADS_MAX; i++) {
        struct ks_python_thread thread = {.address = address, .gil = gil};
        if (!ks_self_memory_read(memory, 0, address, layout->thread_size)) {
            return false;
        }
        memcpy(&thread.interp, state + layout->thread_interp, sizeof(thread.interp));
        memcpy(&thread.native_id, state + layout->thread_native_id, sizeof(thread.native_id));
        memcpy(&address, state + layout->thread_next, sizeof(address));
        if (thread.interp != interp) {
            return false;
        }
        /* A thread that is about to start has no number yet. */
        struct ks_sampled_thread *entry =
            thread.native_id != 0 ? find_entry(table, place, &thread) : NULL;
        if (entry) {
            entry->is_listed = true;
        }
    }
    return true;
}

static bool list_interpreters(struct ks_thread_table *table, struct ks_self_memory *memory)
{
    const struct ks_python_layout *layout = table->layout;
    uintptr_t interp, gil = layout->runtime + layout->runtime_gil;
    uint32_t place = 0;
    if (!read_word(memory, layout->runtime + layout->runtime_interpreters, &interp)) {
        return false;
    }
    for (uint32_t i = 0; interp != 0 && i < INTERPRETERS_MAX; i++) {
        if ((layout->interp_gil != 0 && !read_word(memory, interp + layout->interp_gil, &gil)) ||
            !list_threads(table, memory, interp, gil, &place) ||
            !read_word(memory, interp + layout->interp_next, &interp)) {
            return false;
        }
    }
    return true;
}

bool ks_thread_table_list(struct ks_thread_table *table, struct ks_self_memory *memory)
{
    for (uint32_t i = 0; i < table->end; i++) {
        table->threads[i].is_listed = false;
    }
    if (list_interpreters(table, memory)) {
        return true;
    }
    for (uint32_t i = 0; i < table->end; i++) {
        table->threads[i].is_listed = table->threads[i].python.address != 0;
    }
    return false;
}
