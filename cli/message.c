#include "message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "progress_line.h"

enum { LINE_MAX_SIZE = 2048 };

static bool json_wanted;

void ks_cli_message_json(bool on)
{
    json_wanted = on;
}

/* Replaces what could move the cursor or end the line. */
static void make_plain(char *text)
{
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte == 0x7f) {
            *text = '?';
        }
    }
}

static void say_line(char *text)
{
    make_plain(text);
    ks_cli_progress_hide();
    fprintf(stderr, "kscope: %s\n", text);
    ks_cli_progress_show();
}

void ks_cli_say(const char *format, ...)
{
    char text[LINE_MAX_SIZE];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    say_line(text);
}

static bool needs_no_quotes(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_@%+=:,./-";
    return *word && word[strspn(word, plain)] == '\0';
}

/* Quotes and what could move the cursor stand outside of the quotes, as \' and $'\012'. */
static void print_word(const char *word)
{
    if (needs_no_quotes(word)) {
        (void)fprintf(stderr, " %s", word);
        return;
    }
    (void)fputs(" '", stderr);
    for (; *word; word++) {
        unsigned char byte = (unsigned char)*word;
        if (byte == '\'') {
            (void)fputs("'\\''", stderr);
        } else if (byte < 0x20 || byte == 0x7f) {
            (void)fprintf(stderr, "'$'\\%03o''", byte);
        } else {
            (void)fputc(byte, stderr);
        }
    }
    (void)fputc('\'', stderr);
}

void ks_cli_say_command(const char *before, const char *const *words, size_t word_count,
                        const char *const *more, size_t more_count)
{
    ks_cli_progress_hide();
    (void)fprintf(stderr, "kscope: %s", before);
    for (size_t i = 0; i < word_count + more_count; i++) {
        print_word(i < word_count ? words[i] : more[i - word_count]);
    }
    (void)fputc('\n', stderr);
    ks_cli_progress_show();
}

static bool write_stdout(void *user, const char *bytes, size_t size)
{
    (void)user;
    return fwrite(bytes, 1, size, stdout) == size;
}

static void write_document(const struct ks_err *failure, const char *where)
{
    struct ks_err ignored;
    if (ks_error_write_json(failure, where, write_stdout, NULL, &ignored) != KS_OK ||
        fflush(stdout) != 0) {
        say_line((char[]){"Cannot write to standard output"});
    }
}

int ks_cli_usage_fail(const struct ks_cli_args *args, const char *format, ...)
{
    struct ks_err failure = {.status = KS_ERR_USAGE, .offset = KS_NO_OFFSET};
    va_list list;
    va_start(list, format);
    vsnprintf(failure.message, sizeof(failure.message), format, list);
    va_end(list);
    make_plain(failure.message);

    const char *name = args && args->command ? args->command->name : NULL;
    fprintf(stderr, "kscope: %s (see: kscope %s%s--help)\n", failure.message, name ? name : "",
            name ? " " : "");
    if (json_wanted) {
        write_document(&failure, NULL);
    }
    return KS_EXIT_USAGE;
}

static int exit_status_of(enum ks_status status)
{
    switch (status) {
    case KS_OK:
    case KS_END: return KS_EXIT_OK;
    case KS_ERR_NOMEM: return KS_EXIT_OWN;
    case KS_ERR_CANCELLED: return KS_EXIT_INTERRUPT;
    case KS_ERR_USAGE: return KS_EXIT_USAGE;
    case KS_ERR_IO:
    case KS_ERR_FORMAT:
    case KS_ERR_LIMIT:
    case KS_ERR_UNSUPPORTED: return KS_EXIT_INPUT;
    }
    return KS_EXIT_OWN;
}

/* "PATH Cannot ...": the layer that knew which of several files it was put the path in front.
 * Moves it to `path` and leaves the sentence. */
static void take_path(struct ks_err *failure, char path[KS_ERR_MESSAGE_SIZE])
{
    char *verb = strstr(failure->message, " Cannot ");
    path[0] = '\0';
    if (!verb) {
        return;
    }
    size_t len = (size_t)(verb - failure->message);
    len -= len > 0 && failure->message[len - 1] == ':';
    memcpy(path, failure->message, len);
    path[len] = '\0';
    memmove(failure->message, verb + 1, strlen(verb + 1) + 1);
}

int ks_cli_fail(const struct ks_cli_args *args, const struct ks_err *failure, const char *where)
{
    (void)args;
    struct ks_err own = *failure;
    char path[KS_ERR_MESSAGE_SIZE];
    take_path(&own, path);
    const char *named = path[0] ? path : where;
    char place[48] = "";
    if (own.offset != KS_NO_OFFSET) {
        snprintf(place, sizeof(place), " (at byte %lld)", (long long)own.offset);
    }
    ks_cli_say("%s%s%s%s", named ? named : "", named ? ": " : "", own.message, place);
    if (json_wanted) {
        write_document(&own, named);
    }
    return exit_status_of(own.status);
}

void ks_cli_log(void *user, enum ks_log_level level, const char *domain, const char *text)
{
    const bool *is_verbose = user;
    if (level > KS_LOG_WARN && !(is_verbose && *is_verbose)) {
        return;
    }
    static const char *const names[] = {"error", "warning", "info", "debug"};
    if (is_verbose && *is_verbose) {
        ks_cli_say("%s: %s: %s", names[level], domain, text);
    } else {
        ks_cli_say("%s", text);
    }
}
