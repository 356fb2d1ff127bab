/* The writer (python/kinetoscope/run_status.py) puts each member of the JSON object on a line of
 * its own, so a line's start says which member it is and no parser is needed here. */
#include "launch/run_summary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

enum { LINE_SIZE = 4096 };

struct process {
    uint64_t steps_seen;
    size_t trace_count;
    char explanation[KS_RUN_EXPLANATION_SIZE];
};

/* The text after `"name": ` when the line is that member, else NULL. */
static const char *member_value(const char *line, const char *name)
{
    size_t len = strlen(name);
    if (line[0] != '"' || strncmp(line + 1, name, len) != 0 ||
        strncmp(line + 1 + len, "\": ", 3) != 0) {
        return NULL;
    }
    return line + 1 + len + 3;
}

/* Length without the last character when `len` bytes of UTF-8 end inside it. */
static size_t whole_characters(const char *text, size_t len)
{
    size_t start = len;
    while (start > 0 && ((unsigned char)text[start - 1] & 0xc0) == 0x80) {
        start--;
    }
    if (start == 0 || (unsigned char)text[start - 1] < 0xc0) {
        return len;
    }
    unsigned char lead = (unsigned char)text[start - 1];
    size_t needed = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    return len - (start - 1) < needed ? start - 1 : len;
}

/* Copies a JSON string; an escape that is not a plain character becomes a blank. */
static void copy_json_string(const char *value, char *out, size_t out_size)
{
    size_t len = 0;
    if (*value != '"') {
        out[0] = '\0'; /* null */
        return;
    }
    for (value++; *value && *value != '"' && len + 1 < out_size; value++) {
        char c = *value;
        if (c == '\\' && value[1]) {
            value++;
            c = *value == '"' || *value == '\\' || *value == '/' ? *value : ' ';
        }
        out[len++] = (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c;
    }
    out[whole_characters(out, len)] = '\0'; /* a long one is cut */
}

/* Items of a JSON array of strings without quotes in them. */
static size_t count_items(const char *value)
{
    size_t quotes = 0;
    for (; *value && *value != ']'; value++) {
        quotes += *value == '"';
    }
    return quotes / 2;
}

static void read_process(FILE *file, struct process *process)
{
    char line[LINE_SIZE];
    bool at_line_start = true;
    while (fgets(line, sizeof(line), file)) {
        const char *value = NULL;
        if (at_line_start && (value = member_value(line, "explanation"))) {
            copy_json_string(value, process->explanation, sizeof(process->explanation));
        } else if (at_line_start && (value = member_value(line, "steps_seen"))) {
            process->steps_seen = strtoull(value, NULL, 10);
        } else if (at_line_start && (value = member_value(line, "traces"))) {
            process->trace_count = count_items(value);
        }
        at_line_start = strchr(line, '\n') != NULL;
    }
}

static bool is_status_name(const char *name)
{
    size_t len = strlen(name);
    return strncmp(name, "kscope-run.", 11) == 0 && len > 18 &&
           strcmp(name + len - 7, ".status") == 0;
}

static void add_process(struct ks_run_summary *summary, const struct process *process)
{
    bool is_first = summary->process_count++ == 0;
    summary->trace_count += process->trace_count;
    if (is_first || process->steps_seen > summary->steps_seen_max) {
        summary->steps_seen_max = process->steps_seen;
        memcpy(summary->explanation, process->explanation, sizeof(summary->explanation));
    }
}

enum ks_status ks_run_summary_read(const char *out_dir, struct ks_run_summary *out,
                                   struct ks_err *err)
{
    *out = (struct ks_run_summary){0};
    DIR *dir = opendir(out_dir);
    if (!dir) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot read folder: path=\"%.120s\", %s",
                       out_dir, strerror(errno));
    }
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (!is_status_name(entry->d_name)) {
            continue;
        }
        int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
        if (file) {
            struct process process = {0};
            read_process(file, &process);
            add_process(out, &process);
            fclose(file);
        } else if (fd >= 0) {
            close(fd);
        }
    }
    closedir(dir);
    return KS_OK;
}
