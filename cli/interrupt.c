#include "interrupt.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "progress_line.h"

static const int watched[] = {SIGINT, SIGTERM, SIGHUP};

static const char *volatile unfinished_file;
static const char *volatile last_words; /* NULL: the first SIGINT ends the program, too */
static volatile sig_atomic_t is_interrupted;
static sigset_t mask_before;

/* Only calls that a handler may make. */
static void clean_up(const char *message)
{
    const char *path = unfinished_file;
    ks_cli_progress_erase();
    if (path) {
        (void)unlink(path);
    }
    if (message) {
        (void)!write(STDERR_FILENO, message, strlen(message));
    }
}

/* The handler's own signal waits until it returns, then does what it does by default. */
static void end_by(int number)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
    (void)raise(number);
}

static void on_signal(int number)
{
    if (number == SIGINT && last_words && !is_interrupted) {
        is_interrupted = 1;
        return;
    }
    clean_up(number == SIGINT ? last_words : NULL);
    end_by(number);
}

void ks_cli_interrupt_watch(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    struct sigaction before;
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++) {
        if (sigaction(watched[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL) {
            (void)sigaction(watched[i], &action, NULL);
        }
    }
}

void ks_cli_interrupt_ask_first(const char *message)
{
    last_words = message;
}

bool ks_cli_is_interrupted(void *unused)
{
    (void)unused;
    return is_interrupted;
}

void ks_cli_interrupt_finish(void)
{
    if (is_interrupted) {
        end_by(SIGINT);
    }
}

void ks_cli_interrupt_quit(const char *message, int status)
{
    clean_up(message);
    _exit(status);
}

void ks_cli_interrupt_hold(void)
{
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++) {
        (void)sigaddset(&set, watched[i]);
    }
    (void)sigprocmask(SIG_BLOCK, &set, &mask_before);
}

void ks_cli_interrupt_let_go(const char *path)
{
    unfinished_file = path;
    (void)sigprocmask(SIG_SETMASK, &mask_before, NULL);
}
