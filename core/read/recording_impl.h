/* Parts of the reader of recordings (wire/recording.h, docs/formats/recording.md).
 *
 * What an event means is known late: its name may stand in a slot behind it, and its time lies
 * between two looks at the clock, the later of which is far behind. So slots of items are taken
 * apart as they come, slots of events are kept as they are in the chunks of the builder (which
 * spill), and `finish` turns them into rows, lane by lane. */
#ifndef KS_READ_RECORDING_IMPL_H
#define KS_READ_RECORDING_IMPL_H

#include "base/map.h"
#include "base/text.h"
#include "read/reader.h"
#include "wire/recording.h"

/* A slot whose payload waits for `finish`. */
struct recording_slot {
    struct ks_chunk *chunk; /* not pinned; NULL: nothing in it waits */
    uint32_t size;          /* bytes of payload that count */
    uint32_t index;
    uint32_t lane;
    uint32_t sequence;
    uint32_t tid;
    uint16_t kind;
    bool is_sealed;
};

/* Name and category as string ids of the file, until `finish` looks them up. */
struct recording_site {
    struct ks_strid name;
    struct ks_strid category;
    struct ks_strid unit;
    uint32_t name_id;
    uint32_t category_id;
};

/* What is said of something by a text of the file. */
struct recording_saying {
    uint32_t of; /* a site, or the string id of a key */
    uint32_t text_id;
};

struct recording_metric {
    struct ks_strid name;
    struct ks_strid unit;
    struct ks_strid series;
    uint32_t name_id;
    uint32_t unit_id;
    int32_t index;
};

struct recording_code {
    struct ks_strid name; /* these two: looked up late */
    struct ks_strid file;
    uint32_t name_id;
    uint32_t file_id;
    uint32_t first_line;
};

/* Ticks to Unix time: straight lines between looks at the clock, in order of ticks. */
struct recording_clock {
    struct ks_wire_clock *points; /* of the file, as they came; `ready` puts them in order */
    size_t count;
    size_t capacity;
    size_t hint;      /* where the last tick was */
    uint64_t rate_ns; /* the slope where there is one point: rate_ns for each rate_ticks */
    uint64_t rate_ticks;
};

struct recording_value {
    uint32_t next; /* 1 + index of the next one of its region, or of the next free one */
    uint32_t site;
    uint64_t bits;
    uint8_t kind; /* KS_WIRE_VALUE_* */
};

/* A region that is open. */
struct recording_frame {
    uint32_t below; /* 1 + index of the region around it, or of the next free frame */
    uint32_t track; /* 0: the frame is free */
    uint32_t site;
    uint32_t order;
    uint64_t tick;
    int64_t offset;
    uint32_t value_first; /* 1 + index, 0: none */
    uint32_t value_last;
    uint32_t value_count;
};

/* What is open in the lane that is being read. */
struct recording_open {
    struct recording_frame *frames;
    size_t frame_count;
    size_t frame_capacity;
    uint32_t frame_free; /* 1 + index, 0: none */
    struct recording_value *values;
    size_t value_count;
    size_t value_capacity;
    uint32_t value_free;
    struct ks_map tops; /* (track) -> 1 + index of its innermost frame */
};

struct recording {
    struct ks_reader_context to;
    struct ks_wire_header header;
    bool has_header;     /* `header` was read, ... */
    bool is_header_good; /* ... and fits its checksum */
    uint32_t slot_next;
    int64_t base_ns;
    uint32_t process; /* track */
    struct recording_slot *slots;
    size_t slot_count;
    size_t slot_capacity;
    struct ks_map ids; /* (enum ks_wire_item_kind, id) -> 1 + index, strings: 1 + string id */
    struct recording_site *sites;
    size_t site_count;
    size_t site_capacity;
    struct recording_saying *units;
    size_t unit_count;
    size_t unit_capacity;
    struct recording_saying *notes;
    size_t note_count;
    size_t note_capacity;
    struct recording_metric *metrics;
    size_t metric_count;
    size_t metric_capacity;
    struct recording_code *codes;
    size_t code_count;
    size_t code_capacity;
    struct ks_wire_stack *stacks;
    size_t stack_count;
    size_t stack_capacity;
    uint32_t stack_first; /* id of stacks[0] in the builder */
    struct ks_wire_sampler sampler;
    uint64_t end_tick; /* of the function profiler, or the last look at the clock */
    struct recording_clock clock;
    struct recording_open open;
    struct ks_text scratch;
    uint64_t events_lost; /* as the slots say */
    uint64_t items_lost;
};

/* Counts `n` cases; a strict reader refuses the first at `offset`. */
enum ks_status recording_count(struct recording *r, enum ks_stat stat, uint64_t n, int64_t offset,
                               struct ks_err *err) KS_MUST_CHECK;

/* Where a slot, and a place in its payload, stands in the file. */
int64_t recording_offset(uint32_t slot_index, size_t place);

/* recording_items.c: one slot of items, as it comes. `*is_timed`: it holds some that wait for
 * recording_take_timed. */
enum ks_status recording_take_items(struct recording *r, const struct recording_slot *slot,
                                    const char *payload, bool *is_timed, struct ks_err *err)
    KS_MUST_CHECK;
/* When all slots were seen: samples of metrics become rows. */
enum ks_status recording_take_timed(struct recording *r, const struct recording_slot *slot,
                                    const char *payload, struct ks_err *err) KS_MUST_CHECK;
/* When all slots were seen: names of sites and metrics; those that are missing are made up. What
 * notes say of the process. */
enum ks_status recording_name_all(struct recording *r, struct ks_err *err) KS_MUST_CHECK;
/* A text of the file, or else "<what> <number>", which is counted. */
enum ks_status recording_name_or_number(struct recording *r, uint32_t string_id, const char *what,
                                        uint64_t number, struct ks_strid *out, struct ks_err *err)
    KS_MUST_CHECK;
/* A text of the file. id 0, and one that is not there: false. */
bool recording_string(const struct recording *r, uint32_t id, struct ks_strid *out);
/* Bytes that are no UTF-8 are replaced, and counted. */
enum ks_status recording_intern(struct recording *r, struct ks_str text, int64_t offset,
                                struct ks_strid *out, struct ks_err *err) KS_MUST_CHECK;

/* recording_clock.c: after that times can be asked for. */
enum ks_status recording_clock_ready(struct recording *r, struct ks_err *err) KS_MUST_CHECK;
/* Of a tick, relative to the base; false: not in the range of times. */
bool recording_time(struct recording *r, uint64_t tick, int64_t *ns);

/* How long so many ticks take, at the mean rate of the clock. */
int64_t recording_duration(const struct recording *r, uint64_t ticks);

/* recording_stacks.c: when all slots were seen; samples after the stacks. */
enum ks_status recording_add_stacks(struct recording *r, struct ks_err *err) KS_MUST_CHECK;
enum ks_status recording_take_sample(struct recording *r, const char *payload, int64_t offset,
                                     struct ks_err *err) KS_MUST_CHECK;
enum ks_status recording_add_call_paths(struct recording *r, struct ks_err *err) KS_MUST_CHECK;

/* recording_lanes.c: the events of the slots of one lane, in their order. */
enum ks_status recording_read_lane(struct recording *r, const struct recording_slot *slots,
                                   size_t count, struct ks_err *err) KS_MUST_CHECK;
void recording_open_release(struct recording_open *open);

/* Of a thread, or of one of its tasks (`task` not 0). */
enum ks_status recording_track(struct recording *r, uint32_t tid, uint32_t task, uint32_t *track,
                               struct ks_err *err) KS_MUST_CHECK;

#endif
