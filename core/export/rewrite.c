#include "export/rewrite.h"

#include <ctype.h>
#include <stdio.h>

#include "base/err.h"
#include "export/pseudonyms.h"
#include "read/json_string.h"

void ks_rewrite_put_string(struct ks_sink *sink, struct ks_str text)
{
    ks_sink_text(sink, "\"");
    size_t plain = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.ptr[i];
        if (byte >= 0x20 && byte != '"' && byte != '\\' && byte != 0x7f) {
            continue;
        }
        ks_sink_put(sink, text.ptr + plain, i - plain);
        plain = i + 1;
        char escape[8];
        if (byte == '"' || byte == '\\') {
            snprintf(escape, sizeof(escape), "\\%c", byte);
        } else {
            snprintf(escape, sizeof(escape), "\\u%04x", byte);
        }
        ks_sink_text(sink, escape);
    }
    ks_sink_put(sink, text.ptr + plain, text.len - plain);
    ks_sink_text(sink, "\"");
}

/* The value was read once already, so this does not happen; should two ways of reading ever differ,
 * the export ends with an error. */
static bool took(struct ks_rewrite *rewrite, enum ks_json step)
{
    if (step != KS_JSON_OK && rewrite->status == KS_OK) {
        rewrite->status = ks_fail(rewrite->err, KS_ERR_FORMAT, KS_NO_OFFSET,
                                  "Cannot write text: a value reads in two ways");
    }
    return step == KS_JSON_OK;
}

static void fail_memory(struct ks_rewrite *rewrite)
{
    rewrite->status =
        ks_fail(rewrite->err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write text: no memory");
}

/* Valid UTF-8, good until the next call. */
static struct ks_str decode(struct ks_rewrite *rewrite, const struct ks_json_str *raw)
{
    struct ks_str text = ks_json_str_decode(raw, &rewrite->scratch);
    if (rewrite->scratch.failed) {
        fail_memory(rewrite);
    }
    return text;
}

/* A string that needs no change keeps its spelling. */
static void put_raw_string(struct ks_rewrite *rewrite, const struct ks_json_str *raw)
{
    if (!(raw->flags & KS_JSON_STR_QUOTE) && !ks_json_str_fault(raw)) {
        ks_sink_text(rewrite->sink, "\"");
        ks_sink_put(rewrite->sink, raw->ptr, raw->len);
        ks_sink_text(rewrite->sink, "\"");
        return;
    }
    ks_rewrite_put_string(rewrite->sink, decode(rewrite, raw));
}

/* ------------------------------------------------------------------ any value */

/* What is done with the values of an object or array. */
enum mode {
    MODE_KEEP,
    MODE_NUMBERS, /* strings that are no numbers become "" */
};

static bool is_number_text(struct ks_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!isdigit((unsigned char)text.ptr[i]) && !memchr(".,-+[]() eE", text.ptr[i], 11)) {
            return ks_str_equal(text, KS_STR("True")) || ks_str_equal(text, KS_STR("False")) ||
                   ks_str_equal(text, KS_STR("None"));
        }
    }
    return true;
}

static void put_value(struct ks_rewrite *rewrite, struct ks_json_cursor *c, enum mode mode);

static void put_scalar(struct ks_rewrite *rewrite, struct ks_json_cursor *c)
{
    struct ks_str text;
    enum ks_json_kind kind;
    c->faults.non_finite = 0;
    if (!took(rewrite, ks_json_scalar(c, &text, &kind))) {
        return;
    }
    if (kind == KS_JSON_NON_FINITE || c->faults.non_finite > 0) {
        ks_sink_text(rewrite->sink, "null");
    } else {
        ks_sink_put(rewrite->sink, text.ptr, text.len);
    }
}

static void put_container(struct ks_rewrite *rewrite, struct ks_json_cursor *c, enum mode mode)
{
    bool is_object = *c->at == '{';
    char close = is_object ? '}' : ']';
    bool was_in_array = c->in_array;
    c->in_array = !is_object;
    ks_sink_put(rewrite->sink, c->at++, 1);
    ks_json_blanks(c);
    bool more = *c->at != close;
    c->at += !more;
    const char *before = "";
    while (more && rewrite->status == KS_OK) {
        ks_sink_text(rewrite->sink, before);
        before = ", ";
        if (is_object) {
            struct ks_json_str key;
            if (!took(rewrite, ks_json_key(c, &key))) {
                return;
            }
            put_raw_string(rewrite, &key);
            ks_sink_text(rewrite->sink, ": ");
        }
        put_value(rewrite, c, mode);
        c->in_array = !is_object;
        more = took(rewrite, ks_json_next(c, close, &more)) && more;
    }
    c->in_array = was_in_array;
    ks_sink_put(rewrite->sink, &close, 1);
}

/* Recurses as deep as the cursor allows values to nest, which is KS_JSON_DEPTH_MAX. */
static void put_value(struct ks_rewrite *rewrite, struct ks_json_cursor *c, enum mode mode)
{
    ks_json_blanks(c);
    if (*c->at == '"') {
        struct ks_json_str raw;
        if (!took(rewrite, ks_json_string(c, &raw))) {
            return;
        }
        bool is_hidden = mode == MODE_NUMBERS && !is_number_text((struct ks_str){raw.ptr, raw.len});
        if (is_hidden) {
            ks_sink_text(rewrite->sink, "\"\"");
        } else {
            put_raw_string(rewrite, &raw);
        }
    } else if (*c->at == '{' || *c->at == '[') {
        put_container(rewrite, c, mode);
    } else {
        put_scalar(rewrite, c);
    }
}

void ks_rewrite_value(struct ks_rewrite *rewrite, struct ks_json_cursor *cursor)
{
    put_value(rewrite, cursor, MODE_KEEP);
}

/* ------------------------------------------------------------------ arguments */

/* What becomes of a value whose name is to be hidden. */
enum treatment {
    TREAT_DROP, /* not known: a name could hide in it */
    TREAT_KEEP,
    TREAT_NUMBERS, /* numbers stay, also in text; other text goes */
    TREAT_NAME,
    TREAT_GROUP,
    TREAT_PLACE,
};

struct argument {
    const char *key;
    enum treatment treatment;
    bool is_needed; /* stays with drop_args: an analysis reads it, other than for shapes */
};

/* Every argument that torch and Kineto are known to write and that tells about the program. */
static const struct argument arguments[] = {
    {"External id", TREAT_NUMBERS, true},
    {"external id", TREAT_NUMBERS, true},
    {"Record function id", TREAT_NUMBERS, false},
    {"Ev Idx", TREAT_NUMBERS, false},
    {"Sequence number", TREAT_NUMBERS, true},
    {"Fwd thread id", TREAT_NUMBERS, true},
    {"correlation", TREAT_NUMBERS, true},
    {"cbid", TREAT_NUMBERS, false},
    {"device", TREAT_NUMBERS, true},
    {"context", TREAT_NUMBERS, true},
    {"stream", TREAT_NUMBERS, true},
    {"queued", TREAT_NUMBERS, false},
    {"grid", TREAT_NUMBERS, false},
    {"block", TREAT_NUMBERS, false},
    {"registers per thread", TREAT_NUMBERS, true},
    {"shared memory", TREAT_NUMBERS, true},
    {"blocks per SM", TREAT_NUMBERS, true},
    {"warps per SM", TREAT_NUMBERS, true},
    {"est. achieved occupancy %", TREAT_NUMBERS, true},
    {"theoretical occupancy %", TREAT_NUMBERS, true},
    {"graph id", TREAT_NUMBERS, true},
    {"graph node id", TREAT_NUMBERS, true},
    {"priority", TREAT_NUMBERS, false},
    {"bytes", TREAT_NUMBERS, true},
    {"Bytes", TREAT_NUMBERS, true},
    {"memory bandwidth (GB/s)", TREAT_NUMBERS, false},
    {"Addr", TREAT_NUMBERS, true},
    {"Device Id", TREAT_NUMBERS, true},
    {"Device Type", TREAT_NUMBERS, true},
    {"Total Allocated", TREAT_NUMBERS, true},
    {"Total Reserved", TREAT_NUMBERS, true},
    {"Input Dims", TREAT_NUMBERS, false},
    {"Input dims", TREAT_NUMBERS, false},
    {"Input Strides", TREAT_NUMBERS, false},
    {"Input type", TREAT_KEEP, false},
    {"Concrete Inputs", TREAT_NUMBERS, false},
    {"Python id", TREAT_NUMBERS, true},
    {"Python parent id", TREAT_NUMBERS, true},
    {"Python module id", TREAT_NUMBERS, true},
    {"Python thread", TREAT_NUMBERS, true},
    {"CallFrom", TREAT_PLACE, true},
    {"Seq", TREAT_NUMBERS, true},
    {"dtype", TREAT_KEEP, true},
    {"Group size", TREAT_NUMBERS, true},
    {"In msg nelems", TREAT_NUMBERS, true},
    {"Out msg nelems", TREAT_NUMBERS, true},
    {"In split size", TREAT_NUMBERS, false},
    {"Out split size", TREAT_NUMBERS, false},
    {"Collective name", TREAT_KEEP, true},
    {"Process Group Name", TREAT_GROUP, true},
    {"Process Group Description", TREAT_GROUP, true},
    {"Process Group Ranks", TREAT_NUMBERS, true},
    {"Rank", TREAT_NUMBERS, true},
    {"finished", TREAT_NUMBERS, true},
    {"wait_on_stream", TREAT_NUMBERS, true},
    {"wait_on_cuda_event_record_corr_id", TREAT_NUMBERS, true},
    {"wait_on_cuda_event_id", TREAT_NUMBERS, true},
    {"Op count", TREAT_NUMBERS, false},
    {"sort_index", TREAT_NUMBERS, true},
    {"name", TREAT_NAME, true},
    {"labels", TREAT_NAME, true},
};

static const struct argument *find_argument(const struct ks_json_str *key)
{
    for (size_t i = 0; i < KS_COUNT_OF(arguments); i++) {
        if (ks_event_key_is(key, arguments[i].key)) {
            return &arguments[i];
        }
    }
    return NULL;
}

static struct ks_str hide(struct ks_rewrite *rewrite, enum treatment treatment,
                          const struct ks_event_head *head, struct ks_str text)
{
    struct ks_pseudonyms *names = rewrite->names;
    struct ks_str out = {0};
    enum ks_status status = KS_OK;
    if (treatment == TREAT_PLACE) {
        status = ks_pseudonyms_place(names, text, &out, rewrite->err);
    } else if (treatment == TREAT_GROUP) {
        bool is_default = ks_str_equal(text, KS_STR("default_pg"));
        status = is_default
                     ? KS_OK
                     : ks_pseudonyms_text(names, KS_PSEUDONYM_GROUP, text, &out, rewrite->err);
        out = is_default ? text : out;
    } else if (head->phase == 'M') {
        status = ks_pseudonyms_text(names, KS_PSEUDONYM_TRACK, text, &out, rewrite->err);
    } else {
        status = ks_pseudonyms_event(names, head->category, head->phase, text, &out, rewrite->err);
    }
    rewrite->status = status != KS_OK ? status : rewrite->status;
    return out;
}

/* The value at the cursor as the treatment says; text of a name that is no text becomes null. */
static void put_treated(struct ks_rewrite *rewrite, struct ks_json_cursor *c,
                        enum treatment treatment, const struct ks_event_head *head)
{
    ks_json_blanks(c);
    if (!rewrite->names || treatment == TREAT_KEEP || treatment == TREAT_NUMBERS) {
        put_value(rewrite, c,
                  rewrite->names && treatment == TREAT_NUMBERS ? MODE_NUMBERS : MODE_KEEP);
        return;
    }
    if (*c->at != '"') {
        put_value(rewrite, c, MODE_NUMBERS);
        return;
    }
    struct ks_json_str raw;
    if (!took(rewrite, ks_json_string(c, &raw))) {
        return;
    }
    struct ks_str text = decode(rewrite, &raw);
    ks_rewrite_put_string(rewrite->sink, hide(rewrite, treatment, head, text));
}

/* ------------------------------------------------------------------ objects by their keys */

/* Says what to do with a member. */
typedef enum treatment (*judge_cb)(struct ks_rewrite *rewrite, const struct ks_json_str *key,
                                   const struct ks_event_head *head);

static enum treatment judge_argument(struct ks_rewrite *rewrite, const struct ks_json_str *key,
                                     const struct ks_event_head *head)
{
    const struct argument *argument = find_argument(key);
    if (rewrite->drop_args && head->phase != 'M' && head->phase != 'C' &&
        !(argument && argument->is_needed)) {
        return TREAT_DROP;
    }
    if (!rewrite->names) {
        return TREAT_KEEP;
    }
    rewrite->dropped_count += !argument;
    return argument ? argument->treatment : TREAT_DROP;
}

/* "args" is the one member that is an object of members again. */
static enum treatment judge_member(struct ks_rewrite *rewrite, const struct ks_json_str *key,
                                   const struct ks_event_head *head)
{
    static const char *const plain[] = {"ph", "bp", "s", "ts", "dur", "args"};
    if (!rewrite->names) {
        return TREAT_KEEP;
    }
    if (ks_event_key_is(key, "cat")) { /* users may write events of their own */
        return head->category == KS_CATEGORY_OTHER_HOST ? TREAT_GROUP : TREAT_KEEP;
    }
    for (size_t i = 0; i < KS_COUNT_OF(plain); i++) {
        if (ks_event_key_is(key, plain[i])) {
            return TREAT_KEEP;
        }
    }
    if (ks_event_key_is(key, "name")) {
        return TREAT_NAME;
    }
    if (ks_event_key_is(key, "pid") || ks_event_key_is(key, "tid") || ks_event_key_is(key, "id") ||
        ks_event_key_is(key, "scope")) {
        return TREAT_GROUP;
    }
    rewrite->dropped_count++;
    return TREAT_DROP;
}

static void put_members(struct ks_rewrite *rewrite, struct ks_json_cursor *c, judge_cb judge,
                        const struct ks_event_head *head)
{
    const char *before = "";
    c->in_array = false;
    c->at++;
    ks_sink_text(rewrite->sink, "{");
    ks_json_blanks(c);
    bool more = *c->at != '}';
    c->at += !more;
    while (more && rewrite->status == KS_OK) {
        struct ks_json_str key;
        if (!took(rewrite, ks_json_key(c, &key))) {
            return;
        }
        enum treatment treatment = judge(rewrite, &key, head);
        ks_json_blanks(c);
        if (treatment == TREAT_DROP) {
            (void)took(rewrite, ks_json_skip(c));
        } else {
            ks_sink_text(rewrite->sink, before);
            before = ", ";
            put_raw_string(rewrite, &key);
            ks_sink_text(rewrite->sink, ": ");
            if (judge == judge_member && *c->at == '{' && ks_event_key_is(&key, "args")) {
                put_members(rewrite, c, judge_argument, head);
            } else {
                put_treated(rewrite, c, treatment, head);
            }
        }
        c->in_array = false;
        more = took(rewrite, ks_json_next(c, '}', &more)) && more;
    }
    ks_sink_text(rewrite->sink, "}");
}

void ks_rewrite_event(struct ks_rewrite *rewrite, struct ks_json_cursor cursor,
                      const struct ks_event_head *head)
{
    put_members(rewrite, &cursor, judge_member, head);
}

/* ------------------------------------------------------------------ the document */

static const struct argument members[] = {
    {"schemaVersion", TREAT_NUMBERS, true},
    {"deviceProperties", TREAT_KEEP, true}, /* models of GPUs */
    {"computeProperties", TREAT_KEEP, true},
    {"distributedInfo", TREAT_NUMBERS, true},
    {"kinetoscope", TREAT_NUMBERS, true},
    {"record_shapes", TREAT_NUMBERS, true},
    {"with_stack", TREAT_NUMBERS, true},
    {"profile_memory", TREAT_NUMBERS, true},
    {"with_flops", TREAT_NUMBERS, true},
    {"with_modules", TREAT_NUMBERS, true},
    {"torch_version", TREAT_NUMBERS, true},
    {"cuda_version", TREAT_NUMBERS, true},
    {"cupti_version", TREAT_NUMBERS, true},
    {"cuda_runtime_version", TREAT_NUMBERS, true},
    {"cuda_driver_version", TREAT_NUMBERS, true},
    {"hip_runtime_version", TREAT_NUMBERS, true},
    {"hip_driver_version", TREAT_NUMBERS, true},
    {"baseTimeNanoseconds", TREAT_NUMBERS, true},
    {"baseTimeNanosecond", TREAT_NUMBERS, true},
    {"displayTimeUnit", TREAT_KEEP, true},
    {"trace_start_ns", TREAT_NUMBERS, true},
    {"trace_end_ns", TREAT_NUMBERS, true},
};

bool ks_rewrite_member(struct ks_rewrite *rewrite, const struct ks_json_str *key,
                       struct ks_json_cursor cursor, const char *before)
{
    enum treatment treatment = rewrite->names ? TREAT_DROP : TREAT_KEEP;
    for (size_t i = 0; i < KS_COUNT_OF(members) && rewrite->names; i++) {
        treatment = ks_event_key_is(key, members[i].key) ? members[i].treatment : treatment;
    }
    if (treatment == TREAT_DROP) {
        rewrite->dropped_count++;
        return false;
    }
    struct ks_event_head head = {0};
    ks_sink_text(rewrite->sink, before);
    put_raw_string(rewrite, key);
    ks_sink_text(rewrite->sink, ": ");
    put_treated(rewrite, &cursor, treatment, &head);
    return true;
}
