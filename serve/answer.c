/* One request: who asks, what for, and the answer. Whatever is wrong with it ends the connection,
 * so that bytes which we and somebody before us read differently are never a second request. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/err.h"
#include "serve/server.h"

enum {
    HEADER_BYTES_MAX = 16 * 1024,
    BODY_BYTES_MAX = 1024 * 1024,
    BODY_KEPT = 257, /* a token, or a text to search for and a byte that is too many */
    FOUND_MAX = 5000,
    TARGET_KEPT = KS_REQUEST_TARGET_MAX + 1,
};

/* A connection, and what is done with it. */
struct exchange {
    const struct ks_http_library *http;
    struct MHD_Connection *handle;
};

struct request {
    bool is_checked;
    unsigned refusal; /* status, 0: it may be answered */
    const char *why;
    size_t target_len;
    char target[TARGET_KEPT];
    size_t body_len;
    char body[BODY_KEPT];
};

/* What the page may do: its own script and style, its own data, and nothing else. */
static const char *const headers[][2] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
     "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Cache-Control", "no-store"},
};

/* ------------------------------------------------------------------ answers */

static enum MHD_Result queue(const struct exchange *connection, unsigned status,
                             struct MHD_Response *response)
{
    if (!response) {
        return MHD_NO;
    }
    for (size_t i = 0; i < KS_COUNT_OF(headers); i++) {
        (void)connection->http->add_response_header(response, headers[i][0], headers[i][1]);
    }
    enum MHD_Result result = connection->http->queue_response(connection->handle, status, response);
    connection->http->destroy_response(response);
    return result;
}

static struct MHD_Response *response_of(const struct exchange *connection, const char *text,
                                        size_t len, const char *type)
{
    /* The library wants a pointer to what it may change, and does not. */
    void *bytes = (void *)(uintptr_t)text;
    struct MHD_Response *response =
        connection->http->create_response_from_buffer(len, bytes, MHD_RESPMEM_MUST_COPY);
    if (response && type) {
        (void)connection->http->add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    }
    return response;
}

static enum MHD_Result refuse(const struct exchange *connection, unsigned status, const char *why)
{
    char text[160];
    int len = snprintf(text, sizeof(text), "%s\n", why);
    struct MHD_Response *response =
        response_of(connection, text, (size_t)len, "text/plain; charset=utf-8");
    if (response) {
        (void)connection->http->add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
        if (status == MHD_HTTP_METHOD_NOT_ALLOWED) {
            (void)connection->http->add_response_header(response, MHD_HTTP_HEADER_ALLOW,
                                                        "GET, HEAD, POST");
        }
    }
    return queue(connection, status, response);
}

static void let_go(void *edition)
{
    ks_edition_let_go(edition);
}

/* Bytes of an edition, which stays until they are sent. */
static enum MHD_Result send_part(struct ks_edition *edition, const struct exchange *connection,
                                 enum ks_page_part part, const char *type)
{
    const struct ks_text *text = &edition->texts[part];
    ks_edition_hold(edition);
    struct MHD_Response *response =
        connection->http->create_response_from_buffer_with_free_callback_cls(text->len, text->ptr,
                                                                             let_go, edition);
    if (!response) {
        ks_edition_let_go(edition);
        return MHD_NO;
    }
    (void)connection->http->add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    return queue(connection, MHD_HTTP_OK, response);
}

static bool append(void *user, const char *bytes, size_t size)
{
    struct ks_text *text = user;
    ks_text_append(text, bytes, size);
    return !text->failed;
}

static void free_bytes(void *bytes)
{
    ks_free(bytes);
}

/* ------------------------------------------------------------------ headers of the request */

struct header_search {
    const char *name;
    struct ks_str value;
    size_t count;
    bool is_odd; /* some header holds a NUL, or a blank in its name */
};

static enum MHD_Result look_at_header(void *user, enum MHD_ValueKind kind, const char *key,
                                      size_t key_size, const char *value, size_t value_size)
{
    struct header_search *search = user;
    (void)kind;
    search->is_odd |= memchr(key, '\0', key_size) || memchr(key, ' ', key_size) ||
                      memchr(key, '\t', key_size) || (value && memchr(value, '\0', value_size));
    if (strlen(search->name) == key_size && strncasecmp(search->name, key, key_size) == 0) {
        search->value = (struct ks_str){value, value ? value_size : 0};
        search->count++;
    }
    return MHD_YES;
}

static struct header_search find_header(const struct exchange *connection, const char *name)
{
    struct header_search search = {.name = name};
    (void)connection->http->get_connection_values_n(connection->handle, MHD_HEADER_KIND,
                                                    look_at_header, &search);
    return search;
}

static void set_refusal(struct request *request, unsigned status, const char *why)
{
    if (request->refusal == 0) {
        request->refusal = status;
        request->why = why;
    }
}

static bool is_method(const char *method, const char *name)
{
    return strcmp(method, name) == 0;
}

static bool is_get(const char *method)
{
    return is_method(method, "GET") || is_method(method, "HEAD");
}

/* The size of a body is said once and plainly, and only a POST has one. */
static void check_body(struct request *request, const struct exchange *connection,
                       const char *method)
{
    struct header_search length = find_header(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t bytes = 0;
    for (size_t i = 0; i < length.value.len && bytes <= BODY_BYTES_MAX; i++) {
        char digit = length.value.ptr[i];
        if (digit < '0' || digit > '9') {
            set_refusal(request, MHD_HTTP_BAD_REQUEST, "The length of the body is no number.");
            return;
        }
        bytes = bytes * 10 + (uint64_t)(digit - '0');
    }
    if (length.count > 1 || find_header(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING).count > 0) {
        set_refusal(request, MHD_HTTP_BAD_REQUEST, "The length of the body is said twice, or not.");
    } else if (bytes > BODY_BYTES_MAX) {
        set_refusal(request, MHD_HTTP_CONTENT_TOO_LARGE, "The body is too large.");
    } else if (bytes > 0 && is_get(method)) {
        set_refusal(request, MHD_HTTP_BAD_REQUEST, "This request has no body.");
    }
}

static void check_sender(const struct ks_server *server, struct request *request,
                         const struct exchange *connection)
{
    struct header_search host = find_header(connection, MHD_HTTP_HEADER_HOST);
    struct header_search origin = find_header(connection, MHD_HTTP_HEADER_ORIGIN);
    struct header_search site = find_header(connection, "Sec-Fetch-Site");
    bool is_api = strncmp(request->target, "/api/", 5) == 0;
    if (host.count != 1 || host.is_odd) {
        set_refusal(request, MHD_HTTP_BAD_REQUEST, "A request names one host.");
    } else if (!ks_request_host_is_ours(&server->names, host.value)) {
        set_refusal(request, MHD_HTTP_FORBIDDEN, "This host is not served here.");
    } else if (origin.count > 1 ||
               (origin.count == 1 && !ks_request_origin_is_ours(host.value, origin.value))) {
        set_refusal(request, MHD_HTTP_FORBIDDEN, "Pages of other origins may not ask.");
    } else if (is_api && site.count > 0 && !ks_str_equal(site.value, KS_STR("same-origin")) &&
               !ks_str_equal(site.value, KS_STR("none"))) {
        set_refusal(request, MHD_HTTP_FORBIDDEN, "Pages of other sites may not ask.");
    }
}

static void check(const struct ks_server *server, struct request *request,
                  const struct exchange *connection, const char *method)
{
    const union MHD_ConnectionInfo *size = connection->http->get_connection_info(
        connection->handle, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (!is_get(method) && !is_method(method, "POST")) {
        set_refusal(request, MHD_HTTP_METHOD_NOT_ALLOWED, "Only GET, HEAD and POST are known.");
    }
    if (size && size->header_size > HEADER_BYTES_MAX) {
        set_refusal(request, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE, "The head is too large.");
    }
    check_sender(server, request, connection);
    check_body(request, connection, method);
    if (find_header(connection, MHD_HTTP_HEADER_UPGRADE).count > 0) {
        set_refusal(request, MHD_HTTP_BAD_REQUEST, "No other protocol is spoken here.");
    }
}

/* ------------------------------------------------------------------ what there is */

static bool has_session(const struct ks_server *server, const struct exchange *connection)
{
    struct header_search cookies = find_header(connection, MHD_HTTP_HEADER_COOKIE);
    return cookies.count == 1 &&
           ks_request_cookie_holds(cookies.value, ks_str_from(server->cookie_name),
                                   &server->session);
}

/* The token buys the cookie once; the page then takes it out of the address. */
static enum MHD_Result open_session(struct ks_server *server, const struct exchange *connection,
                                    const struct request *request)
{
    char cookie[160];
    if (!ks_secret_equals(&server->token, request->body, request->body_len)) {
        return refuse(connection, MHD_HTTP_FORBIDDEN, "This token is not valid, or was used.");
    }
    server->token = (struct ks_secret){{0}};
    (void)snprintf(cookie, sizeof(cookie), "%s=%s; Path=/; HttpOnly; SameSite=Strict",
                   server->cookie_name, server->session.text);
    struct MHD_Response *response = response_of(connection, "", 0, NULL);
    if (response) {
        (void)connection->http->add_response_header(response, MHD_HTTP_HEADER_SET_COOKIE, cookie);
    }
    return queue(connection, MHD_HTTP_NO_CONTENT, response);
}

/* Which edition there is. The page asks every few seconds, so a wait costs a few bytes. */
static enum MHD_Result send_version(const struct ks_server *server,
                                    const struct exchange *connection)
{
    char tag[64];
    char text[64];
    struct header_search known = find_header(connection, MHD_HTTP_HEADER_IF_NONE_MATCH);
    (void)snprintf(tag, sizeof(tag), "\"%lld\"", (long long)server->edition->version);
    int len =
        snprintf(text, sizeof(text), "{\"version\":%lld}\n", (long long)server->edition->version);
    bool is_known = known.count == 1 && ks_str_equal(known.value, ks_str_from(tag));
    struct MHD_Response *response =
        is_known ? response_of(connection, "", 0, NULL)
                 : response_of(connection, text, (size_t)len, "application/json; charset=utf-8");
    if (response) {
        (void)connection->http->add_response_header(response, MHD_HTTP_HEADER_ETAG, tag);
    }
    return queue(connection, is_known ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK, response);
}

static enum MHD_Result refuse_version(const struct exchange *connection)
{
    return refuse(connection, MHD_HTTP_CONFLICT, "There is a newer report.");
}

static enum MHD_Result send_block(const struct ks_server *server, const struct exchange *connection,
                                  enum ks_page_part part, struct ks_str query)
{
    int64_t version = 0;
    if (!ks_request_version_parse(query, &version)) {
        return refuse(connection, MHD_HTTP_BAD_REQUEST, "Which version is asked for?");
    }
    struct ks_edition *edition = ks_server_edition(server, version);
    return edition ? send_part(edition, connection, part, "application/json; charset=utf-8")
                   : refuse_version(connection);
}

/* Hands over a text that was made for this answer. */
static enum MHD_Result send_made(const struct exchange *connection, struct ks_text *text,
                                 enum ks_status status, const struct ks_err *err)
{
    if (status != KS_OK) {
        ks_text_release(text);
        return refuse(connection,
                      status == KS_ERR_USAGE ? MHD_HTTP_BAD_REQUEST
                                             : MHD_HTTP_INTERNAL_SERVER_ERROR,
                      err->message);
    }
    struct MHD_Response *response =
        connection->http->create_response_from_buffer_with_free_callback(text->len, text->ptr,
                                                                         free_bytes);
    if (!response) {
        ks_text_release(text);
        return MHD_NO;
    }
    (void)connection->http->add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                                "application/json; charset=utf-8");
    return queue(connection, MHD_HTTP_OK, response);
}

/* The text is the body, so that no part of it needs an escape. */
static enum MHD_Result send_found(const struct ks_server *server, const struct exchange *connection,
                                  struct ks_str query, const struct request *request)
{
    int64_t version = 0;
    struct ks_err err = {.offset = KS_NO_OFFSET};
    if (!has_session(server, connection)) {
        return refuse(connection, MHD_HTTP_UNAUTHORIZED, "Open the address that kscope view gave.");
    }
    if (!ks_request_version_parse(query, &version)) {
        return refuse(connection, MHD_HTTP_BAD_REQUEST, "Which version is asked for?");
    }
    const struct ks_edition *edition = ks_server_edition(server, version);
    if (!edition) {
        return refuse_version(connection);
    }
    struct ks_text text;
    ks_text_init(&text);
    enum ks_status status = ks_page_parts_find(edition->parts, request->body, request->body_len,
                                               FOUND_MAX, append, &text, &err);
    return send_made(connection, &text, status, &err);
}

static enum MHD_Result send_tile(const struct ks_server *server, const struct exchange *connection,
                                 struct ks_str query)
{
    struct ks_request_tile wish;
    struct ks_err err = {.offset = KS_NO_OFFSET};
    if (!ks_request_tile_parse(query, &wish)) {
        return refuse(connection, MHD_HTTP_BAD_REQUEST, "Which part is asked for?");
    }
    const struct ks_edition *edition = ks_server_edition(server, wish.version);
    if (!edition) {
        return refuse_version(connection);
    }
    const struct ks_page_tile tile = {wish.start_ns, wish.end_ns, wish.tracks, wish.track_count,
                                      (uint32_t)wish.parts};
    struct ks_text text;
    ks_text_init(&text);
    enum ks_status status = ks_page_parts_write_tile(edition->parts, &tile, append, &text, &err);
    return send_made(connection, &text, status, &err);
}

/* ------------------------------------------------------------------ which is asked for */

/* All that there is, by its path. Nothing of a path is ever the name of a file. */
static const struct {
    const char *path;
    const char *type; /* NULL: data, for who has the cookie */
    enum ks_page_part part;
} resources[] = {
    {"/", "text/html; charset=utf-8", KS_PAGE_SHELL},
    {"/page.js", "text/javascript; charset=utf-8", KS_PAGE_SCRIPT},
    {"/page.css", "text/css; charset=utf-8", KS_PAGE_STYLE},
    {"/api/report", NULL, KS_PAGE_REPORT},
    {"/api/timeline", NULL, KS_PAGE_TIMELINE},
    {"/api/flame", NULL, KS_PAGE_FLAME},
    {"/api/memory", NULL, KS_PAGE_MEMORY},
};

static enum MHD_Result get(struct ks_server *server, const struct exchange *connection,
                           const struct ks_request_target *target)
{
    bool is_api = strncmp(target->path, "/api/", 5) == 0;
    if (is_api && !has_session(server, connection)) {
        return refuse(connection, MHD_HTTP_UNAUTHORIZED, "Open the address that kscope view gave.");
    }
    for (size_t i = 0; i < KS_COUNT_OF(resources); i++) {
        if (strcmp(target->path, resources[i].path) == 0) {
            return resources[i].type
                       ? send_part(server->edition, connection, resources[i].part,
                                   resources[i].type)
                       : send_block(server, connection, resources[i].part, target->query);
        }
    }
    if (strcmp(target->path, "/api/version") == 0) {
        return send_version(server, connection);
    }
    if (strcmp(target->path, "/api/tile") == 0) {
        return send_tile(server, connection, target->query);
    }
    return refuse(connection, MHD_HTTP_NOT_FOUND, "There is nothing of this name.");
}

static enum MHD_Result route(struct ks_server *server, const struct exchange *connection,
                             const char *method, const struct request *request)
{
    struct ks_request_target target;
    if (!ks_request_target_parse((struct ks_str){request->target, request->target_len}, &target)) {
        return refuse(connection, MHD_HTTP_BAD_REQUEST, "This is no address of ours.");
    }
    if (is_get(method)) {
        return get(server, connection, &target);
    }
    if (strcmp(target.path, "/api/session") == 0) {
        return open_session(server, connection, request);
    }
    return strcmp(target.path, "/api/find") == 0
               ? send_found(server, connection, target.query, request)
               : refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "Nothing else is taken here.");
}

/* ------------------------------------------------------------------ callbacks of the library */

void *ks_answer_begin(void *user, const char *target, struct MHD_Connection *connection)
{
    struct request *request = ks_alloc(1, sizeof(*request));
    (void)user;
    (void)connection;
    if (request) {
        request->target_len = strlen(target);
        if (request->target_len < sizeof(request->target)) {
            memcpy(request->target, target, request->target_len);
        } else {
            set_refusal(request, MHD_HTTP_URI_TOO_LONG, "The address is too long.");
        }
    }
    return request;
}

static void set_deadline(const struct exchange *connection, int64_t until_ms)
{
    const union MHD_ConnectionInfo *info = connection->http->get_connection_info(
        connection->handle, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct ks_connection *own = info ? info->socket_context : NULL;
    if (own) {
        own->until_ms = until_ms;
    }
}

enum MHD_Result ks_answer(void *user, struct MHD_Connection *handle, const char *url,
                          const char *method, const char *version, const char *upload,
                          size_t *upload_size, void **request_at)
{
    struct ks_server *server = user;
    struct request *request = *request_at;
    const struct exchange exchange = {&server->http, handle};
    const struct exchange *connection = &exchange;
    (void)url;
    (void)version;
    if (!request) {
        return MHD_NO;
    }
    bool is_first = !request->is_checked;
    if (is_first) {
        request->is_checked = true;
        server->asked_ms = ks_server_now_ms();
        check(server, request, connection, method);
    }
    if (request->refusal != 0 && is_first) {
        set_deadline(connection, ks_server_now_ms() + KS_REQUEST_MS_MAX);
        return refuse(connection, request->refusal, request->why);
    }
    if (is_first) {
        return MHD_YES; /* the body comes now; an answer before it would end the connection */
    }
    if (*upload_size > 0) {
        size_t room = sizeof(request->body) - request->body_len;
        size_t len = *upload_size < room ? *upload_size : room;
        memcpy(request->body + request->body_len, upload, len);
        request->body_len += len;
        *upload_size = 0;
        return MHD_YES;
    }
    set_deadline(connection, ks_server_now_ms() + KS_ANSWER_MS_MAX);
    return route(server, connection, method, request);
}

void ks_answer_end(void *user, struct MHD_Connection *handle, void **request,
                   enum MHD_RequestTerminationCode why)
{
    const struct ks_server *server = user;
    const struct exchange connection = {&server->http, handle};
    (void)why;
    ks_free(*request);
    *request = NULL;
    set_deadline(&connection, ks_server_now_ms() + KS_REQUEST_MS_MAX);
}
