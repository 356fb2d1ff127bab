/* Parts of the Kineto and Chrome JSON reader, shared by its own files only.
 *
 *   kineto.c        where in the document we are: top-level keys, the list of events, damage
 *   kineto_event.c  one event object: its keys and arguments, no meaning
 *   kineto_layout.c how the keys of events are written, learned from the file
 *   kineto_emit.c   what an event means: rows of the builder
 *   kineto_open.c   events that come in halves: B/E and b/e
 *   kineto_meta.c   top-level keys beside traceEvents
 *   kineto_part.c   parts of the list of events, read at once
 *   kineto_resync.c where to go on behind damage
 */
#ifndef KS_READ_KINETO_H
#define KS_READ_KINETO_H

#include "base/map.h"
#include "base/text.h"
#include "read/json_arrays.h"
#include "read/json_cursor.h"
#include "read/json_string.h"
#include "read/kineto_layout.h"
#include "read/kineto_shapes.h"
#include "read/reader.h"

/* pid or tid as it stands in the file. */
struct kineto_id {
    bool found;
    bool is_text;
    int64_t number;
    struct ks_json_str text;
};

enum {
    ARG_EXT_ID = 1 << 0,
    ARG_CORR = 1 << 1,
    ARG_SEQ = 1 << 2,
    ARG_FWD_THREAD = 1 << 3,
    ARG_DEVICE = 1 << 4,
    ARG_STREAM = 1 << 5,
    ARG_BYTES = 1 << 6,
    ARG_ADDR = 1 << 7,
    ARG_OCCUPANCY = 1 << 8,
    ARG_BLOCKS_PER_SM = 1 << 9,
    ARG_WARPS_PER_SM = 1 << 10,
    ARG_REGISTERS = 1 << 11,
    ARG_SHARED = 1 << 12,
    ARG_DEVICE_TYPE = 1 << 13,
    ARG_DEVICE_ID = 1 << 14,
    ARG_ALLOCATED = 1 << 15,
    ARG_RESERVED = 1 << 16,
    ARG_PYTHON_ID = 1 << 17,
    ARG_PYTHON_PARENT = 1 << 18,
    ARG_IN_ELEMENTS = 1 << 19,
    ARG_OUT_ELEMENTS = 1 << 20,
    ARG_GROUP_SIZE = 1 << 21,
    ARG_SEQUENCE = 1 << 22,
    ARG_UNFINISHED = 1 << 23,
};

/* Arguments that some column needs; numbers count only when their bit is in `found`. */
struct kineto_args {
    uint32_t found;
    int64_t ext_id, corr, seq, fwd_thread;
    int64_t device, stream, bytes, addr;
    int64_t registers, shared, device_type, device_id, allocated, reserved;
    int64_t python_id, python_parent;
    int64_t in_elements, out_elements, group_size, sequence;
    double occupancy, blocks_per_sm, warps_per_sm;
    struct ks_str dims, types, concrete, grid, block; /* JSON text, len 0: none */
    struct ks_json_str name, collective, group, group_ranks, dtype,
        call_from; /* strings, ptr NULL: none */
};

struct kineto_event {
    const char *start; /* its opening brace */
    char phase;        /* 0: none */
    bool has_ts, has_dur;
    bool has_trace_events; /* not an event at all: an object with the key traceEvents */
    int64_t ts_ns, dur_ns;
    struct ks_json_str name, cat, scope; /* ptr NULL: none */
    uint8_t category;                    /* 1 + enum ks_category of cat, 0: not looked up */
    struct kineto_id pid, tid, id;
    const char *args_at; /* value of args, NULL none */
    bool has_duplicate_key;
    bool has_guessed_quotes; /* read with lenient_quotes */
    struct kineto_args args;
};

/* Makes it an event of which nothing is known. Field by field: most of it are numbers that count
 * only when a flag says so, and clearing those too would take longer than reading some of them. */
static inline void kineto_event_reset(struct kineto_event *e)
{
    const struct ks_json_str no_string = {0};
    const struct ks_str no_text = {0};
    e->phase = '\0';
    e->has_ts = false;
    e->has_dur = false;
    e->has_trace_events = false;
    e->name = no_string;
    e->cat = no_string;
    e->scope = no_string;
    e->category = 0;
    e->pid.found = false;
    e->pid.is_text = false;
    e->tid.found = false;
    e->tid.is_text = false;
    e->id.found = false;
    e->id.is_text = false;
    e->id.number = 0;
    e->args_at = NULL;
    e->has_duplicate_key = false;
    e->has_guessed_quotes = false;
    struct kineto_args *a = &e->args;
    a->found = 0;
    a->dims = no_text;
    a->types = no_text;
    a->concrete = no_text;
    a->grid = no_text;
    a->block = no_text;
    a->name = no_string;
    a->collective = no_string;
    a->group = no_string;
    a->group_ranks = no_string;
    a->dtype = no_string;
    a->call_from = no_string;
}

enum kineto_place {
    PLACE_START,
    PLACE_OBJECT_FIRST, /* behind an opening brace */
    PLACE_OBJECT,       /* behind a value of an object */
    PLACE_EVENTS_FIRST, /* behind the opening bracket of events */
    PLACE_EVENTS_COMMA, /* behind a comma between events */
    PLACE_EVENTS,       /* behind an event */
    PLACE_DONE,
};

enum { KINETO_LEVELS_MAX = 8, KINETO_TRACKS_CACHED = 8, KINETO_GPUS_MAX = 64 };

/* A begin event that waits for its end; frames of one track are chained from the top. */
struct kineto_frame {
    uint32_t below; /* 1 + index of the frame below, 0 none */
    uint32_t track;
    int64_t offset; /* of the event in the input */
    struct ks_slice_row row;
};

struct kineto_frames {
    struct kineto_frame *list;
    size_t count, capacity;
    size_t free;         /* 1 + index of the first free slot, chained by below; 0 none */
    struct ks_map tops;  /* track, or (category and scope, id) -> 1 + index of the top frame */
    struct ks_map named; /* (track, name) -> open frames of that name; B/E only */
};

struct kineto_track_cached {
    bool used, pid_is_text, tid_is_text;
    int64_t pid, tid;
    uint32_t track;
};

struct kineto_stream_cached {
    bool used;
    int64_t device, stream;
    uint32_t device_track, stream_track;
};

struct kineto {
    struct ks_reader_context to;
    struct ks_text scratch; /* decoded strings */
    enum kineto_place place;
    enum kineto_place levels[KINETO_LEVELS_MAX]; /* places to go back to */
    int depth;
    bool is_array_form;
    bool saw_events;       /* a traceEvents list, or the array form */
    bool is_resyncing;     /* looking for the next event */
    bool is_skipping_meta; /* looking for the next known key behind broken metadata */
    bool is_depth_unsure;  /* braces of the document were lost in damage */
    char solid_before;     /* while looking: last byte before the cursor that is no blank */
    int64_t guessed_bytes; /* read once more in vain, see parse_again */
    bool has_damaged_text; /* the event under way holds strings that were repaired */
    bool is_unpadded;      /* fractions of ts and dur are plain nanoseconds */
    bool saw_trailing;
    struct kineto_frames begun; /* B without E */
    struct kineto_frames async; /* b without e */
    struct kineto_track_cached tracks[KINETO_TRACKS_CACHED];
    unsigned track_next;
    struct ks_strid conv2d; /* names whose FLOPs need Concrete Inputs */
    struct kineto_stream_cached stream_cached;
    uint32_t order;              /* events seen: which of two slices of one span began first */
    ks_scan_array_cb scan_array; /* NULL: arrays are read by the grammar */
    struct kineto_layout layout;
    struct kineto_shapes shapes;
    int64_t stop_offset;    /* events from here on are read by others */
    bool has_stopped;       /* the reader stands before such an event */
    const char *window_ptr; /* of the push under way, for offsets */
    int64_t window_offset;
};

/* Offset of a place in the window, in the decompressed input. */
static inline int64_t kineto_offset(const struct kineto *k, const char *place)
{
    return k->window_offset + (place - k->window_ptr);
}

extern const struct ks_reader_parts kineto_parts;

/* A reader that stands at the start of a document, and its end; NULL is fine. */
enum ks_status kineto_create(const struct ks_reader_context *context, struct kineto **out,
                             struct ks_err *err);
void kineto_destroy(void *state);

/* Counts damage at a place; in strict mode that is an error. */
enum ks_status kineto_count(struct kineto *k, enum ks_stat stat, int64_t offset,
                            struct ks_err *err);

/* Counts the faults that reading an item met; in strict mode the first one is an error. */
enum ks_status kineto_count_faults(struct kineto *k, const struct ks_json_cursor *c,
                                   struct ks_err *err);

/* Reads the event object at the cursor. On KS_JSON_OK the cursor stands behind it. */
enum ks_json kineto_event_parse(struct kineto *k, struct ks_json_cursor *c,
                                struct kineto_event *event);
/* Turns an event into rows, and counts what is wrong with it. */
enum ks_status kineto_emit(struct kineto *k, const struct kineto_event *event, const char *end,
                           struct ks_err *err);
/* Decoded and interned. */
enum ks_status kineto_intern(struct kineto *k, const struct ks_json_str *raw, struct ks_strid *out,
                             struct ks_err *err);
/* A kept event: counts it and widens the source's time span. */
void kineto_seen(struct kineto *k, int64_t start_ns, int64_t end_ns);

/* B and E: `row` is a complete row but for the duration. */
enum ks_status kineto_begin(struct kineto *k, const struct ks_slice_row *row, int64_t offset,
                            struct ks_err *err);
/* name.v 0: an end without name closes the top frame. */
enum ks_status kineto_end(struct kineto *k, uint32_t track, struct ks_strid name, int64_t ts_ns,
                          int64_t offset, struct ks_err *err);
/* b and e, matched by (category and scope, id); those of one id nest. */
enum ks_status kineto_async_begin(struct kineto *k, const struct ks_slice_row *row, uint64_t key,
                                  uint64_t id, int64_t offset, struct ks_err *err);
enum ks_status kineto_async_end(struct kineto *k, uint64_t key, uint64_t id, int64_t ts_ns,
                                int64_t offset, struct ks_err *err);
/* Events still open at the end of the input. */
enum ks_status kineto_close_open(struct kineto *k, struct ks_err *err);
void kineto_frames_release(struct kineto_frames *frames);

/* Moves the cursor to the brace of the next event or to the bracket that ends the list (OK). MORE:
 * there is none before the cursor, which has moved on. */
enum ks_json kineto_find_event(struct kineto *k, struct ks_json_cursor *c, bool is_last);
/* The same for the next known key beside traceEvents: the cursor stands at its quote. */
enum ks_json kineto_find_member(struct kineto *k, struct ks_json_cursor *c, bool is_last);

/* Takes the value of a top-level key, known or not. */
enum ks_json kineto_meta_parse(struct kineto *k, struct ks_json_cursor *c, struct ks_str key);

#endif
