/* Numbers as people read them: three significant digits, one blank, the unit. ASCII only. JSON and
 * sums never go through here. */
#ifndef KS_SHOW_UNITS_H
#define KS_SHOW_UNITS_H

#include "base/compiler.h"

struct ks_unit_text {
    char text[32];
};

struct ks_unit_text ks_units_time(int64_t ns);         /* "113 ms", "850 ns", "1,234 s" */
struct ks_unit_text ks_units_bytes(int64_t bytes);     /* "8.20 KiB", "512 B" */
struct ks_unit_text ks_units_count(int64_t count);     /* "48,120" */
struct ks_unit_text ks_units_share(double share);      /* "63 %", "4.2 %", "<0.1 %" */
struct ks_unit_text ks_units_rate(double bytes_per_s); /* "2.05 GB/s": powers of 1,000 */
struct ks_unit_text ks_units_flops(double flops);      /* "1.05 G" */

#endif
