#include "capture/monitor/system_monitor.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "capture/monitor/gpu_source.h"
#include "capture/monitor/group_source.h"
#include "capture/monitor/machine_source.h"
#include "capture/monitor/process_source.h"
#include "capture/monitor/rdma_source.h"

#define NS_PER_S INT64_C(1000000000)

enum {
    THREAD_STACK_SIZE = 256 * 1024,
    GPU_STACK_SIZE = 1024 * 1024, /* the driver's library runs on it */
    GPU_RATE_MAX = 2,             /* Hz */
};

/* What one monitor works with; all of it is mapped at once. */
struct work {
    struct ks_process_source process;
    struct ks_group_source group;
    struct ks_machine_source machine;
    struct ks_rdma_source rdma;
    struct ks_look look;
    struct ks_gpu_source gpus;
    struct ks_look gpu_look;
    struct ks_curves curves;
};

static struct monitor {
    uint32_t user_count; /* that started it and have not stopped it */
    pid_t pid;           /* of the process that started it */
    _Atomic uint32_t rate_hz;
    bool has_thread;
    bool has_gpu_thread;
    bool has_fork_handler;
    bool is_child; /* of a process that had opened the driver's library, which is no good here */
    pthread_t thread, gpu_thread;
    pthread_mutex_t looking; /* a look goes on */
    sem_t wake;              /* posted: the end, or another rate */
    sem_t gpu_wake;          /* posted: the end */
    bool has_gpus;           /* the driver's library is in use, by its thread or by callers */
    _Atomic bool is_ending;
    struct work *work;
    _Atomic uint64_t looks, late, cpu_ns, gpu_cpu_ns;
} monitor;

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now = {0};
    (void)clock_gettime(clock, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

int64_t ks_system_monitor_now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* ------------------------------------------------------------------ looking */

/* Counts what the calling thread has used since its clock stood at `cpu_from_ns`, and gives where
 * it stands now. */
static int64_t look_around(struct work *work, bool is_last, int64_t cpu_from_ns)
{
    int error = errno;
    (void)pthread_mutex_lock(&monitor.looking);
    work->look.count = 0;
    work->look.is_last = is_last;
    work->look.now_ns = ks_system_monitor_now_ns();
    ks_process_source_look(&work->process, &work->look);
    ks_group_source_look(&work->group, &work->look);
    ks_machine_source_look(&work->machine, &work->look);
    ks_rdma_source_look(&work->rdma, &work->look);
    ks_curves_add(&work->curves, &work->look);
    (void)pthread_mutex_unlock(&monitor.looking);
    int64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    atomic_fetch_add(&monitor.looks, 1);
    atomic_fetch_add(&monitor.cpu_ns, (uint64_t)(cpu_ns - cpu_from_ns));
    errno = error;
    return cpu_ns;
}

static void look_once(struct work *work)
{
    (void)look_around(work, false, clock_ns(CLOCK_THREAD_CPUTIME_ID));
}

/* For somebody who stops: what is looked at less often ends now, too. */
static void look_last(struct work *work)
{
    (void)look_around(work, true, clock_ns(CLOCK_THREAD_CPUTIME_ID));
}

/* The driver may take its time: on a thread of its own, and a caller's only where there is none. */
static int64_t look_at_gpus(struct work *work, bool is_last, int64_t cpu_from_ns)
{
    int error = errno;
    work->gpu_look.count = 0;
    work->gpu_look.is_last = is_last;
    work->gpu_look.now_ns = ks_system_monitor_now_ns();
    ks_gpu_source_look(&work->gpus, &work->gpu_look);
    if (work->gpu_look.count > 0) {
        ks_curves_add(&work->curves, &work->gpu_look);
    }
    int64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    atomic_fetch_add(&monitor.gpu_cpu_ns, (uint64_t)(cpu_ns - cpu_from_ns));
    errno = error;
    return cpu_ns;
}

/* Waits until then, or until somebody has something to say. */
static void wait_until(sem_t *wake, int64_t then_ns)
{
    struct timespec at = {.tv_sec = then_ns / NS_PER_S, .tv_nsec = then_ns % NS_PER_S};
    while (sem_clockwait(wake, CLOCK_MONOTONIC, &at) != 0 && errno == EINTR) {
    }
}

/* Looks that were missed are not made up for. */
static void *run(void *unused)
{
    (void)unused;
    (void)pthread_setname_np(pthread_self(), "kscope-monitor");
    int64_t looked_ns = ks_system_monitor_now_ns();
    int64_t cpu_ns = 0; /* with waking up */
    for (;;) {
        int64_t interval_ns = NS_PER_S / atomic_load(&monitor.rate_hz);
        int64_t due_ns = looked_ns + interval_ns;
        wait_until(&monitor.wake, due_ns);
        if (atomic_load(&monitor.is_ending)) {
            return NULL;
        }
        int64_t now_ns = ks_system_monitor_now_ns();
        if (now_ns < due_ns) {
            continue; /* the rate is another one */
        }
        if (now_ns - looked_ns > 2 * interval_ns) {
            atomic_fetch_add(&monitor.late, 1);
        }
        looked_ns = now_ns - due_ns < interval_ns ? due_ns : now_ns;
        cpu_ns = look_around(monitor.work, false, cpu_ns);
    }
}

static void *run_gpus(void *unused)
{
    (void)unused;
    struct work *work = monitor.work;
    int64_t cpu_ns = 0;
    (void)pthread_setname_np(pthread_self(), "kscope-gpus");
    ks_gpu_source_open(&work->gpus);
    while (work->gpus.count > 0 && !atomic_load(&monitor.is_ending)) {
        uint32_t rate_hz = atomic_load(&monitor.rate_hz);
        int64_t interval_ns = NS_PER_S / (rate_hz < GPU_RATE_MAX ? rate_hz : GPU_RATE_MAX);
        cpu_ns = look_at_gpus(work, false, cpu_ns);
        wait_until(&monitor.gpu_wake, work->gpu_look.now_ns + interval_ns);
    }
    if (work->gpus.count > 0) {
        (void)look_at_gpus(work, true, cpu_ns);
    }
    ks_gpu_source_close(&work->gpus);
    return NULL;
}

/* ------------------------------------------------------------------ starting and stopping */

static int refuse(char reason[KS_MONITOR_REASON_SIZE], const char *sentence)
{
    size_t size = strlen(sentence);
    size = size < KS_MONITOR_REASON_SIZE ? size : KS_MONITOR_REASON_SIZE - 1;
    memcpy(reason, sentence, size);
    reason[size] = '\0';
    return -1;
}

static void open_sources(struct work *work, const char *root)
{
    ks_curves_pause(&work->curves);
    ks_process_source_open(&work->process, root);
    ks_group_source_open(&work->group, root);
    ks_machine_source_open(&work->machine, root);
    ks_rdma_source_open(&work->rdma, root);
}

static void close_sources(struct work *work)
{
    ks_process_source_close(&work->process);
    ks_group_source_close(&work->group);
    ks_machine_source_close(&work->machine);
    ks_rdma_source_close(&work->rdma);
}

/* A child has our memory, as it was in the middle of a look, but not our threads. The files that it
 * inherited tell of its parent. */
static void forget(void)
{
    monitor.user_count = 0;
    monitor.has_thread = monitor.has_gpu_thread = false;
    monitor.is_child |= monitor.has_gpus;
    monitor.has_gpus = false;
    if (monitor.work) {
        (void)munmap(monitor.work, sizeof(*monitor.work));
        monitor.work = NULL;
    }
}

static void forget_in_child(void)
{
    if (monitor.user_count > 0 && monitor.work) {
        close_sources(monitor.work);
    }
    forget();
}

/* A child of the bare system call comes here without its handlers, and may share the table of
 * files with its parent. */
static void look_whether_child(void)
{
    if (monitor.user_count > 0 && monitor.pid != getpid()) {
        forget();
    }
}

/* With all signals held back, which the new thread inherits; but that of a file that was cut short,
 * which would end the process. */
static bool start_one(pthread_t *thread, size_t stack_size, void *(*run_it)(void *))
{
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0) {
        return false;
    }
    (void)pthread_attr_setstacksize(&attributes, stack_size);
    (void)sigfillset(&all);
    (void)sigdelset(&all, SIGBUS);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, &attributes, run_it, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return failed == 0;
}

static void stop_gpus(void)
{
    if (monitor.has_gpu_thread) {
        (void)sem_post(&monitor.gpu_wake);
        (void)pthread_join(monitor.gpu_thread, NULL);
        monitor.has_gpu_thread = false;
    } else if (monitor.has_gpus) {
        (void)look_at_gpus(monitor.work, true, clock_ns(CLOCK_THREAD_CPUTIME_ID));
        ks_gpu_source_close(&monitor.work->gpus);
    }
    monitor.has_gpus = false;
}

/* A monitor without a thread asks the driver when it is told to look. */
static void start_gpus(void)
{
    if (monitor.is_child || !ks_gpu_source_find(&monitor.work->gpus)) {
        return;
    }
    if (monitor.has_thread) {
        monitor.has_gpu_thread = start_one(&monitor.gpu_thread, GPU_STACK_SIZE, run_gpus);
        monitor.has_gpus = monitor.has_gpu_thread;
    } else {
        monitor.has_gpus = true;
        ks_gpu_source_open(&monitor.work->gpus);
        (void)look_at_gpus(monitor.work, false, clock_ns(CLOCK_THREAD_CPUTIME_ID));
    }
}

static void stop_threads(void)
{
    atomic_store(&monitor.is_ending, true);
    if (monitor.has_thread) {
        (void)sem_post(&monitor.wake);
        (void)pthread_join(monitor.thread, NULL);
        monitor.has_thread = false;
    }
    stop_gpus();
}

/* Once for a process: what was measured before can be asked for as long as it lives. */
static bool take_memory(void)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (monitor.work) {
        return true;
    }
    void *work = mmap(NULL, sizeof(struct work), PROT_READ | PROT_WRITE, flags, -1, 0);
    if (work == MAP_FAILED || sem_init(&monitor.wake, 0, 0) != 0 ||
        sem_init(&monitor.gpu_wake, 0, 0) != 0 || pthread_mutex_init(&monitor.looking, NULL) != 0) {
        return false;
    }
    monitor.work = work;
    ks_curves_init(&monitor.work->curves);
    return true;
}

static int begin(const struct ks_system_monitor_options *options,
                 char reason[KS_MONITOR_REASON_SIZE])
{
    if (!monitor.has_fork_handler) {
        if (pthread_atfork(NULL, NULL, forget_in_child) != 0) {
            return refuse(reason, "The system monitor has no memory.");
        }
        monitor.has_fork_handler = true;
    }
    if (!take_memory()) {
        return refuse(reason, "The system monitor has no memory.");
    }
    atomic_store(&monitor.rate_hz, options->rate_hz);
    atomic_store(&monitor.looks, 0);
    atomic_store(&monitor.late, 0);
    atomic_store(&monitor.cpu_ns, 0);
    atomic_store(&monitor.gpu_cpu_ns, 0);
    atomic_store(&monitor.is_ending, false);
    open_sources(monitor.work, options->root ? options->root : "");
    look_once(monitor.work);
    return 0;
}

/* Another one wants it, too. */
static int speed_up(uint32_t rate_hz)
{
    if (rate_hz > atomic_load(&monitor.rate_hz)) {
        atomic_store(&monitor.rate_hz, rate_hz);
        if (monitor.has_thread) {
            (void)sem_post(&monitor.wake);
        }
    }
    look_once(monitor.work);
    return 0;
}

int ks_system_monitor_start(const struct ks_system_monitor_options *options,
                            char reason[KS_MONITOR_REASON_SIZE])
{
    if (options->rate_hz > KS_MONITOR_RATE_MAX) {
        return refuse(reason, "The system monitor looks 1 to 100 times a second.");
    }
    look_whether_child();
    bool was_on = monitor.user_count > 0;
    if ((was_on ? speed_up(options->rate_hz) : begin(options, reason)) != 0) {
        return -1;
    }
    bool needs_thread = !monitor.has_thread && atomic_load(&monitor.rate_hz) > 0;
    if (needs_thread) {
        stop_gpus(); /* of callers; from now on they have a thread, too */
        monitor.has_thread = start_one(&monitor.thread, THREAD_STACK_SIZE, run);
    }
    if (needs_thread && !monitor.has_thread) {
        if (!was_on) {
            close_sources(monitor.work);
        }
        return refuse(reason, "The system monitor could not start its thread.");
    }
    if (needs_thread || !was_on) {
        start_gpus();
    }
    monitor.user_count++;
    monitor.pid = getpid();
    return 0;
}

void ks_system_monitor_stop(void)
{
    look_whether_child();
    if (monitor.user_count == 0) {
        return;
    }
    monitor.user_count--;
    if (monitor.user_count == 0) {
        stop_threads();
    }
    look_last(monitor.work);
    if (monitor.user_count == 0) {
        close_sources(monitor.work);
    }
}

bool ks_system_monitor_is_on(void)
{
    look_whether_child();
    return monitor.user_count > 0;
}

void ks_system_monitor_look(void)
{
    look_whether_child();
    if (monitor.user_count > 0) {
        look_once(monitor.work);
    }
    if (monitor.user_count > 0 && monitor.has_gpus && !monitor.has_gpu_thread) {
        (void)look_at_gpus(monitor.work, false, clock_ns(CLOCK_THREAD_CPUTIME_ID));
    }
}

void ks_system_monitor_end(void)
{
    look_whether_child();
    monitor.user_count = monitor.user_count > 0 ? 1 : 0;
    ks_system_monitor_stop();
}

void ks_system_monitor_counts(struct ks_system_monitor_counts *counts)
{
    *counts = (struct ks_system_monitor_counts){
        .looks = atomic_load(&monitor.looks),
        .late = atomic_load(&monitor.late),
        .cpu_ns = atomic_load(&monitor.cpu_ns),
        .gpu_cpu_ns = atomic_load(&monitor.gpu_cpu_ns),
        .rate_hz = atomic_load(&monitor.rate_hz),
    };
}

struct ks_curves *ks_system_monitor_curves(void)
{
    return monitor.work ? &monitor.work->curves : NULL;
}
