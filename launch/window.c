#include "launch/window.h"

#include <stdio.h>

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

enum ks_status ks_launch_window_parse(const char *text, struct ks_launch_window *out,
                                      struct ks_err *err)
{
    struct ks_launch_window window = {0};
    const char *at = text;
    bool is_read = take_count(&at, ':', &window.wait_count) &&
                   take_count(&at, ':', &window.warmup_count) &&
                   take_count(&at, '\0', &window.active_count);
    if (!is_read || window.active_count == 0) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                       "Cannot read steps: want=\"WAIT:WARMUP:ACTIVE\", got=\"%.40s\"", text);
    }
    if (window.wait_count == 0) {
        window.wait_count = 1;
    }
    *out = window;
    return KS_OK;
}

void ks_launch_window_format(struct ks_launch_window window, char out[KS_LAUNCH_WINDOW_TEXT_SIZE])
{
    snprintf(out, KS_LAUNCH_WINDOW_TEXT_SIZE, "%u:%u:%u", window.wait_count, window.warmup_count,
             window.active_count);
}
