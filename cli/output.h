/* Where results go: stdout, or a file that appears whole or not at all. */
#ifndef KS_CLI_OUTPUT_H
#define KS_CLI_OUTPUT_H

#include <limits.h>

#include "command.h"

enum { KS_CLI_BUFFER_SIZE = 64 * 1024 };

struct ks_cli_output {
    int fd;
    int error;                /* errno of the first failed write, 0 none */
    char path[PATH_MAX];      /* target, "" for stdout */
    char temporary[PATH_MAX]; /* file being written, "" when the target is written itself */
    const char *shown;        /* the path as the user gave it */
    size_t used;
    char buffer[KS_CLI_BUFFER_SIZE];
};

/* `path` NULL or "-": stdout. A regular file is written beside its target and renamed by close. */
int ks_cli_output_open(const struct ks_cli_args *args, const char *path,
                       struct ks_cli_output *output) KS_MUST_CHECK;
/* A ks_write_cb; `user` is the output. */
bool ks_cli_output_write(void *user, const char *bytes, size_t size);
/* Hands on what is buffered; false when it cannot be written. */
bool ks_cli_output_flush(struct ks_cli_output *output);
/* Ends the output. `status` is what the writer gave: after a failure nothing is renamed. Gives the
 * exit status, and says what went wrong. */
int ks_cli_output_close(const struct ks_cli_args *args, struct ks_cli_output *output,
                        enum ks_status status, const struct ks_err *err) KS_MUST_CHECK;

/* Ends the output as if it had not been opened; only before anything was handed on. */
void ks_cli_output_drop(struct ks_cli_output *output);

/* Colours on this descriptor? `when` is the value of --color or NULL. The flag beats NO_COLOR,
 * which beats FORCE_COLOR and CLICOLOR_FORCE, which beat the look at the terminal and TERM. */
bool ks_cli_colour(const char *when, int fd);
/* Columns of the terminal behind fd, or 0 when it is none. */
size_t ks_cli_width(int fd);
/* Does the locale of the environment take UTF-8? */
bool ks_cli_utf8(void);

#endif
