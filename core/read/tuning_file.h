/* The result of `kscope tune` in its folder, for the report of that folder. */
#ifndef KS_READ_TUNING_FILE_H
#define KS_READ_TUNING_FILE_H

#include <kscope/kscope_tuning.h>

#include "base/arena.h"

#define KS_TUNING_FILE_NAME "tune.json"

/* `*out` is in the arena. KS_END: there is none, or it is no document of ours. Whatever it holds, texts are cut and numbers
 * that are none are not known. */
KS_MUST_CHECK enum ks_status ks_tuning_file_read(const char *folder, struct ks_arena *arena,
                                                 struct ks_tuning **out);

#endif
