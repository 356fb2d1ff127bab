#include "serve/request_check.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

/* ------------------------------------------------------------------ small parts of text */

/* Takes `prefix` from the front. */
static bool take_text(struct ks_str *text, const char *prefix)
{
    size_t len = strlen(prefix);
    if (text->len < len || memcmp(text->ptr, prefix, len) != 0) {
        return false;
    }
    *text = (struct ks_str){text->ptr + len, text->len - len};
    return true;
}

/* Takes a decimal number in its shortest form, as far as it fits. */
static bool take_number(struct ks_str *text, int64_t *number)
{
    struct ks_str left = *text;
    bool is_negative = take_text(&left, "-");
    size_t len = 0;
    int64_t value = 0;
    while (len < left.len && left.ptr[len] >= '0' && left.ptr[len] <= '9') {
        int64_t digit = left.ptr[len++] - '0';
        if (value > (INT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    if (len == 0 || (len > 1 && left.ptr[0] == '0') || (is_negative && value == 0)) {
        return false;
    }
    *number = is_negative ? -value : value;
    *text = (struct ks_str){left.ptr + len, left.len - len};
    return true;
}

static bool equals_any_case(struct ks_str a, const char *b)
{
    return a.len == strlen(b) && strncasecmp(a.ptr, b, a.len) == 0;
}

/* ------------------------------------------------------------------ who is asked, and by whom */

/* Is it an address rather than a name? "[...]" holds one of IPv6. */
static bool is_address(struct ks_str name)
{
    char text[INET6_ADDRSTRLEN + 2];
    unsigned char address[sizeof(struct in6_addr)];
    bool is_six = name.len > 2 && name.ptr[0] == '[' && name.ptr[name.len - 1] == ']';
    struct ks_str inner = is_six ? (struct ks_str){name.ptr + 1, name.len - 2} : name;
    if (inner.len == 0 || inner.len >= sizeof(text) || memchr(inner.ptr, '\0', inner.len)) {
        return false;
    }
    memcpy(text, inner.ptr, inner.len);
    text[inner.len] = '\0';
    return inet_pton(is_six ? AF_INET6 : AF_INET, text, address) == 1;
}

static bool is_our_name(const struct ks_request_names *names, struct ks_str name)
{
    if (equals_any_case(name, "localhost") || ks_str_equal(name, KS_STR("127.0.0.1")) ||
        ks_str_equal(name, KS_STR("[::1]"))) {
        return true;
    }
    if (names->any_address) {
        return is_address(name);
    }
    bool is_six = names->host && strchr(names->host, ':');
    if (is_six && name.len > 2 && name.ptr[0] == '[' && name.ptr[name.len - 1] == ']') {
        name = (struct ks_str){name.ptr + 1, name.len - 2};
    }
    return names->host && equals_any_case(name, names->host);
}

/* Splits "name:port" at the last colon behind the brackets. */
static bool split_port(struct ks_str host, struct ks_str *name, int64_t *port)
{
    size_t at = host.len;
    while (at > 0 && host.ptr[at - 1] >= '0' && host.ptr[at - 1] <= '9') {
        at--;
    }
    bool has_port = at > 0 && host.ptr[at - 1] == ':' && at < host.len;
    *port = 80; /* what a browser leaves out */
    *name = host;
    if (!has_port) {
        return true;
    }
    struct ks_str digits = {host.ptr + at, host.len - at};
    *name = (struct ks_str){host.ptr, at - 1};
    return take_number(&digits, port) && *port > 0 && *port <= UINT16_MAX;
}

bool ks_request_host_is_ours(const struct ks_request_names *names, struct ks_str host)
{
    struct ks_str name;
    int64_t port = 0;
    return split_port(host, &name, &port) && (names->any_port || port == names->port) &&
           is_our_name(names, name);
}

bool ks_request_origin_is_ours(struct ks_str host, struct ks_str origin)
{
    return take_text(&origin, "http://") && origin.len == host.len && origin.len > 0 &&
           strncasecmp(origin.ptr, host.ptr, host.len) == 0;
}

bool ks_request_cookie_holds(struct ks_str cookies, struct ks_str name,
                             const struct ks_secret *secret)
{
    bool is_found = false;
    while (cookies.len > 0) {
        const char *end = memchr(cookies.ptr, ';', cookies.len);
        size_t len = end ? (size_t)(end - cookies.ptr) : cookies.len;
        struct ks_str pair = {cookies.ptr, len};
        while (pair.len > 0 && pair.ptr[0] == ' ') {
            pair = (struct ks_str){pair.ptr + 1, pair.len - 1};
        }
        bool is_named = pair.len > name.len && memcmp(pair.ptr, name.ptr, name.len) == 0 &&
                        pair.ptr[name.len] == '=';
        if (is_named) {
            size_t skip = name.len + 1;
            is_found |= ks_secret_equals(secret, pair.ptr + skip, pair.len - skip);
        }
        len += end != NULL;
        cookies = (struct ks_str){cookies.ptr + len, cookies.len - len};
    }
    return is_found;
}

/* ------------------------------------------------------------------ what is asked for */

static bool is_plain(char letter)
{
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || (letter != '\0' && strchr("/._-,=&", letter));
}

bool ks_request_target_parse(struct ks_str text, struct ks_request_target *target)
{
    *target = (struct ks_request_target){0};
    if (text.len == 0 || text.len > KS_REQUEST_TARGET_MAX || text.ptr[0] != '/') {
        return false;
    }
    const char *mark = memchr(text.ptr, '?', text.len);
    size_t path_len = mark ? (size_t)(mark - text.ptr) : text.len;
    for (size_t i = 0; i < text.len; i++) {
        if (i != path_len && !is_plain(text.ptr[i])) {
            return false;
        }
    }
    if (path_len >= sizeof(target->path)) {
        return false;
    }
    memcpy(target->path, text.ptr, path_len);
    if (mark) {
        target->query = (struct ks_str){mark + 1, text.len - path_len - 1};
    }
    return true;
}

bool ks_request_version_parse(struct ks_str query, int64_t *version)
{
    return take_text(&query, "v=") && take_number(&query, version) && *version > 0 &&
           query.len == 0;
}

static bool take_tracks(struct ks_str *query, struct ks_request_tile *tile)
{
    do {
        int64_t track = 0;
        if (tile->track_count == KS_REQUEST_TRACKS_MAX || !take_number(query, &track) ||
            track < 0 || track >= KS_REQUEST_TRACKS_MAX) {
            return false;
        }
        tile->tracks[tile->track_count++] = (uint16_t)track;
    } while (take_text(query, ","));
    return true;
}

bool ks_request_tile_parse(struct ks_str query, struct ks_request_tile *tile)
{
    *tile = (struct ks_request_tile){0};
    return take_text(&query, "v=") && take_number(&query, &tile->version) && tile->version > 0 &&
           take_text(&query, "&start=") && take_number(&query, &tile->start_ns) &&
           take_text(&query, "&end=") && take_number(&query, &tile->end_ns) &&
           tile->start_ns < tile->end_ns && take_text(&query, "&parts=") &&
           take_number(&query, &tile->parts) && tile->parts > 0 && tile->parts <= UINT16_MAX &&
           take_text(&query, "&tracks=") && take_tracks(&query, tile) && query.len == 0;
}
