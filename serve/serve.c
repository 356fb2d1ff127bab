#include "serve/serve.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "serve/server.h"

enum {
    REQUEST_MEMORY = 32 * 1024, /* of a connection: headers as text and as a list */
    LOOK_MS = 500,              /* how often time limits are looked at */
    PREVIOUS_MS = 10 * 1000,
    FDS_MAX = 4,
};

const char *ks_serve_library(void)
{
    static char text[48];
    struct ks_http_library http;
    if (ks_http_library_load(&http, NULL) != KS_OK) {
        return NULL;
    }
    (void)snprintf(text, sizeof(text), "libmicrohttpd %s", http.get_version());
    return text;
}

enum ks_status ks_serve_check(struct ks_err *err)
{
    struct ks_http_library http;
    KS_TRY(ks_page_can_write(err));
    return ks_http_library_load(&http, err);
}

int64_t ks_server_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ------------------------------------------------------------------ connections */

/* The library tells when a connection begins and ends; it is counted here. */
static void on_connection(void *user, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    struct ks_server *server = user;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        ks_connections_remove(&server->connections, *context);
        *context = NULL;
        return;
    }
    const union MHD_ConnectionInfo *info =
        server->http.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    *context =
        ks_connections_add(&server->connections, info ? info->connect_fd : -1, ks_server_now_ms());
}

static void accept_all(struct ks_server *server, size_t index)
{
    while (server->connections.count < KS_CONNECTIONS_MAX) {
        struct sockaddr_storage address;
        socklen_t size;
        int fd = ks_listener_accept(&server->listener, index, &address, &size);
        if (fd < 0) {
            return;
        }
        (void)server->http.add_connection(server->daemon, fd, (const struct sockaddr *)&address,
                                          size);
    }
}

/* ------------------------------------------------------------------ the loop */

static int timeout_of(struct ks_server *server)
{
    MHD_UNSIGNED_LONG_LONG ms = 0;
    bool is_given = server->http.get_timeout(server->daemon, &ms) == MHD_YES;
    return is_given && ms < LOOK_MS ? (int)ms : LOOK_MS;
}

struct ks_edition *ks_server_edition(const struct ks_server *server, int64_t version)
{
    if (server->edition->version == version) {
        return server->edition;
    }
    return server->previous && server->previous->version == version ? server->previous : NULL;
}

static void drop_previous(struct ks_server *server)
{
    ks_edition_let_go(server->previous);
    server->previous = NULL;
}

/* A page learns of a newer edition some seconds later, and may ask for more of its own until then.
 */
static void take_edition(struct ks_server *server)
{
    struct ks_edition *newer = ks_refresher_take(&server->refresher);
    int64_t now_ms = ks_server_now_ms();
    if (newer) {
        drop_previous(server);
        server->previous = server->edition;
        server->previous_until_ms = now_ms + PREVIOUS_MS;
        server->edition = newer;
    } else if (server->previous && server->previous_until_ms <= now_ms) {
        drop_previous(server);
    }
}

static bool is_over(const struct ks_server *server, pid_t parent)
{
    int64_t idle_ms = server->options->idle_ms;
    return getppid() != parent || (idle_ms > 0 && ks_server_now_ms() - server->asked_ms >= idle_ms);
}

/* Who may not connect for now waits in the queue of the kernel. */
static void loop(struct ks_server *server, int daemon_fd, pid_t parent)
{
    while (!is_over(server, parent)) {
        struct pollfd fds[FDS_MAX] = {{.fd = daemon_fd, .events = POLLIN},
                                      {.fd = server->refresher.event_fd, .events = POLLIN}};
        bool has_room = server->connections.count < KS_CONNECTIONS_MAX;
        for (size_t i = 0; i < server->listener.count; i++) {
            int fd = has_room ? server->listener.fds[i] : -1;
            fds[2 + i] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
        int count = poll(fds, 2 + server->listener.count, timeout_of(server));
        if (count < 0 && errno != EINTR) {
            return;
        }
        for (size_t i = 0; count > 0 && i < server->listener.count; i++) {
            if (fds[2 + i].revents != 0) {
                accept_all(server, i);
            }
        }
        take_edition(server);
        ks_connections_expire(&server->connections, ks_server_now_ms());
        (void)server->http.run(server->daemon);
    }
}

/* ------------------------------------------------------------------ start and end */

static enum ks_status start_daemon(struct ks_server *server, int *fd, struct ks_err *err)
{
    const unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET;
    server->daemon = server->http.start_daemon(
        flags, 0, NULL, NULL, ks_answer, server, MHD_OPTION_URI_LOG_CALLBACK, ks_answer_begin,
        server, MHD_OPTION_NOTIFY_COMPLETED, ks_answer_end, server, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, server, MHD_OPTION_CONNECTION_LIMIT, (unsigned)KS_CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(KS_REQUEST_MS_MAX / 1000),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_END);
    const union MHD_DaemonInfo *info =
        server->daemon ? server->http.get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)
                       : NULL;
    if (!info) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot start the server: %s",
                       strerror(errno));
    }
    *fd = info->epoll_fd;
    return KS_OK;
}

static bool is_any_address(const char *host)
{
    return host && (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0);
}

static void set_names(struct ks_server *server)
{
    const struct ks_serve_options *options = server->options;
    server->names = (struct ks_request_names){.port = server->listener.port,
                                              .any_port = server->listener.is_unix,
                                              .any_address = is_any_address(options->host),
                                              .host = options->host};
    (void)snprintf(server->cookie_name, sizeof(server->cookie_name), "kscope_%u",
                   (unsigned)server->listener.port);
}

static void say_ready(const struct ks_server *server)
{
    const struct ks_serve_options *options = server->options;
    char url[KS_SERVE_URL_SIZE];
    const char *host =
        options->host && !is_any_address(options->host) ? options->host : "127.0.0.1";
    bool is_six = strchr(host, ':') != NULL;
    if (server->listener.is_unix) {
        (void)snprintf(url, sizeof(url), "http://localhost/#token=%s", server->token.text);
    } else {
        (void)snprintf(url, sizeof(url), "http://%s%s%s:%u/#token=%s", is_six ? "[" : "", host,
                       is_six ? "]" : "", (unsigned)server->listener.port, server->token.text);
    }
    options->ready(options->user, url);
}

static enum ks_status start(struct ks_server *server, int *daemon_fd, struct ks_err *err)
{
    const struct ks_serve_options *options = server->options;
    KS_TRY(ks_http_library_load(&server->http, err));
    KS_TRY(ks_secret_make(&server->token, err));
    KS_TRY(ks_secret_make(&server->session, err));
    KS_TRY(start_daemon(server, daemon_fd, err));
    KS_TRY(ks_listener_open(&server->listener, options->host, options->socket_path, options->port,
                            err));
    set_names(server);
    return ks_refresher_start(&server->refresher, options, err);
}

static void stop(struct ks_server *server)
{
    ks_listener_close(&server->listener);
    if (server->daemon) {
        server->http.stop_daemon(server->daemon);
    }
    ks_refresher_stop(&server->refresher);
    drop_previous(server);
    ks_edition_let_go(server->edition);
}

enum ks_status ks_serve(const struct ks_serve_options *options, struct ks_err *err)
{
    pid_t parent = getppid();
    struct ks_server *server = ks_alloc(1, sizeof(*server));
    if (!server) {
        ks_report_close(options->report);
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot start the server: no memory");
    }
    int daemon_fd = -1;
    server->options = options;
    server->refresher = (struct ks_refresher){.options = options, .event_fd = -1};
    enum ks_status status = ks_edition_create(options->report, 1, &server->edition, err);
    if (status == KS_OK) {
        status = start(server, &daemon_fd, err);
    }
    if (status == KS_OK) {
        server->asked_ms = ks_server_now_ms();
        say_ready(server);
        loop(server, daemon_fd, parent);
    }
    stop(server);
    ks_free(server);
    return status;
}
