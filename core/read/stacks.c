#include "read/stacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

enum ks_status ks_stacks_list_add(struct ks_stacks_list *stacks, const char *const *paths,
                                  size_t count, struct ks_err *err)
{
    if (stacks->count + count > stacks->capacity || !stacks->paths) {
        size_t capacity = 2 * (stacks->count + count) + 1;
        const char **grown = ks_new(stacks->arena, const char *, capacity);
        if (!grown) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep paths: count=%zu",
                           stacks->count);
        }
        for (size_t i = 0; i < stacks->count; i++) {
            grown[i] = stacks->paths[i];
        }
        stacks->paths = grown;
        stacks->capacity = capacity;
    }
    for (size_t i = 0; i < count; i++) {
        const char *copy = ks_arena_copy(stacks->arena, paths[i], strlen(paths[i]));
        if (!copy) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep paths: count=%zu",
                           stacks->count);
        }
        stacks->paths[stacks->count++] = copy;
    }
    return KS_OK;
}

/* ------------------------------------------------------------ siblings */

static int compare_paths(const void *left, const void *right)
{
    const char *const *a = left;
    const char *const *b = right;
    return strcmp(*a, *b);
}

/* All paths in order, so that they can be searched. */
static const char **sorted_paths(const struct ks_file_list *files, struct ks_arena *arena)
{
    const char **paths = ks_new(arena, const char *, files->count + 1);
    for (size_t i = 0; paths && i < files->count; i++) {
        paths[i] = files->list[i].path;
    }
    if (paths && files->count > 1) {
        qsort(paths, files->count, sizeof(*paths), compare_paths);
    }
    return paths;
}

static bool has_path(const char *const *paths, size_t count, const char *path)
{
    return count > 0 && bsearch(&path, paths, count, sizeof(*paths), compare_paths);
}

/* The path without the word; NULL when it has none, `*failed` when there is no memory. */
static char *clean_path(const char *path, struct ks_arena *arena, bool *failed)
{
    static const char word[] = ".stacks";
    const char *slash = strrchr(path, '/');
    const char *at = strstr(slash ? slash : path, ".stacks.");
    if (!at) {
        return NULL;
    }
    size_t head = (size_t)(at - path);
    const char *tail = at + sizeof(word) - 1;
    char *clean = ks_new(arena, char, head + strlen(tail) + 1);
    *failed = *failed || !clean;
    if (clean) {
        memcpy(clean, path, head);
        memcpy(clean + head, tail, strlen(tail) + 1);
    }
    return clean;
}

static enum ks_status fail_nomem(size_t count, struct ks_err *err)
{
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep paths: count=%zu", count);
}

static enum ks_status add_siblings(struct ks_stacks_list *stacks, const struct ks_file_list *files,
                                   struct ks_err *err)
{
    const char **paths = sorted_paths(files, stacks->arena);
    bool failed = !paths;
    for (size_t i = 0; i < files->count && !failed; i++) {
        const char *path = files->list[i].path;
        const char *clean = clean_path(path, stacks->arena, &failed);
        if (clean && has_path(paths, files->count, clean)) {
            KS_TRY(ks_stacks_list_add(stacks, &path, 1, err));
        }
    }
    return failed ? fail_nomem(files->count, err) : KS_OK;
}

enum ks_status ks_stacks_list_take(struct ks_stacks_list *stacks, struct ks_file_list *files,
                                   struct ks_err *err)
{
    KS_TRY(add_siblings(stacks, files, err));
    if (stacks->count == 0) {
        return KS_OK;
    }
    const char **taken = ks_new(stacks->arena, const char *, stacks->count);
    if (!taken) {
        return fail_nomem(stacks->count, err);
    }
    memcpy(taken, stacks->paths, stacks->count * sizeof(*taken));
    qsort(taken, stacks->count, sizeof(*taken), compare_paths);
    size_t kept = 0;
    for (size_t i = 0; i < files->count; i++) {
        if (!has_path(taken, stacks->count, files->list[i].path)) {
            files->list[kept++] = files->list[i];
        }
    }
    files->count = kept;
    return KS_OK;
}
