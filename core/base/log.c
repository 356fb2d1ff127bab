#define KS_LOG_DOMAIN "base.log"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

enum { LINE_SIZE = 1024 };

void ks_log_write(const struct ks_log *log, enum ks_log_level level, const char *domain,
                  const char *format, ...)
{
    char line[LINE_SIZE];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    /* Input text may hold line ends, but a callback gets exactly one line. */
    for (char *c = line; *c; c++) {
        if (*c == '\n' || *c == '\r') {
            *c = ' ';
        }
    }
    log->cb(log->user, level, domain, line);
}
