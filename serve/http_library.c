#include "serve/http_library.h"

#include <dlfcn.h>
#include <string.h>

enum ks_status ks_http_library_load(struct ks_http_library *library, struct ks_err *err)
{
    void *handle = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
    void *address = NULL;
    bool is_whole = handle != NULL;
    /* A pointer to a function is as wide as one to data wherever there is dlsym. */
#define KS_HTTP_LOAD(name)                                                                         \
    address = handle ? dlsym(handle, "MHD_" #name) : NULL;                                         \
    memcpy(&library->name, &address, sizeof(address));                                             \
    is_whole = is_whole && address;
    KS_HTTP_FUNCTIONS(KS_HTTP_LOAD)
#undef KS_HTTP_LOAD
    return is_whole ? KS_OK
                    : ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                              "Cannot serve a page: libmicrohttpd is not installed (Debian: "
                              "libmicrohttpd12)");
}
