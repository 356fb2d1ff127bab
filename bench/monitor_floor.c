/* The least that a monitor can cost: a thread that wakes up so many times a second, and in each
 * look reads the files whose turn it is, from descriptors that stay open, and does nothing with
 * them. bench/monitor_cost.py loads it. */
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now = {0};
    (void)clock_gettime(clock, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

static void wait_until(int64_t then_ns)
{
    const struct timespec then = {.tv_sec = then_ns / NS_PER_S, .tv_nsec = then_ns % NS_PER_S};
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &then, NULL);
}

int64_t ks_floor_run(int rate_hz, int looks, int file_count, const int *files, const int *every);

/* CPU time of the calling thread, in ns. File `i` is read in each `every[i]`-th look; without files
 * it only wakes up. */
int64_t ks_floor_run(int rate_hz, int looks, int file_count, const int *files, const int *every)
{
    static char text[256 * 1024];
    int64_t began_ns = clock_ns(CLOCK_MONOTONIC);
    int64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int look = 0; look < looks; look++) {
        struct rusage used;
        wait_until(began_ns + (look + 1) * NS_PER_S / rate_hz);
        if (file_count > 0) {
            (void)getrusage(RUSAGE_SELF, &used);
        }
        for (int i = 0; i < file_count; i++) {
            if (look % every[i] == 0) {
                (void)!pread(files[i], text, sizeof(text), 0);
            }
        }
    }
    return clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
}
