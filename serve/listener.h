/* The sockets that are listened on: both loopback addresses, one other address, or a Unix socket
 * that only its owner can open. */
#ifndef KS_SERVE_LISTENER_H
#define KS_SERVE_LISTENER_H

#include <sys/socket.h>

#include "base/err.h"

struct ks_listener {
    int fds[2];
    size_t count;
    uint16_t port;      /* 0: a Unix socket */
    bool is_unix;       /* whose file is ... */
    const char *socket; /* ... the caller's text, removed by close */
};

/* `host` NULL: 127.0.0.1 and, where there is one, ::1. `socket_path` NULL: no Unix socket. */
enum ks_status ks_listener_open(struct ks_listener *listener, const char *host,
                                const char *socket_path, uint16_t port, struct ks_err *err)
    KS_MUST_CHECK;
void ks_listener_close(struct ks_listener *listener);
/* A connection that waits, or -1. Of a Unix socket only those of our own user and of root. */
int ks_listener_accept(const struct ks_listener *listener, size_t index,
                       struct sockaddr_storage *address, socklen_t *size);

#endif
