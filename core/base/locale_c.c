#include "base/locale_c.h"

void ks_locale_c_enter(struct ks_locale_c *guard)
{
    guard->c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    guard->before = guard->c ? uselocale(guard->c) : (locale_t)0;
}

void ks_locale_c_leave(struct ks_locale_c *guard)
{
    if (guard->c) {
        uselocale(guard->before);
        freelocale(guard->c);
    }
}
