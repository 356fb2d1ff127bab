#include "base/time.h"

enum {
    DIGITS_EXACT_MAX = 19, /* any number of so many digits fits in 64 bits without sign */
    FAST_DIGITS_MAX = 15,  /* with the three digits of the fraction still below 2^63 */
    US_DIGITS = 3,         /* decimal places of a microsecond down to the nanosecond */
};

/* No exponent that a text of this size could need is larger, and sums of it cannot overflow. */
static const int64_t EXPONENT_MAX = INT64_C(1) << 60;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* What traces hold: up to 15 digits, then at most three decimals. True: `*ns` is set. */
static bool parse_plain(const char *ptr, const char *end, int64_t *ns)
{
    const char *start = ptr;
    int64_t value = 0;
    while (ptr < end && is_digit(*ptr)) {
        value = value * 10 + (*ptr++ - '0');
        if (ptr - start > FAST_DIGITS_MAX) {
            return false;
        }
    }
    if (ptr == start || (*start == '0' && ptr - start > 1)) {
        return false;
    }
    if (ptr == end) {
        *ns = value * 1000;
        return true;
    }
    ptrdiff_t decimals = end - ptr - 1;
    if (*ptr != '.' || decimals < 1 || decimals > US_DIGITS) {
        return false;
    }
    for (ptr++; ptr < end; ptr++) {
        if (!is_digit(*ptr)) {
            return false;
        }
        value = value * 10 + (*ptr - '0');
    }
    static const int64_t scale[US_DIGITS + 1] = {1000, 100, 10, 1};
    *ns = value * scale[decimals];
    return true;
}

/* A number cut into its parts: digits[0..integer_count) stand before the point. */
struct number {
    const char *integer;
    int64_t integer_count;
    const char *fraction;
    int64_t fraction_count;
    int64_t exponent;
};

static const char *skip_digits(const char *ptr, const char *end)
{
    while (ptr < end && is_digit(*ptr)) {
        ptr++;
    }
    return ptr;
}

/* Reads the exponent after its letter; more than any text needs is as good as EXPONENT_MAX. */
static bool parse_exponent(const char *ptr, const char *end, int64_t *exponent)
{
    bool is_negative = ptr < end && *ptr == '-';
    if (ptr < end && (*ptr == '-' || *ptr == '+')) {
        ptr++;
    }
    if (ptr == end || skip_digits(ptr, end) != end) {
        return false;
    }
    int64_t value = 0;
    for (; ptr < end; ptr++) {
        if (value < EXPONENT_MAX / 16) {
            value = value * 10 + (*ptr - '0');
        }
    }
    *exponent = is_negative ? -value : value;
    return true;
}

/* The grammar of RFC 8259 section 6, without the sign. */
static bool split(const char *ptr, const char *end, struct number *number)
{
    *number = (struct number){.integer = ptr};
    const char *stop = skip_digits(ptr, end);
    number->integer_count = stop - ptr;
    if (stop == ptr || (*ptr == '0' && stop - ptr > 1)) {
        return false;
    }
    ptr = stop;
    if (ptr < end && *ptr == '.') {
        number->fraction = ++ptr;
        stop = skip_digits(ptr, end);
        number->fraction_count = stop - ptr;
        if (stop == ptr) {
            return false;
        }
        ptr = stop;
    }
    if (ptr < end && (*ptr == 'e' || *ptr == 'E')) {
        return parse_exponent(ptr + 1, end, &number->exponent);
    }
    return ptr == end;
}

static int digit_at(const struct number *number, int64_t index)
{
    if (index < number->integer_count) {
        return number->integer[index] - '0';
    }
    index -= number->integer_count;
    return index < number->fraction_count ? number->fraction[index] - '0' : 0;
}

/* Rounds |number| microseconds to nanoseconds; false when it needs more than 63 bits. */
static bool to_ns(const struct number *number, uint64_t *ns)
{
    int64_t count = number->integer_count + number->fraction_count;
    int64_t first = 0;
    while (first < count && digit_at(number, first) == 0) {
        first++;
    }
    *ns = 0;
    if (first == count) {
        return true; // zero, whatever the exponent says
    }

    /* Digits before `point` are whole nanoseconds; the one at `point` decides the rounding. */
    int64_t point = number->integer_count + US_DIGITS + number->exponent;
    if (point < first) {
        return true;
    }
    if (point - first > DIGITS_EXACT_MAX) {
        return false;
    }
    for (int64_t i = first; i < point; i++) {
        *ns = *ns * 10 + (uint64_t)digit_at(number, i);
    }
    *ns += digit_at(number, point) >= 5 ? 1 : 0;
    return *ns <= INT64_MAX;
}

bool ks_time_parse_us(struct ks_str text, int64_t *ns)
{
    if (text.len == 0) {
        return false;
    }
    const char *ptr = text.ptr;
    const char *end = ptr + text.len;
    bool is_negative = *ptr == '-';
    if (is_negative) {
        ptr++;
    }

    int64_t value = 0;
    if (!parse_plain(ptr, end, &value)) {
        struct number number;
        uint64_t magnitude = 0;
        if (!split(ptr, end, &number) || !to_ns(&number, &magnitude)) {
            return false;
        }
        value = (int64_t)magnitude;
    }
    *ns = is_negative ? -value : value;
    return true;
}
