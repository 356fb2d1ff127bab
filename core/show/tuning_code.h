/* A setting as lines of Python that whoever owns the script can paste. */
#ifndef KS_SHOW_TUNING_CODE_H
#define KS_SHOW_TUNING_CODE_H

#include <kscope/kscope_tuning.h>

#include "base/text.h"

/* Each line ends in a line feed and begins with `indent`; nothing for an empty setting. `device` is
 * that of the script. */
void ks_tuning_code(const char *setting, const char *device, const char *indent,
                    struct ks_text *out);

#endif
