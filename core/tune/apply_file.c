#include <errno.h>
#include <stdio.h>

#include "base/err.h"
#include "tune/knobs.h"

enum { LINE_SIZE = 256 };

/* Takes one line; what is behind # is a comment. False when it is no word. */
static bool take_line(struct ks_setting *setting, char *line)
{
    line[strcspn(line, "#\n")] = '\0';
    char *begin = line + strspn(line, " \t\r");
    size_t len = strlen(begin);
    while (len > 0 && strchr(" \t\r", begin[len - 1])) {
        len--;
    }
    struct ks_str word = {begin, len};
    struct ks_str name = ks_word_of(word).name;
    bool is_known = ks_knob_find(name) || ks_str_starts(name, KS_STR("entry."));
    return len == 0 || (is_known && ks_setting_set_word(setting, word));
}

enum ks_status ks_tuning_read_apply(const char *path, char setting[KS_TUNING_SETTING_SIZE],
                                    struct ks_err *err)
{
    struct ks_setting own = {0};
    char line[LINE_SIZE];
    size_t number = 0;
    enum ks_status status = KS_OK;
    FILE *file = fopen(path, "re");
    if (!file) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot read settings: %s", strerror(errno));
    }
    while (status == KS_OK && fgets(line, sizeof(line), file)) {
        number++;
        if (!take_line(&own, line)) {
            status = ks_fail(err, KS_ERR_FORMAT, KS_NO_OFFSET,
                             "Cannot read settings: line=%zu, text=\"%.60s\"", number, line);
        }
    }
    (void)fclose(file);
    memcpy(setting, own.text, sizeof(own.text));
    return status;
}
