#include "trace_args.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interrupt.h"
#include "message.h"
#include "progress_line.h"

int ks_cli_read_steps(const struct ks_cli_args *args, const char *option,
                      struct ks_report_options *options)
{
    const char *text = ks_cli_value(args, option);
    if (!text) {
        return KS_EXIT_OK;
    }
    char first[24] = "";
    const char *dots = strstr(text, "..");
    const char *dash = dots || !*text ? NULL : strchr(text + 1, '-');
    const char *end = dots ? dots : dash;
    size_t len = end ? (size_t)(end - text) : strlen(text);
    if (len < sizeof(first)) {
        memcpy(first, text, len);
    }
    const char *last = dots ? dots + 2 : dash ? dash + 1 : first;
    options->step_range_given = true;
    options->step_first = INT64_MIN;
    options->step_last = INT64_MAX;
    bool is_good = len < sizeof(first) && (*first || *last) &&
                   (!*first || ks_cli_parse_number(first, &options->step_first)) &&
                   (!*last || ks_cli_parse_number(last, &options->step_last)) &&
                   options->step_first <= options->step_last;
    if (!is_good) {
        return ks_cli_usage_fail(args, "Cannot use --%s %s: it must be N, N..M, N.. or ..M", option,
                                 text);
    }
    return KS_EXIT_OK;
}

int ks_cli_check_file(const struct ks_cli_args *args, const char *target)
{
    struct stat there;
    if (!target || strcmp(target, "-") == 0 || stat(target, &there) != 0) {
        return KS_EXIT_OK;
    }
    for (size_t i = 0; i < args->operand_count; i++) {
        struct stat input;
        if (S_ISREG(there.st_mode) && stat(args->operands[i], &input) == 0 &&
            input.st_dev == there.st_dev && input.st_ino == there.st_ino) {
            return ks_cli_usage_fail(args, "Cannot write to %s: it is an input", target);
        }
    }
    return KS_EXIT_OK;
}

int ks_cli_check_target(const struct ks_cli_args *args)
{
    return ks_cli_check_file(args, ks_cli_value(args, "output"));
}

int ks_cli_check_target_in_folders(const struct ks_cli_args *args)
{
    const char *target = ks_cli_value(args, "output");
    char file[PATH_MAX];
    if (!target || !realpath(target, file)) {
        return KS_EXIT_OK;
    }
    for (size_t i = 0; i < args->operand_count; i++) {
        struct stat input;
        char folder[PATH_MAX];
        bool is_folder = stat(args->operands[i], &input) == 0 && S_ISDIR(input.st_mode) &&
                         realpath(args->operands[i], folder);
        size_t len = is_folder ? strlen(folder) : 0;
        if (is_folder && strncmp(file, folder, len) == 0 && (file[len] == '/' || len == 1)) {
            return ks_cli_usage_fail(args, "Cannot write to %s: it may be an input of %s", target,
                                     args->operands[i]);
        }
    }
    return KS_EXIT_OK;
}

int ks_cli_check_keyboard(const struct ks_cli_args *args, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(args->operands[i], "-") == 0 && isatty(STDIN_FILENO)) {
            return ks_cli_usage_fail(args, "Cannot read a trace from the keyboard");
        }
    }
    return KS_EXIT_OK;
}

int ks_cli_read_paths(const struct ks_cli_args *args, size_t count,
                      struct ks_report_options *options)
{
    options->paths = (const char *const *)args->operands;
    options->path_count = count;
    return ks_cli_check_keyboard(args, count);
}

int ks_cli_read_report(const struct ks_cli_args *args, struct ks_report_options *options)
{
    static bool is_verbose; /* the log may be written until the report is closed */
    is_verbose = ks_cli_given(args, "verbose");
    options->strict = ks_cli_given(args, "strict");
    options->log = ks_cli_log;
    options->log_user = &is_verbose;
    int status = ks_cli_number(args, "run", 1, INT32_MAX, &options->run);
    if (status == KS_EXIT_OK) {
        status = ks_cli_number(args, "window", 1, INT32_MAX, &options->window);
    }
    if (status == KS_EXIT_OK) {
        status = ks_cli_size(args, "memory", &options->memory_bytes_max);
    }
    return status == KS_EXIT_OK ? ks_cli_cache(args, options) : status;
}

int ks_cli_open_report(const struct ks_cli_args *args, struct ks_report_options *options,
                       struct ks_report **report)
{
    struct ks_err err = {.offset = KS_NO_OFFSET};
    ks_cli_interrupt_watch();
    options->progress = ks_cli_progress_start(args);
    if (ks_report_open(options, report, &err) == KS_OK) {
        return KS_EXIT_OK;
    }
    ks_cli_progress_stop();
    return ks_cli_fail(args, &err, options->path_count == 1 ? options->paths[0] : NULL);
}

bool ks_cli_parse_ms(const char *text, char end, int64_t *ns)
{
    enum { DECIMALS = 6, DIGITS_MAX = 12 }; /* 31 years */
    int64_t value = 0;
    size_t whole = strspn(text, "0123456789");
    if (whole == 0 || whole > DIGITS_MAX) {
        return false;
    }
    for (size_t i = 0; i < whole; i++) {
        value = value * 10 + (text[i] - '0');
    }
    const char *at = text + whole;
    at += *at == '.';
    for (int i = 0; i < DECIMALS; i++) {
        bool is_digit = at > text + whole && *at >= '0' && *at <= '9';
        value = value * 10 + (is_digit ? *at++ - '0' : 0);
    }
    *ns = value;
    return *at == end;
}

bool ks_cli_wants_gzip(const struct ks_cli_args *args)
{
    const char *target = ks_cli_value(args, "output");
    size_t len = target ? strlen(target) : 0;
    return len > 3 && strcmp(target + len - 3, ".gz") == 0;
}
