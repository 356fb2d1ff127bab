#include "capture/sampler/stack_sampler.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture/sampler/stack_look.h"
#include "capture/sampler/thread_table.h"
#include "capture/shared/recorder.h"

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

enum {
    THREAD_STACK_SIZE = 256 * 1024,
    NICE_MORE = 5,
    LIST_EVERY_MS = 10,
    IDLE_WRITE_MS = 100, /* what a killed program loses of idle threads */
};

/* Times and counts that other threads may read. */
struct counts {
    _Atomic uint64_t looks, samples, torn, late, cpu_ns;
};

static struct sampler {
    struct ks_python_layout layout;
    uint32_t rate_hz;
    int64_t interval_ns;
    pthread_t thread;
    sem_t wake; /* posted: the end */
    bool is_on;
    pid_t pid;   /* of the process that started it: a bare clone() calls no handler */
    bool was_on; /* in the parent, before the fork */
    bool has_fork_handler;
    struct counts counts;

    /* The thread's own. */
    struct ks_stack_look *look;
    struct ks_thread_table threads;
    uint32_t generation;
    int64_t listed_ns;
    int64_t told_ns;
} sampler;

static int64_t now_ns(clockid_t clock)
{
    struct timespec now = {0};
    (void)clock_gettime(clock, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void add(_Atomic uint64_t *count, uint64_t more)
{
    atomic_fetch_add_explicit(count, more, memory_order_relaxed);
}

static uint64_t get(const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

/* ------------------------------------------------------------------ one thread */

/* CPU time of a thread to the nanosecond, also of one that runs now: schedstat in /proc lags behind
 * by up to a tick of the scheduler. False: it has ended. */
static bool read_cpu(uint64_t tid, uint64_t *cpu_ns)
{
    enum { THREAD_SCHED_CLOCK = 6, CLOCK_BITS = 3 }; /* how Linux numbers clocks of threads */
    clockid_t clock = (clockid_t)(~(uint32_t)tid << CLOCK_BITS | THREAD_SCHED_CLOCK);
    struct timespec used;
    if (clock_gettime(clock, &used) != 0) {
        return false;
    }
    *cpu_ns = (uint64_t)(used.tv_sec * NS_PER_S + used.tv_nsec);
    return true;
}

/* Its stack is one of this recording: a child, whose file begins with the first item of any thread,
 * and who stops and starts recording may have got another meanwhile. */
static void write_sample(const struct ks_wire_sample *sample)
{
    (void)ks_capture_item_of(sampler.generation, KS_WIRE_SAMPLE, sample, sizeof(*sample));
}

static void write_idle(struct ks_sampled_thread *thread)
{
    if (thread->idle.weight > 0) {
        write_sample(&thread->idle);
        thread->idle.weight = 0;
    }
}

static struct ks_wire_sample sample_of(const struct ks_sampled_thread *thread, uint32_t flags)
{
    return (struct ks_wire_sample){
        .tick = ks_capture_tick(),
        .tid = (uint32_t)thread->python.native_id,
        .stack = thread->stack,
        .weight = 1,
        .flags = thread->flags | flags,
    };
}

/* It has not run since the last look, so it is where it was. */
static void count_idle(struct ks_sampled_thread *thread, int64_t now)
{
    if (thread->stack == 0) {
        return;
    }
    if (thread->idle.weight > 0) {
        thread->idle.weight++;
    } else {
        thread->idle = sample_of(thread, 0);
        thread->idle_since_ns = (uint64_t)now;
    }
    add(&sampler.counts.samples, 1);
    if (now - (int64_t)thread->idle_since_ns >= IDLE_WRITE_MS * NS_PER_MS) {
        write_idle(thread);
    }
}

static void forget(struct ks_sampled_thread *thread)
{
    write_idle(thread);
    thread->python.address = 0;
}

static void look_at_running(struct ks_sampled_thread *thread)
{
    uint32_t stack = 0;
    bool holds_gil = false;
    bool was_seen = thread->has_cpu;
    write_idle(thread);
    thread->stack = 0;
    thread->has_cpu = true;
    switch (ks_stack_look_at(sampler.look, &thread->python, &thread->hints, &stack, &holds_gil)) {
    case KS_FRAMES_GONE: thread->python.address = 0; return;
    case KS_FRAMES_NONE: return;
    case KS_FRAMES_TORN:
        thread->has_cpu = false; // so that the next look reads, whether it runs or not
        add(&sampler.counts.torn, 1);
        return;
    case KS_FRAMES_READ: break;
    }
    if (stack == 0) {
        thread->has_cpu = false;
        return; // the recording has no room, and counts that
    }
    thread->stack = stack;
    thread->flags = holds_gil ? KS_WIRE_SAMPLE_HOLDS_GIL : 0;
    struct ks_wire_sample sample = sample_of(thread, was_seen ? KS_WIRE_SAMPLE_RUNNING : 0);
    write_sample(&sample);
    add(&sampler.counts.samples, 1);
}

static void look_at(struct ks_sampled_thread *thread, int64_t now)
{
    uint64_t cpu_ns = 0;
    if (!read_cpu(thread->python.native_id, &cpu_ns)) {
        forget(thread);
        return;
    }
    bool is_idle = thread->has_cpu && cpu_ns == thread->cpu_ns;
    thread->cpu_ns = cpu_ns;
    if (is_idle) {
        count_idle(thread, now);
    } else {
        look_at_running(thread);
    }
}

/* ------------------------------------------------------------------ one look */

static void list_threads(int64_t now)
{
    struct ks_thread_table *table = &sampler.threads;
    sampler.listed_ns = now;
    (void)ks_thread_table_list(table, &sampler.look->reader.memory);
    for (uint32_t i = 0; i < table->end; i++) {
        if (table->threads[i].python.address != 0 && !table->threads[i].is_listed) {
            forget(&table->threads[i]);
        }
    }
    while (table->end > 0 && table->threads[table->end - 1].python.address == 0) {
        table->end--;
    }
}

/* Nothing of what was written to another recording is known in this one. */
static void begin_recording(uint32_t generation)
{
    sampler.generation = generation;
    ks_stack_look_reset(sampler.look, generation);
    for (uint32_t i = 0; i < sampler.threads.end; i++) {
        struct ks_sampled_thread *thread = &sampler.threads.threads[i];
        thread->stack = 0;
        thread->has_cpu = false;
        thread->idle.weight = 0;
    }
}

static void write_counts(void)
{
    struct ks_wire_sampler counts;
    atomic_store_explicit(&sampler.counts.cpu_ns, (uint64_t)now_ns(CLOCK_THREAD_CPUTIME_ID),
                          memory_order_relaxed);
    ks_stack_sampler_counts(&counts);
    (void)ks_capture_item(KS_WIRE_SAMPLER, &counts, sizeof(counts));
}

static void look_around(int64_t now)
{
    if (!ks_capture_is_on()) {
        return;
    }
    uint32_t generation = ks_capture_generation();
    if (generation != sampler.generation) {
        begin_recording(generation);
    }
    if (now - sampler.listed_ns >= LIST_EVERY_MS * NS_PER_MS) {
        list_threads(now);
    }
    for (uint32_t i = 0; i < sampler.threads.end; i++) {
        if (sampler.threads.threads[i].python.address != 0) {
            look_at(&sampler.threads.threads[i], now);
        }
    }
    add(&sampler.counts.looks, 1);
    if (now - sampler.told_ns >= NS_PER_S) {
        sampler.told_ns = now;
        write_counts();
    }
}

/* Waits until then; false: it is the end. */
static bool wait_until(int64_t then)
{
    struct timespec at = {.tv_sec = then / NS_PER_S, .tv_nsec = then % NS_PER_S};
    for (;;) {
        if (sem_clockwait(&sampler.wake, CLOCK_MONOTONIC, &at) == 0) {
            return false;
        }
        if (errno == ETIMEDOUT) {
            return true;
        }
    }
}

static void write_rest(void)
{
    if (!ks_capture_is_on() || ks_capture_generation() != sampler.generation) {
        return;
    }
    for (uint32_t i = 0; i < sampler.threads.end; i++) {
        write_idle(&sampler.threads.threads[i]);
    }
    write_counts();
}

static void *run(void *unused)
{
    (void)unused;
    (void)pthread_setname_np(pthread_self(), "kscope-sampler");
    id_t self = (id_t)syscall(SYS_gettid);
    (void)setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + NICE_MORE);
    int64_t looked = now_ns(CLOCK_MONOTONIC);
    int64_t due = looked + sampler.interval_ns;
    while (wait_until(due)) {
        int64_t now = now_ns(CLOCK_MONOTONIC);
        if (now - looked > 2 * sampler.interval_ns) {
            add(&sampler.counts.late, 1);
        }
        looked = now;
        look_around(now);
        /* Looks that were missed are not made up for. */
        due += sampler.interval_ns;
        if (due <= now) {
            due = now + sampler.interval_ns;
        }
    }
    write_rest();
    return NULL;
}

/* ------------------------------------------------------------------ starting and stopping */

static void release(void)
{
    if (sampler.look) {
        ks_stack_look_release(sampler.look);
        (void)munmap(sampler.look, sizeof(*sampler.look));
        sampler.look = NULL;
    }
    ks_thread_table_release(&sampler.threads);
}

static bool take_memory(void)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *look = mmap(NULL, sizeof(*sampler.look), PROT_READ | PROT_WRITE, flags, -1, 0);
    if (look == MAP_FAILED) {
        return false;
    }
    sampler.look = look;
    if (ks_stack_look_init(sampler.look, &sampler.layout) &&
        ks_thread_table_init(&sampler.threads, &sampler.layout)) {
        return true;
    }
    release();
    return false;
}

/* The child has our memory, as it was in the middle of a look, but not our thread. */
static void forget_in_child(void)
{
    sampler.was_on = sampler.is_on;
    sampler.is_on = false;
    if (sampler.look) {
        sampler.look->reader.memory.area = NULL; // it was not inherited
    }
}

/* With all signals held back, which the new thread inherits. */
static int start_thread(void)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0) {
        return -1;
    }
    (void)pthread_attr_setstacksize(&attributes, THREAD_STACK_SIZE);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&sampler.thread, &attributes, run, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return failed ? -1 : 0;
}

static int refuse(char reason[KS_SAMPLER_REASON_SIZE], const char *sentence)
{
    size_t size = strlen(sentence);
    size = size < KS_SAMPLER_REASON_SIZE ? size : KS_SAMPLER_REASON_SIZE - 1;
    memcpy(reason, sentence, size);
    reason[size] = '\0';
    return -1;
}

static void reset_counts(void)
{
    _Atomic uint64_t *all[] = {&sampler.counts.looks, &sampler.counts.samples, &sampler.counts.torn,
                               &sampler.counts.late, &sampler.counts.cpu_ns};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        atomic_store_explicit(all[i], 0, memory_order_relaxed);
    }
}

int ks_stack_sampler_start(const struct ks_python_layout *layout, uint32_t rate_hz,
                           char reason[KS_SAMPLER_REASON_SIZE])
{
    if (sampler.is_on) {
        return refuse(reason, "The stack sampler is on already.");
    }
    if (rate_hz < 1 || rate_hz > KS_SAMPLER_RATE_MAX) {
        return refuse(reason, "The stack sampler looks 1 to 1000 times a second.");
    }
    if (!sampler.has_fork_handler) {
        if (pthread_atfork(NULL, NULL, forget_in_child) != 0) {
            return refuse(reason, "The stack sampler has no memory.");
        }
        sampler.has_fork_handler = true;
    }
    sampler.layout = *layout;
    sampler.rate_hz = rate_hz;
    sampler.interval_ns = NS_PER_S / rate_hz;
    sampler.generation = 0; /* of no recording: the first look begins one */
    sampler.listed_ns = sampler.told_ns = 0;
    reset_counts();
    if (sem_init(&sampler.wake, 0, 0) != 0 || !take_memory()) {
        return refuse(reason, "The stack sampler has no memory.");
    }
    if (start_thread() != 0) {
        release();
        return refuse(reason, "The stack sampler could not start its thread.");
    }
    sampler.is_on = true;
    sampler.pid = getpid();
    return 0;
}

static void look_whether_child(void)
{
    if (sampler.is_on && sampler.pid != getpid()) {
        forget_in_child();
        sampler.was_on = false; // its thread would need memory, which may be locked for ever
    }
}

void ks_stack_sampler_stop(void)
{
    look_whether_child();
    if (sampler.is_on) {
        (void)sem_post(&sampler.wake);
        (void)pthread_join(sampler.thread, NULL);
        release();
        sampler.is_on = false;
    }
    sampler.was_on = false;
}

bool ks_stack_sampler_is_on(void)
{
    look_whether_child();
    return sampler.is_on;
}

void ks_stack_sampler_counts(struct ks_wire_sampler *counts)
{
    *counts = (struct ks_wire_sampler){
        .looks = get(&sampler.counts.looks),
        .samples = get(&sampler.counts.samples),
        .torn = get(&sampler.counts.torn),
        .late = get(&sampler.counts.late),
        .cpu_ns = get(&sampler.counts.cpu_ns),
        .rate_hz = sampler.rate_hz,
    };
}

void ks_stack_sampler_after_fork(void)
{
    if (!sampler.was_on) {
        return;
    }
    int error = errno;
    char reason[KS_SAMPLER_REASON_SIZE];
    struct ks_python_layout layout = sampler.layout;
    sampler.was_on = false;
    release();
    (void)ks_stack_sampler_start(&layout, sampler.rate_hz, reason);
    errno = error;
}
