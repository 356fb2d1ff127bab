#include "serve/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 16, PORT_TRIES = 20 };

/* A place to listen on. */
struct place {
    struct sockaddr_storage address;
    socklen_t size;
};

static bool place_of(const char *host, uint16_t port, struct place *place)
{
    struct sockaddr_in *four = (struct sockaddr_in *)(void *)&place->address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)&place->address;
    *place = (struct place){0};
    if (inet_pton(AF_INET, host, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        place->size = sizeof(*four);
        return true;
    }
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    place->size = sizeof(*six);
    return inet_pton(AF_INET6, host, &six->sin6_addr) == 1;
}

/* Gives the socket, or -1 with errno. */
static int listen_at(const struct place *place)
{
    int on = 1;
    int family = place->address.ss_family;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    if (family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    }
    if (family != AF_UNIX) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    }
    if (bind(fd, (const struct sockaddr *)&place->address, place->size) != 0 ||
        listen(fd, BACKLOG) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof(address);
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
        return 0;
    }
    return address.ss_family == AF_INET6
               ? ntohs(((struct sockaddr_in6 *)(void *)&address)->sin6_port)
               : ntohs(((struct sockaddr_in *)(void *)&address)->sin_port);
}

static enum ks_status open_one(struct ks_listener *listener, const char *host, uint16_t port,
                               struct ks_err *err)
{
    struct place place;
    if (!place_of(host, port, &place)) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                       "Cannot listen: \"%.60s\" is no address of IPv4 or IPv6", host);
    }
    int fd = listen_at(&place);
    if (fd < 0) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot listen: address=%.60s, port=%u, %s",
                       host, (unsigned)port, strerror(errno));
    }
    listener->fds[listener->count++] = fd;
    listener->port = port_of(fd);
    return KS_OK;
}

/* Both loopback addresses at one port. A machine without IPv6 has one; a port that somebody else
 * has there is not taken, since a browser might ask him. */
static enum ks_status open_loopback(struct ks_listener *listener, uint16_t port, struct ks_err *err)
{
    int tries = port == 0 ? PORT_TRIES : 1;
    for (int i = 0; i < tries; i++) {
        struct place place;
        KS_TRY(open_one(listener, "127.0.0.1", port, err));
        (void)place_of("::1", listener->port, &place);
        int fd = listen_at(&place);
        if (fd >= 0) {
            listener->fds[listener->count++] = fd;
            return KS_OK;
        }
        if (errno != EADDRINUSE) {
            return KS_OK;
        }
        uint16_t taken = listener->port;
        ks_listener_close(listener);
        (void)ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot listen: address=::1, port=%u, %s",
                      (unsigned)taken, strerror(EADDRINUSE));
    }
    return KS_ERR_IO;
}

/* A socket that is left over from before, to which nobody listens, is taken away. */
static void remove_stale(const struct place *place, const char *path)
{
    struct stat there;
    if (lstat(path, &there) != 0 || !S_ISSOCK(there.st_mode) || there.st_uid != geteuid()) {
        return;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&place->address, place->size) != 0 &&
        errno == ECONNREFUSED) {
        (void)unlink(path);
    }
    if (fd >= 0) {
        close(fd);
    }
}

static enum ks_status open_unix(struct ks_listener *listener, const char *path, struct ks_err *err)
{
    struct place place = {.size = sizeof(struct sockaddr_un)};
    struct sockaddr_un *address = (struct sockaddr_un *)(void *)&place.address;
    address->sun_family = AF_UNIX;
    if (strlen(path) >= sizeof(address->sun_path)) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                       "Cannot listen: the name of a socket has at most %zu bytes",
                       sizeof(address->sun_path) - 1);
    }
    memcpy(address->sun_path, path, strlen(path) + 1);
    remove_stale(&place, path);
    mode_t before = umask(0177);
    int fd = listen_at(&place);
    (void)umask(before);
    if (fd < 0) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot listen: socket=\"%.100s\", %s", path,
                       strerror(errno));
    }
    listener->fds[listener->count++] = fd;
    listener->is_unix = true;
    listener->socket = path;
    return KS_OK;
}

enum ks_status ks_listener_open(struct ks_listener *listener, const char *host,
                                const char *socket_path, uint16_t port, struct ks_err *err)
{
    *listener = (struct ks_listener){0};
    if (socket_path) {
        return open_unix(listener, socket_path, err);
    }
    return host ? open_one(listener, host, port, err) : open_loopback(listener, port, err);
}

void ks_listener_close(struct ks_listener *listener)
{
    for (size_t i = 0; i < listener->count; i++) {
        close(listener->fds[i]);
    }
    if (listener->is_unix) {
        (void)unlink(listener->socket);
    }
    *listener = (struct ks_listener){0};
}

static bool is_own_user(int fd)
{
    struct ucred peer = {0};
    socklen_t size = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

int ks_listener_accept(const struct ks_listener *listener, size_t index,
                       struct sockaddr_storage *address, socklen_t *size)
{
    *size = sizeof(*address);
    int fd = accept4(listener->fds[index], (struct sockaddr *)address, size,
                     SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0 && listener->is_unix && !is_own_user(fd)) {
        close(fd);
        return -1;
    }
    return fd;
}
