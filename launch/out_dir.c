#include "launch/out_dir.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/err.h"
#include "launch/command_line.h"

enum { TRIES_MAX = 10000, NAME_SIZE = 64 };

static bool is_dir(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool is_empty_dir(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir) {
        return false;
    }
    bool is_empty = true;
    for (struct dirent *entry = readdir(dir); entry && is_empty; entry = readdir(dir)) {
        is_empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    }
    closedir(dir);
    return is_empty;
}

/* Keeps letters, digits, '.', '_' and '-', so that the name needs no quotes anywhere. */
static void make_plain(const char *name, char out[NAME_SIZE])
{
    size_t len = 0;
    for (; *name && len + 1 < NAME_SIZE; name++) {
        bool is_plain = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
                        (*name >= '0' && *name <= '9') || (len > 0 && strchr("._-", *name));
        out[len++] = is_plain ? *name : '_';
    }
    out[len] = '\0';
}

static void make_default_base(const char *const *words, size_t word_count,
                              char out[KS_LAUNCH_PATH_SIZE])
{
    char program[NAME_SIZE];
    char date[16] = "";
    time_t now = time(NULL);
    struct tm local;
    make_plain(ks_command_line_name(words, word_count), program);
    size_t len = strlen(program);
    if (len > 3 && strcmp(program + len - 3, ".py") == 0) {
        program[len - 3] = '\0';
    }
    if (localtime_r(&now, &local)) {
        (void)strftime(date, sizeof(date), "%Y%m%d", &local);
    }
    snprintf(out, KS_LAUNCH_PATH_SIZE, "kscope-%s-%s", program, date);
}

static void strip_slashes(char *path)
{
    for (size_t len = strlen(path); len > 1 && path[len - 1] == '/'; len--) {
        path[len - 1] = '\0';
    }
}

enum ks_status ks_out_dir_create(const char *wish, const char *const *words, size_t word_count,
                                 char out[KS_LAUNCH_PATH_SIZE], bool *is_new, struct ks_err *err)
{
    char base[KS_LAUNCH_PATH_SIZE];
    if (wish && strlen(wish) + 16 >= sizeof(base)) {
        return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET, "Cannot create folder: name too long");
    }
    if (wish) {
        snprintf(base, sizeof(base), "%s", wish);
        strip_slashes(base);
    } else {
        make_default_base(words, word_count, base);
    }

    for (int number = 1; number <= TRIES_MAX; number++) {
        if (wish && number == 1) {
            snprintf(out, KS_LAUNCH_PATH_SIZE, "%s", base);
        } else {
            int len = snprintf(out, KS_LAUNCH_PATH_SIZE, "%s-%d", base, number);
            if (len < 0 || len >= KS_LAUNCH_PATH_SIZE) {
                break;
            }
        }
        *is_new = mkdir(out, 0700) == 0;
        if (*is_new) {
            return KS_OK;
        }
        if (errno != EEXIST) {
            return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET,
                           "Cannot create folder: path=\"%.120s\", %s", out, strerror(errno));
        }
        /* Only a wish may name a folder that is there; a name of our own is always new. */
        if (wish && number == 1) {
            if (!is_dir(out)) {
                return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET,
                               "Cannot create folder: path=\"%.120s\", it is not a folder", out);
            }
            if (is_empty_dir(out)) {
                return KS_OK;
            }
        }
    }
    return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot create folder: path=\"%.120s\", all taken",
                   base);
}
