#include "read/run_status.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/proc.h"
#include "read/json_members.h"
#include "read/json_string.h"
#include "read/reader.h"

enum { STATUS_BYTES_MAX = 1024 * 1024, CLOCK_SLACK_S = 2 };

bool ks_run_status_is_name(const char *name)
{
    size_t len = strlen(name);
    return strncmp(name, "kscope-run.", 11) == 0 && len > 18 &&
           strcmp(name + len - 7, ".status") == 0;
}

/* ------------------------------------------------------------------ values of members */

/* The last item of an array that is a number. */
static enum ks_json take_last(struct ks_json_cursor *c, int64_t *last)
{
    bool more;
    enum ks_json step = ks_json_open_array(c, &more);
    while (step == KS_JSON_OK && more) {
        step = ks_json_take_number(c, last);
        step = step == KS_JSON_OK ? ks_json_next(c, ']', &more) : step;
    }
    return step;
}

/* Length without the last character when `len` bytes of valid UTF-8 end inside it. */
static size_t whole_characters(const char *text, size_t len)
{
    while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80) {
        len--;
    }
    return len;
}

/* The text of a string as one line; null and everything else give "". */
static enum ks_json take_text(struct ks_json_cursor *c, char *out, size_t size, bool *no_memory)
{
    enum ks_json_kind kind;
    out[0] = '\0';
    enum ks_json step = ks_json_kind_of(c, &kind);
    if (step != KS_JSON_OK || kind != KS_JSON_STRING) {
        return step == KS_JSON_OK ? ks_json_skip(c) : step;
    }
    struct ks_json_str raw;
    struct ks_text scratch;
    step = ks_json_string(c, &raw);
    if (step != KS_JSON_OK) {
        return step;
    }
    ks_text_init(&scratch);
    struct ks_str text = ks_json_str_decode(&raw, &scratch);
    size_t len = text.len < size ? text.len : whole_characters(text.ptr, size - 1);
    memcpy(out, text.ptr, len);
    out[len] = '\0';
    *no_memory |= scratch.failed;
    ks_text_release(&scratch);
    for (char *at = out; at < out + len; at++) {
        *at = (unsigned char)*at < 0x20 || *at == 0x7f ? ' ' : *at;
    }
    return step;
}

/* The words of a command line with a blank between them, as far as they fit. */
static enum ks_json take_words(struct ks_json_cursor *c, char *out, size_t size, bool *no_memory)
{
    bool more;
    size_t used = 0;
    out[0] = '\0';
    enum ks_json step = ks_json_open_array(c, &more);
    while (step == KS_JSON_OK && more) {
        bool has_room = used + 2 < size;
        if (has_room && used > 0) {
            out[used++] = ' ';
        }
        step = has_room ? take_text(c, out + used, size - used, no_memory) : ks_json_skip(c);
        used += has_room ? strlen(out + used) : 0;
        step = step == KS_JSON_OK ? ks_json_next(c, ']', &more) : step;
    }
    return step;
}

/* ------------------------------------------------------------------ the document */

static enum ks_run_state state_of(const char *word)
{
    static const char *const words[] = {
        [KS_RUN_WAITING] = "waiting",
        [KS_RUN_RECORDING] = "recording",
        [KS_RUN_DONE] = "done",
        [KS_RUN_OFF] = "off",
    };
    for (size_t i = KS_RUN_WAITING; i < KS_COUNT_OF(words); i++) {
        if (strcmp(word, words[i]) == 0) {
            return (enum ks_run_state)i;
        }
    }
    return KS_RUN_UNKNOWN;
}

/* What is read beside the members of the result. */
struct document {
    struct ks_run_status *out;
    char schema[32];
    char state[16];
    int64_t steps_seen;
    bool no_memory;
};

static enum ks_json take_member(struct ks_json_cursor *c, struct ks_str key, void *user)
{
    struct document *doc = user;
    struct ks_run_status *out = doc->out;
    struct ks_run_process *process = &out->process;
    if (ks_str_equal(key, KS_STR("schema"))) {
        return take_text(c, doc->schema, sizeof(doc->schema), &doc->no_memory);
    }
    if (ks_str_equal(key, KS_STR("state"))) {
        return take_text(c, doc->state, sizeof(doc->state), &doc->no_memory);
    }
    if (ks_str_equal(key, KS_STR("explanation"))) {
        return take_text(c, process->explanation, sizeof(process->explanation), &doc->no_memory);
    }
    if (ks_str_equal(key, KS_STR("pid"))) {
        return ks_json_take_number(c, &process->pid);
    }
    if (ks_str_equal(key, KS_STR("rank"))) {
        return ks_json_take_number(c, &process->rank);
    }
    if (ks_str_equal(key, KS_STR("steps_seen"))) {
        return ks_json_take_number(c, &doc->steps_seen);
    }
    if (ks_str_equal(key, KS_STR("window_closed_ns"))) {
        return take_last(c, &process->window_closed_ns);
    }
    if (ks_str_equal(key, KS_STR("unprofiled_step_ns"))) {
        return ks_step_times_take(c, &out->before);
    }
    if (ks_str_equal(key, KS_STR("unprofiled_step_after_ns"))) {
        return ks_step_times_take(c, &out->after);
    }
    if (ks_str_equal(key, KS_STR("argv"))) {
        return take_words(c, out->program, sizeof(out->program), &doc->no_memory);
    }
    if (ks_str_equal(key, KS_STR("pace_steps"))) {
        return ks_step_pace_take_steps(c, &out->pace);
    }
    if (ks_str_equal(key, KS_STR("pace_ns"))) {
        return ks_step_pace_take_times(c, &out->pace);
    }
    if (ks_str_equal(key, KS_STR("is_over"))) {
        ks_json_blanks(c);
        out->is_over = *c->at == 't';
    }
    return ks_json_skip(c);
}

static enum ks_status parse(struct ks_str text, struct ks_run_status *out, struct document *doc)
{
    struct ks_json_cursor cursor = {.at = text.ptr, .end = text.ptr + text.len};
    *doc = (struct document){.out = out};
    *out = (struct ks_run_status){.process = {.rank = -1}};
    bool is_whole = ks_json_each_member(&cursor, take_member, doc);
    if (doc->no_memory) {
        return KS_ERR_NOMEM;
    }
    if (!is_whole || strcmp(doc->schema, "kinetoscope.run/1") != 0) {
        return KS_END;
    }
    out->process.state = state_of(doc->state);
    out->process.steps_seen = doc->steps_seen > 0 ? (uint64_t)doc->steps_seen : 0;
    out->process.after_time_count = out->after.count;
    ks_step_pace_settle(&out->pace);
    return KS_OK;
}

enum ks_status ks_run_status_parse(struct ks_str text, struct ks_run_status *out)
{
    struct document doc;
    return parse(text, out, &doc);
}

/* ------------------------------------------------------------------ does the process live? */

/* A process that began after the file was written has only inherited the number. */
static bool is_alive(int64_t pid, const struct timespec *written)
{
    struct ks_process process;
    struct timespec boot;
    struct timespec now;
    if (pid <= 0 || pid > INT32_MAX || !ks_process_read((pid_t)pid, &process) ||
        process.state == 'Z' || process.state == 'X' || clock_gettime(CLOCK_BOOTTIME, &boot) != 0 ||
        clock_gettime(CLOCK_REALTIME, &now) != 0) {
        return false;
    }
    int64_t age_s = boot.tv_sec - (int64_t)process.start_ticks / sysconf(_SC_CLK_TCK);
    return now.tv_sec - age_s <= written->tv_sec + CLOCK_SLACK_S;
}

/* ------------------------------------------------------------------ the file */

/* Reads the rest of the file; false when there is more than fits or reading fails. */
static bool read_whole(int fd, char *buf, size_t size, size_t *len)
{
    *len = 0;
    while (*len < size) {
        ssize_t got = read(fd, buf + *len, size - *len);
        if (got == 0) {
            return true;
        }
        if (got < 0 && errno != EINTR) {
            return false;
        }
        *len += got > 0 ? (size_t)got : 0;
    }
    return false;
}

static enum ks_status read_document(int fd, const struct stat *info, struct ks_run_status *out)
{
    size_t size = (size_t)info->st_size + 1; /* one more tells whether it has grown */
    char *buf = ks_alloc(size + KS_WINDOW_PAD, 1);
    size_t len = 0;
    struct document doc = {0};
    if (!buf) {
        return KS_ERR_NOMEM;
    }
    bool is_read = read_whole(fd, buf, size, &len);
    enum ks_status status = is_read ? parse((struct ks_str){buf, len}, out, &doc) : KS_END;
    if (status == KS_OK && !out->is_over) {
        out->process.is_running = is_alive(out->process.pid, &info->st_mtim);
    }
    ks_free(buf);
    return status;
}

enum ks_status ks_run_status_read(int dir_fd, const char *name, struct ks_run_status *out)
{
    struct stat info;
    /* Without O_NONBLOCK a pipe of that name would hold us for ever. */
    int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return KS_END;
    }
    bool is_good =
        fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size <= STATUS_BYTES_MAX;
    enum ks_status status = is_good ? read_document(fd, &info, out) : KS_END;
    close(fd);
    return status;
}

/* ------------------------------------------------------------------ step times */

int64_t ks_run_status_step_ns(struct ks_run_status *status)
{
    enum { BEFORE_MIN = 5 };
    struct ks_step_times *times = &status->before;
    if (times->count < BEFORE_MIN) {
        for (size_t i = 0; i < status->after.count && times->count < KS_STEP_TIMES_MAX; i++) {
            times->list[times->count++] = status->after.list[i];
        }
    }
    return ks_step_times_middle(times);
}

/* ------------------------------------------------------------------ how far it is */

void ks_run_status_tell(struct ks_run_status *status, struct ks_live_rank *out)
{
    const struct ks_step_pace *pace = &status->pace;
    int64_t before_ns = ks_step_times_spread(&status->before);
    *out = (struct ks_live_rank){
        .process = status->process,
        .is_over = status->is_over,
        .steps_per_s = ks_step_pace_now(pace),
        .last_step_ns = pace->count > 0 ? pace->time_ns[pace->count - 1] : 0,
        .step_spread_ns = before_ns > 0 ? before_ns : ks_step_times_spread(&status->after),
        .step_ns = ks_run_status_step_ns(status),
    };
    out->rate_count = ks_step_pace_rates(pace, out->rates);
    memcpy(out->program, status->program, sizeof(out->program));
}
