#include "read/kineto.h"

/* Key of exactly these bytes? The length is known to be right: callers switch on it. */
#define KEY_IS(key, literal) (memcmp((key)->ptr, literal, sizeof(literal) - 1) == 0)

static enum ks_json take_int(struct ks_json_cursor *c, struct kineto_args *a, uint32_t bit,
                             int64_t *value)
{
    bool found;
    enum ks_json step = ks_json_int(c, value, &found);
    if (step == KS_JSON_OK && found) {
        a->found |= bit;
    }
    return step;
}

static enum ks_json take_double(struct ks_json_cursor *c, struct kineto_args *a, uint32_t bit,
                                double *value)
{
    bool found;
    enum ks_json step = ks_json_double(c, value, &found);
    if (step == KS_JSON_OK && found) {
        a->found |= bit;
    }
    return step;
}

/* A string value; anything else is taken and leaves `out` unset. */
static enum ks_json take_string(struct ks_json_cursor *c, struct ks_json_str *out)
{
    char ch;
    enum ks_json step = ks_json_peek(c, &ch);
    if (step != KS_JSON_OK) {
        return step;
    }
    return ch == '"' ? ks_json_string(c, out) : ks_json_skip(c);
}

/* The JSON text of any value. */
static enum ks_json take_text(struct ks_json_cursor *c, struct ks_str *out)
{
    ks_json_blanks(c);
    const char *start = c->at;
    enum ks_json step = ks_json_skip(c);
    *out = (struct ks_str){start, (size_t)(c->at - start)};
    return step;
}

static enum ks_json take_finished(struct ks_json_cursor *c, struct kineto_args *a)
{
    ks_json_blanks(c);
    if (*c->at == 'f') {
        a->found |= ARG_UNFINISHED;
    }
    return ks_json_skip(c);
}

/* What the value of a key becomes. */
enum take { TAKE_NONE, TAKE_INT, TAKE_DOUBLE, TAKE_STRING, TAKE_TEXT, TAKE_FINISHED };

struct arg_key {
    const char *name;
    enum take how;
    uint32_t bit;    /* of numbers: ARG_* in kineto_args */
    uint32_t offset; /* of the field */
};

enum { KEY_LEN_MAX = 25, KEYS_OF_LEN_MAX = 4 };

/* The field's type says how its value is taken. */
#define ARG(key, bit, field)                                                                       \
    {                                                                                              \
        key,                                                                                       \
            _Generic(((struct kineto_args *)0)->field, int64_t                                     \
                     : TAKE_INT, double                                                            \
                     : TAKE_DOUBLE, struct ks_json_str                                             \
                     : TAKE_STRING, struct ks_str                                                  \
                     : TAKE_TEXT),                                                                 \
            bit, (uint32_t)offsetof(struct kineto_args, field)                                     \
    }

/* By the length of the key: so hardly a key is compared twice. The order inside a length follows
 * how often Kineto writes the key; rows end with an empty one. */
static const struct arg_key arg_keys[KEY_LEN_MAX + 1][KEYS_OF_LEN_MAX + 1] = {
    [3] = {ARG("Seq", ARG_SEQUENCE, sequence)},
    [4] = {ARG("grid", 0, grid), ARG("name", 0, name), ARG("Addr", ARG_ADDR, addr)},
    [5] = {ARG("block", 0, block), ARG("bytes", ARG_BYTES, bytes), ARG("Bytes", ARG_BYTES, bytes),
           ARG("dtype", 0, dtype)},
    [6] = {ARG("stream", ARG_STREAM, stream), ARG("device", ARG_DEVICE, device)},
    [8] = {{"finished", TAKE_FINISHED, 0, 0}, ARG("CallFrom", 0, call_from)},
    [9] = {ARG("Python id", ARG_PYTHON_ID, python_id), ARG("Device Id", ARG_DEVICE_ID, device_id)},
    [10] = {ARG("Input Dims", 0, dims), ARG("Input dims", 0, dims), ARG("Input type", 0, types),
            ARG("Group size", ARG_GROUP_SIZE, group_size)},
    [11] = {ARG("External id", ARG_EXT_ID, ext_id), ARG("external id", ARG_EXT_ID, ext_id),
            ARG("correlation", ARG_CORR, corr), ARG("Device Type", ARG_DEVICE_TYPE, device_type)},
    [12] = {ARG("warps per SM", ARG_WARPS_PER_SM, warps_per_sm)},
    [13] = {ARG("Fwd thread id", ARG_FWD_THREAD, fwd_thread),
            ARG("shared memory", ARG_SHARED, shared),
            ARG("blocks per SM", ARG_BLOCKS_PER_SM, blocks_per_sm),
            ARG("In msg nelems", ARG_IN_ELEMENTS, in_elements)},
    [14] = {ARG("Total Reserved", ARG_RESERVED, reserved),
            ARG("Out msg nelems", ARG_OUT_ELEMENTS, out_elements)},
    [15] = {ARG("Sequence number", ARG_SEQ, seq), ARG("Concrete Inputs", 0, concrete),
            ARG("Total Allocated", ARG_ALLOCATED, allocated),
            ARG("Collective name", 0, collective)},
    [16] = {ARG("Python parent id", ARG_PYTHON_PARENT, python_parent)},
    [18] = {ARG("Process Group Name", 0, group)},
    [19] = {ARG("Process Group Ranks", 0, group_ranks)},
    [20] = {ARG("registers per thread", ARG_REGISTERS, registers)},
    [23] = {ARG("theoretical occupancy %", ARG_OCCUPANCY, occupancy)},
    [25] = {ARG("est. achieved occupancy %", ARG_OCCUPANCY, occupancy)},
};

static enum ks_json take_arg(struct ks_json_cursor *c, const struct ks_json_str *key,
                             struct kineto_args *a)
{
    const struct arg_key *arg = arg_keys[key->len <= KEY_LEN_MAX ? key->len : 0];
    while (arg->how != TAKE_NONE && memcmp(key->ptr, arg->name, key->len) != 0) {
        arg++;
    }
    void *field = (char *)a + arg->offset;
    switch (arg->how) {
    case TAKE_INT: return take_int(c, a, arg->bit, field);
    case TAKE_DOUBLE: return take_double(c, a, arg->bit, field);
    case TAKE_STRING: return take_string(c, field);
    case TAKE_TEXT: return take_text(c, field);
    case TAKE_FINISHED: return take_finished(c, a);
    case TAKE_NONE: break;
    }
    return ks_json_skip(c);
}

static enum ks_json take_args(struct ks_json_cursor *c, struct kineto_event *e)
{
    char ch;
    enum ks_json step = ks_json_peek(c, &ch);
    if (step != KS_JSON_OK) {
        return step;
    }
    if (ch != '{') {
        return ks_json_skip(c);
    }
    e->args_at = c->at;
    c->at++;
    step = ks_json_peek(c, &ch);
    if (step == KS_JSON_OK && ch == '}') {
        c->at++;
        return KS_JSON_OK;
    }
    bool more = step == KS_JSON_OK;
    while (more) {
        struct ks_json_str key;
        step = ks_json_key(c, &key);
        if (step == KS_JSON_OK) {
            step = take_arg(c, &key, &e->args);
        }
        if (step == KS_JSON_OK) {
            step = ks_json_next(c, '}', &more);
        }
        if (step != KS_JSON_OK) {
            return step;
        }
    }
    return step;
}

/* pid, tid and id are numbers or texts; a text that is an integer is that number. */
static enum ks_json take_id(struct ks_json_cursor *c, struct kineto_id *id)
{
    char ch;
    enum ks_json step = ks_json_peek(c, &ch);
    if (step != KS_JSON_OK) {
        return step;
    }
    const char *quote = c->at;
    struct ks_json_faults faults = c->faults;
    *id = (struct kineto_id){0};
    step = ks_json_int(c, &id->number, &id->found);
    if (step != KS_JSON_OK || id->found || ch != '"') {
        return step;
    }
    /* Text: what was noted about it as a number does not count. */
    c->faults = faults;
    c->at = quote;
    id->found = true;
    id->is_text = true;
    return ks_json_string(c, &id->text);
}

static enum ks_json take_phase(struct ks_json_cursor *c, char *phase)
{
    struct ks_json_str text = {0};
    enum ks_json step = take_string(c, &text);
    if (step == KS_JSON_OK && text.len == 1) {
        *phase = text.ptr[0];
    } else if (step == KS_JSON_OK && text.len > 0) {
        *phase = '?';
    }
    return step;
}

static enum ks_json take_time(const struct kineto *k, struct ks_json_cursor *c, int64_t *ns,
                              bool *found)
{
    return KS_UNLIKELY(k->is_unpadded) ? ks_json_time_unpadded(c, ns, found)
                                       : ks_json_time(c, ns, found);
}

static enum ks_json take_key_value(const struct kineto *k, struct ks_json_cursor *c,
                                   const struct ks_json_str *key, struct kineto_event *e)
{
    switch (key->len) {
    case 2:
        if (KEY_IS(key, "ph")) {
            return take_phase(c, &e->phase);
        }
        if (KEY_IS(key, "ts")) {
            e->has_duplicate_key |= e->has_ts;
            return take_time(k, c, &e->ts_ns, &e->has_ts);
        }
        if (KEY_IS(key, "id")) {
            return take_id(c, &e->id);
        }
        break;
    case 3:
        if (KEY_IS(key, "cat")) {
            return take_string(c, &e->cat);
        }
        if (KEY_IS(key, "pid")) {
            return take_id(c, &e->pid);
        }
        if (KEY_IS(key, "tid")) {
            return take_id(c, &e->tid);
        }
        if (KEY_IS(key, "dur")) {
            e->has_duplicate_key |= e->has_dur;
            return take_time(k, c, &e->dur_ns, &e->has_dur);
        }
        break;
    case 4:
        if (KEY_IS(key, "name")) {
            e->has_duplicate_key |= e->name.ptr != NULL;
            return take_string(c, &e->name);
        }
        if (KEY_IS(key, "args")) {
            return take_args(c, e);
        }
        break;
    case 5:
        if (KEY_IS(key, "scope")) {
            return take_string(c, &e->scope);
        }
        break;
    default: break;
    }
    return ks_json_skip(c);
}

/* The list inside an "event" that is a whole trace: the reader descends from here. */
static bool is_nested_list(const struct ks_json_cursor *c, const struct ks_json_str *key)
{
    const char *p = c->at;
    while (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r') {
        p++;
    }
    return key->len == 11 && KEY_IS(key, "traceEvents") && (*p == '[' || *p == '{');
}

enum ks_json kineto_event_parse(struct kineto *k, struct ks_json_cursor *c,
                                struct kineto_event *event)
{
    memset(event, 0, sizeof(*event));
    event->start = c->at;
    c->in_array = false;
    c->at++;
    char ch;
    enum ks_json step = ks_json_peek(c, &ch);
    if (step == KS_JSON_OK && ch == '}') {
        c->at++;
        return KS_JSON_OK;
    }
    bool more = step == KS_JSON_OK;
    while (more) {
        struct ks_json_str key;
        step = ks_json_key(c, &key);
        if (step != KS_JSON_OK) {
            return step;
        }
        if (is_nested_list(c, &key)) {
            event->has_trace_events = true;
            return KS_JSON_OK;
        }
        step = take_key_value(k, c, &key, event);
        if (step == KS_JSON_OK) {
            step = ks_json_next(c, '}', &more);
        }
        if (step != KS_JSON_OK) {
            return step;
        }
    }
    return step;
}
