#include "read/tuning_file.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "read/json_members.h"
#include "read/json_string.h"
#include "read/reader.h"
#include "read/step_times.h"

enum { BYTES_MAX = 1024 * 1024 };

struct document {
    struct ks_tuning *out;
    struct ks_tuning_try *try;   /* whose members are read */
    struct ks_tuning_left *left; /* the same */
    char *setting;               /* the same */
    char word[KS_TUNING_TEXT_SIZE];
    bool is_ours;
};

/* ------------------------------------------------------------------ values */

static enum ks_json take_text(struct ks_json_cursor *c, char *out, size_t size)
{
    enum ks_json_kind kind;
    struct ks_json_str raw;
    out[0] = '\0';
    enum ks_json step = ks_json_kind_of(c, &kind);
    if (step != KS_JSON_OK || kind != KS_JSON_STRING) {
        return step == KS_JSON_OK ? ks_json_skip(c) : step;
    }
    step = ks_json_string(c, &raw);
    if (step == KS_JSON_OK) {
        struct ks_text scratch;
        ks_text_init(&scratch);
        struct ks_str text = ks_json_str_decode(&raw, &scratch);
        snprintf(out, size, "%.*s", (int)(text.len < size ? text.len : size - 1), text.ptr);
        ks_text_release(&scratch);
    }
    return step;
}

static enum ks_json take_real(struct ks_json_cursor *c, double *out)
{
    enum ks_json_kind kind;
    bool found = false;
    double value = 0.0;
    *out = (double)NAN;
    enum ks_json step = ks_json_kind_of(c, &kind);
    if (step != KS_JSON_OK || kind != KS_JSON_NUMBER) {
        return step == KS_JSON_OK ? ks_json_skip(c) : step;
    }
    step = ks_json_double(c, &value, &found);
    if (step == KS_JSON_OK && found) {
        *out = value;
    }
    return step;
}

static enum ks_json take_count(struct ks_json_cursor *c, size_t *out)
{
    int64_t value = 0;
    enum ks_json step = ks_json_take_number(c, &value);
    *out = value > 0 ? (size_t)value : 0;
    return step;
}

/* An object whose members `take` takes; one without any is stepped over. */
static enum ks_json take_object(struct ks_json_cursor *c, ks_json_member_cb take, void *user)
{
    struct ks_json_cursor before = *c;
    if (ks_json_each_member(c, take, user)) {
        return KS_JSON_OK;
    }
    *c = before;
    return ks_json_skip(c);
}

/* ------------------------------------------------------------------ one try */

static enum ks_json take_estimate_member(struct ks_json_cursor *c, struct ks_str key, void *user)
{
    struct ks_trial_estimate *estimate = user;
    double *place = ks_str_equal(key, KS_STR("value"))  ? &estimate->value
                    : ks_str_equal(key, KS_STR("low"))  ? &estimate->low
                    : ks_str_equal(key, KS_STR("high")) ? &estimate->high
                                                        : NULL;
    return place ? take_real(c, place) : ks_json_skip(c);
}

/* The document says how many times as fast, a try the ratio of the times. */
static enum ks_json take_speedup(struct ks_json_cursor *c, struct ks_tuning_try *try)
{
    double unknown = (double)NAN;
    struct ks_trial_estimate speedup = {unknown, unknown, unknown};
    enum ks_json step = take_object(c, take_estimate_member, &speedup);
    try->ratio =
        (struct ks_trial_estimate){1.0 / speedup.value, 1.0 / speedup.high, 1.0 / speedup.low};
    return step;
}

static enum ks_tuning_fate fate_of(const char *word)
{
    for (int i = KS_TUNING_KEPT; i <= KS_TUNING_REFUSED; i++) {
        if (strcmp(ks_tuning_fate_name((enum ks_tuning_fate)i), word) == 0) {
            return (enum ks_tuning_fate)i;
        }
    }
    return KS_TUNING_FAILED;
}

static enum ks_trial_verdict verdict_of(const char *word)
{
    for (int i = KS_TRIAL_CANNOT_TELL; i <= KS_TRIAL_SLOWER; i++) {
        if (strcmp(ks_trial_verdict_name((enum ks_trial_verdict)i), word) == 0) {
            return (enum ks_trial_verdict)i;
        }
    }
    return KS_TRIAL_CANNOT_TELL;
}

static enum ks_json take_try_word(struct ks_json_cursor *c, struct ks_str key, struct document *doc,
                                  struct ks_tuning_try *try)
{
    enum ks_json step = take_text(c, doc->word, sizeof(doc->word));
    if (ks_str_equal(key, KS_STR("fate"))) {
        try->fate = fate_of(doc->word);
    } else {
        try->verdict = verdict_of(doc->word);
    }
    return step;
}

static enum ks_json take_try_member(struct ks_json_cursor *c, struct ks_str key, void *user)
{
    struct document *doc = user;
    struct ks_tuning_try *try = doc->try;
    const struct {
        struct ks_str key;
        double *place;
    } reals[] = {
        {KS_STR("before_ns"), &try->before_ns},
        {KS_STR("after_ns"), &try->after_ns},
        {KS_STR("difference"), &try->difference},
        {KS_STR("tolerance"), &try->tolerance},
    };
    const struct {
        struct ks_str key;
        int64_t *place;
    } numbers[] = {
        {KS_STR("before_bytes"), &try->before_bytes},
        {KS_STR("after_bytes"), &try->after_bytes},
        {KS_STR("before_gpu_bytes"), &try->before_gpu_bytes},
        {KS_STR("after_gpu_bytes"), &try->after_gpu_bytes},
    };
    for (size_t i = 0; i < KS_COUNT_OF(reals); i++) {
        if (ks_str_equal(key, reals[i].key)) {
            return take_real(c, reals[i].place);
        }
    }
    for (size_t i = 0; i < KS_COUNT_OF(numbers); i++) {
        if (ks_str_equal(key, numbers[i].key)) {
            return ks_json_take_number(c, numbers[i].place);
        }
    }
    if (ks_str_equal(key, KS_STR("change"))) {
        return take_text(c, try->change, sizeof(try->change));
    }
    if (ks_str_equal(key, KS_STR("reason"))) {
        return take_text(c, try->reason, sizeof(try->reason));
    }
    if (ks_str_equal(key, KS_STR("speedup"))) {
        return take_speedup(c, try);
    }
    if (ks_str_equal(key, KS_STR("rounds"))) {
        return take_count(c, &try->rounds);
    }
    bool is_word = ks_str_equal(key, KS_STR("fate")) || ks_str_equal(key, KS_STR("verdict"));
    return is_word ? take_try_word(c, key, doc, try) : ks_json_skip(c);
}

static enum ks_json take_tries(struct ks_json_cursor *c, struct document *doc)
{
    bool more;
    enum ks_json step = ks_json_open_array(c, &more);
    while (step == KS_JSON_OK && more) {
        struct ks_tuning *out = doc->out;
        bool has_room = out->try_count < KS_TUNING_TRIES_MAX;
        doc->try = &out->tries[out->try_count];
        out->try_count += has_room;
        step = has_room ? take_object(c, take_try_member, doc) : ks_json_skip(c);
        step = step == KS_JSON_OK ? ks_json_next(c, ']', &more) : step;
    }
    return step;
}

/* ------------------------------------------------------------------ the rest */

static enum ks_json take_left_member(struct ks_json_cursor *c, struct ks_str key, void *user)
{
    struct ks_tuning_left *left = ((struct document *)user)->left;
    if (ks_str_equal(key, KS_STR("id"))) {
        return take_text(c, left->id, sizeof(left->id));
    }
    return ks_str_equal(key, KS_STR("reason")) ? take_text(c, left->reason, sizeof(left->reason))
                                               : ks_json_skip(c);
}

static enum ks_json take_left(struct ks_json_cursor *c, struct document *doc, bool is_finding)
{
    bool more;
    enum ks_json step = ks_json_open_array(c, &more);
    while (step == KS_JSON_OK && more) {
        struct ks_tuning *out = doc->out;
        bool has_room = out->left_count < KS_TUNING_LEFT_MAX;
        doc->left = &out->left[out->left_count];
        out->left_count += has_room;
        step = has_room ? take_object(c, take_left_member, doc) : ks_json_skip(c);
        if (has_room) {
            doc->left->is_finding = is_finding;
        }
        step = step == KS_JSON_OK ? ks_json_next(c, ']', &more) : step;
    }
    return step;
}

static enum ks_json take_setting_word(struct ks_json_cursor *c, struct ks_str key, void *user)
{
    struct document *doc = user;
    char *setting = doc->setting;
    size_t used = strlen(setting);
    enum ks_json step = take_text(c, doc->word, sizeof(doc->word));
    snprintf(setting + used, KS_TUNING_SETTING_SIZE - used, "%s%.*s=%s", used ? "," : "",
             (int)(key.len < KS_TUNING_NAME_SIZE ? key.len : KS_TUNING_NAME_SIZE), key.ptr,
             doc->word);
    return step;
}

static enum ks_json take_environment(struct ks_json_cursor *c, struct ks_str key, void *user)
{
    struct ks_tuning *out = ((struct document *)user)->out;
    if (ks_str_equal(key, KS_STR("device"))) {
        return take_text(c, out->device, sizeof(out->device));
    }
    return ks_str_equal(key, KS_STR("torch")) ? take_text(c, out->torch, sizeof(out->torch))
                                              : ks_json_skip(c);
}

static enum ks_json take_end(struct ks_json_cursor *c, struct document *doc)
{
    enum ks_json step = take_text(c, doc->word, sizeof(doc->word));
    doc->out->end = KS_TUNING_INTERRUPTED;
    for (int i = KS_TUNING_DONE; i <= KS_TUNING_INTERRUPTED; i++) {
        if (strcmp(ks_tuning_end_name((enum ks_tuning_end)i), doc->word) == 0) {
            doc->out->end = (enum ks_tuning_end)i;
        }
    }
    return step;
}

static enum ks_json take_flag(struct ks_json_cursor *c, bool *out)
{
    enum ks_json_kind kind;
    enum ks_json step = ks_json_kind_of(c, &kind);
    *out = step == KS_JSON_OK && kind == KS_JSON_TRUE;
    return step == KS_JSON_OK ? ks_json_skip(c) : step;
}

static enum ks_json take_list(struct ks_json_cursor *c, struct ks_str key, struct document *doc)
{
    if (ks_str_equal(key, KS_STR("tries"))) {
        return take_tries(c, doc);
    }
    if (ks_str_equal(key, KS_STR("not_tunable"))) {
        return take_left(c, doc, true);
    }
    return ks_str_equal(key, KS_STR("left_out")) ? take_left(c, doc, false) : ks_json_skip(c);
}

static enum ks_json take_member(struct ks_json_cursor *c, struct ks_str key, void *user)
{
    struct document *doc = user;
    struct ks_tuning *out = doc->out;
    if (ks_str_equal(key, KS_STR("schema"))) {
        enum ks_json step = take_text(c, doc->word, sizeof(doc->word));
        doc->is_ours = strcmp(doc->word, "kinetoscope.tune/1") == 0;
        return step;
    }
    if (ks_str_equal(key, KS_STR("script"))) {
        return take_text(c, out->script, sizeof(out->script));
    }
    if (ks_str_equal(key, KS_STR("advice"))) {
        return take_text(c, out->advice, sizeof(out->advice));
    }
    if (ks_str_equal(key, KS_STR("environment"))) {
        return take_object(c, take_environment, doc);
    }
    if (ks_str_equal(key, KS_STR("setting")) || ks_str_equal(key, KS_STR("base"))) {
        doc->setting = ks_str_equal(key, KS_STR("base")) ? out->base : out->setting;
        doc->setting[0] = '\0'; /* of a key that is there twice the last one counts */
        return take_object(c, take_setting_word, doc);
    }
    if (ks_str_equal(key, KS_STR("ended"))) {
        return take_end(c, doc);
    }
    if (ks_str_equal(key, KS_STR("deterministic"))) {
        return take_flag(c, &out->is_deterministic);
    }
    if (ks_str_equal(key, KS_STR("noise"))) {
        return take_real(c, &out->noise);
    }
    if (ks_str_equal(key, KS_STR("seconds"))) {
        return take_real(c, &out->seconds);
    }
    if (ks_str_equal(key, KS_STR("processes"))) {
        return take_count(c, &out->processes);
    }
    if (ks_str_equal(key, KS_STR("whole"))) {
        doc->try = &out->whole;
        return take_object(c, take_try_member, doc);
    }
    return take_list(c, key, doc);
}

/* ------------------------------------------------------------------ the file */

static enum ks_status read_bytes(const char *folder, char **bytes, size_t *len)
{
    struct stat info;
    enum ks_status status = KS_END;
    int dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    int fd = dir_fd >= 0 ? openat(dir_fd, KS_TUNING_FILE_NAME, flags) : -1;
    bool is_file = fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    if (is_file && info.st_size > 0 && info.st_size <= BYTES_MAX) {
        *bytes = ks_alloc((size_t)info.st_size + KS_WINDOW_PAD, 1);
        ssize_t got = *bytes ? pread(fd, *bytes, (size_t)info.st_size, 0) : -1;
        *len = got > 0 ? (size_t)got : 0;
        status = !*bytes ? KS_ERR_NOMEM : got > 0 ? KS_OK : KS_END;
    }
    if (fd >= 0) {
        close(fd);
    }
    if (dir_fd >= 0) {
        close(dir_fd);
    }
    return status;
}

static enum ks_status read_document(const char *bytes, size_t len, struct ks_tuning *out)
{
    struct document doc = {.out = out};
    struct ks_json_cursor cursor = {.at = bytes, .end = bytes + len};
    bool is_whole = ks_json_each_member(&cursor, take_member, &doc);
    return is_whole && doc.is_ours ? KS_OK : KS_END;
}

enum ks_status ks_tuning_file_read(const char *folder, struct ks_arena *arena,
                                   struct ks_tuning **out)
{
    char *bytes = NULL;
    size_t len = 0;
    enum ks_status status = read_bytes(folder, &bytes, &len);
    if (status == KS_OK) {
        *out = ks_new(arena, struct ks_tuning, 1);
        status = *out ? read_document(bytes, len, *out) : KS_ERR_NOMEM;
    }
    ks_free(bytes);
    return status;
}
