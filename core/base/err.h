/* Filling struct ks_err. The layer that knows the file name adds it; nothing is said twice. */
#ifndef KS_BASE_ERR_H
#define KS_BASE_ERR_H

#include "base/compiler.h"

/* Fills `err` when it is not NULL and returns `status`. */
enum ks_status ks_fail(struct ks_err *err, enum ks_status status, int64_t offset,
                       const char *format, ...) KS_PRINTF(4, 5);

/* Puts `prefix` and a blank before the message, cutting its end when it gets too long. */
void ks_err_prefix(struct ks_err *err, const char *prefix);

/* The word of a status in JSON documents. */
const char *ks_status_word(enum ks_status status);

/* Returns from the calling function when the expression is not KS_OK. */
#define KS_TRY(expression)                                                                         \
    do {                                                                                           \
        enum ks_status ks_try_status_ = (expression);                                              \
        if (KS_UNLIKELY(ks_try_status_ != KS_OK)) {                                                \
            return ks_try_status_;                                                                 \
        }                                                                                          \
    } while (0)

#endif
