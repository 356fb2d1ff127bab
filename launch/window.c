#include "launch/window.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"

/* Reads digits up to `end_char` and steps over it; false when there is no number or a huge one. */
static bool take_count(const char **text, char end_char, uint32_t *out)
{
    const char *at = *text;
    uint32_t value = 0;
    if (*at == end_char) {
        return false;
    }
    for (; *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (uint32_t)(*at - '0');
        if (value > KS_LAUNCH_STEP_COUNT_MAX) {
            return false;
        }
    }
    if (*at != end_char) {
        return false;
    }
    *text = at + (end_char != '\0');
    *out = value;
    return true;
}

/* WAIT:WARMUP:ACTIVE, and :REPEAT when there is one. */
static bool take_counts(const char *text, struct ks_launch_window *out)
{
    const char *at = text;
    if (!take_count(&at, ':', &out->wait_count) || !take_count(&at, ':', &out->warmup_count)) {
        return false;
    }
    const char *colon = strchr(at, ':');
    return take_count(&at, colon ? ':' : '\0', &out->active_count) &&
           (!colon || take_count(&at, '\0', &out->repeat_count));
}

enum ks_status ks_launch_window_parse(const char *text, struct ks_launch_window *out,
                                      struct ks_err *err)
{
    struct ks_launch_window window = {.repeat_count = 1};
    if (strcmp(text, "auto") == 0) {
        *out = KS_LAUNCH_WINDOW_DEFAULT;
        return KS_OK;
    }
    if (!take_counts(text, &window) || window.active_count == 0) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                       "Cannot read steps: want=\"auto or WAIT:WARMUP:ACTIVE[:REPEAT]\", "
                       "got=\"%.40s\"",
                       text);
    }
    if (window.wait_count == 0) {
        window.wait_count = 1;
    }
    *out = window;
    return KS_OK;
}

void ks_launch_window_format(struct ks_launch_window window, char out[KS_LAUNCH_WINDOW_TEXT_SIZE])
{
    if (window.is_auto) {
        snprintf(out, KS_LAUNCH_WINDOW_TEXT_SIZE, "auto");
        return;
    }
    int len = snprintf(out, KS_LAUNCH_WINDOW_TEXT_SIZE, "%u:%u:%u", window.wait_count,
                       window.warmup_count, window.active_count);
    if (window.repeat_count != 1) {
        snprintf(out + len, KS_LAUNCH_WINDOW_TEXT_SIZE - (size_t)len, ":%u", window.repeat_count);
    }
}
