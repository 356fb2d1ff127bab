#include "launch/reporter.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch/clock.h"
#include "launch/monitor.h"
#include "launch/record.h"
#include "launch/schedule.h"

/* With a niceness of 10, the report of a trace of 300 MiB beside four busy processes on two cores
 * took 16 s, with 5 it takes 5 s. */
enum {
    NICENESS = 5,
    OOM_SCORE = 1000, /* with less, a program that holds most of the memory would go before us */
    LOOK_MS = 1000,   /* file systems of other machines tell of nothing: so we look */
    PAUSE_MS = 200,   /* between two looks, however much happens in the folder */
    AGAIN_S = 5,      /* between two reports of the same window */
};

/* State of the reporter's process. */
struct watch {
    const struct ks_launch_options *options;
    const char *out_dir;
    pid_t parent;
    int stop_fd;
    int notify_fd; /* -1: no inotify */
    struct ks_monitor monitor;
    struct ks_window_state reported; /* the last window, as it was reported */
    int64_t reported_at_ns;
    int64_t seen_number; /* the window that is next, and when it was first seen */
    int64_t seen_at_ns;
};

/* ------------------------------------------------------------------ becoming the reporter */

/* Neither the terminal nor a signal for the program's group may end or stop us. */
static void settle_signals(void)
{
    static const int ignored[] = {SIGINT,  SIGQUIT, SIGHUP,  SIGPIPE, SIGTSTP,
                                  SIGTTIN, SIGTTOU, SIGUSR1, SIGUSR2, SIGXFSZ};
    sigset_t none;
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
        (void)signal(ignored[i], SIG_IGN);
    }
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGCHLD, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Kernels before 5.9 close one after the other; who holds more than a thousand is not served. */
static void close_all(int first, int last)
{
    enum { LAST_MAX = 1023 };
    if (close_range((unsigned)first, (unsigned)last, 0) != 0) {
        for (int fd = first; fd <= last && fd <= LAST_MAX; fd++) {
            (void)close(fd);
        }
    }
}

/* stderr stays, to say the verdict; nothing else that our starter holds may stay open in us. */
static void let_go_of_files(int stop_fd)
{
    int null_fd = open("/dev/null", O_RDWR);
    if (null_fd >= 0) {
        (void)dup2(null_fd, STDIN_FILENO);
        (void)dup2(null_fd, STDOUT_FILENO);
    }
    if (fcntl(STDERR_FILENO, F_GETFD) < 0) { /* else a file of ours would get its number */
        (void)dup2(STDIN_FILENO, STDERR_FILENO);
    }
    if (stop_fd > STDERR_FILENO + 1) {
        close_all(STDERR_FILENO + 1, stop_fd - 1);
    }
    close_all(stop_fd + 1, INT_MAX);
}

static void take_back_seat(void)
{
    char text[16];
    (void)setpgid(0, 0); /* no session of its own: there, niceness would count for nothing */
    (void)setpriority(PRIO_PROCESS, 0, NICENESS);
    (void)prctl(PR_SET_NAME, "kscope-report");
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        int len = snprintf(text, sizeof(text), "%d\n", OOM_SCORE);
        ssize_t written = write(fd, text, (size_t)len);
        (void)written; /* it works without, too */
        close(fd);
    }
}

/* ------------------------------------------------------------------ waiting */

static void drain(int fd)
{
    char events[4096];
    while (read(fd, events, sizeof(events)) > 0) {
    }
}

/* Waits until something happens in the folder, at most until `until_ns`. False: the program has
 * ended, or our parent has. */
static bool wait_for_change(struct watch *watch, int64_t until_ns)
{
    struct pollfd fds[2] = {{.fd = watch->stop_fd, .events = POLLIN},
                            {.fd = watch->notify_fd, .events = POLLIN}};
    int64_t left_ms = (until_ns - ks_clock_ns(CLOCK_MONOTONIC)) / 1000000 + 1;
    int timeout_ms = left_ms < 0 ? 0 : left_ms > LOOK_MS ? LOOK_MS : (int)left_ms;
    int count = poll(fds, 2, timeout_ms);
    if (count > 0 && fds[1].revents != 0) {
        drain(watch->notify_fd);
        if (fds[0].revents == 0) { /* more of the same comes at once: a status file, a rename */
            (void)poll(fds, 1, PAUSE_MS);
        }
    }
    return fds[0].revents == 0 && getppid() == watch->parent;
}

/* ------------------------------------------------------------------ reporting */

static void publish(struct watch *watch, const struct ks_window_state *state, bool is_over)
{
    struct ks_launch_window_report report = {
        .out_dir = watch->out_dir,
        .window = state->number,
        .rank_count = state->rank_count,
        .awaited_count = state->awaited_count,
        .is_program_over = is_over,
    };
    watch->options->report(watch->options->report_user, &report);
    watch->reported = *state;
    watch->reported_at_ns = ks_clock_ns(CLOCK_MONOTONIC);
}

/* How long ago the window closed; writing its trace may have taken a while. A clock that was set
 * meanwhile counts for nothing. */
static int64_t waited_ns(const struct watch *watch, const struct ks_window_state *state)
{
    int64_t seen_ns = ks_clock_ns(CLOCK_MONOTONIC) - watch->seen_at_ns;
    int64_t closed_ns = ks_clock_ns(CLOCK_REALTIME) - state->closed_ns;
    bool is_said = state->closed_ns > 0 && closed_ns < 3600 * 1000000000LL;
    return is_said && closed_ns > seen_ns ? closed_ns : seen_ns;
}

/* Is the window next in line, and has it waited long enough? */
static bool is_due(struct watch *watch, const struct ks_window_state *state)
{
    if (state->number != watch->seen_number) {
        watch->seen_number = state->number;
        watch->seen_at_ns = ks_clock_ns(CLOCK_MONOTONIC);
    }
    return waited_ns(watch, state) >= ks_window_state_patience_ns(state);
}

static void report_next(struct watch *watch, const struct ks_run_folder *folder, bool is_over)
{
    bool has_stacks = !watch->options->without_stacks;
    struct ks_window_state state;
    ks_window_state_next(folder, watch->reported.number, has_stacks, &state);
    while (state.number != 0 && (is_over || is_due(watch, &state))) {
        struct ks_window_state later;
        ks_window_state_next(folder, state.number, has_stacks, &later);
        publish(watch, &state, is_over && later.number == 0);
        state = later;
    }
}

/* What came late (a rank, stacks, step times after the window) makes the report better. */
static void report_again(struct watch *watch, const struct ks_run_folder *folder, bool is_over)
{
    struct ks_window_state state;
    bool is_early = ks_clock_ns(CLOCK_MONOTONIC) < watch->reported_at_ns + AGAIN_S * 1000000000LL;
    if (watch->reported.number == 0 || (is_early && !is_over)) {
        return;
    }
    ks_window_state_of(folder, watch->reported.number, !watch->options->without_stacks, &state);
    if (!ks_window_state_equal(&state, &watch->reported)) {
        publish(watch, &state, is_over);
    }
}

/* What is recorded all the time is large and goes on to grow: it is read once, at the end. */
static void report_recordings(struct watch *watch)
{
    struct ks_launch_window_report report = {
        .out_dir = watch->out_dir,
        .window = watch->reported.number,
        .rank_count = watch->reported.rank_count,
        .awaited_count = watch->reported.awaited_count,
        .is_program_over = true,
        .has_recordings = true,
    };
    if (watch->options->record && ks_launch_record_count(watch->out_dir) > 0) {
        watch->options->report(watch->options->report_user, &report);
    }
}

static void look(struct watch *watch, bool is_over)
{
    struct ks_run_folder *folder = NULL;
    if (ks_run_folder_open(watch->out_dir, &folder, NULL) != KS_OK) {
        return;
    }
    int64_t reported = watch->reported.number;
    report_next(watch, folder, is_over);
    if (watch->reported.number == reported) {
        report_again(watch, folder, is_over);
    }
    ks_run_folder_close(folder);
    if (is_over) {
        report_recordings(watch);
    }
}

/* All windows that were asked for are reported. */
static bool is_stop_due(const struct watch *watch)
{
    const struct ks_launch_options *options = watch->options;
    return options->stop_after && options->window.repeat_count > 0 &&
           watch->reported.number >= (int64_t)options->window.repeat_count;
}

static void watch_run(struct watch *watch)
{
    bool is_on = true;
    while (is_on) {
        int64_t next_ns = ks_monitor_tick(&watch->monitor, ks_clock_ns(CLOCK_MONOTONIC));
        is_on = wait_for_change(watch, next_ns);
        if (getppid() != watch->parent) {
            break; /* nobody is left to report to */
        }
        look(watch, !is_on);
        if (is_on && is_stop_due(watch)) {
            /* Our parent waits for this signal anyhow. One that is pending swallows another, so it
             * is sent until the program has ended. */
            (void)kill(watch->parent, SIGCHLD);
        }
    }
}

static _Noreturn void be_reporter(const struct ks_launch_options *options, const char *out_dir,
                                  pid_t parent, pid_t program, int stop_fd)
{
    struct watch watch = {
        .options = options, .out_dir = out_dir, .parent = parent, .stop_fd = stop_fd};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    settle_signals();
    let_go_of_files(stop_fd);
    take_back_seat();
    watch.notify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watch.notify_fd >= 0) {
        (void)inotify_add_watch(watch.notify_fd, out_dir, IN_MOVED_TO | IN_ONLYDIR);
    }
    ks_monitor_init(&watch.monitor, out_dir, program);
    watch_run(&watch);
    ks_monitor_release(&watch.monitor);
    _exit(0);
}

/* ------------------------------------------------------------------ the parent's side */

/* Both ends above the standard descriptors, which whoever started us may have closed. */
static bool make_pipe(int ends[2])
{
    int low[2];
    if (pipe2(low, O_CLOEXEC) != 0) {
        return false;
    }
    for (size_t i = 0; i < 2; i++) {
        ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    }
    close(low[0]);
    close(low[1]);
    if (ends[0] >= 0 && ends[1] >= 0) {
        return true;
    }
    for (size_t i = 0; i < 2; i++) {
        if (ends[i] >= 0) {
            close(ends[i]);
        }
    }
    return false;
}

void ks_reporter_start(struct ks_reporter *reporter, const struct ks_launch_options *options,
                       const char *out_dir, pid_t program)
{
    int ends[2];
    pid_t parent = getpid();
    *reporter = (struct ks_reporter){.stop_fd = -1};
    if (!options->report || !make_pipe(ends)) {
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        be_reporter(options, out_dir, parent, program, ends[0]);
    }
    close(ends[0]);
    if (pid < 0) {
        close(ends[1]);
        return;
    }
    reporter->pid = pid;
    reporter->stop_fd = ends[1];
}

bool ks_reporter_wants_stop(const struct ks_reporter *reporter, const siginfo_t *info)
{
    return reporter->pid > 0 && info->si_signo == SIGCHLD && info->si_code == SI_USER &&
           info->si_pid == reporter->pid;
}

void ks_reporter_finish(const struct ks_reporter *reporter, bool *is_done)
{
    int status = 0;
    pid_t got = 0;
    *is_done = false;
    if (reporter->pid == 0) {
        return;
    }
    close(reporter->stop_fd);
    do {
        got = waitpid(reporter->pid, &status, 0);
    } while (got < 0 && errno == EINTR);
    /* Where SIGCHLD is ignored, nobody knows how it ended. */
    *is_done = got < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
