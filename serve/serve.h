/* `kscope view`: gives the page of a report to the browser of the user who started it, and to
 * nobody else. One thread answers; another reads the input again when it has changed. Runs until it
 * is ended, its starter has ended, or nobody has asked for a while. */
#ifndef KS_SERVE_SERVE_H
#define KS_SERVE_SERVE_H

#include <kscope/kscope.h>

enum { KS_SERVE_URL_SIZE = 256 };

struct ks_serve_options {
    const struct ks_report_options *report_options; /* how to read the input again */
    char input_mark[KS_INPUT_MARK_SIZE];            /* of the input before it was read, by ... */
    struct ks_report *report; /* ... ks_report_input_mark; "": it cannot be read again. ks_serve
                                 closes the report. */
    const char *host;         /* an address to listen on; NULL: both loopback addresses */
    const char *socket_path;  /* listen on this Unix socket instead; NULL: none */
    uint16_t port;            /* 0: one that is free */
    int64_t idle_ms;          /* ends when so long nobody asked; 0: never */
    /* It listens: `url` holds the token, and is the only one that ever does. */
    void (*ready)(void *user, const char *url);
    void *user;
    ks_log_cb log; /* what became of refreshes; also called by the other thread */
    void *log_user;
};

/* Name and version of the library that serves, or NULL when this build has none. */
const char *ks_serve_library(void);

/* KS_ERR_UNSUPPORTED: this build cannot serve. Looks at no input. */
enum ks_status ks_serve_check(struct ks_err *err) KS_MUST_CHECK;

/* Errors: KS_ERR_UNSUPPORTED as above, KS_ERR_IO (cannot listen), KS_ERR_USAGE (no address),
 * KS_ERR_NOMEM. KS_OK: it ended by itself. */
enum ks_status ks_serve(const struct ks_serve_options *options, struct ks_err *err) KS_MUST_CHECK;

#endif
