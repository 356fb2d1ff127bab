/* The connections that are open, each with the time by which its browser must have moved on: a
 * request that dribbles in and an answer that is not fetched hold none for long. */
#ifndef KS_SERVE_CONNECTIONS_H
#define KS_SERVE_CONNECTIONS_H

#include "base/compiler.h"

enum {
    KS_CONNECTIONS_MAX = 64,
    KS_REQUEST_MS_MAX = 10 * 1000, /* for headers and body, and between two requests */
    KS_ANSWER_MS_MAX = 60 * 1000,
};

struct ks_connection {
    bool is_open;
    int fd;
    int64_t until_ms;
};

struct ks_connections {
    struct ks_connection list[KS_CONNECTIONS_MAX];
    size_t count;
};

/* NULL: there are as many as there may be. */
struct ks_connection *ks_connections_add(struct ks_connections *connections, int fd,
                                         int64_t now_ms);
void ks_connections_remove(struct ks_connections *connections, struct ks_connection *connection);
/* Shuts those whose time is over; the library then finds them ended. */
void ks_connections_expire(struct ks_connections *connections, int64_t now_ms);

#endif
