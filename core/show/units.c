#include "show/units.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* Three significant digits of 0 <= value < 1000 (and what rounds up to it). */
static void print_three(struct ks_unit_text *out, double value, const char *sign, const char *unit)
{
    int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    snprintf(out->text, sizeof(out->text), "%s%.*f %s", sign, decimals, value, unit);
}

/* Scales by `step` until the number has at most three digits before the point. */
static struct ks_unit_text scaled(double value, double step, const char *const *units,
                                  size_t unit_count)
{
    struct ks_unit_text out;
    const char *sign = value < 0 ? "-" : "";
    double size = fabs(value);
    size_t unit = 0;
    while (unit + 1 < unit_count && size >= 999.5) {
        size /= step;
        unit++;
    }
    if (size >= 999.5) { /* beyond the last unit */
        struct ks_unit_text digits = ks_units_count((int64_t)fmin(size + 0.5, 9e18));
        snprintf(out.text, sizeof(out.text), "%s%.24s %s", sign, digits.text, units[unit]);
    } else if (unit == 0 && size == floor(size)) {
        snprintf(out.text, sizeof(out.text), "%s%.0f %s", sign, size, units[0]);
    } else {
        print_three(&out, size, sign, units[unit]);
    }
    return out;
}

struct ks_unit_text ks_units_time(int64_t ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    return scaled((double)ns, 1e3, units, KS_COUNT_OF(units));
}

struct ks_unit_text ks_units_bytes(int64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    return scaled((double)bytes, 1024.0, units, KS_COUNT_OF(units));
}

struct ks_unit_text ks_units_rate(double bytes_per_s)
{
    static const char *const units[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
    return scaled(bytes_per_s, 1e3, units, KS_COUNT_OF(units));
}

struct ks_unit_text ks_units_flops(double flops)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
    struct ks_unit_text out = scaled(flops, 1e3, units, KS_COUNT_OF(units));
    if (fabs(flops) < 999.5) { /* no unit: no blank */
        snprintf(out.text, sizeof(out.text), "%.0f", flops);
    }
    return out;
}

struct ks_unit_text ks_units_count(int64_t count)
{
    char digits[24];
    struct ks_unit_text out;
    int len = snprintf(digits, sizeof(digits), "%" PRIu64,
                       count < 0 ? 0 - (uint64_t)count : (uint64_t)count);
    size_t used = 0;
    if (count < 0) {
        out.text[used++] = '-';
    }
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0) {
            out.text[used++] = ',';
        }
        out.text[used++] = digits[i];
    }
    out.text[used] = '\0';
    return out;
}

struct ks_unit_text ks_units_share(double share)
{
    struct ks_unit_text out;
    double percent = share * 100.0;
    if (percent > 0.0 && percent < 0.05) {
        snprintf(out.text, sizeof(out.text), "<0.1 %%");
    } else if (percent == 0.0 || percent >= 9.95) {
        snprintf(out.text, sizeof(out.text), "%.0f %%", percent);
    } else {
        snprintf(out.text, sizeof(out.text), "%.1f %%", percent);
    }
    return out;
}
