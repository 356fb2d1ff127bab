/* A setting of a script: words `name=value`, sorted by name, with commas between them. */
#ifndef KS_TUNE_SETTING_H
#define KS_TUNE_SETTING_H

#include <kscope/kscope_tuning.h>

#include "base/word_list.h"

struct ks_setting {
    char text[KS_TUNING_SETTING_SIZE];
};

/* The value of the name, cut to the buffer; false when there is none. */
bool ks_setting_get(const struct ks_setting *setting, const char *name,
                    char value[KS_TUNING_NAME_SIZE]);
/* Puts `name=value` in, for the word of that name if there is one. False, and no change, when it
 * gets too long or the word is none: letters, digits and . _ - on both sides. */
bool ks_setting_set(struct ks_setting *setting, const char *name, const char *value);
/* The same with the word "name=value". */
bool ks_setting_set_word(struct ks_setting *setting, struct ks_str text);

#endif
