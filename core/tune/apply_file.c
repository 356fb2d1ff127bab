#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "tune/knobs.h"

enum { LINE_SIZE = 256 };

/* Takes one line; what is behind # is a comment. When it is no setting, `why_not` says so. */
static bool take_line(struct ks_setting *setting, char *line, char why_not[KS_KNOB_WHY_SIZE])
{
    line[strcspn(line, "#\n")] = '\0';
    char *begin = line + strspn(line, " \t\r");
    size_t len = strlen(begin);
    while (len > 0 && strchr(" \t\r", begin[len - 1])) {
        len--;
    }
    struct ks_str text = {begin, len};
    if (len > 0 && !ks_knob_allows(ks_word_of(text), why_not)) {
        return false;
    }
    snprintf(why_not, KS_KNOB_WHY_SIZE, "no such name, or too many settings");
    return len == 0 || ks_setting_set_word(setting, text);
}

enum ks_status ks_tuning_read_apply(const char *path, char setting[KS_TUNING_SETTING_SIZE],
                                    struct ks_err *err)
{
    struct ks_setting own = {0};
    char line[LINE_SIZE];
    char why_not[KS_KNOB_WHY_SIZE];
    size_t number = 0;
    enum ks_status status = KS_OK;
    FILE *file = fopen(path, "re");
    if (!file) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot read settings: %s", strerror(errno));
    }
    while (status == KS_OK && fgets(line, sizeof(line), file)) {
        number++;
        if (!take_line(&own, line, why_not)) {
            status = ks_fail(err, KS_ERR_FORMAT, KS_NO_OFFSET,
                             "Cannot read settings: line=%zu, text=\"%.60s\", %s", number, line,
                             why_not);
        }
    }
    (void)fclose(file);
    memcpy(setting, own.text, sizeof(own.text));
    return status;
}
