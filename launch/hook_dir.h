/* Where the start-up hook lies: the folder that leads the program's PYTHONPATH. */
#ifndef KS_LAUNCH_HOOK_DIR_H
#define KS_LAUNCH_HOOK_DIR_H

#include "launch/launch.h"

/* Looks in $KSCOPE_PYTHON_DIR alone when it is set; else beside the running executable
 * (../lib/kinetoscope/python when installed, ../python in a build folder, site-packages of a Python
 * in ../lib when pip installed it). Gives <that>/kinetoscope/inject. */
KS_MUST_CHECK enum ks_status ks_hook_dir_find(char out[KS_LAUNCH_PATH_SIZE], struct ks_err *err);
/* PYTHONPATH with that folder before what the user's holds; to be freed. */
KS_MUST_CHECK enum ks_status ks_hook_dir_python_path(const char *hook_dir, char **out,
                                                     struct ks_err *err);

#endif
