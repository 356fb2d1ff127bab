#include "launch/tune_advice.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/launch.h"

enum { WAIT = 6, WARMUP = 1, ACTIVE = 6, WINDOW_S = 30 };

/* The script's output goes where that of the other processes goes. */
struct outputs {
    int kept[2];
};

static void redirect(struct outputs *outputs, const char *path)
{
    (void)fflush(NULL);
    int log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (int i = 0; i < 2; i++) {
        outputs->kept[i] = fcntl(STDOUT_FILENO + i, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        if (log >= 0 && outputs->kept[i] >= 0) {
            (void)dup2(log, STDOUT_FILENO + i);
        }
    }
    if (log >= 0) {
        (void)close(log);
    }
}

static void put_back(const struct outputs *outputs)
{
    for (int i = 0; i < 2; i++) {
        if (outputs->kept[i] >= 0) {
            (void)dup2(outputs->kept[i], STDOUT_FILENO + i);
            (void)close(outputs->kept[i]);
        }
    }
}

/* The launcher stops a script when its window is reported; all we want of the report is later. */
static void take_note(void *user, const struct ks_launch_window_report *report)
{
    (void)user;
    (void)report;
}

static enum ks_status record(const struct ks_tune_options *options, const char *folder,
                             struct ks_launch_result *result, struct ks_err *err)
{
    char log[KS_LAUNCH_PATH_SIZE + 32];
    struct outputs outputs;
    struct ks_launch_options launch = {
        .words = options->words,
        .word_count = options->word_count,
        .out_dir = folder,
        .window = {.wait_count = WAIT,
                   .warmup_count = WARMUP,
                   .active_count = ACTIVE,
                   .repeat_count = 1},
        .window_seconds = WINDOW_S,
        .step_mark = options->step_mark,
        .tuned = options->base,
        .without_stacks = true,
        .stop_after = true,
        .report = take_note,
    };
    snprintf(log, sizeof(log), "%s/advice.log", options->out_dir);
    redirect(&outputs, log);
    enum ks_status status = ks_launch_run(&launch, result, err);
    put_back(&outputs);
    return status;
}

static void ask(const char *folder, struct ks_tune_advice *advice)
{
    struct ks_err err = {.offset = KS_NO_OFFSET};
    struct ks_report *report = NULL;
    struct ks_report_options options = {.paths = &folder, .path_count = 1};
    if (ks_report_open(&options, &report, &err) != KS_OK) {
        snprintf(advice->reason, sizeof(advice->reason), "%s", err.message);
        return;
    }
    const char *id;
    while (advice->count < KS_TUNE_FINDINGS_MAX &&
           (id = ks_report_finding_id(report, advice->count)) != NULL) {
        advice->ids[advice->count++] = id;
    }
    ks_report_close(report);
}

enum ks_status ks_tune_advice_get(const struct ks_tune_options *options,
                                  struct ks_tune_advice *advice, struct ks_err *err)
{
    char folder[KS_LAUNCH_PATH_SIZE + 32];
    struct ks_launch_result result;
    struct ks_err own = {.offset = KS_NO_OFFSET};
    *advice = (struct ks_tune_advice){0};
    if (options->without_advice) {
        snprintf(advice->reason, sizeof(advice->reason), "no window was wanted");
        return KS_OK;
    }
    snprintf(folder, sizeof(folder), "%s/advice", options->out_dir);
    if (mkdir(folder, 0700) != 0) {
        snprintf(advice->reason, sizeof(advice->reason), "no folder: %s", strerror(errno));
        return KS_OK;
    }
    enum ks_status status = record(options, folder, &result, &own);
    if (status == KS_ERR_NOMEM) {
        return ks_fail(err, status, KS_NO_OFFSET, "%s", own.message);
    }
    if (status == KS_OK && (result.signal == SIGINT || result.exit_status == 128 + SIGINT)) {
        /* The terminal sent it to all of us; the launcher took ours. */
        return ks_fail(err, KS_ERR_CANCELLED, KS_NO_OFFSET,
                       "Interrupted before anything was known");
    }
    if (status != KS_OK) {
        snprintf(advice->reason, sizeof(advice->reason), "%s", own.message);
        return KS_OK;
    }
    ask(folder, advice);
    return KS_OK;
}
