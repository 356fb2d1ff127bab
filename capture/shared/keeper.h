/* A thread that looks after the recording: room for the next slots when it is woken, and once a
 * second a look at the clocks, and what is written to the disk. Recording works without it, too. */
#ifndef KS_CAPTURE_SHARED_KEEPER_H
#define KS_CAPTURE_SHARED_KEEPER_H

#include <stdbool.h>

/* Starts it unless it runs. */
void ks_keeper_start(void);
bool ks_keeper_is_there(void);
/* There is little room; costs a system call when it sleeps. */
void ks_keeper_wake(void);
/* Ends it and waits for that; never with the recorder's lock. */
void ks_keeper_stop(void);
/* In a child after a fork there is no such thread. */
void ks_keeper_forget(void);

/* recorder.c: what is to be done. Once a second; gives the descriptor of the file, or -1. */
int ks_recorder_look_after(void);
/* Makes some room and seals some slots; true: there is more of that to do. */
bool ks_recorder_make_room(void);

#endif
