/* A program that records regions in many ways, for tests/capture/test_recorder.py.
 *
 * Use: record_regions MODE FOLDER [COUNT]
 *
 * It prints the path of its recording. */
#include <kscope/kscope_region.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/shared/recorder.h"

enum { THREADS = 4 };

static struct ks_region_site outer = KS_REGION_SITE("outer", "training_loop");
static struct ks_region_site inner = KS_REGION_SITE("inner", "forward_pass");
static const char *folder;
static long count;

static void region(void)
{
    ks_region_begin(&outer);
    ks_region_begin(&inner);
    ks_region_end(&inner);
    ks_region_end(&outer);
}

static void regions(long times)
{
    for (long i = 0; i < times; i++) {
        region();
    }
}

static void *regions_of_thread(void *unused)
{
    (void)unused;
    regions(count);
    return NULL;
}

static void begin(uint64_t bytes_max)
{
    char reason[KS_CAPTURE_REASON_SIZE];
    const struct ks_capture_options options = {folder, bytes_max, 3, 1, 8, -1};
    if (ks_capture_start(&options, reason) != 0) {
        printf("not recorded: %s\n", reason);
    } else {
        printf("%s\n", ks_capture_path());
    }
    (void)fflush(stdout);
}

/* ------------------------------------------------------------------ modes */

static void in_threads(void)
{
    pthread_t threads[THREADS];
    begin(0);
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, regions_of_thread, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

/* More threads than there are lanes at once would be, one after the other. */
static void in_short_threads(void)
{
    long threads = count;
    count = 1;
    begin(0);
    for (long i = 0; i < threads; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, regions_of_thread, NULL);
        pthread_join(thread, NULL);
    }
}

static void in_children(void)
{
    begin(0);
    regions(count);
    for (int i = 0; i < 2; i++) {
        if (fork() == 0) {
            regions(count);
            _exit(0);
        }
    }
    regions(count);
    while (wait(NULL) > 0) {
    }
}

/* A child that says nothing leaves no file. */
static void in_silent_child(void)
{
    begin(0);
    regions(count);
    if (fork() == 0) {
        _exit(0);
    }
    (void)wait(NULL);
}

static void before_exec(void)
{
    begin(0);
    regions(count);
    (void)execl("/bin/true", "true", (char *)NULL);
}

static void then_crash(void)
{
    begin(0);
    regions(count);
    (void)raise(SIGSEGV);
}

static void then_exit(void)
{
    begin(0);
    regions(count);
    _exit(7);
}

static void again(void)
{
    begin(0);
    regions(count);
    ks_capture_stop();
    regions(count); /* nobody records these */
    begin(0);
    regions(2 * count);
}

static void at_limit(void)
{
    begin(1 << 20);
    regions(count);
    printf("lost %llu\n", (unsigned long long)ks_capture_events_lost());
}

/* What the shell's `ulimit -f` sets, and what would send a signal that ends the program. */
static void at_file_limit(void)
{
    const struct rlimit limit = {2 << 20, 2 << 20};
    setrlimit(RLIMIT_FSIZE, &limit);
    at_limit();
}

static void cut_short(void)
{
    begin(0);
    regions(count);
    if (truncate(ks_capture_path(), 8192) != 0) {
        abort();
    }
    regions(count);
    printf("on %d\n", ks_capture_is_on());
}

static void in_handler(int number)
{
    (void)number;
    ks_region_begin(&inner);
    ks_region_end(&inner);
}

/* A signal each 100 us, whose handler records. */
static void in_signal_handler(void)
{
    const struct itimerval often = {{0, 100}, {0, 100}};
    const struct itimerval never = {{0, 0}, {0, 0}};
    const struct sigaction action = {.sa_handler = in_handler, .sa_flags = SA_RESTART};
    begin(0);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (long i = 0; i < count; i++) {
        ks_region_begin(&outer);
        ks_region_end(&outer);
    }
    setitimer(ITIMER_REAL, &never, NULL);
}

static void values(void)
{
    static struct ks_region_site loss = KS_REGION_SITE("loss", "training_loop");
    begin(0);
    for (int i = 0; i < 3; i++) {
        KS_REGION("block", "custom");
        ks_region_count(&loss, 0.5 * i);
        ks_region_mark(&outer);
    }
}

static void nothing(void)
{
    regions(count);
    printf("id %u\n", outer.id);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {
        {"threads", in_threads},   {"short_threads", in_short_threads},

        {"children", in_children}, {"silent", in_silent_child},
        {"exec", before_exec},     {"crash", then_crash},
        {"exit", then_exit},       {"again", again},
        {"limit", at_limit},       {"file_limit", at_file_limit},
        {"cut", cut_short},        {"handler", in_signal_handler},
        {"values", values},        {"nothing", nothing},
    };
    if (argc < 3) {
        return 2;
    }
    folder = argv[2];
    count = argc > 3 ? strtol(argv[3], NULL, 10) : 1000;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        if (strcmp(argv[1], modes[i].name) == 0) {
            modes[i].run();
            return 0;
        }
    }
    return 2;
}
