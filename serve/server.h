/* What `ks_serve` keeps while it runs, and the answer to one request. */
#ifndef KS_SERVE_SERVER_H
#define KS_SERVE_SERVER_H

#include "serve/connections.h"
#include "serve/edition.h"
#include "serve/http_library.h"
#include "serve/listener.h"
#include "serve/refresher.h"
#include "serve/request_check.h"

struct ks_server {
    const struct ks_serve_options *options;
    struct ks_http_library http;
    struct MHD_Daemon *daemon;
    struct ks_listener listener;
    struct ks_refresher refresher;
    struct ks_connections connections;
    struct ks_request_names names;
    struct ks_edition *edition;
    struct ks_edition *previous; /* for pages that do not know of the newer one yet; NULL: none */
    int64_t previous_until_ms;
    struct ks_secret token;   /* empty once it has been exchanged for ... */
    struct ks_secret session; /* ... what the cookie holds */
    char cookie_name[24];     /* browsers do not tell ports apart */
    int64_t asked_ms;         /* when somebody last asked */
};

int64_t ks_server_now_ms(void);
/* The edition of a version, or NULL when it is no longer there. */
struct ks_edition *ks_server_edition(const struct ks_server *server, int64_t version);

/* Callbacks of the library; `user` is the server. */
void *ks_answer_begin(void *user, const char *target, struct MHD_Connection *connection);
enum MHD_Result ks_answer(void *user, struct MHD_Connection *connection, const char *url,
                          const char *method, const char *version, const char *upload,
                          size_t *upload_size, void **request);
void ks_answer_end(void *user, struct MHD_Connection *connection, void **request,
                   enum MHD_RequestTerminationCode why);

#endif
