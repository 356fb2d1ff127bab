#include "run_report.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "message.h"
#include "output.h"

/* Tables beyond this lie in a file: the memory belongs to the program. */
static const uint64_t TABLE_BYTES_MAX = (uint64_t)1 << 30;

static struct ks_cli_output output;

static bool write_stderr(void *user, const char *bytes, size_t size)
{
    (void)user;
    return fwrite(bytes, 1, size, stderr) == size;
}

static void write_file(const struct ks_run_report *self, const struct ks_report *report,
                       const struct ks_report_style *style, const char *name)
{
    char path[KS_LAUNCH_PATH_SIZE + 64];
    struct ks_err err = {.offset = KS_NO_OFFSET};
    snprintf(path, sizeof(path), "%s/%s", self->out_dir, name);
    if (ks_cli_output_open(self->args, path, &output) == KS_EXIT_OK) {
        enum ks_status status = ks_report_write(report, style, ks_cli_output_write, &output, &err);
        int closed = ks_cli_output_close(self->args, &output, status, &err);
        (void)closed; /* it has said what is wrong; the next report tries again */
    }
}

static void write_files(const struct ks_run_report *self, const struct ks_report *report,
                        const struct ks_launch_window_report *window)
{
    const struct {
        enum ks_report_format format;
        const char *end;
    } kinds[] = {{KS_REPORT_SCREEN, "txt"}, {KS_REPORT_JSON, "json"}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct ks_report_style style = {.format = kinds[i].format, .ascii = !ks_cli_utf8()};
        char name[64];
        snprintf(name, sizeof(name), "report.%s", kinds[i].end);
        write_file(self, report, &style, name);
        if (self->keeps_windows && !window->has_recordings) {
            snprintf(name, sizeof(name), "report.window%lld.%s", (long long)window->window,
                     kinds[i].end);
            write_file(self, report, &style, name);
        }
    }
}

/* Does the report say what was shown before? */
static bool is_as_shown(const struct ks_run_report *self, const struct ks_report *report)
{
    bool is_same = self->bound_by && strcmp(self->bound_by, ks_report_bound_by(report)) == 0;
    for (size_t i = 0; i < KS_RUN_FINDINGS_MAX && is_same; i++) {
        const char *id = ks_report_finding_id(report, i);
        const char *shown = self->findings[i];
        is_same = id && shown ? strcmp(id, shown) == 0 : id == shown;
    }
    return is_same;
}

static void show(struct ks_run_report *self, const struct ks_report *report, int64_t window)
{
    struct ks_err err = {.offset = KS_NO_OFFSET};
    struct ks_report_style style = {
        .format = KS_REPORT_SCREEN,
        .colour = ks_cli_colour(ks_cli_value(self->args, "color"), STDERR_FILENO),
        .ascii = !ks_cli_utf8(),
        .width = ks_cli_width(STDERR_FILENO),
    };
    if (ks_report_write(report, &style, write_stderr, NULL, &err) != KS_OK) {
        ks_cli_say("%s", err.message);
    }
    self->shown_window = window;
    self->bound_by = ks_report_bound_by(report);
    for (size_t i = 0; i < KS_RUN_FINDINGS_MAX; i++) {
        self->findings[i] = ks_report_finding_id(report, i);
    }
}

static void say_what_is_there(const struct ks_run_report *self,
                              const struct ks_launch_window_report *window)
{
    const char *goes_on = window->is_program_over ? "" : "; the program goes on";
    if (window->window == 0) {
        return; // nothing but what was recorded all the time
    }
    if (window->awaited_count > 0) {
        ks_cli_say("window %lld is recorded by %zu of %zu ranks%s", (long long)window->window,
                   window->rank_count, window->rank_count + window->awaited_count, goes_on);
    } else if (window->rank_count > 1) {
        ks_cli_say("window %lld is recorded by all %zu ranks%s", (long long)window->window,
                   window->rank_count, goes_on);
    } else if (!window->is_program_over || self->keeps_windows) {
        ks_cli_say("window %lld is recorded%s", (long long)window->window, goes_on);
    }
}

static void say_verdict(struct ks_run_report *self, const struct ks_report *report,
                        const struct ks_launch_window_report *window)
{
    bool is_new = self->shown_window != window->window;
    if (is_new || !is_as_shown(self, report)) {
        say_what_is_there(self, window);
        show(self, report, window->window);
    } else if (self->shown_ranks != window->rank_count) {
        ks_cli_say("the report in %s now holds %zu ranks", self->out_dir, window->rank_count);
    }
    self->shown_ranks = window->rank_count;
}

/* Processes of one rank, one after the other or side by side, are several runs: the first is shown.
 */
static enum ks_status open_report(const struct ks_run_report *self,
                                  const struct ks_launch_window_report *window,
                                  struct ks_report **out, struct ks_err *err)
{
    struct ks_report_options options = {
        .paths = &self->out_dir,
        .path_count = 1,
        .window = window->has_recordings ? 0 : window->window, // 0: the latest, and all else
        .chunk_bytes_max = TABLE_BYTES_MAX,
        .threads = 1, // the others belong to the program
    };
    enum ks_status status = ks_report_open(&options, out, err);
    if (status == KS_ERR_USAGE) {
        char why[KS_ERR_MESSAGE_SIZE];
        memcpy(why, err->message, sizeof(why));
        options.run = 1;
        status = ks_report_open(&options, out, err);
        if (status == KS_OK) {
            ks_cli_say("%s; this is run 1", why);
        }
    }
    return status;
}

void ks_run_report_write(void *user, const struct ks_launch_window_report *window)
{
    struct ks_run_report *self = user;
    static char buffer[KS_CLI_BUFFER_SIZE];
    struct ks_err err = {.offset = KS_NO_OFFSET};
    struct ks_report *report = NULL;
    /* In one piece, so that the program's own lines come before or after it. */
    (void)setvbuf(stderr, buffer, _IOFBF, sizeof(buffer));
    if (open_report(self, window, &report, &err) == KS_OK) {
        write_files(self, report, window);
        say_verdict(self, report, window);
        ks_report_close(report);
    } else if (self->shown_window != window->window || window->has_recordings) {
        ks_cli_say("%s: %s", self->out_dir, err.message);
        self->shown_window = window->window;
    }
    (void)fflush(stderr);
}
