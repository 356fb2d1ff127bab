#include "launch/process_tree.h"

#include <dirent.h>
#include <stdlib.h>

#include "base/alloc.h"

static int compare_pids(const void *a, const void *b)
{
    const struct ks_process *x = a;
    const struct ks_process *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

const struct ks_process *ks_process_tree_find(const struct ks_process_tree *tree, pid_t pid)
{
    struct ks_process key = {.pid = pid};
    return tree->count > 0
               ? bsearch(&key, tree->list, tree->count, sizeof(*tree->list), compare_pids)
               : NULL;
}

static bool append(struct ks_process_tree *tree, const struct ks_process *process)
{
    if (tree->count == tree->capacity) {
        size_t wanted = tree->capacity ? tree->capacity * 2 : 256;
        struct ks_process *grown = ks_realloc(tree->list, wanted, sizeof(*tree->list));
        if (!grown) {
            return false;
        }
        tree->list = grown;
        tree->capacity = wanted;
    }
    tree->list[tree->count++] = *process;
    return true;
}

/* All processes that we may see. */
static bool read_all(struct ks_process_tree *all)
{
    DIR *dir = opendir("/proc");
    bool is_good = dir != NULL;
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry && is_good; entry = readdir(dir)) {
        char *end = NULL;
        long pid = entry->d_name[0] >= '1' && entry->d_name[0] <= '9'
                       ? strtol(entry->d_name, &end, 10)
                       : 0;
        struct ks_process process;
        if (pid > 0 && *end == '\0' && ks_process_read((pid_t)pid, &process)) {
            is_good = append(all, &process);
        }
    }
    if (dir) {
        closedir(dir);
    }
    if (all->count > 0) {
        qsort(all->list, all->count, sizeof(*all->list), compare_pids);
    }
    return is_good;
}

static bool was_member(const struct ks_process_tree *before, const struct ks_process *process)
{
    const struct ks_process *member = ks_process_tree_find(before, process->pid);
    return member && member->start_ticks == process->start_ticks;
}

/* Marks children of marked processes until nothing changes: a pass for each generation at most. */
static void mark_descendants(const struct ks_process_tree *all, bool *is_member)
{
    bool has_changed = true;
    while (has_changed) {
        has_changed = false;
        for (size_t i = 0; i < all->count; i++) {
            const struct ks_process *parent =
                is_member[i] ? NULL : ks_process_tree_find(all, all->list[i].parent);
            if (parent && is_member[parent - all->list]) {
                is_member[i] = true;
                has_changed = true;
            }
        }
    }
}

/* Moves the members to the front. */
static void keep_members(struct ks_process_tree *all, const bool *is_member)
{
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++) {
        if (is_member[i]) {
            all->list[count++] = all->list[i];
        }
    }
    all->count = count;
}

bool ks_process_tree_read(struct ks_process_tree *out, const struct ks_process_tree *before,
                          pid_t root)
{
    struct ks_process_tree all = {0};
    bool is_good = read_all(&all);
    bool *is_member = is_good ? ks_alloc(all.count + 1, sizeof(*is_member)) : NULL;
    if (!is_member) {
        ks_process_tree_release(&all);
        return false;
    }
    for (size_t i = 0; i < all.count; i++) {
        is_member[i] = all.list[i].pid == root || was_member(before, &all.list[i]);
    }
    mark_descendants(&all, is_member);
    keep_members(&all, is_member);
    ks_free(is_member);
    *out = all;
    return true;
}

void ks_process_tree_release(struct ks_process_tree *tree)
{
    ks_free(tree->list);
    *tree = (struct ks_process_tree){0};
}
