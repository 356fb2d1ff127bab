/* libmicrohttpd, loaded when a server starts: it brings a dozen libraries along, which would cost
 * each start of the program 8 ms. */
#ifndef KS_SERVE_HTTP_LIBRARY_H
#define KS_SERVE_HTTP_LIBRARY_H

#include <microhttpd.h>

#include "base/err.h"

/* The functions that are used, by their names without MHD_. */
#define KS_HTTP_FUNCTIONS(FUNCTION)                                                                \
    FUNCTION(add_connection)                                                                       \
    FUNCTION(add_response_header)                                                                  \
    FUNCTION(create_response_from_buffer)                                                          \
    FUNCTION(create_response_from_buffer_with_free_callback)                                       \
    FUNCTION(create_response_from_buffer_with_free_callback_cls)                                   \
    FUNCTION(destroy_response)                                                                     \
    FUNCTION(get_connection_info)                                                                  \
    FUNCTION(get_connection_values_n)                                                              \
    FUNCTION(get_daemon_info)                                                                      \
    FUNCTION(get_timeout)                                                                          \
    FUNCTION(get_version)                                                                          \
    FUNCTION(queue_response)                                                                       \
    FUNCTION(run)                                                                                  \
    FUNCTION(start_daemon)                                                                         \
    FUNCTION(stop_daemon)

struct ks_http_library {
#define KS_HTTP_POINTER(name) __typeof__(MHD_##name) *name;
    KS_HTTP_FUNCTIONS(KS_HTTP_POINTER)
#undef KS_HTTP_POINTER
};

/* KS_ERR_UNSUPPORTED: it is not installed. What was loaded stays. */
enum ks_status ks_http_library_load(struct ks_http_library *library, struct ks_err *err)
    KS_MUST_CHECK;

#endif
