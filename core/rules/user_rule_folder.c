#include "rules/user_rule_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

/* Names of the files, in the order of their bytes. */
struct names {
    const char *list[KS_USER_RULES_MAX];
    size_t count;
};

static enum ks_status fail_memory(struct ks_err *err)
{
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep rules: no memory");
}

static bool is_rule_name(const char *name)
{
    size_t len = strlen(name);
    return name[0] != '.' && len > 4 && strcmp(name + len - 4, ".sql") == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum ks_status add_name(struct names *names, const char *name, struct ks_arena *arena,
                               struct ks_err *err)
{
    if (names->count == KS_USER_RULES_MAX) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                       "Cannot use rules: the folder has more than %d", KS_USER_RULES_MAX);
    }
    names->list[names->count] = ks_arena_copy(arena, name, strlen(name));
    return names->list[names->count++] ? KS_OK : fail_memory(err);
}

static enum ks_status list_folder(const char *path, struct names *names, struct ks_arena *arena,
                                  struct ks_err *err)
{
    DIR *dir = opendir(path);
    if (!dir) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot list rules: %s: %.120s",
                       strerror(errno), path);
    }
    enum ks_status status = KS_OK;
    struct dirent *entry;
    while (status == KS_OK && (entry = readdir(dir)) != NULL) {
        status = is_rule_name(entry->d_name) ? add_name(names, entry->d_name, arena, err) : KS_OK;
    }
    closedir(dir);
    if (status == KS_OK && names->count == 0) {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                       "Cannot use rules: no name ends in .sql in the folder %.120s", path);
    }
    qsort(names->list, names->count, sizeof(*names->list), compare_names);
    return status;
}

/* ------------------------------------------------------------------ files */

static enum ks_status fail_file(const char *name, const char *why, struct ks_err *err)
{
    return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot read rule: %.120s: %s", name, why);
}

/* All of the file, at most one byte more than a rule may have. */
static enum ks_status read_bytes(int fd, const char *name, struct ks_arena *arena,
                                 struct ks_str *out, struct ks_err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return fail_file(name, strerror(errno), err);
    }
    if (!S_ISREG(st.st_mode)) { // a pipe would be waited for
        return fail_file(name, "it is no file", err);
    }
    if (st.st_size > KS_USER_RULE_BYTES_MAX) {
        return fail_file(name, "it has more than 1,000,000 bytes", err);
    }
    size_t room = (size_t)st.st_size;
    char *bytes = ks_new(arena, char, room + 1);
    if (!bytes) {
        return fail_memory(err);
    }
    size_t used = 0;
    while (used < room) {
        ssize_t got = read(fd, bytes + used, room - used);
        if (got < 0 && errno != EINTR) {
            return fail_file(name, strerror(errno), err);
        }
        if (got == 0) {
            break;
        }
        used += got > 0 ? (size_t)got : 0;
    }
    *out = (struct ks_str){bytes, used};
    return KS_OK;
}

static enum ks_status read_file(int folder, const char *name, struct ks_arena *arena,
                                struct ks_str *out, struct ks_err *err)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return fail_file(name, strerror(errno), err);
    }
    enum ks_status status = read_bytes(fd, name, arena, out, err);
    close(fd);
    return status;
}

static enum ks_status check_unique(const struct ks_user_rules *rules, size_t index,
                                   struct ks_err *err)
{
    const struct ks_user_rule *rule = &rules->list[index];
    for (size_t i = 0; i < index; i++) {
        if (strcmp(rules->list[i].rule.id, rule->rule.id) == 0) {
            return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                           "Cannot use rule: %.80s: the id %s is that of %.80s", rule->name,
                           rule->rule.id, rules->list[i].name);
        }
    }
    return KS_OK;
}

static enum ks_status read_all(int folder, const struct names *names, struct ks_user_rules *out,
                               struct ks_arena *arena, struct ks_err *err)
{
    *out = (struct ks_user_rules){.list = ks_new(arena, struct ks_user_rule, names->count + 1)};
    if (!out->list) {
        return fail_memory(err);
    }
    for (size_t i = 0; i < names->count; i++) {
        struct ks_str text = {0};
        KS_TRY(read_file(folder, names->list[i], arena, &text, err));
        KS_TRY(ks_user_rule_parse(&out->list[i], names->list[i], text, arena, err));
        KS_TRY(check_unique(out, i, err));
        out->count++;
    }
    return KS_OK;
}

enum ks_status ks_user_rules_read(const char *path, struct ks_user_rules *out,
                                  struct ks_arena *arena, struct ks_err *err)
{
    struct stat st;
    struct names *names = ks_new(arena, struct names, 1);
    if (!names) {
        return fail_memory(err);
    }
    if (stat(path, &st) != 0) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot read rules: %s: %.120s",
                       strerror(errno), path);
    }
    if (!S_ISDIR(st.st_mode)) {
        KS_TRY(add_name(names, path, arena, err));
        return read_all(AT_FDCWD, names, out, arena, err);
    }
    KS_TRY(list_folder(path, names, arena, err));
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot read rules: %s: %.120s",
                       strerror(errno), path);
    }
    enum ks_status status = read_all(folder, names, out, arena, err);
    close(folder);
    return status;
}
