#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "interrupt.h"
#include "message.h"
#include "output.h"
#include "trace_args.h"

/* The program that is watched goes first. */
enum { NICENESS = 10 };

static const int64_t INTERVAL_MS = 1000;
static const int64_t INTERVAL_MS_MIN = 100;
static const int64_t INTERVAL_MS_MAX = 3600 * 1000;

struct viewer {
    const struct ks_cli_args *args;
    struct ks_live *live;
    struct ks_live_style style;
    bool is_repainted; /* each picture takes the place of the one before */
    size_t line_count; /* of that one */
};

static struct ks_cli_output output;
/* A picture that begins where the last one did would hit other lines then. */
static volatile sig_atomic_t must_begin_anew;

static void on_resize(int number)
{
    must_begin_anew = number;
}

static void watch_terminal(void)
{
    struct sigaction action = {.sa_handler = on_resize, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGWINCH, &action, NULL);
    (void)sigaction(SIGCONT, &action, NULL);
}

/* ------------------------------------------------------------------ one picture */

static bool put_text(const char *text)
{
    return ks_cli_output_write(&output, text, strlen(text));
}

/* Over the last picture, line by line, so that nothing flickers, and nothing is left to be put
 * right when we are ended in the middle. */
static bool paint(void *user, const char *bytes, size_t size)
{
    struct viewer *viewer = user;
    bool is_good = true;
    while (size > 0 && is_good) {
        const char *feed = memchr(bytes, '\n', size);
        size_t len = feed ? (size_t)(feed - bytes) : size;
        is_good = ks_cli_output_write(&output, bytes, len) && (!feed || put_text("\033[K\n"));
        viewer->line_count += feed != NULL;
        bytes += len + (feed != NULL);
        size -= len + (feed != NULL);
    }
    return is_good;
}

/* Back to where the last picture began. */
static void go_up(struct viewer *viewer)
{
    char up[32] = "";
    if (must_begin_anew == SIGWINCH && viewer->line_count > 0) {
        snprintf(up, sizeof(up), "\033[H\033[2J"); /* its lines may be broken now */
    } else if (!must_begin_anew && viewer->line_count > 0) {
        snprintf(up, sizeof(up), "\033[%zuA\r", viewer->line_count);
    }
    must_begin_anew = 0;
    viewer->line_count = 0;
    (void)put_text(up);
}

static void measure_terminal(struct viewer *viewer)
{
    struct winsize size;
    viewer->style.width = ks_cli_width(STDOUT_FILENO);
    viewer->style.height = 0;
    if (viewer->is_repainted && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1) {
        viewer->style.height = size.ws_row - 1U; /* the cursor needs one */
    }
}

static enum ks_status show(struct viewer *viewer, struct ks_err *err)
{
    measure_terminal(viewer);
    if (viewer->is_repainted) {
        go_up(viewer);
    }
    enum ks_status status =
        viewer->is_repainted
            ? ks_live_write(viewer->live, &viewer->style, paint, viewer, err)
            : ks_live_write(viewer->live, &viewer->style, ks_cli_output_write, &output, err);
    if (viewer->is_repainted) {
        (void)put_text("\033[J");
    }
    return ks_cli_output_flush(&output) ? status : KS_ERR_IO;
}

/* ------------------------------------------------------------------ again and again */

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Until the next look, or until somebody changes the size of the terminal. */
static void wait_until(int64_t due_ms)
{
    int64_t left_ms = due_ms - now_ms();
    while (left_ms > 0 && !must_begin_anew) {
        (void)poll(NULL, 0, (int)left_ms);
        left_ms = due_ms - now_ms();
    }
}

/* A picture first: reading a large window takes seconds. */
static enum ks_status look_and_show(struct viewer *viewer, bool is_first_shown, struct ks_err *err)
{
    enum ks_status status = KS_OK;
    if (ks_live_is_report_due(viewer->live)) {
        status = is_first_shown ? show(viewer, err) : KS_OK;
        ks_live_read_report(viewer->live);
    }
    return status == KS_OK ? show(viewer, err) : status;
}

static enum ks_status follow(struct viewer *viewer, int64_t interval_ms, struct ks_err *err)
{
    bool is_screen = viewer->is_repainted;
    enum ks_status status = look_and_show(viewer, is_screen, err);
    while (status == KS_OK && ks_live_state(viewer->live) != KS_LIVE_OVER) {
        wait_until(now_ms() + interval_ms);
        status = ks_live_look(viewer->live, err);
        status = status == KS_OK ? look_and_show(viewer, is_screen, err) : status;
    }
    return status;
}

/* ------------------------------------------------------------------ the command */

/* "0.5": seconds with up to three decimals that count. */
static int read_interval(const struct ks_cli_args *args, int64_t *interval_ms)
{
    const char *text = ks_cli_value(args, "interval");
    int64_t us = 0;
    *interval_ms = INTERVAL_MS;
    if (!text) {
        return KS_EXIT_OK;
    }
    bool is_number = ks_cli_parse_ms(text, '\0', &us); /* a thousandth of the unit, times 1,000 */
    *interval_ms = us / 1000;
    if (!is_number || *interval_ms < INTERVAL_MS_MIN || *interval_ms > INTERVAL_MS_MAX) {
        return ks_cli_usage_fail(args, "Cannot use --interval %s: it must be 0.1 to 3600 seconds",
                                 text);
    }
    return KS_EXIT_OK;
}

static int run(const struct ks_cli_args *args)
{
    static bool is_verbose;
    int64_t interval_ms = 0;
    struct ks_err err = {.offset = KS_NO_OFFSET};
    struct ks_report_options options = {.log = ks_cli_log, .log_user = &is_verbose};
    struct viewer viewer = {.args = args};
    int wrong = read_interval(args, &interval_ms);
    wrong = wrong == KS_EXIT_OK ? ks_cli_cache(args, &options) : wrong;
    wrong = wrong == KS_EXIT_OK ? ks_cli_output_open(args, NULL, &output) : wrong;
    if (wrong != KS_EXIT_OK) {
        return wrong;
    }
    viewer.style.json = ks_cli_given(args, "json");
    viewer.style.colour =
        !viewer.style.json && ks_cli_colour(ks_cli_value(args, "color"), STDOUT_FILENO);
    viewer.style.ascii = !ks_cli_utf8();
    bool is_once = ks_cli_given(args, "once") || (!viewer.style.json && !isatty(STDOUT_FILENO));
    viewer.is_repainted = !viewer.style.json && !is_once;
    (void)setpriority(PRIO_PROCESS, 0, NICENESS);
    if (ks_live_open(args->operands[0], &options, &viewer.live, &err) != KS_OK) {
        return ks_cli_fail(args, &err, args->operands[0]);
    }
    ks_cli_interrupt_watch();
    if (viewer.is_repainted) {
        watch_terminal();
    }
    enum ks_status status =
        is_once ? look_and_show(&viewer, false, &err) : follow(&viewer, interval_ms, &err);
    ks_live_close(viewer.live);
    return ks_cli_output_close(args, &output, status, &err);
}

const struct ks_cli_command ks_cmd_live = {
    .name = "live",
    .summary = "Watch a program under kscope run: steps a second, where a step's time goes, ranks, "
               "CPU, memory and GPUs.",
    .operands = "DIR",
    .operands_min = 1,
    .operands_max = 1,
    .details =
        "DIR is the folder of a kscope run, which names it with --out. The picture is painted anew "
        "about once a second, until the run is over or Ctrl-C; the program does not notice. Where "
        "standard output is no terminal there is one picture.\n\n"
        "With --json each look is one line, a document of docs/live.schema.json.",
    .examples =
        (const struct ks_cli_example[]){
            {"live out", "Beside: kscope run --out out train.py"},
            {"live --once out", "How far it is, once."},
            {"live --json --interval 10 out", "A line every ten seconds, for scripts."},
            {NULL, NULL},
        },
    .options =
        (const struct ks_cli_option[]){
            {"once", 0, NULL, NULL, "One look, and the end."},
            {"interval", 0, "SECONDS", NULL, "Time between two looks; 1 unless given."},
            KS_CLI_OPTION_JSON,
            KS_CLI_OPTION_CACHE,
            KS_CLI_OPTION_NO_CACHE,
            KS_CLI_OPTION_COLOR,
            {NULL, 0, NULL, NULL, NULL},
        },
    .run = run,
};
