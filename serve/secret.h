/* Random texts that nobody can guess, and a comparison whose time tells nothing of them. */
#ifndef KS_SERVE_SECRET_H
#define KS_SERVE_SECRET_H

#include "base/err.h"

enum { KS_SECRET_LEN = 32 }; /* 128 bits as hexadecimal digits */

struct ks_secret {
    char text[KS_SECRET_LEN + 1];
};

enum ks_status ks_secret_make(struct ks_secret *secret, struct ks_err *err) KS_MUST_CHECK;
/* Takes equally long for all texts of the right length. An empty secret equals nothing. */
bool ks_secret_equals(const struct ks_secret *secret, const char *text, size_t len);

#endif
