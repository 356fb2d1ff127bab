/* What the server of `kscope view` reads from the text of a request: host, origin, cookie, target
 * and query. The same bytes are tried as each of them.
 *
 * What must hold, beside what sanitizers see: what is taken to be ours is one of few texts, a
 * target that is good has neither escapes nor control bytes and its path ends, numbers lie in their
 * ranges, and a secret that nobody knows is never found. */
#include "base/alloc.h"
#include "serve/request_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_one_of(struct ks_str text, const char *const *names)
{
    for (; *names; names++) {
        if (ks_str_equal_nocase(text, ks_str_from(*names))) {
            return true;
        }
    }
    return false;
}

static void check_host(struct ks_str text)
{
    static const char *const ours[] = {"127.0.0.1:8080", "[::1]:8080", "localhost:8080", NULL};
    static const char *const ours_too[] = {"127.0.0.1:8080", "[::1]:8080", "localhost:8080",
                                           "10.1.2.3:8080", NULL};
    static const char *const plain[] = {"127.0.0.1", "[::1]",        "localhost", "127.0.0.1:80",
                                        "[::1]:80",  "localhost:80", NULL};
    const struct ks_request_names loopback = {.port = 8080};
    const struct ks_request_names other = {.port = 8080, .host = "10.1.2.3"};
    const struct ks_request_names usual = {.port = 80};
    const struct ks_request_names any = {.port = 8080, .any_address = true};
    KS_ASSERT(ks_request_host_is_ours(&loopback, text) == is_one_of(text, ours));
    KS_ASSERT(ks_request_host_is_ours(&other, text) == is_one_of(text, ours_too));
    KS_ASSERT(ks_request_host_is_ours(&usual, text) == is_one_of(text, plain));
    KS_ASSERT(!is_one_of(text, ours) || ks_request_host_is_ours(&any, text));
    if (ks_request_host_is_ours(&any, text) && !is_one_of(text, ours)) {
        for (size_t i = 0; i < text.len; i++) {
            KS_ASSERT(strchr("0123456789abcdefABCDEF.:[]", text.ptr[i]) && text.ptr[i] != '\0');
        }
    }
    KS_ASSERT(!ks_request_origin_is_ours(KS_STR(""), text));
    struct ks_str rest = {text.ptr, text.len > 7 ? text.len - 7 : 0};
    rest.ptr += text.len - rest.len;
    bool is_same = ks_request_origin_is_ours(rest, text);
    KS_ASSERT(is_same == (rest.len > 0 && ks_str_starts(text, KS_STR("http://"))));
}

static void check_cookie(struct ks_str text)
{
    const struct ks_secret nobody = {{0}};
    const struct ks_secret known = {"0123456789abcdef0123456789abcdef"};
    bool is_found = ks_request_cookie_holds(text, KS_STR("kscope_8080"), &known);
    KS_ASSERT(!is_found ||
              ks_str_contains(text, KS_STR("kscope_8080=0123456789abcdef0123456789abcdef")));
    KS_ASSERT(!ks_request_cookie_holds(text, KS_STR("kscope_8080"), &nobody));
    KS_ASSERT(!ks_secret_equals(&nobody, text.ptr, text.len));
}

static void check_tile(struct ks_str query)
{
    struct ks_request_tile tile;
    int64_t version = 0;
    if (ks_request_version_parse(query, &version)) {
        KS_ASSERT(version > 0);
    }
    if (ks_request_tile_parse(query, &tile)) {
        KS_ASSERT(tile.version > 0 && tile.start_ns < tile.end_ns);
        KS_ASSERT(tile.parts > 0 && tile.parts <= UINT16_MAX);
        KS_ASSERT(tile.track_count > 0 && tile.track_count <= KS_REQUEST_TRACKS_MAX);
        for (size_t i = 0; i < tile.track_count; i++) {
            KS_ASSERT(tile.tracks[i] < KS_REQUEST_TRACKS_MAX);
        }
    }
}

static void check_target(struct ks_str text)
{
    struct ks_request_target target;
    if (!ks_request_target_parse(text, &target)) {
        return;
    }
    KS_ASSERT(target.path[0] == '/' && memchr(target.path, '\0', sizeof(target.path)));
    KS_ASSERT(strlen(target.path) + target.query.len <= text.len);
    for (size_t i = 0; i < text.len; i++) {
        KS_ASSERT(text.ptr[i] > 0x20 && text.ptr[i] < 0x7f && text.ptr[i] != '%');
    }
    check_tile(target.query);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *exact = ks_alloc(size > 0 ? size : 1, 1); /* so that a byte beyond it is seen */
    KS_ASSERT(exact);
    if (size > 0) {
        memcpy(exact, data, size);
    }
    struct ks_str text = {exact, size};
    check_host(text);
    check_cookie(text);
    check_tile(text);
    check_target(text);
    ks_free(exact);
    return 0;
}
