#include "progress_line.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_MS = 500, NEXT_MS = 200, LINE_MAX_SIZE = 96 };

static const char erase[] = "\r\x1b[K";

/* `lock` guards what the thread and the command share; the line itself is written under it. */
static struct {
    struct ks_progress progress;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_running;
    bool is_stopped;
    volatile sig_atomic_t is_visible;
    char last[LINE_MAX_SIZE]; /* what stands there while it is visible */
} shown = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void put(const char *text, size_t size)
{
    (void)!write(STDERR_FILENO, text, size); /* a line that is lost is no loss */
}

void ks_cli_progress_erase(void)
{
    if (shown.is_visible) {
        put(erase, sizeof(erase) - 1);
        shown.is_visible = 0;
    }
}

/* ------------------------------------------------------------------ the line */

static int write_bytes(char *text, size_t size, uint64_t bytes)
{
    double mb = (double)bytes / 1e6;
    return mb < 1000 ? snprintf(text, size, "%.0f MB", mb)
                     : snprintf(text, size, "%.1f GB", mb / 1e3);
}

/* Bytes that are read twice, because a thread began in the wrong place, do not make it more than
 * all. */
static int write_reading(char *text, size_t size, const struct ks_progress *now)
{
    char bytes[32];
    if (now->bytes_total == 0) {
        (void)write_bytes(bytes, sizeof(bytes), now->bytes_done);
        return snprintf(text, size, "kscope: reading, %s so far", bytes);
    }
    (void)write_bytes(bytes, sizeof(bytes), now->bytes_total);
    uint64_t done = now->bytes_done < now->bytes_total ? now->bytes_done : now->bytes_total;
    unsigned percent = (unsigned)(100.0 * ((double)done / (double)now->bytes_total));
    return snprintf(text, size, "kscope: reading, %u %% of %s", percent, bytes);
}

static void write_line(char *text, size_t size)
{
    struct ks_progress now = ks_progress_get(&shown.progress);
    int len = -1;
    switch (now.stage) {
    case KS_STAGE_READ: len = write_reading(text, size, &now); break;
    case KS_STAGE_ANALYZE: len = snprintf(text, size, "kscope: analysing"); break;
    case KS_STAGE_QUERY: len = snprintf(text, size, "kscope: asking"); break;
    }
    text[len < 0 ? 0 : size - 1] = '\0';
}

static void draw(void)
{
    char text[LINE_MAX_SIZE] = "";
    char line[LINE_MAX_SIZE + sizeof(erase)];
    write_line(text, sizeof(text));
    if (shown.is_visible && strcmp(text, shown.last) == 0) {
        return;
    }
    shown.is_visible = 1;
    memcpy(shown.last, text, sizeof(text));
    int len = snprintf(line, sizeof(line), "%s%s", erase, text);
    put(line, len > 0 ? (size_t)len : 0);
}

/* ------------------------------------------------------------------ the thread */

static struct timespec after_ms(long ms)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += ms % 1000 * 1000000;
    at.tv_sec += ms / 1000 + at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

static void *draw_again(void *unused)
{
    (void)unused;
    long ms = FIRST_MS;
    pthread_mutex_lock(&shown.lock);
    while (!shown.is_stopped) {
        struct timespec at = after_ms(ms);
        (void)pthread_cond_timedwait(&shown.changed, &shown.lock, &at);
        if (!shown.is_stopped) {
            draw();
        }
        ms = NEXT_MS;
    }
    pthread_mutex_unlock(&shown.lock);
    return NULL;
}

static bool is_wanted(const struct ks_cli_args *args)
{
    const char *term = getenv("TERM");
    bool is_dumb = !term || !*term || strcmp(term, "dumb") == 0;
    return !ks_cli_given(args, "quiet") && !is_dumb && isatty(STDERR_FILENO);
}

/* Signals are for the command's own thread. */
static bool start_thread(void)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = pthread_create(&shown.thread, NULL, draw_again, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return is_started;
}

struct ks_progress *ks_cli_progress_start(const struct ks_cli_args *args)
{
    shown.is_running = is_wanted(args) && start_thread();
    return shown.is_running ? &shown.progress : NULL;
}

void ks_cli_progress_stop(void)
{
    if (!shown.is_running) {
        return;
    }
    pthread_mutex_lock(&shown.lock);
    shown.is_stopped = true;
    ks_cli_progress_erase();
    pthread_cond_signal(&shown.changed);
    pthread_mutex_unlock(&shown.lock);
    pthread_join(shown.thread, NULL);
    shown.is_running = false;
}

void ks_cli_progress_hide(void)
{
    pthread_mutex_lock(&shown.lock);
    ks_cli_progress_erase();
}

void ks_cli_progress_show(void)
{
    pthread_mutex_unlock(&shown.lock);
}
