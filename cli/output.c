#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interrupt.h"
#include "message.h"

static int fail_output(const struct ks_cli_args *args, const char *verb, const char *path,
                       int error)
{
    struct ks_err failure = {.status = KS_ERR_IO, .offset = KS_NO_OFFSET};
    snprintf(failure.message, sizeof(failure.message), "Cannot %s output: %s", verb,
             strerror(error));
    (void)ks_cli_fail(args, &failure, path);
    return KS_EXIT_OWN;
}

static void remove_temporary(const struct ks_cli_output *output)
{
    ks_cli_interrupt_hold();
    (void)unlink(output->temporary);
    ks_cli_interrupt_let_go(NULL);
}

/* Gives the file the name of its target. */
static int rename_temporary(const struct ks_cli_output *output)
{
    ks_cli_interrupt_hold();
    int error = rename(output->temporary, output->path) == 0 ? 0 : errno;
    ks_cli_interrupt_let_go(error ? output->temporary : NULL);
    return error;
}

/* Opens a new file beside the target; its mode is that of the target, or what umask leaves. */
static int open_temporary(struct ks_cli_output *output, const struct stat *target, bool is_there)
{
    int len = snprintf(output->temporary, sizeof(output->temporary), "%s.XXXXXX", output->path);
    if (len < 0 || (size_t)len >= sizeof(output->temporary)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    ks_cli_interrupt_hold();
    int fd = mkostemp(output->temporary, O_CLOEXEC);
    ks_cli_interrupt_let_go(fd < 0 ? NULL : output->temporary);
    if (fd < 0) {
        return -1;
    }
    mode_t mask = umask(0);
    umask(mask);
    mode_t mode = is_there ? target->st_mode & 0777 : 0666 & ~mask;
    if (fchmod(fd, mode) != 0) {
        int error = errno;
        close(fd);
        remove_temporary(output);
        errno = error;
        return -1;
    }
    return fd;
}

int ks_cli_output_open(const struct ks_cli_args *args, const char *path,
                       struct ks_cli_output *output)
{
    output->fd = STDOUT_FILENO;
    output->error = 0;
    output->used = 0;
    output->path[0] = output->temporary[0] = '\0';
    output->shown = "standard output";
    if (!path || strcmp(path, "-") == 0) {
        return KS_EXIT_OK;
    }
    output->shown = path;

    struct stat target;
    bool is_there = stat(path, &target) == 0;
    if (is_there && S_ISDIR(target.st_mode)) {
        return fail_output(args, "write", path, EISDIR);
    }
    if (is_there && !S_ISREG(target.st_mode)) { /* a device or a pipe is written itself */
        output->fd = open(path, O_WRONLY | O_CLOEXEC);
        return output->fd < 0 ? fail_output(args, "open", path, errno) : KS_EXIT_OK;
    }
    /* Through a link the file behind it is replaced, not the link. */
    if (is_there ? !realpath(path, output->path) : strlen(path) >= sizeof(output->path)) {
        return fail_output(args, "open", path, is_there ? errno : ENAMETOOLONG);
    }
    if (!is_there) {
        memcpy(output->path, path, strlen(path) + 1);
    }
    output->fd = open_temporary(output, &target, is_there);
    return output->fd < 0 ? fail_output(args, "create", path, errno) : KS_EXIT_OK;
}

bool ks_cli_output_flush(struct ks_cli_output *output)
{
    size_t done = 0;
    while (done < output->used && output->error == 0) {
        ssize_t size = write(output->fd, output->buffer + done, output->used - done);
        if (size < 0 && errno != EINTR) {
            output->error = errno;
        }
        done += size > 0 ? (size_t)size : 0;
    }
    output->used = 0;
    return output->error == 0;
}

bool ks_cli_output_write(void *user, const char *bytes, size_t size)
{
    struct ks_cli_output *output = user;
    while (size > 0 && output->error == 0) {
        size_t room = sizeof(output->buffer) - output->used;
        size_t part = size < room ? size : room;
        memcpy(output->buffer + output->used, bytes, part);
        output->used += part;
        bytes += part;
        size -= part;
        if (output->used == sizeof(output->buffer)) {
            ks_cli_output_flush(output);
        }
    }
    return output->error == 0;
}

int ks_cli_output_close(const struct ks_cli_args *args, struct ks_cli_output *output,
                        enum ks_status status, const struct ks_err *err)
{
    bool is_done = status == KS_OK && ks_cli_output_flush(output);
    bool is_file = output->fd != STDOUT_FILENO;
    if (is_file && close(output->fd) != 0 && output->error == 0) {
        output->error = errno;
    }
    if (is_done && output->error == 0 && output->temporary[0]) {
        output->error = rename_temporary(output);
    }
    if (output->temporary[0] && (!is_done || output->error != 0)) {
        remove_temporary(output);
    }
    if (output->error == EPIPE) {
        return KS_EXIT_PIPE; /* the reader left, which is its right: no message */
    }
    if (output->error != 0) {
        return fail_output(args, "write", output->shown, output->error);
    }
    return status == KS_OK ? KS_EXIT_OK : ks_cli_fail(args, err, NULL);
}

void ks_cli_output_drop(struct ks_cli_output *output)
{
    if (output->fd != STDOUT_FILENO) {
        (void)close(output->fd);
    }
    if (output->temporary[0]) {
        remove_temporary(output);
    }
}

/* An empty variable counts as not set. */
static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value;
}

bool ks_cli_colour(const char *when, int fd)
{
    if (when && strcmp(when, "auto") != 0) {
        return strcmp(when, "always") == 0;
    }
    if (is_set("NO_COLOR")) {
        return false;
    }
    const char *force = is_set("FORCE_COLOR") ? getenv("FORCE_COLOR") : getenv("CLICOLOR_FORCE");
    if (force && *force && strcmp(force, "0") != 0) {
        return true;
    }
    const char *term = getenv("TERM");
    return isatty(fd) && !(term && strcmp(term, "dumb") == 0);
}

size_t ks_cli_width(int fd)
{
    struct winsize size;
    if (!isatty(fd) || ioctl(fd, TIOCGWINSZ, &size) != 0) {
        return 0;
    }
    return size.ws_col;
}

bool ks_cli_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (is_set(names[i])) {
            const char *value = getenv(names[i]);
            return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
        }
    }
    return false;
}
