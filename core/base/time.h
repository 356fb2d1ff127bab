/* Decimal microseconds in text become exact nanoseconds, never through a double. */
#ifndef KS_BASE_TIME_H
#define KS_BASE_TIME_H

#include "base/str.h"

/* Parses a JSON number of microseconds: sign, digits, fraction, exponent. Digits past the
 * nanosecond are rounded half away from zero. False: not a finite number, or out of int64. */
bool ks_time_parse_us(struct ks_str text, int64_t *ns);

#endif
