/* From the words the user typed to the words that are executed. */
#ifndef KS_LAUNCH_COMMAND_LINE_H
#define KS_LAUNCH_COMMAND_LINE_H

#include <kscope/kscope.h>

enum { KS_COMMAND_LINE_PROGRAMS_MAX = 2 };

/* `argv[0]` is to be set to `programs[0]`; when that is not found, to the next one. */
struct ks_command_line {
    char **argv; /* NULL-terminated; points into the user's words */
    const char *programs[KS_COMMAND_LINE_PROGRAMS_MAX];
    size_t program_count;
    char venv_python[4096]; /* storage for one of the programs */
};

/* Sets `programs` to the Python interpreter, in the order in which they are to be tried. */
void ks_command_line_choose_python(struct ks_command_line *line);

/* A first word that ends in .py, or is -m or -c, is given to the Python interpreter:
 * $KSCOPE_PYTHON, else $VIRTUAL_ENV/bin/python, else python3, else python on PATH. Everything else
 * is a program of its own. */
KS_MUST_CHECK enum ks_status ks_command_line_init(struct ks_command_line *line,
                                                  const char *const *words, size_t word_count,
                                                  struct ks_err *err);
void ks_command_line_release(struct ks_command_line *line);

/* What a person would call the program: script, module or executable without its folder. */
const char *ks_command_line_name(const char *const *words, size_t word_count);

#endif
