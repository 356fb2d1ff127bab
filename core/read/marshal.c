#include "read/marshal.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/text.h"

enum {
    DEPTH_MAX = 16,
    LONG_DIGIT_BITS = 15,
    FLAG_REF = 0x80, /* the value can be referred to later */
#ifdef KS_SMALL_LIMITS
    VALUES_MAX = 4096,
#else
    VALUES_MAX = 16 * 1024 * 1024, /* of 16 bytes; three million pairs of functions */
#endif
};

static const size_t NO_REF = SIZE_MAX;

/* A container whose values are being read. */
struct frame {
    enum ks_marshal_kind kind;
    uint32_t left; /* items of a tuple that are missing */
    size_t first;  /* its first value on the stack */
    size_t ref;    /* what refers to it, or NO_REF */
};

struct values {
    struct ks_marshal_value *list;
    size_t count;
    size_t capacity;
};

struct ks_marshal {
    struct ks_reader_context to;
    ks_marshal_pair_cb on_pair;
    void *user;
    struct values stack; /* what belongs to open containers */
    struct values kept;  /* what belongs to whole ones */
    struct values refs;
    struct frame frames[DEPTH_MAX];
    size_t depth;
    size_t pair_kept; /* sizes of `kept` and `refs` when the pair began that is being read */
    size_t pair_refs;
    int64_t pair_offset;
    int64_t offset; /* of the value that is being read */
    bool is_whole;
    uint64_t trailing; /* bytes behind the dict */
    struct ks_text scratch;
};

/* A value in the input, without what it contains. */
struct token {
    unsigned char type;
    bool has_ref;
    const unsigned char *bytes; /* behind the type, and behind the length of a text */
    size_t length;              /* of a text or a tuple, digits of a long integer */
    size_t size;                /* of all of it */
};

bool ks_marshal_is_head(struct ks_str head)
{
    const unsigned char *bytes = (const unsigned char *)head.ptr;
    if (head.len < 2 || (bytes[0] & ~FLAG_REF) != '{') {
        return false;
    }
    int type = bytes[1] & ~FLAG_REF;
    bool is_small = type == ')' && head.len > 2 && bytes[2] == 3;
    bool is_large = type == '(' && head.len > 5 && memcmp(bytes + 2, "\3\0\0", 4) == 0;
    return is_small || is_large || (bytes[1] == '0' && head.len == 2);
}

/* ------------------------------------------------------------------ tokens */

static uint64_t number_at(const unsigned char *bytes, size_t size)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++) {
        number |= (uint64_t)bytes[i] << (8 * i);
    }
    return number;
}

static enum ks_status refuse(const struct ks_marshal *m, const char *why, struct ks_err *err)
{
    return ks_fail(err, KS_ERR_FORMAT, m->offset, "Cannot accept marshalled data: %s", why);
}

static enum ks_status refuse_type(const struct ks_marshal *m, unsigned char type,
                                  struct ks_err *err)
{
    static const struct {
        char type;
        const char *name;
    } names[] = {
        {'c', " (code)"}, {'s', " (bytes)"},   {'<', " (set)"},     {'>', " (frozen set)"},
        {'[', " (list)"}, {'y', " (complex)"}, {'x', " (complex)"}, {'N', " (None)"},
    };
    const char *name = "";
    for (size_t i = 0; i < KS_COUNT_OF(names); i++) {
        name = names[i].type == (char)type ? names[i].name : name;
    }
    return ks_fail(err, KS_ERR_FORMAT, m->offset,
                   "Cannot accept marshalled data: type 0x%02x%s is not taken", type, name);
}

/* Bytes of its head behind the type: 0 for one that has none, SIZE_MAX for one that is refused. */
static size_t head_size(unsigned char type)
{
    switch (type) {
    case '0': return 0;
    case '{': return 0;
    case ')':
    case 'z':
    case 'Z': return 1;
    case 'i':
    case 'r':
    case '(':
    case 'l':
    case 'a':
    case 'A':
    case 't':
    case 'u': return 4;
    case 'I':
    case 'g': return 8;
    default: return SIZE_MAX;
    }
}

static bool is_text(unsigned char type)
{
    return type == 'z' || type == 'Z' || type == 'a' || type == 'A' || type == 't' || type == 'u';
}

/* Digits of two bytes; the sign is that of their number. */
static size_t long_digits(const unsigned char *bytes)
{
    int32_t count = (int32_t)(uint32_t)number_at(bytes, 4);
    return count < 0 ? (size_t) - (int64_t)count : (size_t)count;
}

/* `size` 0: the window ends inside of it. */
static enum ks_status find_token(const struct ks_marshal *m, const unsigned char *bytes,
                                 size_t left, struct token *token, struct ks_err *err)
{
    *token = (struct token){.type = bytes[0] & (unsigned char)~FLAG_REF,
                            .has_ref = bytes[0] & FLAG_REF,
                            .bytes = bytes + 1};
    size_t head = head_size(token->type);
    if (head == SIZE_MAX) {
        return refuse_type(m, token->type, err);
    }
    if (left < 1 + head) {
        return KS_OK;
    }
    size_t content = 0;
    if (is_text(token->type)) {
        content = token->length = number_at(token->bytes, head);
        token->bytes += head;
    } else if (token->type == 'l') {
        token->length = long_digits(token->bytes);
        content = token->length * 2;
    } else if (token->type == '(' || token->type == ')') {
        token->length = number_at(token->bytes, head);
    }
    if (content > KS_STR_LEN_MAX) {
        return ks_fail(err, KS_ERR_LIMIT, m->offset,
                       "Cannot accept marshalled data: a value has %zu bytes, the limit is %d",
                       content, KS_STR_LEN_MAX);
    }
    token->size = left - 1 - head < content ? 0 : 1 + head + content;
    return KS_OK;
}

/* ------------------------------------------------------------------ values */

static enum ks_status append(struct ks_marshal *m, struct values *values,
                             const struct ks_marshal_value *value, struct ks_err *err)
{
    if (m->stack.count + m->kept.count + m->refs.count >= VALUES_MAX) {
        return ks_fail(err, KS_ERR_LIMIT, m->offset,
                       "Cannot accept marshalled data: it has more than %d values", VALUES_MAX);
    }
    KS_TRY(ks_grow(&values->list, values->count, &values->capacity, sizeof(*values->list), "values",
                   err));
    values->list[values->count++] = *value;
    return KS_OK;
}

static enum ks_status end_pair(struct ks_marshal *m, struct ks_err *err)
{
    size_t first = m->frames[0].first;
    KS_TRY(
        m->on_pair(m->user, &m->stack.list[first], &m->stack.list[first + 1], m->pair_offset, err));
    m->stack.count = first;
    if (m->refs.count == m->pair_refs) {
        m->kept.count = m->pair_kept;
    }
    return KS_OK;
}

/* Takes the values of the innermost container from the stack. */
static enum ks_status close_container(struct ks_marshal *m, struct ks_marshal_value *value,
                                      struct ks_err *err)
{
    const struct frame *frame = &m->frames[m->depth - 1];
    size_t count = m->stack.count - frame->first;
    bool is_dict = frame->kind == KS_MARSHAL_DICT;
    *value = (struct ks_marshal_value){.kind = frame->kind,
                                       .count = (uint32_t)(is_dict ? count / 2 : count),
                                       .as.first = m->kept.count};
    for (size_t i = 0; i < count; i++) {
        struct ks_marshal_value item = m->stack.list[frame->first + i];
        KS_TRY(append(m, &m->kept, &item, err));
    }
    m->stack.count = frame->first;
    if (frame->ref != NO_REF) {
        m->refs.list[frame->ref] = *value;
    }
    m->depth--;
    return KS_OK;
}

/* Puts a whole value where it belongs, and ends the tuples and pairs that it was the last of. */
static enum ks_status put(struct ks_marshal *m, struct ks_marshal_value value, struct ks_err *err)
{
    for (;;) {
        if (m->depth == 0) {
            return refuse(m, "it is no dict", err);
        }
        KS_TRY(append(m, &m->stack, &value, err));
        struct frame *frame = &m->frames[m->depth - 1];
        if (frame->kind == KS_MARSHAL_DICT) {
            bool is_pair = m->depth == 1 && m->stack.count - frame->first == 2;
            return is_pair ? end_pair(m, err) : KS_OK;
        }
        frame->left--;
        if (frame->left > 0) {
            return KS_OK;
        }
        KS_TRY(close_container(m, &value, err));
    }
}

static enum ks_status open_container(struct ks_marshal *m, enum ks_marshal_kind kind,
                                     const struct token *token, struct ks_err *err)
{
    const struct ks_marshal_value nothing = {.kind = KS_MARSHAL_NOTHING};
    size_t ref = token->has_ref ? m->refs.count : NO_REF;
    if (m->depth == DEPTH_MAX) {
        return ks_fail(err, KS_ERR_LIMIT, m->offset,
                       "Cannot accept marshalled data: values are nested more than %d deep",
                       DEPTH_MAX);
    }
    if (m->depth == 0 && kind != KS_MARSHAL_DICT) {
        return refuse(m, "it is no dict", err);
    }
    if (token->has_ref) {
        KS_TRY(append(m, &m->refs, &nothing, err));
    }
    m->frames[m->depth++] = (struct frame){
        .kind = kind, .left = (uint32_t)token->length, .first = m->stack.count, .ref = ref};
    if (kind == KS_MARSHAL_TUPLE && token->length == 0) {
        struct ks_marshal_value empty;
        KS_TRY(close_container(m, &empty, err));
        return put(m, empty, err);
    }
    return KS_OK;
}

static enum ks_status end_dict(struct ks_marshal *m, struct ks_err *err)
{
    const struct frame *frame = m->depth > 0 ? &m->frames[m->depth - 1] : NULL;
    if (!frame || frame->kind != KS_MARSHAL_DICT || (m->stack.count - frame->first) % 2 != 0) {
        return refuse(m, "a value is missing", err);
    }
    struct ks_marshal_value value;
    KS_TRY(close_container(m, &value, err));
    if (m->depth == 0) {
        m->is_whole = true;
        return KS_OK;
    }
    return put(m, value, err);
}

static enum ks_status refer(struct ks_marshal *m, const struct token *token, struct ks_err *err)
{
    size_t ref = number_at(token->bytes, 4);
    if (ref >= m->refs.count) {
        return refuse(m, "it refers to a value that was not there yet", err);
    }
    if (m->refs.list[ref].kind == KS_MARSHAL_NOTHING) {
        return refuse(m, "a value is part of itself", err);
    }
    return put(m, m->refs.list[ref], err);
}

/* ------------------------------------------------------------------ plain values */

/* Digits of 15 bits, the least of them first; what does not fit becomes the nearest that does. */
static int64_t long_value(const struct token *token)
{
    bool is_negative = number_at(token->bytes, 4) >> 31;
    uint64_t magnitude = 0;
    for (size_t i = token->length; i > 0; i--) {
        uint64_t digit = number_at(token->bytes + 4 + (i - 1) * 2, 2);
        if (magnitude > (uint64_t)INT64_MAX >> LONG_DIGIT_BITS) {
            return is_negative ? INT64_MIN : INT64_MAX;
        }
        magnitude = magnitude << LONG_DIGIT_BITS | (digit & ((1 << LONG_DIGIT_BITS) - 1));
    }
    return is_negative ? -(int64_t)magnitude : (int64_t)magnitude;
}

/* Python writes lone surrogates, which are no UTF-8, for bytes of a path that are none. */
static enum ks_status intern(struct ks_marshal *m, const struct token *token, struct ks_strid *out,
                             struct ks_err *err)
{
    bool is_repaired = false;
    ks_text_reset(&m->scratch);
    for (size_t at = 0; at < token->length;) {
        size_t len = ks_utf8_sequence(token->bytes + at, token->length - at);
        if (len > 0) {
            ks_text_append(&m->scratch, (const char *)token->bytes + at, len);
        } else {
            ks_text_append_str(&m->scratch, KS_STR("\xEF\xBF\xBD"));
            is_repaired = true;
        }
        at += len > 0 ? len : 1;
    }
    if (m->scratch.failed) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep text: len=%zu", token->length);
    }
    if (is_repaired && m->to.strict) {
        return refuse(m, "a text is no UTF-8", err);
    }
    m->to.source->counts[KS_STAT_repaired_strings] += is_repaired;
    struct ks_str text = {m->scratch.ptr, m->scratch.len};
    return ks_trace_builder_intern(m->to.builder, text, out, err);
}

static enum ks_status take_plain(struct ks_marshal *m, const struct token *token,
                                 struct ks_err *err)
{
    struct ks_marshal_value value = {.kind = KS_MARSHAL_INT};
    switch (token->type) {
    case 'i': value.as.integer = (int32_t)(uint32_t)number_at(token->bytes, 4); break;
    case 'I': value.as.integer = (int64_t)number_at(token->bytes, 8); break;
    case 'l': value.as.integer = long_value(token); break;
    case 'g':
        value.kind = KS_MARSHAL_REAL;
        memcpy(&value.as.real, token->bytes, sizeof(value.as.real));
        break;
    default:
        value.kind = KS_MARSHAL_STR;
        KS_TRY(intern(m, token, &value.as.text, err));
        break;
    }
    if (token->has_ref) {
        KS_TRY(append(m, &m->refs, &value, err));
    }
    return put(m, value, err);
}

static enum ks_status take(struct ks_marshal *m, const struct token *token, struct ks_err *err)
{
    if (m->depth == 1 && m->stack.count == m->frames[0].first) {
        m->pair_kept = m->kept.count;
        m->pair_refs = m->refs.count;
        m->pair_offset = m->offset;
    }
    switch (token->type) {
    case '0': return end_dict(m, err);
    case '{': return open_container(m, KS_MARSHAL_DICT, token, err);
    case '(':
    case ')': return open_container(m, KS_MARSHAL_TUPLE, token, err);
    case 'r': return refer(m, token, err);
    default: return take_plain(m, token, err);
    }
}

/* ------------------------------------------------------------------ reading */

enum ks_status ks_marshal_push(struct ks_marshal *m, const struct ks_window *window, size_t *used,
                               struct ks_err *err)
{
    const unsigned char *bytes = (const unsigned char *)window->ptr;
    size_t at = 0;
    while (!m->is_whole && at < window->size) {
        struct token token;
        m->offset = window->offset + (int64_t)at;
        KS_TRY(find_token(m, bytes + at, window->size - at, &token, err));
        if (token.size == 0) {
            break;
        }
        KS_TRY(take(m, &token, err));
        at += token.size;
    }
    if (m->is_whole) {
        m->trailing += window->size - at;
        at = window->size;
    }
    *used = at;
    return KS_OK;
}

uint64_t ks_marshal_trailing(const struct ks_marshal *m)
{
    return m->trailing;
}

int64_t ks_marshal_offset(const struct ks_marshal *m)
{
    return m->offset;
}

bool ks_marshal_is_whole(const struct ks_marshal *m)
{
    return m->is_whole;
}

const struct ks_marshal_value *ks_marshal_items(const struct ks_marshal *m,
                                                const struct ks_marshal_value *container)
{
    bool is_container = container->kind == KS_MARSHAL_TUPLE || container->kind == KS_MARSHAL_DICT;
    KS_ASSERT(is_container && container->as.first <= m->kept.count);
    return container->count > 0 ? m->kept.list + container->as.first : NULL;
}

enum ks_status ks_marshal_open(const struct ks_reader_context *context, ks_marshal_pair_cb on_pair,
                               void *user, struct ks_marshal **out, struct ks_err *err)
{
    struct ks_marshal *m = ks_alloc(1, sizeof(*m));
    if (!m) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot read profile: no memory");
    }
    m->to = *context;
    m->on_pair = on_pair;
    m->user = user;
    ks_text_init(&m->scratch);
    *out = m;
    return KS_OK;
}

void ks_marshal_close(struct ks_marshal *m)
{
    if (!m) {
        return;
    }
    ks_free(m->stack.list);
    ks_free(m->kept.list);
    ks_free(m->refs.list);
    ks_text_release(&m->scratch);
    ks_free(m);
}
