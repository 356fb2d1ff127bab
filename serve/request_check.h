/* What a request says, taken apart by narrow rules: anything that our own page would not send is no
 * request of it. Pure functions over text, which a fuzz target tries; none keeps a pointer. */
#ifndef KS_SERVE_REQUEST_CHECK_H
#define KS_SERVE_REQUEST_CHECK_H

#include "base/str.h"
#include "serve/secret.h"

enum { KS_REQUEST_PATH_SIZE = 32, KS_REQUEST_TRACKS_MAX = 256, KS_REQUEST_TARGET_MAX = 4096 };

/* Under which names the server may be called. */
struct ks_request_names {
    uint16_t port;
    bool any_port;    /* a Unix socket, to which any port may have been forwarded */
    bool any_address; /* all addresses of the machine: an address as such, but no other name */
    const char *host; /* one more address; NULL: loopback alone */
};

/* The target of a request: "/path?key=value&...". */
struct ks_request_target {
    char path[KS_REQUEST_PATH_SIZE];
    struct ks_str query;
};

/* A part of the timeline, as its query says it. */
struct ks_request_tile {
    int64_t version;
    int64_t start_ns;
    int64_t end_ns;
    int64_t parts;
    uint16_t tracks[KS_REQUEST_TRACKS_MAX];
    size_t track_count;
};

/* Is this the Host of a request to us? A page of another name that resolves to this machine has
 * that name in it. */
bool ks_request_host_is_ours(const struct ks_request_names *names, struct ks_str host);
/* May a page of this origin ask? `host` is ours already; Origin is to be "http://" and that. */
bool ks_request_origin_is_ours(struct ks_str host, struct ks_str origin);
/* Does one of the cookies of this name hold the secret? */
bool ks_request_cookie_holds(struct ks_str cookies, struct ks_str name,
                             const struct ks_secret *secret);
/* Only plain letters, digits, '/', '.', '-', '_', ',' and what a query needs: no escapes. */
bool ks_request_target_parse(struct ks_str text, struct ks_request_target *target);
/* "v=N". */
bool ks_request_version_parse(struct ks_str query, int64_t *version);
/* "v=N&start=N&end=N&parts=N&tracks=N,N,...", in this order. */
bool ks_request_tile_parse(struct ks_str query, struct ks_request_tile *tile);

#endif
