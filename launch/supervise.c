#include "launch/supervise.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "launch/stop.h"

enum { STOP_LOOK_MS = 200 };

static const int passed_on[] = {SIGINT,  SIGQUIT, SIGTERM, SIGHUP,
                                SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

static sigset_t held_back(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++) {
        sigaddset(&set, passed_on[i]);
    }
    sigaddset(&set, SIGCHLD);
    return set;
}

void ks_supervise_begin(struct ks_supervise *supervise)
{
    sigset_t set = held_back();
    /* With SIGCHLD ignored, which a parent may hand down, a child's end could not be waited for. */
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &by_default, &supervise->on_child);
    sigprocmask(SIG_BLOCK, &set, &supervise->mask);
}

void ks_supervise_restore_in_child(const struct ks_supervise *supervise)
{
    sigaction(SIGCHLD, &supervise->on_child, NULL);
    sigprocmask(SIG_SETMASK, &supervise->mask, NULL);
}

void ks_supervise_end(const struct ks_supervise *supervise)
{
    sigset_t set = held_back();
    struct timespec at_once = {0};
    while (sigtimedwait(&set, NULL, &at_once) > 0) {
    }
    sigaction(SIGCHLD, &supervise->on_child, NULL);
    sigprocmask(SIG_SETMASK, &supervise->mask, NULL);
}

/* The terminal sends its signals to the whole foreground group: the child has them already. */
static bool came_from_terminal(const siginfo_t *info)
{
    return info->si_code == SI_KERNEL;
}

/* Stops us as the child was stopped, so that the shell gets its prompt back; when the shell
 * continues us, the child goes on too. SIGSTOP is not copied: whoever stopped the child alone
 * would continue the child alone. */
static void stop_with_child(pid_t child, int signal_number)
{
    if (signal_number == SIGTSTP || signal_number == SIGTTIN || signal_number == SIGTTOU) {
        raise(SIGSTOP);
        kill(child, SIGCONT);
    }
}

/* True when the child has ended. */
static bool look_at_child(pid_t child, struct ks_launch_result *result)
{
    int status = 0;
    while (waitpid(child, &status, WNOHANG | WUNTRACED) == child) {
        if (WIFSTOPPED(status)) {
            stop_with_child(child, WSTOPSIG(status));
            continue;
        }
        result->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        result->exit_status = result->signal ? 128 + result->signal : WEXITSTATUS(status);
        return true;
    }
    return false;
}

/* Has the child ended by itself? It is left for look_at_child. */
static bool has_ended(pid_t child)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/* Waits for one of the signals; while the program is being ended, not for long. */
static int wait_for_signal(const sigset_t *set, siginfo_t *info, bool is_stopping)
{
    struct timespec soon = {.tv_nsec = STOP_LOOK_MS * 1000000L};
    int signal_number = is_stopping ? sigtimedwait(set, info, &soon) : sigwaitinfo(set, info);
    bool is_early = signal_number < 0 && (errno == EINTR || (is_stopping && errno == EAGAIN));
    return is_early ? 0 : signal_number;
}

enum ks_status ks_supervise_wait(pid_t child, const struct ks_reporter *reporter,
                                 struct ks_launch_result *result, struct ks_err *err)
{
    struct ks_stop stop = {0};
    sigset_t set = held_back();
    while (!look_at_child(child, result)) {
        siginfo_t info = {0};
        int signal_number = wait_for_signal(&set, &info, result->was_stopped);
        if (signal_number < 0) {
            return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot wait for the program: pid=%ld, %s",
                           (long)child, strerror(errno));
        }
        if (signal_number > 0 && signal_number != SIGCHLD && !came_from_terminal(&info)) {
            kill(child, signal_number);
        }
        if (result->was_stopped) {
            ks_stop_continue(&stop);
        } else if (ks_reporter_wants_stop(reporter, &info) && !has_ended(child)) {
            result->was_stopped = true;
            ks_stop_begin(&stop, child);
        }
    }
    if (result->was_stopped) {
        ks_stop_end(&stop);
    }
    return KS_OK;
}
