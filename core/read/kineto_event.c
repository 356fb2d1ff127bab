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

/* What the value of a key becomes: `how` of struct kineto_step. */
enum take {
    TAKE_NONE,
    TAKE_SKIP,
    TAKE_INT,
    TAKE_DOUBLE,
    TAKE_STRING,
    TAKE_TEXT,
    TAKE_FINISHED,
    TAKE_PHASE,
    TAKE_CATEGORY,
    TAKE_NAME,
    TAKE_ID,
    /* Learned with their value, see learn_value. */
    TAKE_PHASE_IS,
    TAKE_CATEGORY_IS,
    TAKE_ID_IS,
    TAKE_START,
    TAKE_DURATION,
    TAKE_ARGS,
    TAKE_EVENTS, /* the list inside an "event" that is a whole trace */
    TAKE_CLOSE,  /* no value: the closing brace */
};

struct arg_key {
    const char *name;
    enum take how;
    uint32_t bit;    /* of numbers: ARG_* in kineto_args */
    uint16_t offset; /* of the field in struct kineto_event */
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
            bit, (uint16_t)offsetof(struct kineto_event, args.field)                               \
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

static struct kineto_step meaning_of_arg(const struct ks_json_str *key)
{
    const struct arg_key *arg = arg_keys[key->len <= KEY_LEN_MAX ? key->len : 0];
    while (arg->how != TAKE_NONE && memcmp(key->ptr, arg->name, key->len) != 0) {
        arg++;
    }
    return (struct kineto_step){.how = arg->how == TAKE_NONE ? TAKE_SKIP : (uint8_t)arg->how,
                                .bit = arg->bit,
                                .offset = arg->offset};
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

#define MEANING(take, field)                                                                       \
    (struct kineto_step)                                                                           \
    {                                                                                              \
        .how = (take), .offset = (uint16_t)offsetof(struct kineto_event, field)                    \
    }

/* The value is one of few. */
#define MEANING_WITH_VALUES(take, field)                                                           \
    (struct kineto_step)                                                                           \
    {                                                                                              \
        .how = (take), .offset = (uint16_t)offsetof(struct kineto_event, field),                   \
        .values = LAYOUT_VALUES_MAX                                                                \
    }

static struct kineto_step meaning_of_key(const struct ks_json_str *key)
{
    switch (key->len) {
    case 2:
        if (KEY_IS(key, "ph")) {
            return MEANING_WITH_VALUES(TAKE_PHASE, phase);
        }
        if (KEY_IS(key, "ts")) {
            return MEANING(TAKE_START, ts_ns);
        }
        if (KEY_IS(key, "id")) {
            return MEANING(TAKE_ID, id);
        }
        break;
    case 3:
        if (KEY_IS(key, "cat")) {
            return MEANING_WITH_VALUES(TAKE_CATEGORY, cat);
        }
        if (KEY_IS(key, "pid")) {
            return MEANING_WITH_VALUES(TAKE_ID, pid);
        }
        if (KEY_IS(key, "tid")) {
            return MEANING_WITH_VALUES(TAKE_ID, tid);
        }
        if (KEY_IS(key, "dur")) {
            return MEANING(TAKE_DURATION, dur_ns);
        }
        break;
    case 4:
        if (KEY_IS(key, "name")) {
            return MEANING(TAKE_NAME, name);
        }
        if (KEY_IS(key, "args")) {
            return MEANING(TAKE_ARGS, args);
        }
        break;
    case 5:
        if (KEY_IS(key, "scope")) {
            return MEANING(TAKE_STRING, scope);
        }
        break;
    case 11:
        if (KEY_IS(key, "traceEvents")) {
            return MEANING(TAKE_EVENTS, start);
        }
        break;
    default: break;
    }
    return MEANING(TAKE_SKIP, start);
}

/* ---- members of an event, or of its arguments */

static enum ks_json take_args(struct kineto *k, struct ks_json_cursor *c, struct kineto_event *e);

/* The reader descends from here. */
static enum ks_json take_events(struct ks_json_cursor *c, struct kineto_event *e)
{
    const char *p = c->at;
    while (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r') {
        p++;
    }
    e->has_trace_events = *p == '[' || *p == '{';
    return e->has_trace_events ? KS_JSON_OK : ks_json_skip(c);
}

static inline enum ks_json take_value(struct kineto *k, struct ks_json_cursor *c,
                                      const struct kineto_step *meaning, struct kineto_event *e)
{
    void *field = (char *)e + meaning->offset;
    switch ((enum take)meaning->how) {
    case TAKE_INT: return take_int(c, &e->args, meaning->bit, field);
    case TAKE_DOUBLE: return take_double(c, &e->args, meaning->bit, field);
    case TAKE_STRING: return take_string(c, field);
    case TAKE_TEXT: return take_text(c, field);
    case TAKE_FINISHED: return take_finished(c, &e->args);
    case TAKE_PHASE: return take_phase(c, field);
    case TAKE_CATEGORY: e->category = 0; return take_string(c, &e->cat);
    case TAKE_NAME: e->has_duplicate_key |= e->name.ptr != NULL; return take_string(c, field);
    case TAKE_ID: return take_id(c, field);
    case TAKE_START: e->has_duplicate_key |= e->has_ts; return take_time(k, c, field, &e->has_ts);
    case TAKE_DURATION:
        e->has_duplicate_key |= e->has_dur;
        return take_time(k, c, field, &e->has_dur);
    case TAKE_ARGS: return take_args(k, c, e);
    case TAKE_EVENTS: return take_events(c, e);
    case TAKE_SKIP:
    case TAKE_NONE:
    case TAKE_PHASE_IS:
    case TAKE_CATEGORY_IS:
    case TAKE_ID_IS:
    case TAKE_CLOSE: break;
    }
    return ks_json_skip(c);
}

/* By the grammar: what stands between the brace or value at the cursor and the next value, or the
 * closing brace. `*step` is where it was learned, 0 when it was not. */
static enum ks_json read_key(struct kineto *k, struct ks_json_cursor *c, unsigned level,
                             bool is_first, unsigned *step, struct kineto_step *meaning)
{
    const char *from = c->at;
    uint32_t syntax = c->faults.syntax;
    struct ks_json_str key = {0};
    bool more;
    enum ks_json json;
    if (is_first) {
        char ch;
        c->at++;
        json = ks_json_peek(c, &ch);
        more = json == KS_JSON_OK && ch != '}';
        c->at += json == KS_JSON_OK && !more;
    } else {
        json = ks_json_next(c, '}', &more);
    }
    if (json == KS_JSON_OK && more) {
        json = ks_json_key(c, &key);
    }
    if (json != KS_JSON_OK) {
        return json;
    }
    *meaning = !more                   ? (struct kineto_step){.how = TAKE_CLOSE}
               : level == LAYOUT_EVENT ? meaning_of_key(&key)
                                       : meaning_of_arg(&key);
    meaning->level = (uint8_t)level;
    unsigned before = *step;
    *step = 0;
    bool is_known = key.flags == 0 && c->faults.syntax == syntax && !c->lenient_quotes;
    if (is_known && meaning->how != TAKE_EVENTS) {
        if (more) {
            ks_json_blanks(c);
        }
        meaning->size = (uint8_t)(c->at - from); // cut only where it is too long to be learned
        *step = kineto_layout_learn(&k->layout, before, from, c->at, meaning, false);
    }
    return KS_JSON_OK;
}

static inline bool is_letter(char c)
{
    return (unsigned char)((c | 0x20) - 'a') < 26;
}

static inline const char *plain_array(const struct kineto *k, const char *p)
{
    return *p == '[' && k->scan_array ? k->scan_array(p) : NULL;
}

/* Takes a value the way it is nearly always written; NULL when it is written in another way, or
 * needs more than that. */
static inline const char *take_plain(const struct kineto *k, const char *p,
                                     const struct kineto_step *meaning, struct kineto_event *e)
{
    void *field = (char *)e + meaning->offset;
    struct kineto_id *id = field;
    struct ks_json_str text;
    const char *end;
    switch ((enum take)meaning->how) {
    case TAKE_PHASE:
        if (p[0] != '"' || !is_letter(p[1]) || p[2] != '"') {
            return NULL;
        }
        e->phase = p[1];
        return p + 3;
    case TAKE_PHASE_IS: e->phase = (char)meaning->value; return p;
    case TAKE_CATEGORY_IS:
        e->cat = (struct ks_json_str){p - 1 - meaning->value_len, meaning->value_len, 0};
        e->category = (uint8_t)meaning->value;
        return p;
    case TAKE_ID_IS:
        id->is_text = false;
        id->found = true;
        id->number = meaning->value;
        return p;
    case TAKE_CATEGORY: e->category = 0; return ks_json_string_at(p, field);
    case TAKE_INT:
        end = ks_json_int_at(p, field);
        e->args.found |= end ? meaning->bit : 0;
        return end;
    case TAKE_SKIP:
        return *p == '"'   ? ks_json_string_at(p, &text)
               : *p == '[' ? plain_array(k, p)
                           : ks_json_digits_at(p);
    case TAKE_TEXT:
        end = plain_array(k, p);
        if (end) {
            *(struct ks_str *)field = (struct ks_str){p, (size_t)(end - p)};
        }
        return end;
    case TAKE_STRING: return ks_json_string_at(p, field);
    case TAKE_NAME: return e->name.ptr ? NULL : ks_json_string_at(p, field);
    case TAKE_ID:
        id->is_text = false;
        end = ks_json_int_at(p, &id->number);
        id->found = end != NULL;
        return end;
    case TAKE_START:
        end = k->is_unpadded || e->has_ts ? NULL : ks_json_time_at(p, field);
        e->has_ts |= end != NULL;
        return end;
    case TAKE_DURATION:
        end = k->is_unpadded || e->has_dur ? NULL : ks_json_time_at(p, field);
        e->has_dur |= end != NULL;
        return end;
    default: return NULL;
    }
}

/* The value of step `of`, which stands behind `before`, was taken from p to `end`: is learned
 * together with the text before it, because it comes again and again. The byte behind a number is
 * learned, too, so that no longer number is taken for it. */
static void learn_value(struct kineto *k, unsigned before, unsigned of, const char *from,
                        const char *end, const struct kineto_event *e)
{
    struct kineto_step *step = &k->layout.steps[of];
    struct kineto_step meaning = {.offset = step->offset, .level = step->level};
    step->values--;
    if (k->layout.steps[before].next[LAYOUT_NEXT_MAX - 1] != 0) {
        return; // the step itself must stay in the list, for other values
    }
    switch ((enum take)step->how) {
    case TAKE_PHASE:
        meaning.how = TAKE_PHASE_IS;
        meaning.value = e->phase;
        break;
    case TAKE_CATEGORY:
        if (e->cat.len > LAYOUT_TEXT_MAX) {
            return;
        }
        meaning.how = TAKE_CATEGORY_IS;
        meaning.value_len = (uint8_t)e->cat.len;
        meaning.value = 1 + ks_category_find((struct ks_str){e->cat.ptr, e->cat.len});
        break;
    default:
        meaning.how = TAKE_ID_IS;
        meaning.value =
            ((const struct kineto_id *)(const void *)((const char *)e + step->offset))->number;
        break;
    }
    meaning.size = (uint8_t)(end - from);
    end += meaning.how == TAKE_ID_IS;
    (void)kineto_layout_learn(&k->layout, before, from, end, &meaning, true);
}

static unsigned any_of(unsigned level)
{
    return level == LAYOUT_EVENT ? LAYOUT_EVENT_ANY : LAYOUT_ARGS_ANY;
}

/* From the brace to behind the closing one, or to a list of events. */
static enum ks_json take_members(struct kineto *k, struct ks_json_cursor *c, struct kineto_event *e,
                                 unsigned level)
{
    bool is_plain = !c->lenient_quotes;
    unsigned step = level;
    const char *p = c->at;
    for (;;) {
        unsigned next = is_plain ? kineto_layout_match(&k->layout, step, p) : 0;
        struct kineto_step read;
        const struct kineto_step *meaning = &k->layout.steps[next];
        if (KS_LIKELY(next != 0)) {
            const char *from = p;
            p += meaning->size;
            if (meaning->how == TAKE_CLOSE) {
                c->at = p;
                return KS_JSON_OK;
            }
            const char *end = take_plain(k, p, meaning, e);
            if (KS_LIKELY(end != NULL)) {
                if (KS_UNLIKELY(meaning->values > 0)) {
                    learn_value(k, step, next, from, end, e);
                }
                p = end;
                step = next;
                continue;
            }
            c->at = p;
        } else {
            c->at = p;
            bool is_first = step == level;
            enum ks_json json = read_key(k, c, level, is_first, &step, &read);
            if (json != KS_JSON_OK) {
                return json;
            }
            if (read.how == TAKE_CLOSE) {
                return KS_JSON_OK;
            }
            next = step != 0 ? step : any_of(level);
            meaning = &read;
        }
        enum ks_json json = take_value(k, c, meaning, e);
        if (json != KS_JSON_OK || e->has_trace_events) {
            return json;
        }
        p = c->at;
        step = next;
    }
}

static enum ks_json take_args(struct kineto *k, struct ks_json_cursor *c, struct kineto_event *e)
{
    char ch;
    enum ks_json json = ks_json_peek(c, &ch);
    if (json != KS_JSON_OK) {
        return json;
    }
    if (ch != '{') {
        return ks_json_skip(c);
    }
    e->args_at = c->at;
    return take_members(k, c, e, LAYOUT_ARGS);
}

enum ks_json kineto_event_parse(struct kineto *k, struct ks_json_cursor *c,
                                struct kineto_event *event)
{
    kineto_event_reset(event);
    kineto_layout_begin_event(&k->layout);
    event->start = c->at;
    c->in_array = false;
    return take_members(k, c, event, LAYOUT_EVENT);
}
