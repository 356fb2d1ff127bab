/* What Ctrl-C and its kin leave behind: no half-written file, no line of progress, and a program
 * that ended by the signal, as whoever started it can see. */
#ifndef KS_CLI_INTERRUPT_H
#define KS_CLI_INTERRUPT_H

#include "command.h"

/* From now on SIGINT, SIGTERM and SIGHUP clean up and end the program; those that are ignored, as
 * by nohup, stay so. */
void ks_cli_interrupt_watch(void);
/* From now on the first SIGINT only makes `ks_cli_is_interrupted` true; the second ends the
 * program, and says `message` (one line). */
void ks_cli_interrupt_ask_first(const char *message);
/* For struct ks_query_options. */
bool ks_cli_is_interrupted(void *unused);
/* Ends the program by the SIGINT that it was asked to end by; returns when there was none. */
void ks_cli_interrupt_finish(void);
/* Cleans up as a handler must, writes the line, ends with the status. */
_Noreturn void ks_cli_interrupt_quit(const char *message, int status);

/* The file that must go when the program ends: path in a buffer that stays, or NULL. Between hold
 * and let_go no signal comes, so that the file and its name change together. */
void ks_cli_interrupt_hold(void);
void ks_cli_interrupt_let_go(const char *path);

#endif
