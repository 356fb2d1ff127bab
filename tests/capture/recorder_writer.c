/* A program that records itself and ends in one of many ways, for test_kills.py. Each event of a
 * thread says its own number; how many were published is in a file that several processes map, so
 * the test knows what must be in the recording, whatever ended the program.
 *
 * Use: recorder_writer MODE FOLDER PROGRESS [COUNT [BYTES-MAX]] */
#include <kscope/kscope_region.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/shared/recorder.h"

enum { WRITERS_MAX = 512, BURST = 200, THREADS = 4 };

/* What one writer has published. Its thread counts after each event. */
struct progress {
    _Atomic uint64_t tid;
    _Atomic uint64_t published;
};

/* Shared by all processes. */
struct board {
    _Atomic uint64_t writer_count;
    uint64_t spare;
    struct progress writers[WRITERS_MAX];
};

static struct board *board;
static const char *folder;
static uint64_t count_wanted = 100000;
static useconds_t pause_us = 50; /* after each burst */
static _Atomic bool is_ending;

/* By one instruction, as kscope_region.h does it. */
static void put(struct ks_capture_lane *lane, uint64_t tick, uint64_t word)
{
    uintptr_t next =
        __atomic_fetch_add((uintptr_t *)(void *)&lane->next, sizeof(*lane->next), __ATOMIC_RELAXED);
    if (next >= (uintptr_t)lane->end) {
        ks_capture_event_slow(lane, tick, word);
        return;
    }
    struct ks_wire_event *at = (struct ks_wire_event *)next;
    at->tick = tick;
    __atomic_store_n(&at->word, word, __ATOMIC_RELEASE);
}

static void put_value(uint64_t value)
{
    put(ks_capture_lane(), value, (uint64_t)KS_WIRE_VALUE_INT << 32);
}

static struct progress *take_progress(void)
{
    struct progress *mine =
        &board->writers[atomic_fetch_add(&board->writer_count, 1) % WRITERS_MAX];
    atomic_store(&mine->published, 0);
    atomic_store(&mine->tid, (uint64_t)gettid());
    return mine;
}

/* Bursts with pauses, so that a kill meets a file of some size and not a full disk. */
static void write_values(uint64_t count)
{
    struct progress *mine = take_progress();
    for (uint64_t i = 0; i < count && !atomic_load(&is_ending); i++) {
        put_value(i);
        atomic_store_explicit(&mine->published, i + 1, memory_order_release);
        if (i % BURST == BURST - 1) {
            (void)usleep(pause_us);
        }
    }
}

static void *write_in_thread(void *unused)
{
    (void)unused;
    write_values(count_wanted);
    return NULL;
}

static void write_in_threads(int count, bool waits)
{
    pthread_t threads[WRITERS_MAX];
    for (int i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, write_in_thread, NULL)) {
            abort();
        }
    }
    for (int i = 0; i < count && waits; i++) {
        pthread_join(threads[i], NULL);
    }
}

/* ------------------------------------------------------------------ ends */

static void run_endless(void)
{
    count_wanted = UINT64_MAX;
    pause_us = 500;
    write_in_threads(THREADS - 1, false);
    write_values(count_wanted);
}

static void run_return(void)
{
    write_in_threads(THREADS, true);
}

static void run_stop(void)
{
    write_in_threads(THREADS, true);
    ks_capture_stop();
}

static void run_quick_exit(void)
{
    write_in_threads(THREADS, true);
    _exit(0);
}

static void run_segv(void)
{
    write_in_threads(THREADS, true);
    (void)raise(SIGSEGV);
}

static void run_exec(void)
{
    write_in_threads(THREADS, true);
    (void)execl("/bin/true", "true", (char *)NULL);
}

/* Threads that go on while the process ends. */
static void run_exit_meanwhile(void)
{
    pause_us = 500;
    count_wanted = UINT64_MAX;
    write_in_threads(THREADS, false);
    (void)usleep(20000);
    exit(0);
}

/* ------------------------------------------------------------------ forks */

static void wait_for(pid_t child)
{
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        (void)fprintf(stderr, "recorder_writer: a child ended with %#x\n", (unsigned)status);
        exit(1);
    }
}

/* Children fork while other threads write, and have threads and a child of their own. */
static pid_t fork_writer(int depth)
{
    pid_t child = fork();
    if (child != 0) {
        return child;
    }
    write_values(count_wanted);
    write_in_threads(2, true);
    if (depth > 0) {
        wait_for(fork_writer(depth - 1));
    }
    _exit(0);
}

static void *fork_in_thread(void *unused)
{
    (void)unused;
    for (int i = 0; i < 5; i++) {
        wait_for(fork_writer(i == 0));
    }
    return NULL;
}

static void run_fork(void)
{
    pthread_t forker;
    pthread_t writers[2];
    for (int i = 0; i < 2; i++) {
        pthread_create(&writers[i], NULL, write_in_thread, NULL);
    }
    pthread_create(&forker, NULL, fork_in_thread, NULL);
    pthread_join(forker, NULL);
    for (int i = 0; i < 2; i++) {
        pthread_join(writers[i], NULL);
    }
    write_values(count_wanted);
}

/* A child that says nothing has no recording. */
static void run_fork_silent(void)
{
    write_values(count_wanted);
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    wait_for(child);
}

/* ------------------------------------------------------------------ forks that tell nobody */

static struct ks_region_site told_before = KS_REGION_SITE("before", "parent");
static struct ks_region_site told_after = KS_REGION_SITE("after", "child");

static pid_t clone_bare(unsigned flags)
{
    return (pid_t)syscall(SYS_clone, (long)(flags | SIGCHLD), 0L, 0L, 0L, 0L);
}

static void write_as_bare_child(void)
{
    ks_region_begin(&told_before); // its first event of all tells the time
    ks_region_end(&told_before);
    ks_region_begin(&told_after);
    write_values(count_wanted);
    ks_region_end(&told_after);
}

static void bare_child(bool has_child)
{
    write_as_bare_child();
    if (has_child) {
        pid_t child = clone_bare(0);
        if (child == 0) {
            write_as_bare_child();
            _exit(0);
        }
        wait_for(child);
        write_values(count_wanted); // it is the parent's own file still
    }
    _exit(0);
}

static void *clone_in_thread(void *unused)
{
    (void)unused;
    for (int i = 0; i < 20; i++) {
        if (i == 10) {
            ks_region_mark(&told_before); // from now on its children know their lane
        }
        pid_t child = i % 2 ? _Fork() : clone_bare(0);
        if (child == 0) {
            bare_child(i == 0);
        }
        wait_for(child);
    }
    atomic_store(&is_ending, true);
    return NULL;
}

/* Names that are new, so that children are made in the middle of one. */
static void *name_in_thread(void *unused)
{
    (void)unused;
    for (unsigned i = 0; !atomic_load(&is_ending) && i < 60000; i++) {
        char text[32];
        int length = snprintf(text, sizeof(text), "name %u", i);
        (void)ks_capture_site(text, (size_t)length, "load", 4);
        (void)usleep(i % 16 ? 0 : 50);
    }
    return NULL;
}

static void *write_until_the_end(void *unused)
{
    (void)unused;
    write_values(UINT64_MAX);
    return NULL;
}

static void run_clone(void)
{
    void *(*const work[])(void *) = {write_until_the_end, write_until_the_end, name_in_thread,
                                     clone_in_thread};
    pthread_t threads[sizeof(work) / sizeof(work[0])];
    ks_region_mark(&told_before); // found before there is a child, which must take no memory
    for (size_t i = 0; i < sizeof(work) / sizeof(work[0]); i++) {
        pthread_create(&threads[i], NULL, work[i], NULL);
    }
    for (size_t i = 0; i < sizeof(work) / sizeof(work[0]); i++) {
        pthread_join(threads[i], NULL);
    }
}

/* One child says nothing, the other one something; both run destructors. */
static void run_clone_exit(void)
{
    ks_region_mark(&told_before);
    write_values(count_wanted);
    for (int i = 0; i < 2; i++) {
        pid_t child = clone_bare(0);
        if (child == 0) {
            if (i == 1) {
                write_as_bare_child();
            }
            exit(0);
        }
        wait_for(child);
    }
    write_values(count_wanted);
}

/* A child that has the very descriptors leaves that of the parent's file alone. */
static void run_clone_files(void)
{
    ks_region_mark(&told_before);
    write_values(count_wanted);
    pid_t child = clone_bare(CLONE_FILES);
    if (child == 0) {
        bare_child(false);
    }
    wait_for(child);
    write_values(count_wanted);
}

static int write_in_our_memory(void *unused)
{
    (void)unused;
    for (int i = 0; i < 5000; i++) {
        ks_region_mark(&told_after);
    }
    return 0;
}

/* A child that shares our memory is one more thread. */
static void run_clone_memory(void)
{
    static char stack[1 << 16] __attribute__((aligned(64)));
    ks_region_mark(&told_before);
    write_values(count_wanted);
    wait_for(
        clone(write_in_our_memory, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL));
    write_values(count_wanted);
}

/* As daemons do: all descriptors are closed, and their numbers become other files. */
static void run_daemon(void)
{
    char path[4096];
    write_values(count_wanted);
    for (int fd = 3; fd < 64; fd++) {
        (void)close(fd);
    }
    for (int i = 0; i < 61; i++) {
        (void)snprintf(path, sizeof(path), "%s/own%d", folder, i);
        if (open(path, O_RDWR | O_CREAT | O_EXCL, 0600) < 0) {
            exit(1);
        }
    }
    write_values(count_wanted * 4);
}

/* ------------------------------------------------------------------ no room */

/* More than the file may grow to; what is lost is counted, and the program ends well. */
static void run_full(void)
{
    const struct rlimit limit = {4 << 20, 4 << 20};
    (void)setrlimit(RLIMIT_FSIZE, &limit);
    write_in_threads(THREADS, true);
}

static void run_truncated(void)
{
    write_values(count_wanted);
    if (truncate(ks_capture_path(), 0)) {
        exit(1);
    }
    write_values(count_wanted * 10);
}

/* ------------------------------------------------------------------ threads and signals */

static void run_churn(void)
{
    uint64_t threads = count_wanted;
    count_wanted = 10;
    for (uint64_t i = 0; i < threads; i += 50) {
        write_in_threads(50, true);
    }
}

static void run_many(void)
{
    write_in_threads(200, true);
}

static struct progress *signal_progress;

static void record_signal(int number)
{
    (void)number;
    int error = errno;
    put_value(UINT64_C(1) << 32 | atomic_fetch_add(&signal_progress->published, 1));
    errno = error;
}

/* Signals come in the middle of events and of the recorder itself. */
static void run_signals(void)
{
    const struct itimerval often = {{0, 100}, {0, 100}};
    const struct itimerval never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = record_signal, .sa_flags = SA_RESTART};
    signal_progress = take_progress();
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    write_values(count_wanted);
    setitimer(ITIMER_REAL, &never, NULL);
}

/* Another thread starts and stops; what is lost meanwhile is for ks_capture_events_lost. */
static void run_restart(void)
{
    char reason[KS_CAPTURE_REASON_SIZE];
    const struct ks_capture_options options = {folder, 0, -1, -1, -1, -1};
    count_wanted = UINT64_MAX;
    pause_us = 500;
    write_in_threads(THREADS, false);
    for (int i = 0; i < 20; i++) {
        (void)usleep(5000);
        ks_capture_stop();
        if (ks_capture_start(&options, reason)) {
            exit(1);
        }
    }
    atomic_store(&is_ending, true);
}

/* ------------------------------------------------------------------ start */

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {
    {"endless", run_endless},
    {"return", run_return},
    {"stop", run_stop},
    {"_exit", run_quick_exit},
    {"segv", run_segv},
    {"exec", run_exec},
    {"meanwhile", run_exit_meanwhile},
    {"fork", run_fork},
    {"fork_silent", run_fork_silent},
    {"clone", run_clone},
    {"clone_exit", run_clone_exit},
    {"clone_files", run_clone_files},
    {"clone_memory", run_clone_memory},
    {"daemon", run_daemon},
    {"full", run_full},
    {"truncated", run_truncated},
    {"churn", run_churn},
    {"many", run_many},
    {"signals", run_signals},
    {"restart", run_restart},
};

static bool map_board(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(*board))) {
        return false;
    }
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return board != MAP_FAILED;
}

int main(int count, char **words)
{
    char reason[KS_CAPTURE_REASON_SIZE];
    if (count < 4 || !map_board(words[3])) {
        return 2;
    }
    folder = words[2];
    count_wanted = count > 4 ? strtoull(words[4], NULL, 10) : count_wanted;
    const struct ks_capture_options options = {
        folder, count > 5 ? strtoull(words[5], NULL, 10) : 0, -1, -1, -1, -1};
    if (ks_capture_start(&options, reason)) {
        (void)fprintf(stderr, "not recording: %s\n", reason);
    }
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(words[1], modes[i].name) == 0) {
            modes[i].run();
            return 0;
        }
    }
    return 2;
}
