#include "launch/command_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"

static void skip_dashes(const char *const **words, size_t *count)
{
    if (*count > 0 && strcmp((*words)[0], "--") == 0) {
        (*words)++;
        (*count)--;
    }
}

static bool is_for_python(const char *word)
{
    size_t len = strlen(word);
    return strcmp(word, "-m") == 0 || strcmp(word, "-c") == 0 ||
           (len > 3 && strcmp(word + len - 3, ".py") == 0);
}

void ks_command_line_choose_python(struct ks_command_line *line)
{
    line->program_count = 0;
    const char *wanted = getenv("KSCOPE_PYTHON");
    const char *venv = getenv("VIRTUAL_ENV");
    if (wanted && *wanted) {
        line->programs[line->program_count++] = wanted;
        return;
    }
    if (venv && *venv) {
        int len = snprintf(line->venv_python, sizeof(line->venv_python), "%s/bin/python", venv);
        if (len > 0 && (size_t)len < sizeof(line->venv_python) &&
            access(line->venv_python, X_OK) == 0) {
            line->programs[line->program_count++] = line->venv_python;
            return;
        }
    }
    line->programs[line->program_count++] = "python3";
    line->programs[line->program_count++] = "python";
}

enum ks_status ks_command_line_init(struct ks_command_line *line, const char *const *words,
                                    size_t word_count, struct ks_err *err)
{
    *line = (struct ks_command_line){0};
    skip_dashes(&words, &word_count);
    if (word_count == 0 || words[0][0] == '\0') {
        return ks_fail(err, KS_ERR_USAGE, KS_NO_OFFSET, "Cannot run: no command given");
    }
    line->argv = ks_alloc(word_count + 2, sizeof(*line->argv));
    if (!line->argv) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot run: words=%zu", word_count);
    }

    size_t at = 0;
    if (is_for_python(words[0])) {
        ks_command_line_choose_python(line);
        line->argv[at++] = NULL;
    } else {
        line->programs[line->program_count++] = words[0];
    }
    for (size_t i = 0; i < word_count; i++) {
        line->argv[at++] = (char *)(uintptr_t)words[i]; /* exec takes them as they are */
    }
    return KS_OK;
}

void ks_command_line_release(struct ks_command_line *line)
{
    ks_free(line->argv);
    line->argv = NULL;
}

const char *ks_command_line_name(const char *const *words, size_t word_count)
{
    skip_dashes(&words, &word_count);
    if (word_count == 0) {
        return "program";
    }
    if (strcmp(words[0], "-c") == 0) {
        return "python-c";
    }
    const char *word = strcmp(words[0], "-m") == 0 && word_count > 1 ? words[1] : words[0];
    const char *slash = strrchr(word, '/');
    return slash && slash[1] ? slash + 1 : word;
}
