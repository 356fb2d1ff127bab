/* How the commands that show lists lay them out as text. */
#ifndef KS_CLI_TEXT_ARGS_H
#define KS_CLI_TEXT_ARGS_H

#include "command.h"

struct ks_cli_text {
    size_t row_limit; /* 0: each list has its own; SIZE_MAX: all rows */
    size_t width;     /* 0: as the library thinks */
    bool colour;
    bool ascii; /* the locale knows no other characters */
};

/* Reads --limit, --all-rows, --width and --color, and looks where --output leads. KS_EXIT_OK, or
 * the exit status after a message. */
int ks_cli_read_text(const struct ks_cli_args *args, struct ks_cli_text *text) KS_MUST_CHECK;

#endif
