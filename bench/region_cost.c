/* Cost of a region from C beside two reads of the counter and a store of 32 bytes, the least that
 * can tell when something began and ended. CPU time, in turn, with pauses in which the recorder
 * makes room: regions faster than a file grows wait for it. Prints the median of each, in ns a
 * region, and their ratio.
 *
 * Use: region_cost FOLDER [REGIONS [ROUNDS]]    with libkscope_capture.so; the recording lies in
 * FOLDER */
#include <kscope/kscope_region.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "capture/shared/recorder.h"
#include "capture/shared/ticks.h"

enum { REGIONS = 100000, ROUNDS = 21, ROUNDS_MAX = 101, PAUSE_US = 50000 };

struct pair {
    uint64_t begin, end, site, spare;
};

static struct pair ring[4096];

/* A copy of what a region must keep; the store may not be left out. */
static void run_plain(int count, bool is_tsc)
{
    for (int i = 0; i < count; i++) {
        struct pair *at = &ring[i & 4095];
        uint64_t begin = ks_ticks(is_tsc);
        __asm__ volatile("" ::: "memory");
        *at = (struct pair){begin, ks_ticks(is_tsc), 7, 0};
        __asm__ volatile("" ::: "memory");
    }
}

static void run_regions(int count)
{
    static struct ks_region_site site = KS_REGION_SITE("bench", "custom");
    for (int i = 0; i < count; i++) {
        ks_region_begin(&site);
        __asm__ volatile("" ::: "memory");
        ks_region_end(&site);
    }
}

static int compare(const void *a, const void *b)
{
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), compare);
    return values[count / 2];
}

int main(int count, char **words)
{
    char reason[KS_CAPTURE_REASON_SIZE];
    int regions = count > 2 ? atoi(words[2]) : REGIONS;
    int rounds = count > 3 ? atoi(words[3]) : ROUNDS;
    static double plain_ns[ROUNDS_MAX], region_ns[ROUNDS_MAX];
    const struct ks_capture_options options = {count > 1 ? words[1] : ".", 0, -1, -1, -1, -1};
    if (regions < 1 || rounds < 1 || rounds > ROUNDS_MAX || ks_capture_start(&options, reason)) {
        (void)fprintf(stderr, "region_cost: cannot record in %s\n", options.folder);
        return 1;
    }
    bool is_tsc = ks_capture_lane()->is_tsc;
    for (int i = 0; i < rounds; i++) {
        (void)usleep(PAUSE_US);
        int64_t start_ns = ks_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        run_plain(regions, is_tsc);
        int64_t middle_ns = ks_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        run_regions(regions);
        region_ns[i] = (double)(ks_clock_ns(CLOCK_THREAD_CPUTIME_ID) - middle_ns) / regions;
        plain_ns[i] = (double)(middle_ns - start_ns) / regions;
    }
    double plain = median(plain_ns, rounds);
    double region = median(region_ns, rounds);
    printf("two ticks and a store %.1f ns, region %.1f ns, %.2f times; %llu events lost\n", plain,
           region, region / plain, (unsigned long long)ks_capture_events_lost());
    return 0;
}
