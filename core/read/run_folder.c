#include "read/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "read/run_name.h"
#include "read/run_status.h"

struct ks_run_folder {
    struct ks_live_rank *processes;
    size_t process_count;
    size_t process_capacity;
    struct ks_run_window *windows;
    size_t window_count;
    size_t window_capacity;
};

/* ------------------------------------------------------------------ listing */

/* Room for one more item; NULL when there is no memory. */
static void *grow(void *list, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity) {
        return list;
    }
    size_t wanted = *capacity ? *capacity * 2 : 16;
    void *grown = ks_realloc(list, wanted, size);
    *capacity = grown ? wanted : *capacity;
    return grown;
}

static bool add_process(struct ks_run_folder *folder, struct ks_run_status *status)
{
    void *list = grow(folder->processes, folder->process_count, &folder->process_capacity,
                      sizeof(*folder->processes));
    if (list) {
        folder->processes = list;
        ks_run_status_tell(status, &folder->processes[folder->process_count++]);
    }
    return list;
}

static bool add_window(struct ks_run_folder *folder, int dir_fd, const char *file,
                       const struct ks_run_name *name)
{
    struct stat info;
    if (fstatat(dir_fd, file, &info, 0) != 0 || !S_ISREG(info.st_mode)) {
        return true; /* gone, or no file: not there */
    }
    void *list = grow(folder->windows, folder->window_count, &folder->window_capacity,
                      sizeof(*folder->windows));
    if (list) {
        folder->windows = list;
        folder->windows[folder->window_count++] = (struct ks_run_window){
            .rank = name->rank,
            .pid = name->pid,
            .number = name->window,
            .bytes = (int64_t)info.st_size,
            .has_stacks = name->is_stacks,
        };
    }
    return list;
}

static bool add_entry(struct ks_run_folder *folder, int dir_fd, const char *name,
                      struct ks_run_status *status)
{
    struct ks_run_name run_name;
    if (ks_run_status_is_name(name)) {
        enum ks_status found = ks_run_status_read(dir_fd, name, status);
        return found == KS_OK ? add_process(folder, status) : found == KS_END;
    }
    return !ks_run_name_parse(ks_str_from(name), &run_name) ||
           add_window(folder, dir_fd, name, &run_name);
}

static int compare_processes(const void *a, const void *b)
{
    const struct ks_run_process *x = &((const struct ks_live_rank *)a)->process;
    const struct ks_run_process *y = &((const struct ks_live_rank *)b)->process;
    int by_rank = (x->rank > y->rank) - (x->rank < y->rank);
    return by_rank ? by_rank : (x->pid > y->pid) - (x->pid < y->pid);
}

/* The clean trace of a window comes before the one with stacks. */
static int compare_windows(const void *a, const void *b)
{
    const struct ks_run_window *x = a;
    const struct ks_run_window *y = b;
    int by_number = (x->number > y->number) - (x->number < y->number);
    int by_rank = (x->rank > y->rank) - (x->rank < y->rank);
    int by_pid = (x->pid > y->pid) - (x->pid < y->pid);
    int by_stacks = (int)x->has_stacks - (int)y->has_stacks;
    return by_number ? by_number : by_rank ? by_rank : by_pid ? by_pid : by_stacks;
}

/* Makes one window of a clean trace and the one with stacks behind it. */
static void join_windows(struct ks_run_folder *folder)
{
    size_t count = 0;
    for (size_t i = 0; i < folder->window_count; i++) {
        struct ks_run_window window = folder->windows[i];
        struct ks_run_window *last = count > 0 ? &folder->windows[count - 1] : NULL;
        if (!window.has_stacks) {
            folder->windows[count++] = window;
        } else if (last && last->number == window.number && last->rank == window.rank &&
                   last->pid == window.pid) {
            last->has_stacks = true;
        }
    }
    folder->window_count = count;
}

static enum ks_status list_folder(struct ks_run_folder *folder, DIR *dir, struct ks_err *err)
{
    struct ks_run_status *status = ks_alloc(1, sizeof(*status));
    bool is_good = status != NULL;
    for (struct dirent *entry = readdir(dir); entry && is_good; entry = readdir(dir)) {
        is_good = add_entry(folder, dirfd(dir), entry->d_name, status);
    }
    ks_free(status);
    if (!is_good) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot look at the run: no memory");
    }
    if (folder->process_count > 0) {
        qsort(folder->processes, folder->process_count, sizeof(*folder->processes),
              compare_processes);
    }
    if (folder->window_count > 0) {
        qsort(folder->windows, folder->window_count, sizeof(*folder->windows), compare_windows);
        join_windows(folder);
    }
    return KS_OK;
}

enum ks_status ks_run_folder_open(const char *path, struct ks_run_folder **out, struct ks_err *err)
{
    *out = NULL;
    DIR *dir = opendir(path);
    if (!dir) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot read folder: path=\"%.120s\", %s",
                       path, strerror(errno));
    }
    struct ks_run_folder *folder = ks_alloc(1, sizeof(*folder));
    enum ks_status status =
        folder ? list_folder(folder, dir, err)
               : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot look at the run: no memory");
    closedir(dir);
    if (status != KS_OK) {
        ks_run_folder_close(folder);
        return status;
    }
    *out = folder;
    return KS_OK;
}

void ks_run_folder_close(struct ks_run_folder *folder)
{
    if (folder) {
        ks_free(folder->processes);
        ks_free(folder->windows);
        ks_free(folder);
    }
}

const struct ks_run_process *ks_run_folder_process(const struct ks_run_folder *folder, size_t index)
{
    return index < folder->process_count ? &folder->processes[index].process : NULL;
}

const struct ks_live_rank *ks_run_folder_rank(const struct ks_run_folder *folder, size_t index)
{
    return index < folder->process_count ? &folder->processes[index] : NULL;
}

const struct ks_run_window *ks_run_folder_window(const struct ks_run_folder *folder, size_t index)
{
    return index < folder->window_count ? &folder->windows[index] : NULL;
}

/* ------------------------------------------------------------------ a folder without a trace */

static const char *doing_of(enum ks_run_state state)
{
    switch (state) {
    case KS_RUN_RECORDING: return "its window is open";
    case KS_RUN_WAITING: return "its window is still to come";
    case KS_RUN_DONE: return "its window was written";
    case KS_RUN_OFF: return "it is not recorded any more";
    case KS_RUN_UNKNOWN: break;
    }
    return "it does not say what it does";
}

bool ks_run_folder_explain(const char *path, struct ks_err *err)
{
    struct ks_run_folder *folder = NULL;
    if (ks_run_folder_open(path, &folder, NULL) != KS_OK) {
        return false;
    }
    const struct ks_run_process *most = NULL;
    for (size_t i = 0; i < folder->process_count; i++) {
        const struct ks_run_process *process = &folder->processes[i].process;
        most = !most || process->steps_seen > most->steps_seen ? process : most;
    }
    if (most && most->is_running) {
        (void)ks_fail(err, KS_ERR_IO, KS_NO_OFFSET,
                      "Cannot find a trace in the folder: the program is still running, and %s. %s",
                      doing_of(most->state), most->explanation);
    } else if (most) {
        (void)ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot find a trace in the folder. %s",
                      most->explanation);
    }
    ks_run_folder_close(folder);
    return most != NULL;
}

/* ------------------------------------------------------------------ which files are read */

/* A file of a run, and the folder that it is in: the part of its path before the last slash. */
struct window_file {
    size_t index;
    struct ks_str folder;
    struct ks_run_name name;
};

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* The windows of a process follow each other, the latest last. */
static int compare_files(const void *left, const void *right)
{
    const struct window_file *a = left;
    const struct window_file *b = right;
    int order = ks_str_compare(a->folder, b->folder);
    order = order ? order : compare_numbers(a->name.rank, b->name.rank);
    order = order ? order : compare_numbers(a->name.pid, b->name.pid);
    return order ? order : compare_numbers(a->name.window, b->name.window);
}

static bool is_same_process(const struct window_file *a, const struct window_file *b)
{
    return ks_str_equal(a->folder, b->folder) && a->name.rank == b->name.rank &&
           a->name.pid == b->name.pid;
}

static struct ks_str folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return (struct ks_str){path, slash ? (size_t)(slash - path) : 0};
}

/* Which files are of an earlier window than their process has another of. */
static enum ks_status find_superseded(const struct ks_file_list *files, bool **out,
                                      struct ks_arena *arena, struct ks_err *err)
{
    struct window_file *list = ks_new(arena, struct window_file, files->count + 1);
    *out = ks_new(arena, bool, files->count + 1);
    if (!list || !*out) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot choose files: count=%zu",
                       files->count);
    }
    size_t count = 0;
    for (size_t i = 0; i < files->count; i++) {
        struct window_file file = {.index = i, .folder = folder_of(files->list[i].path)};
        if (ks_run_name_parse(ks_str_from(files->list[i].path), &file.name)) {
            list[count++] = file;
        }
    }
    if (count > 1) {
        qsort(list, count, sizeof(*list), compare_files);
    }
    for (size_t i = count; i-- > 1;) {
        bool is_older = is_same_process(&list[i - 1], &list[i]) &&
                        (list[i - 1].name.window < list[i].name.window || (*out)[list[i].index]);
        (*out)[list[i - 1].index] = is_older;
    }
    return KS_OK;
}

static bool is_of_window(const struct ks_file_entry *entry, bool is_superseded, int64_t window)
{
    struct ks_run_name name;
    if (!ks_run_name_parse(ks_str_from(entry->path), &name)) {
        return window == 0;
    }
    return window != 0 ? name.window == window : entry->is_given || !is_superseded;
}

enum ks_status ks_run_folder_choose(struct ks_file_list *files, int64_t window,
                                    struct ks_arena *arena, struct ks_err *err)
{
    struct ks_file_list kept = {0};
    bool *superseded = NULL;
    KS_TRY(find_superseded(files, &superseded, arena, err));
    for (size_t i = 0; i < files->count; i++) {
        if (is_of_window(&files->list[i], superseded[i], window)) {
            KS_TRY(ks_file_list_append(&kept, &files->list[i], arena, err));
        }
    }
    if (files->count > 0 && kept.count == 0) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                       "Cannot choose window: no trace of window %lld of a run is there",
                       (long long)window);
    }
    *files = kept;
    return KS_OK;
}

/* ------------------------------------------------------------------ what the status adds */

static enum ks_status apply(struct ks_source *source, int dir_fd, const char *name)
{
    struct ks_run_status *status = ks_alloc(1, sizeof(*status));
    enum ks_status found = status ? ks_run_status_read(dir_fd, name, status) : KS_ERR_NOMEM;
    if (found == KS_OK && status->process.pid == source->pid &&
        status->process.rank == source->rank) {
        source->is_running = status->process.is_running;
        source->unprofiled_mean_ns = ks_step_times_mean(&status->after);
        source->unprofiled_spread_ns = ks_step_times_spread(&status->after);
        source->unprofiled_stall_ns =
            ks_step_times_stall(&status->after, &source->unprofiled_period);
        if (status->after.count > 0) {
            source->unprofiled_step_ns = ks_run_status_step_ns(status);
        }
    }
    ks_free(status);
    return found;
}

enum ks_status ks_run_folder_apply_status(struct ks_source *source, struct ks_str path,
                                          struct ks_err *err)
{
    char name[96];
    char dir[4096] = ".";
    const char *slash = path.len > 0 ? memrchr(path.ptr, '/', path.len) : NULL;
    size_t len = slash ? (size_t)(slash - path.ptr) + 1 : 0;
    if (source->pid <= 0 || source->rank < 0 || len >= sizeof(dir)) {
        return KS_OK;
    }
    if (slash) {
        snprintf(dir, sizeof(dir), "%.*s", (int)len, path.ptr);
    }
    snprintf(name, sizeof(name), "kscope-run.rank%lld.pid%lld.status", (long long)source->rank,
             (long long)source->pid);
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0) {
        return KS_OK;
    }
    enum ks_status found = apply(source, dir_fd, name);
    close(dir_fd);
    if (found == KS_ERR_NOMEM) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET,
                       "Cannot read the status of a run: no memory");
    }
    return KS_OK;
}
