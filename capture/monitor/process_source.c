#include "capture/monitor/process_source.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "capture/monitor/words.h"

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

enum {
    TEXT_SIZE = 2048,
    USAGE_PERIOD_MS = 50,
    THREADS_PERIOD_MS = 500,
    IO_PERIOD_MS = 500,
    PSS_PERIOD_S = 10,
    PSS_PERIOD_MIN_S = 1, /* to a last look */
    PSS_COST_MAX_MS = 5,
};

/* "PID (NAME) STATE FIELD...": the name may hold anything, so fields count from its last bracket.
 * Behind the state come numbers of which some are negative: they are stepped over by blanks. */
static bool read_thread_count(const struct ks_process_source *source, uint64_t *threads)
{
    enum { FIELD_NAME = 2, FIELD_THREADS = 20 };
    char text[TEXT_SIZE];
    (void)ks_kept_file_read(&source->stat, text, sizeof(text));
    const char *at = strrchr(text, ')');
    for (int field = FIELD_NAME; at && field < FIELD_THREADS; field++) {
        at = strchr(at + 1, ' ');
    }
    return at && ks_words_number(&at, threads);
}

/* The kernel counts a folder for each thread as a link to the one that holds them, which costs a
 * fifth of the text. */
static bool count_thread_folders(const struct ks_process_source *source, uint64_t *threads)
{
    enum { OWN_LINKS = 2 };
    struct stat about;
    if (source->threads.fd < 0 || fstat(source->threads.fd, &about) != 0 ||
        about.st_nlink <= OWN_LINKS) {
        return false;
    }
    *threads = about.st_nlink - OWN_LINKS;
    return true;
}

/* Not all that look like Linux count links so. A thread that comes in between costs some time. */
static bool does_count_threads(const struct ks_process_source *source)
{
    uint64_t told = 0;
    uint64_t counted = 0;
    return count_thread_folders(source, &counted) && read_thread_count(source, &told) &&
           told == counted;
}

void ks_process_source_open(struct ks_process_source *source, const char *root)
{
    *source = (struct ks_process_source){.page_size = sysconf(_SC_PAGESIZE)};
    ks_kept_file_open(&source->threads, root, "/proc/self", "/task");
    ks_kept_file_open(&source->stat, root, "/proc/self", "/stat");
    ks_kept_file_open(&source->statm, root, "/proc/self", "/statm");
    ks_kept_file_open(&source->io, root, "/proc/self", "/io");
    ks_kept_file_open(&source->smaps, root, "/proc/self", "/smaps_rollup");
    source->counts_threads = does_count_threads(source);
}

/* To the microsecond, where /proc/self/stat counts in ticks of 10 ms; but time of threads that run
 * now is that of their last tick, so rates over a few milliseconds would be noise. */
static void look_at_usage(struct ks_process_source *source, struct ks_look *look)
{
    struct rusage used;
    if (!ks_look_is_due(look, &source->usage_due_ns, USAGE_PERIOD_MS * NS_PER_MS) ||
        getrusage(RUSAGE_SELF, &used) != 0) {
        return;
    }
    uint64_t user_us = (uint64_t)used.ru_utime.tv_sec * 1000000 + (uint64_t)used.ru_utime.tv_usec;
    uint64_t system_us = (uint64_t)used.ru_stime.tv_sec * 1000000 + (uint64_t)used.ru_stime.tv_usec;
    double percent = 100e-6; /* of a second, in a microsecond */
    ks_look_put_rate(look, KS_METRIC_CPU_PROCESS, &source->cpu_us, user_us + system_us, percent);
    ks_look_put_rate(look, KS_METRIC_CPU_PROCESS_SYSTEM, &source->system_us, system_us, percent);
    ks_look_put_rate(look, KS_METRIC_CPU_SWITCHES, &source->switches, (uint64_t)used.ru_nvcsw, 1);
    ks_look_put_rate(look, KS_METRIC_CPU_PREEMPTIONS, &source->preemptions,
                     (uint64_t)used.ru_nivcsw, 1);
    ks_look_put_rate(look, KS_METRIC_MEMORY_MAJOR_FAULTS, &source->major_faults,
                     (uint64_t)used.ru_majflt, 1);
}

/* "SIZE RESIDENT SHARED ...", in pages. */
static void look_at_resident(const struct ks_process_source *source, struct ks_look *look)
{
    char text[TEXT_SIZE];
    uint64_t pages[2];
    (void)ks_kept_file_read(&source->statm, text, sizeof(text));
    if (ks_words_numbers(text, pages, 2)) {
        ks_look_put(look, KS_METRIC_MEMORY_RSS, (double)pages[1] * (double)source->page_size);
    }
}

static void look_at_threads(struct ks_process_source *source, struct ks_look *look)
{
    uint64_t threads = 0;
    if (!ks_look_is_due(look, &source->threads_due_ns, THREADS_PERIOD_MS * NS_PER_MS)) {
        return;
    }
    if (source->counts_threads ? count_thread_folders(source, &threads)
                               : read_thread_count(source, &threads)) {
        ks_look_put(look, KS_METRIC_CPU_THREADS, (double)threads);
    }
}

static void put_traffic(struct ks_look *look, enum ks_metric metric, struct ks_look_count *count,
                        const char *text, const char *key)
{
    uint64_t bytes = 0;
    if (ks_words_number_of(text, key, &bytes)) {
        ks_look_put_rate(look, metric, count, bytes, 1);
    }
}

static void look_at_io(struct ks_process_source *source, struct ks_look *look)
{
    char text[TEXT_SIZE];
    if (!ks_look_is_due(look, &source->io_due_ns, IO_PERIOD_MS * NS_PER_MS)) {
        return;
    }
    (void)ks_kept_file_read(&source->io, text, sizeof(text));
    put_traffic(look, KS_METRIC_IO_READ, &source->read, text, "rchar:");
    put_traffic(look, KS_METRIC_IO_WRITE, &source->write, text, "wchar:");
    put_traffic(look, KS_METRIC_IO_DISK_READ, &source->disk_read, text, "read_bytes:");
    put_traffic(look, KS_METRIC_IO_DISK_WRITE, &source->disk_write, text, "write_bytes:");
}

static int64_t monotonic_ns(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* The kernel walks all page tables for it, and whoever maps memory waits meanwhile. */
static void look_at_pss(struct ks_process_source *source, struct ks_look *look)
{
    char text[TEXT_SIZE];
    uint64_t kib = 0;
    int64_t read_ns = source->pss_due_ns - PSS_PERIOD_S * NS_PER_S;
    if (source->is_pss_costly ||
        (look->is_last && look->now_ns < read_ns + PSS_PERIOD_MIN_S * NS_PER_S) ||
        !ks_look_is_due(look, &source->pss_due_ns, PSS_PERIOD_S * NS_PER_S)) {
        return;
    }
    int64_t start_ns = monotonic_ns();
    bool is_read = ks_kept_file_read(&source->smaps, text, sizeof(text));
    source->is_pss_costly = monotonic_ns() - start_ns > PSS_COST_MAX_MS * NS_PER_MS;
    if (is_read && ks_words_number_of(text, "Pss:", &kib)) {
        ks_look_put(look, KS_METRIC_MEMORY_PSS, (double)kib * 1024);
    }
}

void ks_process_source_look(struct ks_process_source *source, struct ks_look *look)
{
    look_at_usage(source, look);
    look_at_resident(source, look);
    look_at_threads(source, look);
    look_at_io(source, look);
    look_at_pss(source, look);
}

void ks_process_source_close(struct ks_process_source *source)
{
    ks_kept_file_close(&source->threads);
    ks_kept_file_close(&source->stat);
    ks_kept_file_close(&source->statm);
    ks_kept_file_close(&source->io);
    ks_kept_file_close(&source->smaps);
}
