#include "serve/connections.h"

#include <sys/socket.h>

struct ks_connection *ks_connections_add(struct ks_connections *connections, int fd, int64_t now_ms)
{
    for (size_t i = 0; i < KS_CONNECTIONS_MAX; i++) {
        struct ks_connection *connection = &connections->list[i];
        if (!connection->is_open) {
            *connection = (struct ks_connection){true, fd, now_ms + KS_REQUEST_MS_MAX};
            connections->count++;
            return connection;
        }
    }
    return NULL;
}

void ks_connections_remove(struct ks_connections *connections, struct ks_connection *connection)
{
    if (connection && connection->is_open) {
        connection->is_open = false;
        connections->count--;
    }
}

void ks_connections_expire(struct ks_connections *connections, int64_t now_ms)
{
    for (size_t i = 0; i < KS_CONNECTIONS_MAX; i++) {
        struct ks_connection *connection = &connections->list[i];
        if (connection->is_open && connection->until_ms <= now_ms) {
            (void)shutdown(connection->fd, SHUT_RDWR);
            connection->until_ms = INT64_MAX; /* once is enough */
        }
    }
}
