#include "tune/setting.h"

#include <stdio.h>

bool ks_setting_next(const struct ks_setting *setting, size_t *offset, struct ks_str *word)
{
    const char *begin = setting->text + *offset;
    if (*begin == '\0') {
        return false;
    }
    size_t len = strcspn(begin, ",");
    *word = (struct ks_str){begin, len};
    *offset += len + (begin[len] == ',');
    return true;
}

static struct ks_str name_of(struct ks_str word)
{
    const char *equals = memchr(word.ptr, '=', word.len);
    return (struct ks_str){word.ptr, equals ? (size_t)(equals - word.ptr) : word.len};
}

bool ks_setting_get(const struct ks_setting *setting, const char *name,
                    char value[KS_TUNING_NAME_SIZE])
{
    struct ks_str word;
    for (size_t offset = 0; ks_setting_next(setting, &offset, &word);) {
        struct ks_str own = name_of(word);
        if (ks_str_equal(own, ks_str_from(name)) && own.len < word.len) {
            snprintf(value, KS_TUNING_NAME_SIZE, "%.*s", (int)(word.len - own.len - 1),
                     word.ptr + own.len + 1);
            return true;
        }
    }
    value[0] = '\0';
    return false;
}

static bool is_plain(struct ks_str text)
{
    bool is_good = text.len > 0 && text.len < KS_TUNING_NAME_SIZE / 2;
    for (size_t i = 0; i < text.len && is_good; i++) {
        char c = text.ptr[i];
        is_good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
    }
    return is_good;
}

static bool append(struct ks_setting *out, struct ks_str word)
{
    size_t used = strlen(out->text);
    size_t room = sizeof(out->text) - used;
    int len =
        snprintf(out->text + used, room, "%s%.*s", used > 0 ? "," : "", (int)word.len, word.ptr);
    return len > 0 && (size_t)len < room;
}

bool ks_setting_set_word(struct ks_setting *setting, struct ks_str word)
{
    struct ks_str name = name_of(word);
    struct ks_setting out = {0};
    struct ks_str other;
    bool is_in = false;
    if (name.len == word.len || !is_plain(name) ||
        !is_plain((struct ks_str){word.ptr + name.len + 1, word.len - name.len - 1})) {
        return false;
    }
    for (size_t offset = 0; ks_setting_next(setting, &offset, &other);) {
        int order = ks_str_compare(name_of(other), name);
        if (order >= 0 && !is_in) {
            is_in = true;
            if (!append(&out, word)) {
                return false;
            }
        }
        if (order != 0 && !append(&out, other)) {
            return false;
        }
    }
    if (!is_in && !append(&out, word)) {
        return false;
    }
    *setting = out;
    return true;
}

bool ks_setting_set(struct ks_setting *setting, const char *name, const char *value)
{
    char word[KS_TUNING_NAME_SIZE * 2];
    int len = snprintf(word, sizeof(word), "%s=%s", name, value);
    return len > 0 && (size_t)len < sizeof(word) &&
           ks_setting_set_word(setting, (struct ks_str){word, (size_t)len});
}
