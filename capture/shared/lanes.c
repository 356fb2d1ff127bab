#include "capture/shared/lanes.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

/* A pointer and no more: loaded late, a library has little room for thread-local memory. */
static __thread struct ks_lane *own __attribute__((tls_model("initial-exec")));

static struct ks_lane *lanes;
static uint32_t lane_count;
static uint32_t lane_first; /* those before may be somebody's whose thread is not known */
static uint32_t look_from;  /* where to look for one whose thread is gone */
static pthread_key_t key;
static bool has_key;
static void (*on_thread_end)(struct ks_lane *lane);

struct ks_lane *ks_lane_own(void)
{
    return own;
}

struct ks_lane *ks_lane_at(uint32_t index)
{
    return index < lane_count ? &lanes[index] : NULL;
}

/* Destructors of other libraries may come later and record, so the thread keeps its lane. */
static void end_thread(void *lane)
{
    if (on_thread_end) {
        on_thread_end(lane);
    }
}

void ks_lanes_on_thread_end(void (*callback)(struct ks_lane *lane))
{
    on_thread_end = callback;
    has_key = has_key || pthread_key_create(&key, end_thread) == 0;
}

static bool is_gone(const struct ks_lane *lane)
{
    return lane->tid == 0 || (tgkill(getpid(), (pid_t)lane->tid, 0) != 0 && errno == ESRCH);
}

/* Looks at a few lanes each time, so that a million short threads cost little each. */
static struct ks_lane *find_free(void)
{
    enum { LOOKS = 64 };
    for (int i = 0; i < LOOKS && lane_count > lane_first; i++) {
        struct ks_lane *lane = &lanes[look_from];
        look_from = look_from + 1 < lane_count ? look_from + 1 : lane_first;
        if (is_gone(lane)) {
            return lane;
        }
    }
    return lane_count < KS_LANES_MAX ? &lanes[lane_count++] : NULL;
}

struct ks_lane *ks_lane_take(bool is_tsc, void (*close)(struct ks_lane *lane))
{
    if (!lanes) {
        void *at = mmap(NULL, KS_LANES_MAX * sizeof(*lanes), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED) {
            return NULL;
        }
        /* A child finds windows without room, and so comes to us before it writes. */
        (void)madvise(at, KS_LANES_MAX * sizeof(*lanes), MADV_WIPEONFORK);
        lanes = at;
    }
    struct ks_lane *lane = find_free();
    if (!lane) {
        return NULL;
    }
    close(lane);
    *lane = (struct ks_lane){.window.is_tsc = is_tsc, .tid = (uint32_t)gettid()};
    own = lane;
    if (has_key) {
        (void)pthread_setspecific(key, lane);
    }
    return lane;
}

void ks_lanes_after_fork(bool is_own, bool is_tsc)
{
    for (uint32_t i = 0; i < lane_count; i++) {
        if (lanes[i].tid != 0) { // older kernels leave it the parent's
            lanes[i] = (struct ks_lane){0};
        }
    }
    if (is_own && own) {
        own->window.is_tsc = is_tsc;
        own->tid = (uint32_t)gettid();
    }
    lane_first = is_own ? lane_first : lane_count;
    look_from = lane_first;
    has_key = has_key && is_own; // setting a key may take memory
}
