#include "serve/refresher.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#define KS_LOG_DOMAIN "view"
#include "base/log.h"

/* Reading takes the cores of the program that records; so it has at most a fifth of the time. */
enum { LOOK_MS = 1000, PAUSE_FACTOR = 4, NICENESS = 5 };

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ------------------------------------------------------------------ where paths lead */

static void free_paths(struct ks_refresher *refresher)
{
    size_t count = refresher->options->report_options->path_count;
    for (size_t i = 0; refresher->real_paths && i < count; i++) {
        ks_free((void *)(uintptr_t)refresher->real_paths[i]);
    }
    ks_free(refresher->real_paths);
    refresher->real_paths = NULL;
}

/* NULL: some path is no file or folder that can be read twice. */
static enum ks_status keep_paths(struct ks_refresher *refresher, struct ks_err *err)
{
    const struct ks_report_options *options = refresher->options->report_options;
    refresher->real_paths = ks_alloc(options->path_count + 1, sizeof(*refresher->real_paths));
    for (size_t i = 0; refresher->real_paths && i < options->path_count; i++) {
        char real[PATH_MAX];
        if (strcmp(options->paths[i], "-") == 0 || !realpath(options->paths[i], real)) {
            free_paths(refresher);
            return KS_OK;
        }
        char *copy = ks_alloc(strlen(real) + 1, 1);
        if (copy) {
            memcpy(copy, real, strlen(real) + 1);
        }
        refresher->real_paths[i] = copy;
        if (!copy) {
            free_paths(refresher);
            break;
        }
    }
    return refresher->real_paths
               ? KS_OK
               : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep paths: no memory");
}

/* A path that became a link to somewhere else is not followed: what is shown stays what the user
 * asked for. */
static bool lead_to_the_same(const struct ks_refresher *refresher)
{
    const struct ks_report_options *options = refresher->options->report_options;
    for (size_t i = 0; i < options->path_count; i++) {
        char real[PATH_MAX];
        if (!realpath(options->paths[i], real) || strcmp(real, refresher->real_paths[i]) != 0) {
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------ looking and reading */

static void tell(const struct ks_refresher *refresher, enum ks_log_level level, const char *what,
                 const char *why)
{
    const struct ks_log log = {refresher->options->log, refresher->options->log_user, KS_LOG_DEBUG};
    KS_LOG(&log, level, "%s%s", what, why);
}

static void publish(struct ks_refresher *refresher, struct ks_edition *edition)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&refresher->lock);
    struct ks_edition *older = refresher->made;
    refresher->made = edition;
    pthread_mutex_unlock(&refresher->lock);
    ks_edition_let_go(older); /* which nobody took */
    ssize_t written = write(refresher->event_fd, &one, sizeof(one));
    (void)written; /* it fails only when it can be read already */
}

/* A trace that is being written may be no trace yet: then the report that is shown stays, and the
 * next change is looked at again. */
static void read_again(struct ks_refresher *refresher)
{
    struct ks_report_options options = *refresher->options->report_options;
    struct ks_report *report = NULL;
    struct ks_edition *edition = NULL;
    struct ks_err err = {.offset = KS_NO_OFFSET};
    options.progress = NULL;
    options.cache = false; /* soon to be out of date */
    options.threads = 1;   /* the others belong to the program that records */
    enum ks_status status = ks_report_open(&options, &report, &err);
    if (status == KS_OK) {
        status = ks_edition_create(report, refresher->version + 1, &edition, &err);
    }
    if (status != KS_OK) {
        tell(refresher, KS_LOG_INFO, "not refreshed: ", err.message);
        return;
    }
    refresher->version++;
    publish(refresher, edition);
}

/* Looks, and reads when something has changed. */
static void look(struct ks_refresher *refresher)
{
    char mark[KS_INPUT_MARK_SIZE];
    struct ks_err err = {.offset = KS_NO_OFFSET};
    if (!lead_to_the_same(refresher)) {
        tell(refresher, KS_LOG_INFO, "not refreshed: ", "the path leads somewhere else");
        return;
    }
    if (ks_report_input_mark(refresher->options->report_options, mark, &err) == KS_OK &&
        strcmp(mark, refresher->mark) != 0) {
        memcpy(refresher->mark, mark, sizeof(mark));
        read_again(refresher);
    }
}

/* False: it is over. */
static bool wait_for(struct ks_refresher *refresher, int64_t ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&refresher->lock);
    int error = 0;
    while (!refresher->is_over && error != ETIMEDOUT) {
        error = pthread_cond_timedwait(&refresher->wake, &refresher->lock, &until);
    }
    bool is_on = !refresher->is_over;
    pthread_mutex_unlock(&refresher->lock);
    return is_on;
}

static void *run(void *user)
{
    struct ks_refresher *refresher = user;
    int64_t pause_ms = LOOK_MS;
    (void)prctl(PR_SET_NAME, "kscope-refresh");
    (void)setpriority(PRIO_PROCESS, 0, NICENESS); /* of this thread alone */
    while (wait_for(refresher, pause_ms)) {
        int64_t start_ms = now_ms();
        look(refresher);
        pause_ms = LOOK_MS + PAUSE_FACTOR * (now_ms() - start_ms);
    }
    return NULL;
}

/* ------------------------------------------------------------------ from outside */

/* Signals are for the thread that answers. */
static int start_thread(struct ks_refresher *refresher)
{
    pthread_condattr_t attributes;
    sigset_t all;
    sigset_t before;
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&refresher->lock, NULL);
    (void)pthread_cond_init(&refresher->wake, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&refresher->thread, NULL, run, refresher);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

enum ks_status ks_refresher_start(struct ks_refresher *refresher,
                                  const struct ks_serve_options *options, struct ks_err *err)
{
    *refresher = (struct ks_refresher){.options = options, .event_fd = -1, .version = 1};
    memcpy(refresher->mark, options->input_mark, sizeof(refresher->mark));
    KS_TRY(keep_paths(refresher, err));
    if (!refresher->real_paths || refresher->mark[0] == '\0') {
        return KS_OK;
    }
    refresher->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = refresher->event_fd < 0 ? errno : start_thread(refresher);
    if (error != 0) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot start a thread: %s", strerror(error));
    }
    refresher->is_running = true;
    return KS_OK;
}

struct ks_edition *ks_refresher_take(struct ks_refresher *refresher)
{
    uint64_t count = 0;
    if (!refresher->is_running || read(refresher->event_fd, &count, sizeof(count)) < 0) {
        return NULL;
    }
    pthread_mutex_lock(&refresher->lock);
    struct ks_edition *made = refresher->made;
    refresher->made = NULL;
    pthread_mutex_unlock(&refresher->lock);
    return made;
}

void ks_refresher_stop(struct ks_refresher *refresher)
{
    if (refresher->is_running) {
        pthread_mutex_lock(&refresher->lock);
        refresher->is_over = true;
        pthread_cond_signal(&refresher->wake);
        pthread_mutex_unlock(&refresher->lock);
        (void)pthread_join(refresher->thread, NULL);
        (void)pthread_mutex_destroy(&refresher->lock);
        (void)pthread_cond_destroy(&refresher->wake);
        ks_edition_let_go(refresher->made);
    }
    if (refresher->event_fd >= 0) {
        close(refresher->event_fd);
    }
    free_paths(refresher);
}
