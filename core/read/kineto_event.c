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

/* One argument, by the length of its key and then by its bytes: no key is compared twice. The
 * order inside a length follows how often Kineto writes the key.
 * tidy: long - a flat table of keys. */
static enum ks_json take_arg(struct ks_json_cursor *c, const struct ks_json_str *key,
                             struct kineto_args *a)
{
    switch (key->len) {
    case 3:
        if (KEY_IS(key, "Seq")) {
            return take_int(c, a, ARG_SEQUENCE, &a->sequence);
        }
        break;
    case 4:
        if (KEY_IS(key, "grid")) {
            return take_text(c, &a->grid);
        }
        if (KEY_IS(key, "name")) {
            return take_string(c, &a->name);
        }
        if (KEY_IS(key, "Addr")) {
            return take_int(c, a, ARG_ADDR, &a->addr);
        }
        break;
    case 5:
        if (KEY_IS(key, "block")) {
            return take_text(c, &a->block);
        }
        if (KEY_IS(key, "bytes") || KEY_IS(key, "Bytes")) {
            return take_int(c, a, ARG_BYTES, &a->bytes);
        }
        if (KEY_IS(key, "dtype")) {
            return take_string(c, &a->dtype);
        }
        break;
    case 6:
        if (KEY_IS(key, "stream")) {
            return take_int(c, a, ARG_STREAM, &a->stream);
        }
        if (KEY_IS(key, "device")) {
            return take_int(c, a, ARG_DEVICE, &a->device);
        }
        break;
    case 8:
        if (KEY_IS(key, "finished")) {
            return take_finished(c, a);
        }
        if (KEY_IS(key, "CallFrom")) {
            return take_string(c, &a->call_from);
        }
        break;
    case 9:
        if (KEY_IS(key, "Python id")) {
            return take_int(c, a, ARG_PYTHON_ID, &a->python_id);
        }
        if (KEY_IS(key, "Device Id")) {
            return take_int(c, a, ARG_DEVICE_ID, &a->device_id);
        }
        break;
    case 10:
        if (KEY_IS(key, "Input Dims") || KEY_IS(key, "Input dims")) {
            return take_text(c, &a->dims);
        }
        if (KEY_IS(key, "Input type")) {
            return take_text(c, &a->types);
        }
        if (KEY_IS(key, "Group size")) {
            return take_int(c, a, ARG_GROUP_SIZE, &a->group_size);
        }
        break;
    case 11:
        if (KEY_IS(key, "External id") || KEY_IS(key, "external id")) {
            return take_int(c, a, ARG_EXT_ID, &a->ext_id);
        }
        if (KEY_IS(key, "correlation")) {
            return take_int(c, a, ARG_CORR, &a->corr);
        }
        if (KEY_IS(key, "Device Type")) {
            return take_int(c, a, ARG_DEVICE_TYPE, &a->device_type);
        }
        break;
    case 12:
        if (KEY_IS(key, "warps per SM")) {
            return take_double(c, a, ARG_WARPS_PER_SM, &a->warps_per_sm);
        }
        break;
    case 13:
        if (KEY_IS(key, "Fwd thread id")) {
            return take_int(c, a, ARG_FWD_THREAD, &a->fwd_thread);
        }
        if (KEY_IS(key, "shared memory")) {
            return take_int(c, a, ARG_SHARED, &a->shared);
        }
        if (KEY_IS(key, "blocks per SM")) {
            return take_double(c, a, ARG_BLOCKS_PER_SM, &a->blocks_per_sm);
        }
        if (KEY_IS(key, "In msg nelems")) {
            return take_int(c, a, ARG_IN_ELEMENTS, &a->in_elements);
        }
        break;
    case 14:
        if (KEY_IS(key, "Total Reserved")) {
            return take_int(c, a, ARG_RESERVED, &a->reserved);
        }
        if (KEY_IS(key, "Out msg nelems")) {
            return take_int(c, a, ARG_OUT_ELEMENTS, &a->out_elements);
        }
        break;
    case 15:
        if (KEY_IS(key, "Sequence number")) {
            return take_int(c, a, ARG_SEQ, &a->seq);
        }
        if (KEY_IS(key, "Concrete Inputs")) {
            return take_text(c, &a->concrete);
        }
        if (KEY_IS(key, "Total Allocated")) {
            return take_int(c, a, ARG_ALLOCATED, &a->allocated);
        }
        if (KEY_IS(key, "Collective name")) {
            return take_string(c, &a->collective);
        }
        break;
    case 16:
        if (KEY_IS(key, "Python parent id")) {
            return take_int(c, a, ARG_PYTHON_PARENT, &a->python_parent);
        }
        break;
    case 18:
        if (KEY_IS(key, "Process Group Name")) {
            return take_string(c, &a->group);
        }
        break;
    case 19:
        if (KEY_IS(key, "Process Group Ranks")) {
            return take_string(c, &a->group_ranks);
        }
        break;
    case 20:
        if (KEY_IS(key, "registers per thread")) {
            return take_int(c, a, ARG_REGISTERS, &a->registers);
        }
        break;
    case 23:
        if (KEY_IS(key, "theoretical occupancy %")) {
            return take_double(c, a, ARG_OCCUPANCY, &a->occupancy);
        }
        break;
    case 25:
        if (KEY_IS(key, "est. achieved occupancy %")) {
            return take_double(c, a, ARG_OCCUPANCY, &a->occupancy);
        }
        break;
    default: break;
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
