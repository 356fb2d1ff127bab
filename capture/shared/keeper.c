#include "capture/shared/keeper.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

static pthread_t thread;
static bool is_running;
static _Atomic bool is_ending;
static _Atomic bool is_woken;
static sem_t work;

static void *run(void *unused)
{
    (void)unused;
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    next.tv_sec++;
    pthread_setname_np(pthread_self(), "kscope-keeper");
    while (!atomic_load(&is_ending)) {
        atomic_store(&is_woken, false);
        while (ks_recorder_make_room()) {
        }
        if (sem_clockwait(&work, CLOCK_MONOTONIC, &next) != 0) {
            int fd = ks_recorder_look_after();
            if (fd >= 0) {
                (void)fdatasync(fd);
            }
            clock_gettime(CLOCK_MONOTONIC, &next);
            next.tv_sec++;
        }
    }
    return NULL;
}

/* Signals are for the program's own threads. */
void ks_keeper_start(void)
{
    sigset_t all;
    sigset_t before;
    if (is_running || sem_init(&work, 0, 0) != 0) {
        return;
    }
    atomic_store(&is_ending, false);
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* of a file that was cut; blocked, it would end the process */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    is_running = pthread_create(&thread, NULL, run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

bool ks_keeper_is_there(void)
{
    return is_running;
}

void ks_keeper_wake(void)
{
    if (is_running && !atomic_exchange(&is_woken, true)) {
        sem_post(&work);
    }
}

void ks_keeper_stop(void)
{
    if (is_running) {
        is_running = false;
        atomic_store(&is_ending, true);
        sem_post(&work);
        pthread_join(thread, NULL);
    }
}

void ks_keeper_forget(void)
{
    is_running = false;
}
