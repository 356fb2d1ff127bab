#include "read/stacks.h"

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

/* Is `clean` the path without the word? */
static bool is_sibling(const char *path, const char *clean)
{
    static const char word[] = ".stacks";
    const char *slash = strrchr(path, '/');
    const char *at = strstr(slash ? slash : path, ".stacks.");
    size_t head = at ? (size_t)(at - path) : 0;
    return at && strncmp(path, clean, head) == 0 &&
           strcmp(at + sizeof(word) - 1, clean + head) == 0;
}

static bool has_sibling(const struct ks_file_list *files, const char *path)
{
    for (size_t i = 0; i < files->count; i++) {
        if (is_sibling(path, files->list[i].path)) {
            return true;
        }
    }
    return false;
}

enum ks_status ks_stacks_list_take(struct ks_stacks_list *stacks, struct ks_file_list *files,
                                   struct ks_err *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < files->count; i++) {
        const char *path = files->list[i].path;
        if (has_sibling(files, path)) {
            KS_TRY(ks_stacks_list_add(stacks, &path, 1, err));
        }
    }
    for (size_t i = 0; i < files->count; i++) {
        bool is_taken = false;
        for (size_t s = 0; s < stacks->count; s++) {
            is_taken = is_taken || strcmp(stacks->paths[s], files->list[i].path) == 0;
        }
        if (!is_taken) {
            files->list[kept++] = files->list[i];
        }
    }
    files->count = kept;
    return KS_OK;
}
