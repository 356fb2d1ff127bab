/* Log lines go to the callback of the context; silent without one.
 * A .c that logs defines KS_LOG_DOMAIN ("read.json") before including this. */
#ifndef KS_BASE_LOG_H
#define KS_BASE_LOG_H

#include "base/compiler.h"

struct ks_log {
    ks_log_cb cb;
    void *user;
    enum ks_log_level level_max;
};

void ks_log_write(const struct ks_log *log, enum ks_log_level level, const char *domain,
                  const char *format, ...) KS_PRINTF(4, 5);

/* Arguments are evaluated only when somebody listens; `log` may be NULL. */
#define KS_LOG(log, level, ...)                                                                    \
    do {                                                                                           \
        const struct ks_log *ks_log_ = (log);                                                      \
        if (ks_log_ && ks_log_->cb && (level) <= ks_log_->level_max) {                             \
            ks_log_write(ks_log_, (level), KS_LOG_DOMAIN, __VA_ARGS__);                            \
        }                                                                                          \
    } while (0)

#endif
