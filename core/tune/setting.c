#include "tune/setting.h"

#include <stdio.h>

bool ks_setting_get(const struct ks_setting *setting, const char *name,
                    char value[KS_TUNING_NAME_SIZE])
{
    struct ks_word word;
    bool is_there = ks_word_list_find(setting->text, ks_str_from(name), &word) && word.has_value;
    snprintf(value, KS_TUNING_NAME_SIZE, "%.*s", is_there ? (int)word.value.len : 0,
             is_there ? word.value.ptr : "");
    return is_there;
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

bool ks_setting_set_word(struct ks_setting *setting, struct ks_str text)
{
    struct ks_word word = ks_word_of(text);
    struct ks_setting out = {0};
    struct ks_word other;
    bool is_in = false;
    if (!is_plain(word.name) || !is_plain(word.value)) {
        return false;
    }
    for (size_t offset = 0; ks_word_list_next(setting->text, &offset, &other);) {
        int order = ks_str_compare(other.name, word.name);
        if (order >= 0 && !is_in) {
            is_in = true;
            if (!append(&out, text)) {
                return false;
            }
        }
        if (order != 0 && !append(&out, other.text)) {
            return false;
        }
    }
    if (!is_in && !append(&out, text)) {
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
