/* Labelled regions, markers and counters in C and C++, for extensions whose time a recording shall
 * show. Include it and link nothing: when Kinetoscope records the process, its library is there and
 * is found; otherwise each call is a load and a branch.
 *
 *     static struct ks_region_site site = KS_REGION_SITE("tokenize", "tokenization");
 *     ks_region_begin(&site);
 *     ...
 *     ks_region_end(&site);
 *
 * In C++, or with gcc and clang in C, KS_REGION("tokenize", "tokenization") does both for the rest
 * of the block. Regions of a thread lie in one another; any thread may have them. Nothing fails:
 * what has no room is lost, and the recording says how much. Linux, C11 or
 * C++11 with the extensions of gcc and clang. */
#ifndef KSCOPE_REGION_H
#define KSCOPE_REGION_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NOLOAD */
#endif

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A place in the program: what is measured there, and the category that reports sum it in. Static,
 * one for each place; `id` and `calls` are ours. */
struct ks_region_site {
    const char *name;
    const char *category;
    uint32_t id;    /* 0: no recorder has been found */
    uint32_t calls; /* while it was not there */
};

#define KS_REGION_SITE(name, category)                                                             \
    {                                                                                              \
        (name), (category), 0, 0                                                                   \
    }

/* The layouts of libkscope_capture.so. */
struct ks_region_event {
    uint64_t tick;
    uint64_t word;
};
struct ks_region_lane {
    struct ks_region_event *next;
    struct ks_region_event *end;
    uint32_t is_tsc;
    uint32_t reserved;
};
struct ks_region_library {
    struct ks_region_lane *(*lane)(void);
    void (*slow)(struct ks_region_lane *lane, uint64_t tick, uint64_t word);
    uint32_t (*site)(const char *name, size_t name_length, const char *category,
                     size_t category_length);
};

enum {
    KS_REGION_BEGIN = 1,
    KS_REGION_END = 2,
    KS_REGION_MARK = 3,
    KS_REGION_COUNTER = 4,
    KS_REGION_VALUE_REAL = 6
};

/* Each translation unit looks for itself; what it finds stays. */
static struct ks_region_library ks_region_library_;
static __thread struct ks_region_lane *ks_region_lane_;

/* Looks at each of the first calls, then at one in twice as many each time, since the recorder may
 * come after us. Threads that look at once find the same. */
__attribute__((noinline, unused)) static uint32_t ks_region_find_(struct ks_region_site *site)
{
    struct ks_region_library *library = &ks_region_library_;
    uint32_t calls = ++site->calls;
    if (!__atomic_load_n(&library->site, __ATOMIC_ACQUIRE)) {
        if (calls > 64 && (calls & (calls - 1)) != 0) {
            return 0;
        }
        void *handle = dlopen("libkscope_capture.so", RTLD_LAZY | RTLD_NOLOAD);
        if (!handle) {
            return 0;
        }
        struct ks_region_library found;
        *(void **)&found.lane = dlsym(handle, "ks_capture_lane");
        *(void **)&found.slow = dlsym(handle, "ks_capture_event_slow");
        *(void **)&found.site = dlsym(handle, "ks_capture_site");
        dlclose(handle);
        if (!found.lane || !found.slow || !found.site) {
            return 0;
        }
        library->lane = found.lane;
        library->slow = found.slow;
        __atomic_store_n(&library->site, found.site, __ATOMIC_RELEASE);
    }
    site->id =
        library->site(site->name, strlen(site->name), site->category, strlen(site->category));
    return site->id;
}

static inline uint64_t ks_region_tick_(const struct ks_region_lane *lane)
{
    struct timespec now;
#ifdef __x86_64__
    if (lane->is_tsc) {
        return __builtin_ia32_rdtsc();
    }
#endif
    (void)lane;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* By one instruction where there is one, so that a signal handler gets another record. */
static inline struct ks_region_event *ks_region_reserve_(struct ks_region_lane *lane)
{
    struct ks_region_event *at;
#ifdef __x86_64__
    uint64_t size = sizeof(*at);
    __asm__ volatile("xaddq %0, %1" : "+r"(size), "+m"(lane->next) : : "cc");
    at = (struct ks_region_event *)(uintptr_t)size;
#else
    at = lane->next;
    lane->next = at + 1;
#endif
    return at;
}

/* Behind the end of the lane is no room, however far; the second word makes a record valid. */
static inline void ks_region_put_(struct ks_region_lane *lane, uint64_t tick, uint64_t word)
{
    struct ks_region_event *at = ks_region_reserve_(lane);
    if (__builtin_expect((uintptr_t)at >= (uintptr_t)lane->end, 0)) {
        ks_region_library_.slow(lane, tick, word);
        return;
    }
    at->tick = tick;
    __atomic_store_n(&at->word, word, __ATOMIC_RELEASE);
}

/* The calling thread's lane, or NULL when nobody records. */
static inline struct ks_region_lane *ks_region_lane_of_(struct ks_region_site *site)
{
    if (__builtin_expect(site->id == 0, 0) && ks_region_find_(site) == 0) {
        return NULL;
    }
    if (__builtin_expect(!ks_region_lane_, 0)) {
        ks_region_lane_ = ks_region_library_.lane();
    }
    return ks_region_lane_;
}

/* A region of this thread begins; it lasts until ks_region_end of the same site. */
static inline void ks_region_begin(struct ks_region_site *site)
{
    struct ks_region_lane *lane = ks_region_lane_of_(site);
    if (lane) {
        ks_region_put_(lane, ks_region_tick_(lane), site->id | (uint64_t)KS_REGION_BEGIN << 32);
    }
}

/* Ends what has begun: where nobody recorded then, nothing ends. */
static inline void ks_region_end(struct ks_region_site *site)
{
    struct ks_region_lane *lane = site->id != 0 ? ks_region_lane_of_(site) : NULL;
    if (lane) {
        ks_region_put_(lane, ks_region_tick_(lane), site->id | (uint64_t)KS_REGION_END << 32);
    }
}

/* Something happened now. */
static inline void ks_region_mark(struct ks_region_site *site)
{
    struct ks_region_lane *lane = ks_region_lane_of_(site);
    if (lane) {
        ks_region_put_(lane, ks_region_tick_(lane), site->id | (uint64_t)KS_REGION_MARK << 32);
    }
}

/* A quantity has this value from now on. */
static inline void ks_region_count(struct ks_region_site *site, double value)
{
    struct ks_region_lane *lane = ks_region_lane_of_(site);
    if (lane) {
        uint64_t bits;
        memcpy(&bits, &value, sizeof(bits));
        ks_region_put_(lane, ks_region_tick_(lane), site->id | (uint64_t)KS_REGION_COUNTER << 32);
        ks_region_put_(lane, bits, site->id | (uint64_t)KS_REGION_VALUE_REAL << 32);
    }
}

__attribute__((unused)) static inline void ks_region_end_(struct ks_region_site **site)
{
    ks_region_end(*site);
}

#ifdef __cplusplus
}
#endif

#define KS_REGION_JOIN2_(a, b) a##b
#define KS_REGION_JOIN_(a, b) KS_REGION_JOIN2_(a, b)

#define KS_REGION_HERE_(name, category, number)                                                    \
    static struct ks_region_site KS_REGION_JOIN_(ks_site_, number) =                               \
        KS_REGION_SITE(name, category);                                                            \
    __attribute__((cleanup(ks_region_end_), unused)) struct ks_region_site *KS_REGION_JOIN_(       \
        ks_region_, number) = &KS_REGION_JOIN_(ks_site_, number);                                  \
    ks_region_begin(KS_REGION_JOIN_(ks_region_, number))

/* The rest of the block is a region. */
#define KS_REGION(name, category) KS_REGION_HERE_(name, category, __COUNTER__)

#endif
