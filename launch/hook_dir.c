#include "launch/hook_dir.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"

/* True when `dir` holds the hook; `out` is then its folder as an absolute path. */
static bool try_dir(const char *dir, const char *below, char out[KS_LAUNCH_PATH_SIZE])
{
    char path[KS_LAUNCH_PATH_SIZE];
    char resolved[KS_LAUNCH_PATH_SIZE];
    int len = snprintf(path, sizeof(path), "%s%s/kinetoscope/inject/sitecustomize.py", dir, below);
    if (*dir == '\0' || len < 0 || (size_t)len >= sizeof(path) || access(path, R_OK) != 0 ||
        !realpath(path, resolved)) {
        return false;
    }
    *strrchr(resolved, '/') = '\0';
    snprintf(out, KS_LAUNCH_PATH_SIZE, "%s", resolved);
    return true;
}

/* Folder of the running executable, or "" when /proc does not say. */
static void find_own_dir(char out[KS_LAUNCH_PATH_SIZE])
{
    ssize_t len = readlink("/proc/self/exe", out, KS_LAUNCH_PATH_SIZE - 1);
    out[len > 0 ? len : 0] = '\0';
    char *slash = strrchr(out, '/');
    if (slash) {
        *slash = '\0';
    }
}

/* Where pip put the package beside the program: of several Pythons the last by name. */
static bool try_site_packages(const char *own, char out[KS_LAUNCH_PATH_SIZE])
{
    char pattern[KS_LAUNCH_PATH_SIZE + 64];
    glob_t found;
    bool is_there = false;
    snprintf(pattern, sizeof(pattern), "%s/../lib/python3*/*-packages", own);
    if (*own == '\0' || glob(pattern, 0, NULL, &found) != 0) {
        return false;
    }
    for (size_t i = found.gl_pathc; i > 0 && !is_there; i--) {
        is_there = try_dir(found.gl_pathv[i - 1], "", out);
    }
    globfree(&found);
    return is_there;
}

enum ks_status ks_hook_dir_find(char out[KS_LAUNCH_PATH_SIZE], struct ks_err *err)
{
    const char *wanted = getenv("KSCOPE_PYTHON_DIR");
    char own[KS_LAUNCH_PATH_SIZE];
    if (wanted && *wanted) {
        if (try_dir(wanted, "", out)) {
            return KS_OK;
        }
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET,
                       "Cannot find the start-up hook: KSCOPE_PYTHON_DIR=\"%.120s\"", wanted);
    }
    find_own_dir(own);
    if (try_dir(own, "/../lib/kinetoscope/python", out) || try_dir(own, "/../python", out) ||
        try_site_packages(own, out)) {
        return KS_OK;
    }
    return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET,
                   "Cannot find the start-up hook: beside=\"%.120s\"; set KSCOPE_PYTHON_DIR", own);
}

enum ks_status ks_hook_dir_python_path(const char *hook_dir, char **out, struct ks_err *err)
{
    const char *users = getenv("PYTHONPATH");
    bool has_users = users && *users;
    size_t size = strlen(hook_dir) + (has_users ? strlen(users) + 1 : 0) + 1;
    *out = ks_alloc(size, 1);
    if (!*out) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot set PYTHONPATH: size=%zu", size);
    }
    snprintf(*out, size, "%s%s%s", hook_dir, has_users ? ":" : "", has_users ? users : "");
    return KS_OK;
}
