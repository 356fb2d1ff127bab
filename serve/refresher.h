/* A thread that looks at the input once a second and reads it again when it has changed: new traces
 * of a run, a recording that grows. What it made is handed over, never shared. */
#ifndef KS_SERVE_REFRESHER_H
#define KS_SERVE_REFRESHER_H

#include <pthread.h>

#include "serve/edition.h"
#include "serve/serve.h"

struct ks_refresher {
    const struct ks_serve_options *options;
    const char **real_paths; /* where the paths led at the start */
    int event_fd;            /* can be read when there is something to take */
    int64_t version;         /* of the newest edition */
    char mark[KS_INPUT_MARK_SIZE];
    pthread_t thread;
    bool is_running;
    pthread_mutex_t lock; /* of these: */
    pthread_cond_t wake;
    bool is_over;
    struct ks_edition *made;
};

/* Without paths that can be looked at again (standard input) there is no thread; that is no error.
 * `refresher` must not move until it is stopped. */
enum ks_status ks_refresher_start(struct ks_refresher *refresher,
                                  const struct ks_serve_options *options, struct ks_err *err)
    KS_MUST_CHECK;
/* The newest edition that was made since the last call, or NULL. */
struct ks_edition *ks_refresher_take(struct ks_refresher *refresher);
/* Waits until the thread has ended, which may take as long as reading the input. */
void ks_refresher_stop(struct ks_refresher *refresher);

#endif
