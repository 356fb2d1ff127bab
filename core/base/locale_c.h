/* Numbers in our texts have a point, whatever the program that uses the library has set: public
 * entry points that format or parse run between `enter` and `leave`. Works on the calling thread
 * alone. */
#ifndef KS_BASE_LOCALE_C_H
#define KS_BASE_LOCALE_C_H

#include <locale.h>

struct ks_locale_c {
    locale_t c;      /* ours, (locale_t)0 when the system gave none */
    locale_t before; /* what the thread used */
};

void ks_locale_c_enter(struct ks_locale_c *guard);
void ks_locale_c_leave(struct ks_locale_c *guard);

#endif
