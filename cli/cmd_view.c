#include <spawn.h>
#include <stdio.h>
#include <string.h>

#include "interrupt.h"
#include "message.h"
#include "output.h"
#include "progress_line.h"
#include "serve/serve.h"
#include "trace_args.h"

extern char **environ;

static const char *const loopback[] = {"127.0.0.1", "::1", NULL};

/* ------------------------------------------------------------------ the address */

/* By argv and without a shell; a browser that does not come is no failure of ours. */
static void open_browser(const char *url)
{
    static char program[] = "xdg-open";
    char *argv[] = {program, (char *)(uintptr_t)url, NULL};
    pid_t pid = -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0);
    posix_spawn_file_actions_adddup2(&actions, 2, 1);
    if (posix_spawnp(&pid, program, &actions, NULL, argv, environ) != 0) {
        ks_cli_say("xdg-open cannot be started: open the address yourself");
    }
    posix_spawn_file_actions_destroy(&actions);
}

/* The address is the result of the command, so it goes to standard output, alone. */
static void say_ready(void *user, const char *url)
{
    const struct ks_cli_args *args = user;
    const char *socket_path = ks_cli_value(args, "unix");
    ks_cli_progress_stop();
    (void)printf("%s\n", url);
    (void)fflush(stdout);
    if (socket_path) {
        ks_cli_say("served on %s; on your own machine: ssh -L 8000:%s HOST, then this address with "
                   "localhost:8000",
                   socket_path, socket_path);
    } else if (!ks_cli_given(args, "quiet")) {
        ks_cli_say("open this address in a browser; it works once. Ctrl-C ends it");
    }
    if (ks_cli_given(args, "open")) {
        open_browser(url);
    }
}

/* ------------------------------------------------------------------ options */

static bool is_loopback(const char *host)
{
    for (size_t i = 0; loopback[i]; i++) {
        if (strcmp(host, loopback[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int read_where(const struct ks_cli_args *args, struct ks_serve_options *serve)
{
    enum { PORT_MAX = 65535, IDLE_SECONDS_MAX = 1000 * 1000 * 1000 };
    int64_t port = 0;
    int64_t idle_seconds = 0;
    serve->host = ks_cli_value(args, "host");
    serve->socket_path = ks_cli_value(args, "unix");
    if (serve->socket_path && (serve->host || ks_cli_given(args, "port"))) {
        return ks_cli_usage_fail(args, "Cannot use --unix with --host or --port");
    }
    if (ks_cli_given(args, "open") && ks_cli_given(args, "no-open")) {
        return ks_cli_usage_fail(args, "Cannot use --open with --no-open");
    }
    if (ks_cli_given(args, "open") && serve->socket_path) {
        return ks_cli_usage_fail(args, "Cannot use --open with --unix: no browser opens a socket");
    }
    int status = ks_cli_number(args, "port", 0, PORT_MAX, &port);
    if (status == KS_EXIT_OK) {
        status = ks_cli_number(args, "idle-timeout", 1, IDLE_SECONDS_MAX, &idle_seconds);
    }
    serve->port = (uint16_t)port;
    serve->idle_ms = idle_seconds * 1000;
    if (status == KS_EXIT_OK && serve->host && !is_loopback(serve->host)) {
        ks_cli_say("warning: %s can be reached from other machines; what they see is kept from "
                   "them by the token alone, and nothing is encrypted",
                   serve->host);
    }
    return status;
}

static int read_options(const struct ks_cli_args *args, struct ks_report_options *options)
{
    int status = ks_cli_read_report(args, options);
    if (status == KS_EXIT_OK) {
        status = ks_cli_threads(args, &options->threads);
    }
    return status == KS_EXIT_OK ? ks_cli_read_paths(args, args->operand_count, options) : status;
}

/* ------------------------------------------------------------------ the command */

/* What a signal must take away, too. */
static void hold_socket(const char *path)
{
    ks_cli_interrupt_hold();
    ks_cli_interrupt_let_go(path);
}

static int serve_report(const struct ks_cli_args *args, struct ks_report_options *options,
                        struct ks_serve_options *serve)
{
    struct ks_err err = {.offset = KS_NO_OFFSET};
    if (ks_report_input_mark(options, serve->input_mark, &err) != KS_OK) {
        serve->input_mark[0] = '\0'; /* opening says what is wrong, if anything is */
    }
    int status = ks_cli_open_report(args, options, &serve->report);
    if (status != KS_EXIT_OK) {
        return status;
    }
    serve->report_options = options;
    serve->ready = say_ready;
    serve->user = (void *)(uintptr_t)args;
    serve->log = options->log;
    serve->log_user = options->log_user;
    hold_socket(serve->socket_path);
    enum ks_status served = ks_serve(serve, &err);
    hold_socket(NULL);
    ks_cli_progress_stop();
    return served == KS_OK ? KS_EXIT_OK : ks_cli_fail(args, &err, NULL);
}

static int run(const struct ks_cli_args *args)
{
    struct ks_report_options options = {0};
    struct ks_serve_options serve = {0};
    struct ks_err err = {.offset = KS_NO_OFFSET};
    if (ks_serve_check(&err) != KS_OK) {
        return ks_cli_fail(args, &err, NULL);
    }
    int status = read_where(args, &serve);
    if (status == KS_EXIT_OK) {
        status = read_options(args, &options);
    }
    return status == KS_EXIT_OK ? serve_report(args, &options, &serve) : status;
}

const struct ks_cli_command ks_cmd_view = {
    .name = "view",
    .summary = "Show the report as a page in the browser, with every span, while it is recorded.",
    .operands = "PATH...",
    .operands_min = 1,
    .operands_max = SIZE_MAX,
    .details =
        "PATH is what kscope report takes. The page is that of kscope report --html; the timeline "
        "shows every span of the trace wherever one looks, and when the input changes, as the "
        "folder of a kscope run does, the page shows the newer report.\n\n"
        "Prints the address of the page, which holds a token, and serves it to this machine alone "
        "until Ctrl-C, or until who started it has ended. The token works once: the browser that "
        "opens the address first gets a cookie for it, and nobody else does.",
    .examples =
        (const struct ks_cli_example[]){
            {"view trace.json.gz", "Print the address of its page."},
            {"view --open kscope-train-20260101/", "A run, also while it goes on; in the browser."},
            {"view --unix /tmp/page.sock log/",
             "On a machine that others use, to reach by ssh -L."},
            {NULL, NULL},
        },
    .options =
        (const struct ks_cli_option[]){
            {"port", 'p', "N", NULL, "Listen on this port; else on one that is free."},
            {"open", 0, NULL, NULL, "Open the page in the browser (xdg-open)."},
            {"no-open", 0, NULL, NULL, "Only print the address, as without --open."},
            {"host", 0, "ADDRESS", NULL,
             "Listen on this address instead of loopback. Others can then reach it: a warning says "
             "so."},
            {"unix", 0, "SOCKET", NULL,
             "Listen on a Unix socket that only you can open, instead of a port."},
            {"idle-timeout", 0, "SECONDS", NULL,
             "End when no page was open or asked for so long; else never."},
            KS_CLI_OPTION_RUN,
            KS_CLI_OPTION_WINDOW,
            KS_CLI_OPTION_STRICT,
            KS_CLI_OPTION_MEMORY,
            KS_CLI_OPTION_CACHE,
            KS_CLI_OPTION_NO_CACHE,
            KS_CLI_OPTION_THREADS,
            KS_CLI_OPTION_QUIET,
            KS_CLI_OPTION_VERBOSE,
            {NULL, 0, NULL, NULL, NULL},
        },
    .run = run,
};
