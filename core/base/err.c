#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum ks_status ks_fail(struct ks_err *err, enum ks_status status, int64_t offset,
                       const char *format, ...)
{
    if (err) {
        err->status = status;
        err->offset = offset;
        va_list args;
        va_start(args, format);
        (void)vsnprintf(err->message, sizeof(err->message), format, args);
        va_end(args);
    }
    return status;
}

void ks_err_prefix(struct ks_err *err, const char *prefix)
{
    if (!err) {
        return;
    }
    char old[KS_ERR_MESSAGE_SIZE];
    memcpy(old, err->message, sizeof(old));
    old[sizeof(old) - 1] = '\0';
    size_t len = strnlen(prefix, sizeof(err->message) - 2);
    memcpy(err->message, prefix, len);
    err->message[len] = ' ';
    size_t rest = strnlen(old, sizeof(err->message) - len - 2);
    memcpy(err->message + len + 1, old, rest);
    err->message[len + 1 + rest] = '\0';
}

const char *ks_status_word(enum ks_status status)
{
    switch (status) {
    case KS_OK: return "ok";
    case KS_END: return "end";
    case KS_ERR_NOMEM: return "no_memory";
    case KS_ERR_IO: return "io";
    case KS_ERR_FORMAT: return "format";
    case KS_ERR_LIMIT: return "limit";
    case KS_ERR_UNSUPPORTED: return "unsupported";
    case KS_ERR_CANCELLED: return "cancelled";
    case KS_ERR_USAGE: return "usage";
    }
    return "unknown";
}

/* The one place of the library that prints and ends the program: our own promise is broken, so
 * nothing that runs on could be trusted. */
_Noreturn void ks_assert_failed(const char *file, int line, const char *text)
{
    (void)fprintf(stderr, "kscope: %s:%d: this must hold, but does not: %s\n", file, line, text);
    abort();
}
