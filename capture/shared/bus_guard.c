#include "capture/shared/bus_guard.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include "capture/shared/recording_file.h"

static struct ks_recording_file *guarded;
static _Atomic bool *turned_off;
static struct sigaction before;

static void pass_on(int number, siginfo_t *info, void *context)
{
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    } else {
        /* The same store comes again, and ends the program as it would have without us. */
        const struct sigaction usual = {.sa_handler = SIG_DFL};
        sigaction(SIGBUS, &usual, NULL);
    }
}

static void handle(int number, siginfo_t *info, void *context)
{
    int error = errno;
    if (info->si_code > 0 && ks_recording_file_holds(guarded, info->si_addr)) {
        atomic_store(turned_off, false);
        ks_recording_file_unhook(guarded);
    } else {
        pass_on(number, info, context);
    }
    errno = error;
}

void ks_bus_guard_set(struct ks_recording_file *file, _Atomic bool *is_on)
{
    struct sigaction now;
    guarded = file;
    turned_off = is_on;
    if (sigaction(SIGBUS, NULL, &now) != 0 ||
        ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handle)) {
        return; /* in a child, or after another start, it is there already */
    }
    before = now;
    struct sigaction own = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&own.sa_mask);
    sigaction(SIGBUS, &own, NULL);
}
