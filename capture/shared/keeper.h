/* A thread that looks after the recording once a second: a look at the clocks, room for the next
 * slots, what is written to the disk. Recording works without it, too. */
#ifndef KS_CAPTURE_SHARED_KEEPER_H
#define KS_CAPTURE_SHARED_KEEPER_H

/* Starts it unless it runs. */
void ks_keeper_start(void);
/* Ends it and waits for that; never with the recorder's lock. */
void ks_keeper_stop(void);
/* In a child after a fork there is no such thread. */
void ks_keeper_forget(void);

/* recorder.c: what is to be done. Gives the descriptor of the file, or -1. */
int ks_recorder_look_after(void);

#endif
