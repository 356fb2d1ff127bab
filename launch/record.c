#include "launch/record.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

const char *const ks_launch_record_words[KS_LAUNCH_RECORD_WORDS] = {"regions", "functions",
                                                                    "samples", "monitor"};

static bool is_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(text, word, len) == 0;
}

static bool is_known(const char *text, size_t len)
{
    bool is_found = false;
    for (size_t i = 0; i < KS_LAUNCH_RECORD_WORDS; i++) {
        is_found |= is_word(text, len, ks_launch_record_words[i]);
    }
    return is_found;
}

enum ks_status ks_launch_record_check(const char *text, struct ks_err *err)
{
    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ",");
        if (!is_known(at, len)) {
            return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET,
                           "\"%.*s\" is no word of it: it takes regions, functions, samples "
                           "and monitor, with commas between them",
                           len < 40 ? (int)len : 40, at);
        }
        at += len;
        if (*at == '\0') {
            return KS_OK;
        }
    }
}

bool ks_launch_record_has(const char *text, const char *word)
{
    for (const char *at = text; at; at = *at ? at + 1 : NULL) {
        size_t len = strcspn(at, ",");
        if (is_word(at, len, word)) {
            return true;
        }
        at += len;
    }
    return false;
}

bool ks_launch_record_is_of_all(const char *text)
{
    return ks_launch_record_has(text, "functions") || ks_launch_record_has(text, "samples") ||
           ks_launch_record_has(text, "monitor");
}

static bool ends_with(const char *name, const char *end)
{
    size_t len = strlen(name);
    return len > strlen(end) && strcmp(name + len - strlen(end), end) == 0;
}

size_t ks_launch_record_count(const char *out_dir)
{
    size_t count = 0;
    DIR *dir = opendir(out_dir);
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        count += ends_with(entry->d_name, ".ksrec");
    }
    if (dir) {
        closedir(dir);
    }
    return count;
}

static bool is_reason(const char *name)
{
    static const char BEGIN[] = "kscope-recording.pid";
    return strncmp(name, BEGIN, strlen(BEGIN)) == 0 && ends_with(name, ".txt");
}

/* The first line; "" when it cannot be read. */
static void read_line(int dir_fd, const char *name, char *line, size_t size)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, line, size - 1) : 0;
    line[got > 0 ? got : 0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (fd >= 0) {
        close(fd);
    }
}

size_t ks_launch_record_reason(const char *out_dir, char *line, size_t size)
{
    size_t count = 0;
    DIR *dir = opendir(out_dir);
    *line = '\0';
    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        if (is_reason(entry->d_name)) {
            read_line(dirfd(dir), entry->d_name, line, size);
            count++;
        }
    }
    if (dir) {
        closedir(dir);
    }
    return count;
}
