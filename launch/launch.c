#include "launch/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "launch/command_line.h"
#include "launch/hook_dir.h"
#include "launch/reporter.h"
#include "launch/supervise.h"

/* All that the child needs, made ready before fork. */
struct plan {
    struct ks_command_line line;
    char hook_dir[KS_LAUNCH_PATH_SIZE];
    char out_dir[KS_LAUNCH_PATH_SIZE];
    char *python_path;
};

/* 0 leaves the hook its default. */
static bool set_number(const char *name, uint64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return value > 0 ? setenv(name, text, 1) == 0 : unsetenv(name) == 0;
}

/* NULL and "" leave it unset. */
static bool set_text(const char *name, const char *text)
{
    return text && *text ? setenv(name, text, 1) == 0 : unsetenv(name) == 0;
}

/* What the hook is to know. False when there is no memory. */
static bool set_environment(const struct plan *plan, const struct ks_launch_options *options)
{
    char steps[KS_LAUNCH_WINDOW_TEXT_SIZE];
    ks_launch_window_format(options->window, steps);
    return setenv("PYTHONPATH", plan->python_path, 1) == 0 && setenv("KSCOPE_RUN", "1", 1) == 0 &&
           setenv("KSCOPE_OUT", plan->out_dir, 1) == 0 && setenv("KSCOPE_STEPS", steps, 1) == 0 &&
           set_text("KSCOPE_STACKS", options->without_stacks ? "0" : NULL) &&
           set_number("KSCOPE_WINDOW_SECONDS", options->window_seconds) &&
           set_number("KSCOPE_WINDOW_BYTES", options->window_bytes) &&
           set_text("KSCOPE_STEP_MARK", options->step_mark) &&
           set_text("KSCOPE_RECORD", options->record) && set_text("KSCOPE_TUNED", options->tuned);
}

static enum ks_status make_plan(struct plan *plan, const struct ks_launch_options *options,
                                struct ks_err *err)
{
    KS_TRY(ks_hook_dir_find(plan->hook_dir, err));
    if (!realpath(options->out_dir, plan->out_dir)) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot use folder: path=\"%.120s\", %s",
                       options->out_dir, strerror(errno));
    }
    KS_TRY(ks_hook_dir_python_path(plan->hook_dir, &plan->python_path, err));
    return ks_command_line_init(&plan->line, options->words, options->word_count, err);
}

/* In the child: becomes the program, or tells the parent why not. */
static _Noreturn void become_program(struct plan *plan, const struct ks_launch_options *options,
                                     const struct ks_supervise *supervise, int report_fd)
{
    int failure = ENOMEM;
    ks_supervise_restore_in_child(supervise);
    if (set_environment(plan, options)) {
        for (size_t i = 0; i < plan->line.program_count; i++) {
            const char *program = plan->line.programs[i];
            plan->line.argv[0] = (char *)(uintptr_t)program;
            execvp(program, plan->line.argv);
            failure = errno;
            if (failure != ENOENT) {
                break;
            }
        }
    }
    ssize_t written = write(report_fd, &failure, sizeof(failure));
    _exit(written == (ssize_t)sizeof(failure) ? 126 : 125);
}

/* The errno of a failed exec, or 0: a successful exec closes the pipe without a word. */
static int read_start_errno(int fd)
{
    int failure = 0;
    ssize_t got;
    do {
        got = read(fd, &failure, sizeof(failure));
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)sizeof(failure) ? failure : 0;
}

static enum ks_status start_and_wait(struct plan *plan, const struct ks_launch_options *options,
                                     struct ks_launch_result *result, struct ks_err *err)
{
    struct ks_supervise supervise;
    struct ks_reporter reporter = {.stop_fd = -1};
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot make a pipe: %s", strerror(errno));
    }

    ks_supervise_begin(&supervise);
    enum ks_status status;
    pid_t child = fork();
    if (child == 0) {
        become_program(plan, options, &supervise, report[1]);
    }
    close(report[1]);
    if (child < 0) {
        status = ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot fork: %s", strerror(errno));
    } else {
        result->start_errno = read_start_errno(report[0]);
        if (result->start_errno == 0) {
            ks_reporter_start(&reporter, options, plan->out_dir, child);
        }
        status = ks_supervise_wait(child, &reporter, result, err);
    }
    close(report[0]);
    ks_supervise_end(&supervise);
    ks_reporter_finish(&reporter, &result->is_reported); /* a second Ctrl-C ends us, and it */

    if (status == KS_OK && result->start_errno != 0) {
        result->exit_status = result->start_errno == ENOENT ? 127 : 126;
    }
    return status;
}

enum ks_status ks_launch_run(const struct ks_launch_options *options,
                             struct ks_launch_result *result, struct ks_err *err)
{
    struct plan plan = {0};
    *result = (struct ks_launch_result){0};
    enum ks_status status = make_plan(&plan, options, err);
    if (status == KS_OK) {
        status = start_and_wait(&plan, options, result, err);
    }
    ks_command_line_release(&plan.line);
    ks_free(plan.python_path);
    return status;
}
