#include "capture/shared/fork_mark.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

static struct ks_fork_mark no_page;
struct ks_fork_mark *ks_fork_mark = &no_page;
static bool has_page;

bool ks_fork_mark_init(void)
{
    if (has_page) {
        return true;
    }
    long size = sysconf(_SC_PAGESIZE);
    void *page =
        mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return false;
    }
    if (madvise(page, (size_t)size, MADV_WIPEONFORK) != 0) {
        (void)munmap(page, (size_t)size);
        return false;
    }
    struct ks_fork_mark *mark = page;
    atomic_store(&mark->value, 1); // whoever sees the page sees a mark
    ks_fork_mark = mark;
    has_page = true;
    return true;
}

void ks_fork_mark_set(uint32_t value)
{
    atomic_store_explicit(&ks_fork_mark->value, value, memory_order_release);
}

bool ks_fork_mark_is_lost(void)
{
    return has_page && ks_fork_mark_get() == 0;
}

bool ks_fork_mark_claim(void)
{
    uint32_t nobody = 0;
    return atomic_compare_exchange_strong(&ks_fork_mark->claimed_by, &nobody, (uint32_t)gettid());
}

bool ks_fork_mark_wait(void)
{
    uint32_t self = (uint32_t)gettid();
    while (ks_fork_mark_get() == 0) {
        if (atomic_load(&ks_fork_mark->claimed_by) == self) {
            return false;
        }
        (void)sched_yield();
    }
    return true;
}
