#include "serve/secret.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

enum ks_status ks_secret_make(struct ks_secret *secret, struct ks_err *err)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[KS_SECRET_LEN / 2];
    ssize_t got = getrandom(bytes, sizeof(bytes), 0); /* so few come whole or not at all */
    if (got != (ssize_t)sizeof(bytes)) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot make a token: %s",
                       got < 0 ? strerror(errno) : "too few random bytes");
    }
    for (size_t i = 0; i < sizeof(bytes); i++) {
        secret->text[2 * i] = digits[bytes[i] >> 4];
        secret->text[2 * i + 1] = digits[bytes[i] & 15];
    }
    secret->text[KS_SECRET_LEN] = '\0';
    return KS_OK;
}

bool ks_secret_equals(const struct ks_secret *secret, const char *text, size_t len)
{
    unsigned char differs = secret->text[0] == '\0';
    if (len != KS_SECRET_LEN) {
        return false;
    }
    for (size_t i = 0; i < KS_SECRET_LEN; i++) {
        differs = (unsigned char)(differs | (secret->text[i] ^ text[i]));
    }
    /* The compiler must not see that one difference decides. */
    __asm__ volatile("" : "+r"(differs));
    return differs == 0;
}
