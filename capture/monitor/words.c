#include "capture/monitor/words.h"

#include <string.h>

static const char *skip_blanks(const char *at)
{
    while (*at == ' ' || *at == '\t') {
        at++;
    }
    return at;
}

bool ks_words_number(const char **at, uint64_t *out)
{
    const char *digit = skip_blanks(*at);
    uint64_t value = 0;
    if (*digit < '0' || *digit > '9') {
        return false;
    }
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        uint64_t more = (uint64_t)(*digit - '0');
        if (value > (UINT64_MAX - more) / 10) {
            return false;
        }
        value = value * 10 + more;
    }
    *at = digit;
    *out = value;
    return true;
}

bool ks_words_numbers(const char *at, uint64_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!ks_words_number(&at, &out[i])) {
            return false;
        }
    }
    return true;
}

bool ks_words_number_of(const char *text, const char *key, uint64_t *out)
{
    size_t len = strlen(key);
    for (const char *line = text; line; line = ks_words_next_line(line)) {
        if (strncmp(line, key, len) == 0) {
            const char *at = line + len;
            return ks_words_number(&at, out);
        }
    }
    return false;
}

bool ks_words_total_of(const char *text, const char *key, uint64_t *out)
{
    static const char TOTAL[] = "total=";
    size_t len = strlen(key);
    for (const char *line = text; line; line = ks_words_next_line(line)) {
        if (strncmp(line, key, len) == 0) {
            const char *at = strstr(line, TOTAL);
            const char *end = strchr(line, '\n');
            if (!at || (end && at > end)) {
                return false;
            }
            at += sizeof(TOTAL) - 1;
            return ks_words_number(&at, out);
        }
    }
    return false;
}

const char *ks_words_next_line(const char *at)
{
    const char *end = strchr(at, '\n');
    return end && end[1] != '\0' ? end + 1 : NULL;
}

bool ks_words_word(const char **at, char end, char *out, size_t size)
{
    const char *from = skip_blanks(*at);
    size_t len = 0;
    while (from[len] != '\0' && from[len] != ' ' && from[len] != '\n' && from[len] != end) {
        len++;
    }
    if (len == 0 || len >= size) {
        return false;
    }
    memcpy(out, from, len);
    out[len] = '\0';
    *at = from + len;
    return true;
}
