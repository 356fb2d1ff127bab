/* The folder that one run writes into: always fresh, never one that holds something. */
#ifndef KS_LAUNCH_OUT_DIR_H
#define KS_LAUNCH_OUT_DIR_H

#include "launch/launch.h"

/* Creates the folder (mode 0700) and puts its path, as the user would type it, into `out`.
 * `is_new` is false when it was there already, empty, and so belongs to the user.
 * `wish` is the user's --out; when that folder holds files, `<wish>-2`, -3, ... is taken instead.
 * Without a wish: kscope-<program>-<yyyymmdd>-<n> in the current folder, where the program's name
 * comes from the command line. */
KS_MUST_CHECK enum ks_status ks_out_dir_create(const char *wish, const char *const *words,
                                               size_t word_count, char out[KS_LAUNCH_PATH_SIZE],
                                               bool *is_new, struct ks_err *err);

#endif
