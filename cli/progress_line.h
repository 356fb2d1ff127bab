/* A line on stderr that says how far a long command has come. It appears after half a second, only
 * on a terminal, and is gone before anything else is written there. */
#ifndef KS_CLI_PROGRESS_LINE_H
#define KS_CLI_PROGRESS_LINE_H

#include "command.h"

/* Begins to show what the result counts; gives NULL when nothing is to be shown: no terminal,
 * TERM=dumb, --quiet. The command must have that option. */
struct ks_progress *ks_cli_progress_start(const struct ks_cli_args *args);
/* Takes the line away, for good; may be called when there is none. */
void ks_cli_progress_stop(void);
/* Takes the line away for a message; it comes back at the next change. */
void ks_cli_progress_hide(void);
void ks_cli_progress_show(void);
/* What a signal handler may do before the program ends. */
void ks_cli_progress_erase(void);

#endif
