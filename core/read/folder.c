#include "read/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "read/run_folder.h"
#include "read/tuning_file.h"

enum { FOLDER_DEPTH_MAX = 8 };

enum ks_status ks_file_list_append(struct ks_file_list *files, const struct ks_file_entry *entry,
                                   struct ks_arena *arena, struct ks_err *err)
{
    if (files->count == files->capacity) {
        size_t capacity = files->capacity ? files->capacity * 2 : 32;
        struct ks_file_entry *list = ks_new(arena, struct ks_file_entry, capacity);
        if (!list) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot list files: count=%zu",
                           capacity);
        }
        if (files->count > 0) {
            memcpy(list, files->list, files->count * sizeof(*list));
        }
        files->list = list;
        files->capacity = capacity;
    }
    files->list[files->count++] = *entry;
    return KS_OK;
}

static enum ks_status append(struct ks_file_list *files, const char *path, bool is_given,
                             struct ks_arena *arena, struct ks_err *err)
{
    struct ks_file_entry entry = {path, is_given};
    return ks_file_list_append(files, &entry, arena, err);
}

static bool ends_with(const char *name, const char *end)
{
    size_t len = strlen(name);
    size_t end_len = strlen(end);
    return len > end_len && strcmp(name + len - end_len, end) == 0;
}

static bool is_trace_name(const char *name)
{
    return name[0] != '.' &&
           (ends_with(name, ".json") || ends_with(name, ".json.gz") ||
            ends_with(name, ".json.zst") || ends_with(name, ".trace") || ends_with(name, ".ksrec"));
}

/* `kscope run` leaves its report beside the traces: report.json, report.window2.json, ...; `kscope
 * tune` its result. */
static bool is_own_report(const char *path, const char *name)
{
    char head[128];
    bool is_tuning = strcmp(name, KS_TUNING_FILE_NAME) == 0;
    if (!is_tuning && strncmp(name, "report.", 7) != 0) {
        return false;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, head, sizeof(head)) : -1;
    if (fd >= 0) {
        close(fd);
    }
    struct ks_str schema =
        is_tuning ? KS_STR("\"kinetoscope.tune/") : KS_STR("\"kinetoscope.report/");
    return got > 0 && ks_str_contains((struct ks_str){head, (size_t)got}, schema);
}

static enum ks_status scan_folder(struct ks_file_list *files, const char *path, int depth,
                                  struct ks_arena *arena, struct ks_err *err);

static enum ks_status add_entry(struct ks_file_list *files, const char *folder, const char *name,
                                int depth, struct ks_arena *arena, struct ks_err *err)
{
    if (name[0] == '.') {
        return KS_OK;
    }
    size_t folder_len = strlen(folder);
    size_t name_len = strlen(name);
    bool has_slash = folder_len > 0 && folder[folder_len - 1] == '/';
    char *path = ks_new(arena, char, folder_len + name_len + 2);
    if (!path) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot list files: out of memory");
    }
    memcpy(path, folder, folder_len);
    if (!has_slash) {
        path[folder_len++] = '/';
    }
    memcpy(path + folder_len, name, name_len + 1);

    struct stat st;
    if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        return depth < FOLDER_DEPTH_MAX ? scan_folder(files, path, depth + 1, arena, err) : KS_OK;
    }
    bool is_file = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    return is_file && is_trace_name(name) && !is_own_report(path, name)
               ? append(files, path, false, arena, err)
               : KS_OK;
}

static enum ks_status scan_folder(struct ks_file_list *files, const char *path, int depth,
                                  struct ks_arena *arena, struct ks_err *err)
{
    DIR *dir = opendir(path);
    if (!dir && depth > 0) { // reading it as a file says why it cannot be, and leaves it out
        return append(files, path, false, arena, err);
    }
    if (!dir) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot list folder: path=\"%s\": %s", path,
                       strerror(errno));
    }
    enum ks_status status = KS_OK;
    struct dirent *entry;
    while (status == KS_OK && (entry = readdir(dir)) != NULL) {
        status = add_entry(files, path, entry->d_name, depth, arena, err);
    }
    closedir(dir);
    return status;
}

static int compare_paths(const void *a, const void *b)
{
    const struct ks_file_entry *x = a;
    const struct ks_file_entry *y = b;
    return strcmp(x->path, y->path);
}

enum ks_status ks_file_list_add(struct ks_file_list *files, const char *path,
                                struct ks_arena *arena, struct ks_err *err)
{
    struct stat st;
    if (strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        size_t first = files->count;
        KS_TRY(scan_folder(files, path, 0, arena, err));
        if (files->count == first && ks_run_folder_explain(path, err)) {
            return KS_ERR_IO;
        }
        if (files->count == first) {
            return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET,
                           "Cannot find a trace in the folder: no name ends in .json, .json.gz, "
                           ".json.zst or .ksrec; profiles of other names are given by name");
        }
        qsort(files->list + first, files->count - first, sizeof(*files->list), compare_paths);
        return KS_OK;
    }
    return append(files, path, true, arena, err);
}
