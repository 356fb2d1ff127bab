#include "read/pickle.h"

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "read/pickle_opcodes.h"

enum {
    TAG_BITS = 3,
    PAYLOAD_MAX = (1 << 29) - 1,
    INLINE_MAX = (1 << 28) - 1, /* integers up to here lie in the value itself */
    LONG_BYTES_MAX = 9,         /* 64 bits without a sign take nine bytes */
    MARKS_MAX = 512,
    PROTOCOL_MAX = 5,
};
/* No text of a snapshot is near it, and what is announced must fit into a window. */
static const uint64_t LENGTH_MAX = KS_STR_LEN_MAX;

/* The low bits of a value; the others are a number, or an index of where it lies. */
enum tag { TAG_SPECIAL, TAG_INT, TAG_WIDE, TAG_UNSIGNED, TAG_REAL, TAG_STR, TAG_LIST, TAG_DICT };
enum special { SPECIAL_NONE, SPECIAL_FALSE, SPECIAL_TRUE, SPECIAL_OTHER, SPECIAL_MISSING };

/* A list or a dict: a range of `items`, of single values or of pairs. */
struct container {
    uint32_t first;
    uint32_t count;    /* values: two for each pair */
    uint32_t capacity; /* that the range has */
};

struct ks_pickle {
    struct ks_strpool *strings; /* not owned */
    uint64_t *numbers;          /* integers and floats that are no inline ones, by their bits */
    struct container *containers;
    uint32_t *items;
    uint32_t *stack; /* while reading */
    uint32_t *memo;
    size_t number_count, number_capacity;
    size_t container_count, container_capacity;
    size_t item_count, item_capacity;
    size_t stack_count, stack_capacity;
    size_t memo_count, memo_capacity; /* with entries that were never set */
    size_t memo_set;                  /* without */
    size_t marks[MARKS_MAX];
    size_t mark_count;
    uint64_t bytes;
    uint64_t bytes_max;
    int64_t offset;       /* of the opcode that is read, for messages */
    unsigned char opcode; /* the same */
    int protocol;
    uint32_t root;
};

/* ------------------------------------------------------------------ values */

static uint32_t make(enum tag tag, uint32_t payload)
{
    return payload << TAG_BITS | (uint32_t)tag;
}

static enum tag tag_of(uint32_t value)
{
    return (enum tag)(value & ((1 << TAG_BITS) - 1));
}

static uint32_t payload_of(uint32_t value)
{
    return value >> TAG_BITS;
}

static enum ks_status refuse(const struct ks_pickle *p, const char *why, struct ks_err *err)
{
    const char *name = ks_pickle_opcodes[p->opcode].name;
    return ks_fail(err, KS_ERR_FORMAT, p->offset, "Cannot accept pickle: opcode=%s: %s",
                   name ? name : "?", why);
}

static enum ks_status refuse_size(const struct ks_pickle *p, struct ks_err *err)
{
    return ks_fail(err, KS_ERR_LIMIT, p->offset,
                   "Cannot keep pickle: its values take more than %llu bytes",
                   (unsigned long long)p->bytes_max);
}

/* Room for `more` items behind `count`. Arrays double, so the next size is what counts. */
static enum ks_status room(struct ks_pickle *p, void *array, size_t count, size_t more,
                           size_t *capacity, size_t size, struct ks_err *err)
{
    while (count + more > *capacity) {
        size_t before = *capacity;
        if (p->bytes + before * size > p->bytes_max) {
            return refuse_size(p, err);
        }
        KS_TRY(ks_grow_array(array, before, capacity, size, "pickle", err));
        p->bytes += (*capacity - before) * size;
    }
    return KS_OK;
}

static enum ks_status push(struct ks_pickle *p, uint32_t value, struct ks_err *err)
{
    if (KS_UNLIKELY(p->stack_count == p->stack_capacity)) {
        KS_TRY(room(p, &p->stack, p->stack_count, 1, &p->stack_capacity, sizeof(*p->stack), err));
    }
    p->stack[p->stack_count++] = value;
    return KS_OK;
}

static enum ks_status push_special(struct ks_pickle *p, enum special special, struct ks_err *err)
{
    return push(p, make(TAG_SPECIAL, special), err);
}

static enum ks_status push_number(struct ks_pickle *p, enum tag tag, uint64_t bits,
                                  struct ks_err *err)
{
    if (p->number_count > PAYLOAD_MAX) {
        return refuse_size(p, err);
    }
    KS_TRY(room(p, &p->numbers, p->number_count, 1, &p->number_capacity, sizeof(*p->numbers), err));
    p->numbers[p->number_count] = bits;
    return push(p, make(tag, (uint32_t)p->number_count++), err);
}

static enum ks_status push_int(struct ks_pickle *p, int64_t number, struct ks_err *err)
{
    if (number >= 0 && number <= INLINE_MAX) {
        return push(p, make(TAG_INT, (uint32_t)number), err);
    }
    return push_number(p, TAG_WIDE, (uint64_t)number, err);
}

/* Little-endian with a sign. What does not fit in 64 bits is no size and no address. */
static enum ks_status push_long(struct ks_pickle *p, const unsigned char *bytes, size_t len,
                                struct ks_err *err)
{
    uint64_t number = 0;
    bool is_negative = len > 0 && bytes[len - 1] >= 0x80;
    if (len > LONG_BYTES_MAX || (len == LONG_BYTES_MAX && bytes[len - 1] != 0)) {
        return push_special(p, SPECIAL_OTHER, err);
    }
    for (size_t i = 0; i < sizeof(number); i++) {
        uint64_t byte = i < len ? bytes[i] : is_negative ? 0xFF : 0;
        number |= byte << (8 * i);
    }
    if (len == LONG_BYTES_MAX && number > INT64_MAX) {
        return push_number(p, TAG_UNSIGNED, number, err);
    }
    return push_int(p, (int64_t)number, err);
}

static enum ks_status push_real(struct ks_pickle *p, const unsigned char *bytes, struct ks_err *err)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < sizeof(bits); i++) {
        bits = bits << 8 | bytes[i];
    }
    return push_number(p, TAG_REAL, bits, err);
}

static enum ks_status push_str(struct ks_pickle *p, const char *bytes, size_t len,
                               struct ks_err *err)
{
    struct ks_strid id = {0};
    if (p->bytes + len > p->bytes_max) {
        return refuse_size(p, err);
    }
    uint32_t known = ks_strpool_count(p->strings);
    KS_TRY(ks_strpool_intern(p->strings, (struct ks_str){bytes, len}, &id, err));
    if (id.v > PAYLOAD_MAX) {
        return refuse_size(p, err);
    }
    p->bytes += ks_strpool_count(p->strings) > known ? len + sizeof(struct ks_str) : 0;
    return push(p, make(TAG_STR, id.v), err);
}

/* ------------------------------------------------------------------ lists and dicts */

static enum ks_status push_container(struct ks_pickle *p, enum tag tag, struct ks_err *err)
{
    if (p->container_count > PAYLOAD_MAX) {
        return refuse_size(p, err);
    }
    KS_TRY(room(p, &p->containers, p->container_count, 1, &p->container_capacity,
                sizeof(*p->containers), err));
    p->containers[p->container_count] = (struct container){0};
    return push(p, make(tag, (uint32_t)p->container_count++), err);
}

/* A range that grows moves behind all others, with room for as much again: each value moves a few
 * times at most, however the pickle mixes its lists. */
static enum ks_status reserve_items(struct ks_pickle *p, struct container *c, size_t more,
                                    struct ks_err *err)
{
    size_t need = (size_t)c->count + more;
    if (need <= c->capacity) {
        return KS_OK;
    }
    bool is_last = c->capacity > 0 && (size_t)c->first + c->capacity == p->item_count;
    size_t capacity = c->count == 0 ? need : need + c->count;
    size_t first = is_last ? c->first : p->item_count;
    if (first + capacity > UINT32_MAX) {
        return refuse_size(p, err);
    }
    size_t added = first + capacity - p->item_count;
    KS_TRY(room(p, &p->items, p->item_count, added, &p->item_capacity, sizeof(*p->items), err));
    if (!is_last && c->count > 0) {
        memcpy(p->items + first, p->items + c->first, c->count * sizeof(*p->items));
    }
    p->item_count = first + capacity;
    c->first = (uint32_t)first;
    c->capacity = (uint32_t)capacity;
    return KS_OK;
}

/* Moves the values from stack position `from` on into the container below them. */
static enum ks_status add_items(struct ks_pickle *p, size_t from, enum tag tag, struct ks_err *err)
{
    size_t count = p->stack_count - from;
    if (from == 0 || tag_of(p->stack[from - 1]) != tag) {
        return refuse(p,
                      tag == TAG_DICT ? "there is no dict to set items of"
                                      : "there is no list to add items to",
                      err);
    }
    if (tag == TAG_DICT && count % 2 != 0) {
        return refuse(p, "a key has no value", err);
    }
    struct container *c = &p->containers[payload_of(p->stack[from - 1])];
    KS_TRY(reserve_items(p, c, count, err));
    if (count > 0) {
        memcpy(p->items + c->first + c->count, p->stack + from, count * sizeof(*p->items));
    }
    c->count += (uint32_t)count;
    p->stack_count = from;
    return KS_OK;
}

/* A container of the values from stack position `from` on, in their place. */
static enum ks_status collect(struct ks_pickle *p, size_t from, enum tag tag, struct ks_err *err)
{
    size_t count = p->stack_count - from;
    KS_TRY(push_container(p, tag, err));
    uint32_t container = p->stack[--p->stack_count];
    KS_TRY(push(p, make(TAG_SPECIAL, SPECIAL_NONE), err)); /* room for one more */
    memmove(p->stack + from + 1, p->stack + from, count * sizeof(*p->stack));
    p->stack[from] = container;
    return add_items(p, from + 1, tag, err);
}

static enum ks_status collect_tuple(struct ks_pickle *p, size_t count, struct ks_err *err)
{
    size_t floor = p->mark_count > 0 ? p->marks[p->mark_count - 1] : 0;
    return p->stack_count - floor >= count ? collect(p, p->stack_count - count, TAG_LIST, err)
                                           : refuse(p, "the stack is too short", err);
}

/* ------------------------------------------------------------------ stack and memo */

static enum ks_status push_mark(struct ks_pickle *p, struct ks_err *err)
{
    if (p->mark_count == MARKS_MAX) {
        return ks_fail(err, KS_ERR_LIMIT, p->offset,
                       "Cannot accept pickle: values are nested more than %d deep", MARKS_MAX);
    }
    p->marks[p->mark_count++] = p->stack_count;
    return KS_OK;
}

static enum ks_status pop_mark(struct ks_pickle *p, size_t *from, struct ks_err *err)
{
    if (p->mark_count == 0) {
        return refuse(p, "there is no mark", err);
    }
    *from = p->marks[--p->mark_count];
    return KS_OK;
}

/* Nothing is taken from below a mark. */
static enum ks_status check_stack(const struct ks_pickle *p, size_t count, struct ks_err *err)
{
    size_t floor = p->mark_count > 0 ? p->marks[p->mark_count - 1] : 0;
    return p->stack_count >= floor + count ? KS_OK : refuse(p, "the stack is too short", err);
}

/* Picklers count up; a place that the bytes so far cannot have counted to is a bomb. */
static enum ks_status put(struct ks_pickle *p, uint64_t place, struct ks_err *err)
{
    KS_TRY(check_stack(p, 1, err));
    if (place > (uint64_t)p->offset) {
        return refuse(p, "its place lies beyond all that the file can have counted to", err);
    }
    size_t more = place >= p->memo_count ? (size_t)place + 1 - p->memo_count : 0;
    if (more > 0) {
        KS_TRY(room(p, &p->memo, p->memo_count, more, &p->memo_capacity, sizeof(*p->memo), err));
    }
    for (; more > 0; more--) {
        p->memo[p->memo_count++] = make(TAG_SPECIAL, SPECIAL_MISSING);
    }
    p->memo_set += p->memo[place] == make(TAG_SPECIAL, SPECIAL_MISSING);
    p->memo[place] = p->stack[p->stack_count - 1];
    return KS_OK;
}

static enum ks_status get(struct ks_pickle *p, uint32_t place, struct ks_err *err)
{
    if (place >= p->memo_count || p->memo[place] == make(TAG_SPECIAL, SPECIAL_MISSING)) {
        return refuse(p, "nothing was put there", err);
    }
    return push(p, p->memo[place], err);
}

static enum ks_status pop(struct ks_pickle *p, struct ks_err *err)
{
    KS_TRY(check_stack(p, 1, err));
    p->stack_count--;
    return KS_OK;
}

/* ------------------------------------------------------------------ opcodes */

static uint64_t number_at(const unsigned char *bytes, size_t size)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++) {
        number |= (uint64_t)bytes[i] << (8 * i);
    }
    return number;
}

/* Those that take everything down to the last mark. */
static enum ks_status run_marked(struct ks_pickle *p, struct ks_err *err)
{
    size_t from = 0;
    KS_TRY(pop_mark(p, &from, err));
    switch ((enum ks_pickle_opcode)p->opcode) {
    case KS_OP_APPENDS:
    case KS_OP_ADDITEMS: return add_items(p, from, TAG_LIST, err);
    case KS_OP_SETITEMS: return add_items(p, from, TAG_DICT, err);
    case KS_OP_DICT: return collect(p, from, TAG_DICT, err);
    case KS_OP_POP_MARK: p->stack_count = from; return KS_OK;
    default: return collect(p, from, TAG_LIST, err); /* TUPLE, LIST, FROZENSET */
    }
}

static enum ks_status set_protocol(struct ks_pickle *p, int protocol, struct ks_err *err)
{
    if (protocol > PROTOCOL_MAX) {
        return ks_fail(err, KS_ERR_UNSUPPORTED, p->offset,
                       "Cannot read pickle: protocol=%d is newer than %d", protocol, PROTOCOL_MAX);
    }
    p->protocol = protocol;
    return KS_OK;
}

/* Those with bytes behind a length. */
static enum ks_status run_bytes(struct ks_pickle *p, const unsigned char *bytes, size_t len,
                                struct ks_err *err)
{
    switch ((enum ks_pickle_opcode)p->opcode) {
    case KS_OP_LONG1:
    case KS_OP_LONG4: return push_long(p, bytes, len, err);
    case KS_OP_BINBYTES:
    case KS_OP_SHORT_BINBYTES:
    case KS_OP_BINBYTES8:
    case KS_OP_BYTEARRAY8: return push_special(p, SPECIAL_OTHER, err);
    default: return push_str(p, (const char *)bytes, len, err);
    }
}

/* KS_END: the pickle is complete. `arg` has as many bytes as the opcode takes. */
static enum ks_status run(struct ks_pickle *p, const unsigned char *arg, struct ks_err *err)
{
    switch ((enum ks_pickle_opcode)p->opcode) { /* tidy: long, a flat switch */
    case KS_OP_BINGET: return get(p, arg[0], err);
    case KS_OP_LONG_BINGET: return get(p, (uint32_t)number_at(arg, 4), err);
    case KS_OP_MEMOIZE: return put(p, p->memo_set, err);
    case KS_OP_BINPUT: return put(p, arg[0], err);
    case KS_OP_LONG_BINPUT: return put(p, number_at(arg, 4), err);
    case KS_OP_MARK: return push_mark(p, err);
    case KS_OP_BININT1: return push_int(p, arg[0], err);
    case KS_OP_BININT2: return push_int(p, (int64_t)number_at(arg, 2), err);
    case KS_OP_BININT: return push_int(p, (int32_t)(uint32_t)number_at(arg, 4), err);
    case KS_OP_BINFLOAT: return push_real(p, arg, err);
    case KS_OP_NONE: return push_special(p, SPECIAL_NONE, err);
    case KS_OP_NEWTRUE: return push_special(p, SPECIAL_TRUE, err);
    case KS_OP_NEWFALSE: return push_special(p, SPECIAL_FALSE, err);
    case KS_OP_EMPTY_DICT: return push_container(p, TAG_DICT, err);
    case KS_OP_EMPTY_LIST:
    case KS_OP_EMPTY_SET:
    case KS_OP_EMPTY_TUPLE: return push_container(p, TAG_LIST, err);
    case KS_OP_APPENDS:
    case KS_OP_ADDITEMS:
    case KS_OP_SETITEMS:
    case KS_OP_DICT:
    case KS_OP_LIST:
    case KS_OP_TUPLE:
    case KS_OP_FROZENSET:
    case KS_OP_POP_MARK: return run_marked(p, err);
    case KS_OP_APPEND:
        KS_TRY(check_stack(p, 2, err));
        return add_items(p, p->stack_count - 1, TAG_LIST, err);
    case KS_OP_SETITEM:
        KS_TRY(check_stack(p, 3, err));
        return add_items(p, p->stack_count - 2, TAG_DICT, err);
    case KS_OP_TUPLE1: return collect_tuple(p, 1, err);
    case KS_OP_TUPLE2: return collect_tuple(p, 2, err);
    case KS_OP_TUPLE3: return collect_tuple(p, 3, err);
    case KS_OP_POP: return pop(p, err);
    case KS_OP_DUP:
        KS_TRY(check_stack(p, 1, err));
        return push(p, p->stack[p->stack_count - 1], err);
    case KS_OP_PROTO: return set_protocol(p, arg[0], err);
    case KS_OP_FRAME: return KS_OK; /* only says how to read ahead */
    case KS_OP_STOP:
        KS_TRY(check_stack(p, 1, err));
        p->root = p->stack[p->stack_count - 1];
        return KS_END;
    default: return refuse(p, "not handled", err);
    }
}

static enum ks_status refuse_opcode(const struct ks_pickle *p,
                                    const struct ks_pickle_opcode_facts *facts, struct ks_err *err)
{
    if (!facts->name) {
        return ks_fail(err, KS_ERR_FORMAT, p->offset,
                       "Cannot read pickle: byte 0x%02x is no opcode", p->opcode);
    }
    return ks_fail(err, KS_ERR_FORMAT, p->offset,
                   "Cannot accept pickle: opcode=%s: %s; a snapshot holds plain data", facts->name,
                   facts->reason);
}

/* Runs one opcode. `*used` 0: its bytes are not all there. */
static enum ks_status step(struct ks_pickle *p, const unsigned char *at, size_t left, size_t *used,
                           struct ks_err *err)
{
    const struct ks_pickle_opcode_facts *facts = &ks_pickle_opcodes[at[0]];
    *used = 0;
    p->opcode = at[0];
    if (KS_UNLIKELY(!facts->name || facts->reason)) {
        return refuse_opcode(p, facts, err);
    }
    if (left < 1 + (size_t)facts->size) {
        return KS_OK;
    }
    if (!facts->has_length) {
        *used = 1 + (size_t)facts->size;
        return run(p, at + 1, err);
    }
    uint64_t len = number_at(at + 1, facts->size);
    if (len > LENGTH_MAX) {
        return ks_fail(err, KS_ERR_LIMIT, p->offset,
                       "Cannot accept pickle: opcode=%s: length=%llu is above %llu", facts->name,
                       (unsigned long long)len, (unsigned long long)LENGTH_MAX);
    }
    if (left - 1 - facts->size < len) {
        return KS_OK;
    }
    *used = 1 + (size_t)facts->size + (size_t)len;
    return run_bytes(p, at + 1 + facts->size, (size_t)len, err);
}

/* References, which nine of ten opcodes of a snapshot are: as many as come one behind the other. */
static enum ks_status run_references(struct ks_pickle *p, const unsigned char *at, size_t left,
                                     size_t *used, struct ks_err *err)
{
    enum { SIZE = 5 };
    int64_t begin = p->offset;
    p->opcode = KS_OP_LONG_BINGET;
    *used = 0;
    while (left - *used >= SIZE && at[*used] == KS_OP_LONG_BINGET) {
        p->offset = begin + (int64_t)*used;
        KS_TRY(get(p, (uint32_t)number_at(at + *used + 1, SIZE - 1), err));
        *used += SIZE;
    }
    return KS_OK;
}

/* Runs all opcodes that are whole in the window. */
static enum ks_status run_window(struct ks_pickle *p, const struct ks_feed *feed, size_t *used,
                                 struct ks_err *err)
{
    const unsigned char *bytes = (const unsigned char *)feed->buf;
    while (*used < feed->len) {
        size_t size = 0;
        p->offset = feed->offset + (int64_t)*used;
        size_t left = feed->len - *used;
        bool is_reference = bytes[*used] == KS_OP_LONG_BINGET && left > 4;
        enum ks_status status = is_reference ? run_references(p, bytes + *used, left, &size, err)
                                             : step(p, bytes + *used, left, &size, err);
        *used += size;
        if (status != KS_OK || size == 0) {
            return status;
        }
    }
    return KS_OK;
}

static enum ks_status refuse_cut(const struct ks_feed *feed, struct ks_err *err)
{
    int64_t size = feed->offset + (int64_t)feed->len;
    if (size == 0) {
        return ks_fail(err, KS_ERR_FORMAT, 0, "Cannot read pickle: the file is empty");
    }
    return ks_fail(err, KS_ERR_FORMAT, size,
                   "Cannot read pickle: the file ends before its STOP; it was not written to its "
                   "end");
}

static enum ks_status read_all(struct ks_pickle *p, struct ks_feed *feed, struct ks_err *err)
{
    for (;;) {
        size_t used = 0;
        KS_TRY(ks_feed_fill(feed, feed->capacity, err));
        enum ks_status status = run_window(p, feed, &used, err);
        ks_feed_consume(feed, used);
        if (status != KS_OK) {
            return status == KS_END ? KS_OK : status;
        }
        if (feed->at_end) {
            return refuse_cut(feed, err);
        }
        if (used == 0) {
            KS_TRY(ks_feed_grow(feed, err));
        }
    }
}

/* What only reading needs. */
static void forget_reading(struct ks_pickle *p)
{
    ks_free(p->stack);
    ks_free(p->memo);
    p->stack = p->memo = NULL;
}

enum ks_status ks_pickle_read(struct ks_feed *feed, struct ks_strpool *strings, uint64_t bytes_max,
                              struct ks_pickle **out, struct ks_err *err)
{
    *out = NULL;
    struct ks_pickle *p = ks_alloc(1, sizeof(*p));
    if (!p) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot read pickle: no memory");
    }
    p->strings = strings;
    p->bytes_max = bytes_max;
    enum ks_status status = read_all(p, feed, err);
    forget_reading(p);
    if (status != KS_OK) {
        ks_pickle_close(p);
        return status;
    }
    *out = p;
    return KS_OK;
}

void ks_pickle_close(struct ks_pickle *p)
{
    if (p) {
        forget_reading(p);
        ks_free(p->numbers);
        ks_free(p->containers);
        ks_free(p->items);
        ks_free(p);
    }
}

bool ks_pickle_is_head(const char *bytes, size_t size)
{
    enum { PROTO_SIZE = 2, FRAME_SIZE = 9 };
    const unsigned char *at = (const unsigned char *)bytes;
    if (size <= PROTO_SIZE || at[0] != KS_OP_PROTO || at[1] < 2 || at[1] > PROTOCOL_MAX) {
        return false;
    }
    size_t next = PROTO_SIZE + (at[PROTO_SIZE] == KS_OP_FRAME ? FRAME_SIZE : 0);
    return next < size && (at[next] == KS_OP_EMPTY_DICT || at[next] == KS_OP_EMPTY_LIST);
}

/* ------------------------------------------------------------------ looking at it */

struct ks_pickle_value ks_pickle_root(const struct ks_pickle *p)
{
    return (struct ks_pickle_value){p->root};
}

int ks_pickle_protocol(const struct ks_pickle *p)
{
    return p->protocol;
}

enum ks_pickle_kind ks_pickle_kind(struct ks_pickle_value value)
{
    switch (tag_of(value.v)) {
    case TAG_INT:
    case TAG_WIDE:
    case TAG_UNSIGNED: return KS_PICKLE_INT;
    case TAG_REAL: return KS_PICKLE_REAL;
    case TAG_STR: return KS_PICKLE_STR;
    case TAG_LIST: return KS_PICKLE_LIST;
    case TAG_DICT: return KS_PICKLE_DICT;
    case TAG_SPECIAL: break;
    }
    switch (payload_of(value.v)) {
    case SPECIAL_FALSE:
    case SPECIAL_TRUE: return KS_PICKLE_BOOL;
    case SPECIAL_NONE: return KS_PICKLE_NONE;
    default: return KS_PICKLE_OTHER;
    }
}

bool ks_pickle_bool(struct ks_pickle_value value)
{
    return value.v == make(TAG_SPECIAL, SPECIAL_TRUE);
}

bool ks_pickle_int(const struct ks_pickle *p, struct ks_pickle_value value, int64_t *number)
{
    uint32_t payload = payload_of(value.v);
    switch (tag_of(value.v)) {
    case TAG_INT: *number = payload; return true;
    case TAG_WIDE: *number = (int64_t)p->numbers[payload]; return true;
    default: return false;
    }
}

bool ks_pickle_unsigned(const struct ks_pickle *p, struct ks_pickle_value value, uint64_t *number)
{
    int64_t signed_number = 0;
    if (tag_of(value.v) == TAG_UNSIGNED) {
        *number = p->numbers[payload_of(value.v)];
        return true;
    }
    if (!ks_pickle_int(p, value, &signed_number) || signed_number < 0) {
        return false;
    }
    *number = (uint64_t)signed_number;
    return true;
}

bool ks_pickle_real(const struct ks_pickle *p, struct ks_pickle_value value, double *number)
{
    if (tag_of(value.v) != TAG_REAL) {
        return false;
    }
    memcpy(number, &p->numbers[payload_of(value.v)], sizeof(*number));
    return true;
}

struct ks_strid ks_pickle_str(struct ks_pickle_value value)
{
    return (struct ks_strid){tag_of(value.v) == TAG_STR ? payload_of(value.v) : 0};
}

uint32_t ks_pickle_container(struct ks_pickle_value value)
{
    KS_ASSERT(tag_of(value.v) == TAG_LIST || tag_of(value.v) == TAG_DICT);
    return payload_of(value.v);
}

size_t ks_pickle_container_count(const struct ks_pickle *p)
{
    return p->container_count;
}

size_t ks_pickle_count(const struct ks_pickle *p, struct ks_pickle_value value)
{
    switch (tag_of(value.v)) {
    case TAG_LIST: return p->containers[payload_of(value.v)].count;
    case TAG_DICT: return p->containers[payload_of(value.v)].count / 2;
    default: return 0;
    }
}

struct ks_pickle_value ks_pickle_item(const struct ks_pickle *p, struct ks_pickle_value list,
                                      size_t index)
{
    const struct container *c = &p->containers[ks_pickle_container(list)];
    KS_DCHECK(index < c->count);
    return (struct ks_pickle_value){p->items[c->first + index]};
}

const struct ks_pickle_value *ks_pickle_items(const struct ks_pickle *p,
                                              struct ks_pickle_value list, size_t *count)
{
    *count = tag_of(list.v) == TAG_LIST ? p->containers[payload_of(list.v)].count : 0;
    if (*count == 0) {
        return NULL;
    }
    /* A struct of one number lies in memory as the number does. */
    return (const struct ks_pickle_value *)&p->items[p->containers[payload_of(list.v)].first];
}

void ks_pickle_pair(const struct ks_pickle *p, struct ks_pickle_value dict, size_t index,
                    struct ks_pickle_value *key, struct ks_pickle_value *value)
{
    *key = ks_pickle_item(p, dict, 2 * index);
    *value = ks_pickle_item(p, dict, 2 * index + 1);
}

bool ks_pickle_find(const struct ks_pickle *p, struct ks_pickle_value dict, struct ks_strid key,
                    struct ks_pickle_value *value)
{
    struct ks_pickle_value wanted = {make(TAG_STR, key.v)};
    for (size_t i = tag_of(dict.v) == TAG_DICT ? ks_pickle_count(p, dict) : 0; i > 0; i--) {
        struct ks_pickle_value there;
        ks_pickle_pair(p, dict, i - 1, &there, value);
        if (there.v == wanted.v) {
            return true;
        }
    }
    return false;
}
