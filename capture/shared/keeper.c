#include "capture/shared/keeper.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

static pthread_t thread;
static bool is_running;
static sem_t stop;

static void *run(void *unused)
{
    (void)unused;
    struct timespec next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    pthread_setname_np(pthread_self(), "kscope-keeper");
    for (;;) {
        next.tv_sec++;
        if (sem_clockwait(&stop, CLOCK_MONOTONIC, &next) == 0) {
            return NULL;
        }
        int fd = ks_recorder_look_after();
        if (fd >= 0) {
            (void)fdatasync(fd);
        }
    }
}

/* Signals are for the program's own threads. */
void ks_keeper_start(void)
{
    sigset_t all;
    sigset_t before;
    if (is_running || sem_init(&stop, 0, 0) != 0) {
        return;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    is_running = pthread_create(&thread, NULL, run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void ks_keeper_stop(void)
{
    if (is_running) {
        is_running = false;
        sem_post(&stop);
        pthread_join(thread, NULL);
    }
}

void ks_keeper_forget(void)
{
    is_running = false;
}
