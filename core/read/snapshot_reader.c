/* The pickle says which lists and dicts there are; what is taken from them is checked here: kinds,
 * ranges, and that sharing inside of the pickle does not make a small file endless. */
#include "read/snapshot_reader.h"

#include <stdio.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/grow.h"
#include "base/memory_size.h"
#include "read/pickle.h"

/* Of one block or segment; and of all of them, so that no sum of any overflows. */
static const int64_t SIZE_MAX_BYTES = (int64_t)1 << 50;
static const int64_t SUM_MAX_BYTES = (int64_t)1 << 60;
static const uint64_t BYTES_MAX_UNKNOWN = (uint64_t)4 << 30;
enum {
    KEYS_MAX = 64,    /* of a block, an event or a frame; torch's have 8 */
    PART_BYTES = 256, /* that a block or an event takes, with all that is computed of it */
};

enum key {
    KEY_SEGMENTS,
    KEY_DEVICE_TRACES,
    KEY_ALLOCATOR_SETTINGS,
    KEY_EXTERNAL_ANNOTATIONS,
    KEY_CATEGORIES,
    KEY_ADDRESS,
    KEY_TOTAL_SIZE,
    KEY_ALLOCATED_SIZE,
    KEY_ACTIVE_SIZE,
    KEY_REQUESTED_SIZE,
    KEY_DEVICE,
    KEY_STREAM,
    KEY_SEGMENT_TYPE,
    KEY_SEGMENT_POOL_ID,
    KEY_IS_EXPANDABLE,
    KEY_FRAMES,
    KEY_BLOCKS,
    KEY_SIZE,
    KEY_STATE,
    KEY_HISTORY,
    KEY_REAL_SIZE,
    KEY_CATEGORY,
    KEY_FILENAME,
    KEY_NAME,
    KEY_LINE,
    KEY_ACTION,
    KEY_ADDR,
    KEY_DEVICE_FREE,
    KEY_TIME_US,
    KEY_STAGE,
    KEY_EXPANDABLE_SEGMENTS,
    KEY_COUNT,
};

/* Keys that we look up. */
static const char *const key_names[KEY_COUNT] = {
    [KEY_SEGMENTS] = "segments",
    [KEY_DEVICE_TRACES] = "device_traces",
    [KEY_ALLOCATOR_SETTINGS] = "allocator_settings",
    [KEY_EXTERNAL_ANNOTATIONS] = "external_annotations",
    [KEY_CATEGORIES] = "categories",
    [KEY_ADDRESS] = "address",
    [KEY_TOTAL_SIZE] = "total_size",
    [KEY_ALLOCATED_SIZE] = "allocated_size",
    [KEY_ACTIVE_SIZE] = "active_size",
    [KEY_REQUESTED_SIZE] = "requested_size",
    [KEY_DEVICE] = "device",
    [KEY_STREAM] = "stream",
    [KEY_SEGMENT_TYPE] = "segment_type",
    [KEY_SEGMENT_POOL_ID] = "segment_pool_id",
    [KEY_IS_EXPANDABLE] = "is_expandable",
    [KEY_FRAMES] = "frames",
    [KEY_BLOCKS] = "blocks",
    [KEY_SIZE] = "size",
    [KEY_STATE] = "state",
    [KEY_HISTORY] = "history",
    [KEY_REAL_SIZE] = "real_size",
    [KEY_CATEGORY] = "category",
    [KEY_FILENAME] = "filename",
    [KEY_NAME] = "name",
    [KEY_LINE] = "line",
    [KEY_ACTION] = "action",
    [KEY_ADDR] = "addr",
    [KEY_DEVICE_FREE] = "device_free",
    [KEY_TIME_US] = "time_us",
    [KEY_STAGE] = "stage",
    [KEY_EXPANDABLE_SEGMENTS] = "expandable_segments",
};

struct reading {
    struct ks_snapshot *snapshot;
    struct ks_pickle *pickle;
    struct ks_strpool *strings;
    struct ks_strid keys[KEY_COUNT];
    uint32_t *known; /* by container: 1 + id of a frame or a stack; 0: not looked at */
    uint64_t visits; /* how many dicts were walked into */
    uint64_t bytes_max;
    int64_t bytes; /* sum of all sizes so far */
    struct ks_pickle_value categories;
};

/* Where in the snapshot we are, for messages. */
struct place {
    const char *list;
    size_t index;
};

/* ------------------------------------------------------------------ values of dicts */

static enum ks_status refuse(struct place place, const char *key, const char *why,
                             struct ks_err *err)
{
    return ks_fail(err, KS_ERR_FORMAT, KS_NO_OFFSET, "Cannot accept snapshot: %s[%zu]%s%s %s",
                   place.list, place.index, key[0] ? "." : "", key, why);
}

/* Each part of a snapshot is a dict of its own; more parts than there are dicts come from a pickle
 * that names the same one again and again. */
static enum ks_status visit(struct reading *r, struct ks_err *err)
{
    r->visits++;
    if (r->visits > ks_pickle_container_count(r->pickle)) {
        return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET,
                       "Cannot accept snapshot: it names its parts more often than it has them");
    }
    if (r->visits > r->bytes_max / PART_BYTES) {
        return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET,
                       "Cannot keep snapshot: its parts take more than %llu bytes",
                       (unsigned long long)r->bytes_max);
    }
    return KS_OK;
}

static bool find(const struct reading *r, struct ks_pickle_value dict, struct ks_strid key,
                 struct ks_pickle_value *value)
{
    return key.v != 0 && ks_pickle_find(r->pickle, dict, key, value);
}

static enum ks_status check_dict(struct reading *r, struct ks_pickle_value dict, struct place place,
                                 struct ks_err *err)
{
    if (ks_pickle_kind(dict) != KS_PICKLE_DICT) {
        return refuse(place, "", "is no dict", err);
    }
    size_t count = ks_pickle_count(r->pickle, dict);
    return count <= KEYS_MAX ? visit(r, err) : refuse(place, "", "has too many keys", err);
}

/* An integer in [min, max]; `missing` when there is none or it is None. */
static enum ks_status take_int(const struct reading *r, struct ks_pickle_value dict,
                               struct ks_strid key, const int64_t range[2], int64_t missing,
                               int64_t *number, struct place place, struct ks_err *err)
{
    struct ks_pickle_value value;
    *number = missing;
    if (!find(r, dict, key, &value) || ks_pickle_kind(value) == KS_PICKLE_NONE) {
        return KS_OK;
    }
    const char *name = ks_strpool_get(r->strings, key).ptr;
    if (!ks_pickle_int(r->pickle, value, number)) {
        return refuse(place, name, "is no integer", err);
    }
    return *number >= range[0] && *number <= range[1] ? KS_OK
                                                      : refuse(place, name, "is out of range", err);
}

static const int64_t any_int[] = {INT64_MIN, INT64_MAX};
static const int64_t device_range[] = {-1, INT32_MAX};

static enum ks_status take_size(struct reading *r, struct ks_pickle_value dict, struct ks_strid key,
                                int64_t missing, int64_t *size, struct place place,
                                struct ks_err *err)
{
    const int64_t range[] = {0, SIZE_MAX_BYTES};
    return take_int(r, dict, key, range, missing, size, place, err);
}

/* Adds to the sum of all sizes, which is what keeps every other sum in range. */
static enum ks_status count_size(struct reading *r, int64_t size, struct place place,
                                 struct ks_err *err)
{
    r->bytes += size;
    if (r->bytes > SUM_MAX_BYTES) {
        return refuse(place, "", "makes the sizes more than 2^60 bytes together", err);
    }
    return KS_OK;
}

static enum ks_status take_address(const struct reading *r, struct ks_pickle_value dict,
                                   struct ks_strid key, uint64_t missing, uint64_t *address,
                                   struct place place, struct ks_err *err)
{
    struct ks_pickle_value value;
    *address = missing;
    if (!find(r, dict, key, &value) || ks_pickle_unsigned(r->pickle, value, address)) {
        return KS_OK;
    }
    return refuse(place, ks_strpool_get(r->strings, key).ptr, "is no address", err);
}

static struct ks_str take_text(const struct reading *r, struct ks_pickle_value dict,
                               struct ks_strid key)
{
    struct ks_pickle_value value = {0};
    bool is_there = find(r, dict, key, &value);
    return ks_strpool_get(r->strings, is_there ? ks_pickle_str(value) : (struct ks_strid){0});
}

/* ------------------------------------------------------------------ stacks */

static enum ks_status read_frame(struct reading *r, struct ks_pickle_value dict, uint32_t *frame,
                                 struct place place, struct ks_err *err)
{
    static const int64_t line_range[] = {INT32_MIN, INT32_MAX};
    if (ks_pickle_kind(dict) == KS_PICKLE_DICT && r->known[ks_pickle_container(dict)] > 0) {
        *frame = r->known[ks_pickle_container(dict)] - 1;
        return KS_OK;
    }
    struct ks_stack_frame parts = {0};
    struct ks_pickle_value value;
    KS_TRY(check_dict(r, dict, place, err));
    if (find(r, dict, r->keys[KEY_NAME], &value)) {
        parts.name = ks_pickle_str(value);
    }
    if (find(r, dict, r->keys[KEY_FILENAME], &value)) {
        parts.file = ks_pickle_str(value);
    }
    KS_TRY(take_int(r, dict, r->keys[KEY_LINE], line_range, 0, &parts.line, place, err));
    KS_TRY(ks_stack_pool_frame(r->snapshot->pool, parts, frame, err));
    r->known[ks_pickle_container(dict)] = *frame + 1;
    return KS_OK;
}

/* Frames come innermost first; a stack is made from its outermost frame on. */
static enum ks_status read_stack(struct reading *r, struct ks_pickle_value owner, uint32_t *stack,
                                 struct place place, struct ks_err *err)
{
    struct ks_pickle_value list;
    *stack = 0;
    if (!find(r, owner, r->keys[KEY_FRAMES], &list) || ks_pickle_count(r->pickle, list) == 0) {
        return KS_OK;
    }
    if (ks_pickle_kind(list) != KS_PICKLE_LIST) {
        return refuse(place, "frames", "is no list", err);
    }
    size_t count = 0;
    uint32_t *known = &r->known[ks_pickle_container(list)];
    const struct ks_pickle_value *frames = ks_pickle_items(r->pickle, list, &count);
    for (size_t i = *known ? 0 : count; i > 0; i--) {
        uint32_t frame = 0;
        KS_TRY(read_frame(r, frames[i - 1], &frame, place, err));
        KS_TRY(ks_stack_pool_push(r->snapshot->pool, *stack, frame, stack, err));
    }
    *stack = *known ? *known - 1 : *stack;
    *known = *stack + 1;
    r->snapshot->has_stacks = true;
    return KS_OK;
}

/* A name, or the number of one in the snapshot's list of categories. */
static struct ks_strid take_category(const struct reading *r, struct ks_pickle_value dict)
{
    struct ks_pickle_value value;
    int64_t index = -1;
    if (!find(r, dict, r->keys[KEY_CATEGORY], &value)) {
        return (struct ks_strid){0};
    }
    if (ks_pickle_int(r->pickle, value, &index) && index >= 0 &&
        (uint64_t)index < ks_pickle_count(r->pickle, r->categories)) {
        value = ks_pickle_item(r->pickle, r->categories, (size_t)index);
    }
    r->snapshot->has_categories = r->snapshot->has_categories || ks_pickle_str(value).v != 0;
    return ks_pickle_str(value);
}

/* ------------------------------------------------------------------ segments */

static enum ks_snap_state state_of(const struct reading *r, struct ks_str text)
{
    if (ks_str_equal(text, KS_STR("active_allocated"))) {
        return KS_SNAP_ACTIVE;
    }
    if (ks_str_equal(text, KS_STR("active_pending_free")) ||
        ks_str_equal(text, KS_STR("active_awaiting_free"))) {
        return KS_SNAP_PENDING_FREE;
    }
    r->snapshot->notes[KS_SNAP_NOTE_UNKNOWN_STATE] += !ks_str_equal(text, KS_STR("inactive"));
    return KS_SNAP_INACTIVE;
}

/* Snapshots before torch 2.1 have a history of allocations in each block, the latest first. */
static struct ks_pickle_value latest_of(const struct reading *r, struct ks_pickle_value dict)
{
    struct ks_pickle_value history;
    if (find(r, dict, r->keys[KEY_HISTORY], &history) &&
        ks_pickle_kind(history) == KS_PICKLE_LIST && ks_pickle_count(r->pickle, history) > 0) {
        struct ks_pickle_value first = ks_pickle_item(r->pickle, history, 0);
        return ks_pickle_kind(first) == KS_PICKLE_DICT ? first : dict;
    }
    return dict;
}

static enum ks_status read_block(struct reading *r, struct ks_pickle_value dict,
                                 uint64_t next_address, struct ks_err *err)
{
    struct ks_snapshot *snapshot = r->snapshot;
    struct place place = {"blocks", snapshot->block_count};
    KS_TRY(check_dict(r, dict, place, err));
    KS_TRY(ks_grow(&snapshot->blocks, snapshot->block_count, &snapshot->block_capacity,
                   sizeof(*snapshot->blocks), "blocks", err));
    struct ks_snap_block block = {.segment = (uint32_t)snapshot->segment_count};
    struct ks_pickle_value latest = latest_of(r, dict);
    bool is_old = latest.v != dict.v;
    KS_TRY(take_size(r, dict, r->keys[KEY_SIZE], -1, &block.size, place, err));
    if (block.size < 0) {
        return refuse(place, "size", "is missing", err);
    }
    KS_TRY(count_size(r, block.size, place, err));
    KS_TRY(take_address(r, dict, r->keys[KEY_ADDRESS], next_address, &block.address, place, err));
    KS_TRY(take_size(r, latest, is_old ? r->keys[KEY_REAL_SIZE] : r->keys[KEY_REQUESTED_SIZE],
                     block.size, &block.requested, place, err));
    KS_TRY(count_size(r, block.requested, place, err));
    KS_TRY(read_stack(r, latest, &block.stack, place, err));
    block.state = state_of(r, take_text(r, dict, r->keys[KEY_STATE]));
    block.category = take_category(r, dict);
    snapshot->blocks[snapshot->block_count++] = block;
    return KS_OK;
}

/* The sums that the segment itself has, where it has them. */
static enum ks_status check_sums(struct reading *r, struct ks_pickle_value dict,
                                 const struct ks_snap_segment *segment, struct place place,
                                 struct ks_err *err)
{
    int64_t sums[] = {0, 0, 0, 0};
    const struct ks_strid keys[] = {r->keys[KEY_ALLOCATED_SIZE], r->keys[KEY_ACTIVE_SIZE],
                                    r->keys[KEY_REQUESTED_SIZE]};
    struct ks_snapshot *snapshot = r->snapshot;
    for (size_t i = 0; i < segment->block_count; i++) {
        const struct ks_snap_block *block = &snapshot->blocks[segment->first_block + i];
        bool is_active = ks_snap_is_active(block->state);
        sums[0] += block->state == KS_SNAP_ACTIVE ? block->size : 0;
        sums[1] += is_active ? block->size : 0;
        sums[2] += is_active ? block->requested : 0;
        sums[3] += block->size;
    }
    snapshot->notes[KS_SNAP_NOTE_BLOCKS_MISMATCH] += sums[3] != segment->total;
    bool is_same = true;
    for (size_t i = 0; i < KS_COUNT_OF(keys); i++) {
        int64_t said = 0;
        KS_TRY(take_size(r, dict, keys[i], sums[i], &said, place, err));
        is_same = is_same && said == sums[i];
    }
    snapshot->notes[KS_SNAP_NOTE_SUMS_MISMATCH] += !is_same;
    return KS_OK;
}

static enum ks_status read_blocks(struct reading *r, struct ks_pickle_value dict,
                                  struct ks_snap_segment *segment, struct place place,
                                  struct ks_err *err)
{
    struct ks_pickle_value list;
    uint64_t next_address = segment->address;
    segment->first_block = r->snapshot->block_count;
    if (!find(r, dict, r->keys[KEY_BLOCKS], &list)) {
        return KS_OK;
    }
    if (ks_pickle_kind(list) != KS_PICKLE_LIST) {
        return refuse(place, "blocks", "is no list", err);
    }
    for (size_t i = 0; i < ks_pickle_count(r->pickle, list); i++) {
        KS_TRY(read_block(r, ks_pickle_item(r->pickle, list, i), next_address, err));
        const struct ks_snap_block *block = &r->snapshot->blocks[r->snapshot->block_count - 1];
        next_address = block->address + (uint64_t)block->size;
    }
    segment->block_count = r->snapshot->block_count - segment->first_block;
    return KS_OK;
}

static void take_pool(const struct reading *r, struct ks_pickle_value dict, int64_t pool[2])
{
    struct ks_pickle_value id;
    if (find(r, dict, r->keys[KEY_SEGMENT_POOL_ID], &id) && ks_pickle_count(r->pickle, id) == 2 &&
        ks_pickle_kind(id) == KS_PICKLE_LIST) {
        for (size_t i = 0; i < 2; i++) {
            (void)ks_pickle_int(r->pickle, ks_pickle_item(r->pickle, id, i), &pool[i]);
        }
    }
}

static enum ks_status read_segment(struct reading *r, struct ks_pickle_value dict,
                                   struct ks_err *err)
{
    struct ks_snapshot *snapshot = r->snapshot;
    struct place place = {"segments", snapshot->segment_count};
    struct ks_snap_segment segment = {0};
    struct ks_pickle_value value = {0};
    int64_t device = 0;
    KS_TRY(check_dict(r, dict, place, err));
    KS_TRY(ks_grow(&snapshot->segments, snapshot->segment_count, &snapshot->segment_capacity,
                   sizeof(*snapshot->segments), "segments", err));
    KS_TRY(take_address(r, dict, r->keys[KEY_ADDRESS], 0, &segment.address, place, err));
    KS_TRY(take_size(r, dict, r->keys[KEY_TOTAL_SIZE], -1, &segment.total, place, err));
    if (segment.total < 0) {
        return refuse(place, "total_size", "is missing", err);
    }
    KS_TRY(count_size(r, segment.total, place, err));
    KS_TRY(take_int(r, dict, r->keys[KEY_STREAM], any_int, 0, &segment.stream, place, err));
    KS_TRY(take_int(r, dict, r->keys[KEY_DEVICE], device_range, 0, &device, place, err));
    segment.device = (int32_t)device;
    segment.is_small = ks_str_equal(take_text(r, dict, r->keys[KEY_SEGMENT_TYPE]), KS_STR("small"));
    segment.is_expandable =
        find(r, dict, r->keys[KEY_IS_EXPANDABLE], &value) && ks_pickle_bool(value);
    take_pool(r, dict, segment.pool);
    KS_TRY(ks_snapshot_add_device(snapshot, segment.device, err));
    KS_TRY(read_blocks(r, dict, &segment, place, err));
    KS_TRY(check_sums(r, dict, &segment, place, err));
    snapshot->segments[snapshot->segment_count++] = segment;
    return KS_OK;
}

/* ------------------------------------------------------------------ traces */

static enum ks_snap_action action_of(struct ks_str text)
{
    static const char *const names[] = {
        [KS_SNAP_ALLOC] = "alloc",
        [KS_SNAP_FREE] = "free",
        [KS_SNAP_FREE_REQUESTED] = "free_requested",
        [KS_SNAP_FREE_COMPLETED] = "free_completed",
        [KS_SNAP_SEGMENT_ALLOC] = "segment_alloc",
        [KS_SNAP_SEGMENT_FREE] = "segment_free",
        [KS_SNAP_SEGMENT_MAP] = "segment_map",
        [KS_SNAP_SEGMENT_UNMAP] = "segment_unmap",
        [KS_SNAP_OOM] = "oom",
        [KS_SNAP_SNAPSHOT] = "snapshot",
    };
    for (size_t i = 0; i < KS_COUNT_OF(names); i++) {
        if (ks_str_equal(text, ks_str_from(names[i]))) {
            return (enum ks_snap_action)i;
        }
    }
    return KS_SNAP_ACTION_UNKNOWN;
}

static enum ks_status read_event(struct reading *r, struct ks_pickle_value dict, int32_t device,
                                 struct ks_err *err)
{
    static const int64_t time_range[] = {-1, INT64_MAX / 2};
    struct ks_snapshot *snapshot = r->snapshot;
    struct place place = {"device_traces events", snapshot->event_count};
    struct ks_snap_event event = {.device = device};
    KS_TRY(check_dict(r, dict, place, err));
    KS_TRY(ks_grow(&snapshot->events, snapshot->event_count, &snapshot->event_capacity,
                   sizeof(*snapshot->events), "events", err));
    event.action = action_of(take_text(r, dict, r->keys[KEY_ACTION]));
    snapshot->notes[KS_SNAP_NOTE_UNKNOWN_ACTION] += event.action == KS_SNAP_ACTION_UNKNOWN;
    if (event.action == KS_SNAP_OOM) {
        KS_TRY(take_address(r, dict, r->keys[KEY_DEVICE_FREE], UINT64_MAX, &event.address, place,
                            err));
    } else {
        KS_TRY(take_address(r, dict, r->keys[KEY_ADDR], 0, &event.address, place, err));
    }
    KS_TRY(take_size(r, dict, r->keys[KEY_SIZE], 0, &event.size, place, err));
    KS_TRY(count_size(r, event.size, place, err));
    KS_TRY(take_int(r, dict, r->keys[KEY_TIME_US], time_range, -1, &event.time_us, place, err));
    KS_TRY(read_stack(r, dict, &event.stack, place, err));
    event.category = take_category(r, dict);
    snapshot->events[snapshot->event_count++] = event;
    return KS_OK;
}

static enum ks_status read_traces(struct reading *r, struct ks_pickle_value list,
                                  struct ks_err *err)
{
    size_t device_count = ks_pickle_count(r->pickle, list);
    if (ks_pickle_kind(list) != KS_PICKLE_LIST) {
        return refuse((struct place){"device_traces", 0}, "", "is in no list", err);
    }
    for (size_t i = 0; i < device_count; i++) {
        struct ks_pickle_value trace = ks_pickle_item(r->pickle, list, i);
        size_t count = ks_pickle_count(r->pickle, trace);
        if (ks_pickle_kind(trace) != KS_PICKLE_LIST) {
            return refuse((struct place){"device_traces", i}, "", "is no list", err);
        }
        if (count > 0) {
            KS_TRY(ks_snapshot_add_device(r->snapshot, (int32_t)i, err));
        }
        for (size_t k = 0; k < count; k++) {
            KS_TRY(read_event(r, ks_pickle_item(r->pickle, trace, k), (int32_t)i, err));
        }
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ settings and marks */

static void write_value(const struct reading *r, struct ks_pickle_value value, char *text,
                        size_t size)
{
    int64_t number = 0;
    double real = 0.0;
    switch (ks_pickle_kind(value)) {
    case KS_PICKLE_BOOL:
        snprintf(text, size, "%s", ks_pickle_bool(value) ? "True" : "False");
        break;
    case KS_PICKLE_STR:
        snprintf(text, size, "%s", ks_strpool_get(r->strings, ks_pickle_str(value)).ptr);
        break;
    case KS_PICKLE_REAL:
        (void)ks_pickle_real(r->pickle, value, &real);
        snprintf(text, size, "%.6g", real);
        break;
    case KS_PICKLE_INT:
        if (ks_pickle_int(r->pickle, value, &number)) {
            snprintf(text, size, "%lld", (long long)number);
        }
        break;
    default:
        break; /* nested ones, as roundup_power2_divisions, are 16 numbers that are rarely set */
    }
}

static enum ks_status read_settings(struct reading *r, struct ks_pickle_value dict,
                                    struct ks_err *err)
{
    struct ks_snapshot *snapshot = r->snapshot;
    struct ks_pickle_value value = {0};
    size_t count = ks_pickle_kind(dict) == KS_PICKLE_DICT ? ks_pickle_count(r->pickle, dict) : 0;
    for (size_t i = 0; i < count && i < KEYS_MAX; i++) {
        struct ks_pickle_value key;
        char text[256] = "";
        struct ks_snap_setting setting = {{0}, {0}};
        ks_pickle_pair(r->pickle, dict, i, &key, &value);
        write_value(r, value, text, sizeof(text));
        setting.key = ks_pickle_str(key);
        if (setting.key.v == 0 || ks_pickle_kind(value) == KS_PICKLE_DICT) {
            continue;
        }
        KS_TRY(ks_strpool_intern(r->strings, ks_str_from(text), &setting.value, err));
        KS_TRY(ks_grow(&snapshot->settings, snapshot->setting_count, &snapshot->setting_capacity,
                       sizeof(*snapshot->settings), "settings", err));
        snapshot->settings[snapshot->setting_count++] = setting;
    }
    snapshot->is_expandable =
        find(r, dict, r->keys[KEY_EXPANDABLE_SEGMENTS], &value) && ks_pickle_bool(value);
    return KS_OK;
}

static enum ks_status read_marks(struct reading *r, struct ks_pickle_value list, struct ks_err *err)
{
    struct ks_snapshot *snapshot = r->snapshot;
    size_t count = ks_pickle_kind(list) == KS_PICKLE_LIST ? ks_pickle_count(r->pickle, list) : 0;
    for (size_t i = 0; i < count; i++) {
        struct ks_pickle_value dict = ks_pickle_item(r->pickle, list, i);
        struct ks_pickle_value name = {0};
        struct place place = {"external_annotations", i};
        struct ks_snap_mark mark = {0};
        int64_t device = 0;
        KS_TRY(check_dict(r, dict, place, err));
        KS_TRY(take_int(r, dict, r->keys[KEY_TIME_US], any_int, -1, &mark.time_us, place, err));
        KS_TRY(take_int(r, dict, r->keys[KEY_DEVICE], device_range, 0, &device, place, err));
        mark.device = (int32_t)device;
        mark.is_end = ks_str_equal(take_text(r, dict, r->keys[KEY_STAGE]), KS_STR("END"));
        mark.name = find(r, dict, r->keys[KEY_NAME], &name) ? ks_pickle_str(name) : mark.name;
        KS_TRY(ks_grow(&snapshot->marks, snapshot->mark_count, &snapshot->mark_capacity,
                       sizeof(*snapshot->marks), "annotations", err));
        snapshot->marks[snapshot->mark_count++] = mark;
    }
    return KS_OK;
}

/* ------------------------------------------------------------------ the whole */

static enum ks_status read_segments(struct reading *r, struct ks_pickle_value list,
                                    struct ks_err *err)
{
    if (ks_pickle_kind(list) != KS_PICKLE_LIST) {
        return refuse((struct place){"segments", 0}, "", "is in no list", err);
    }
    for (size_t i = 0; i < ks_pickle_count(r->pickle, list); i++) {
        KS_TRY(read_segment(r, ks_pickle_item(r->pickle, list, i), err));
    }
    return KS_OK;
}

static enum ks_status read_parts(struct reading *r, struct ks_err *err)
{
    struct ks_pickle_value root = ks_pickle_root(r->pickle);
    struct ks_pickle_value part;
    bool has_segments = find(r, root, r->keys[KEY_SEGMENTS], &part);
    if (ks_pickle_kind(root) == KS_PICKLE_LIST) {
        return read_segments(r, root, err);
    }
    if (!has_segments && !find(r, root, r->keys[KEY_DEVICE_TRACES], &part)) {
        return ks_fail(err, KS_ERR_FORMAT, KS_NO_OFFSET,
                       "Cannot read snapshot: the pickle holds neither segments nor device_traces, "
                       "which torch.cuda.memory._dump_snapshot writes");
    }
    if (find(r, root, r->keys[KEY_CATEGORIES], &part) && ks_pickle_kind(part) == KS_PICKLE_LIST) {
        r->categories = part;
    }
    if (find(r, root, r->keys[KEY_SEGMENTS], &part)) {
        KS_TRY(read_segments(r, part, err));
    }
    if (find(r, root, r->keys[KEY_DEVICE_TRACES], &part)) {
        KS_TRY(read_traces(r, part, err));
    }
    if (find(r, root, r->keys[KEY_ALLOCATOR_SETTINGS], &part)) {
        KS_TRY(read_settings(r, part, err));
    }
    return find(r, root, r->keys[KEY_EXTERNAL_ANNOTATIONS], &part) ? read_marks(r, part, err)
                                                                   : KS_OK;
}

/* Ids of the keys; one that the pickle does not hold gets 0 and is never found. */
static void find_keys(struct reading *r)
{
    for (unsigned i = 0; i < KEY_COUNT; i++) {
        r->keys[i] = ks_strpool_find(r->strings, ks_str_from(key_names[i]));
    }
}

static enum ks_status read_values(struct reading *r, struct ks_err *err)
{
    size_t count = ks_pickle_container_count(r->pickle);
    r->known = ks_alloc(count + 1, sizeof(*r->known));
    if (!r->known) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot read snapshot: no memory");
    }
    find_keys(r);
    return read_parts(r, err);
}

/* A pickle that ends early because its compressed stream does: the stream is what to look at. */
static enum ks_status refuse_stream(struct ks_input *input, const struct ks_feed *feed,
                                    enum ks_status status, struct ks_err *err)
{
    enum ks_input_damage damage = ks_input_damage(input);
    if (status != KS_ERR_FORMAT || damage == KS_INPUT_WHOLE) {
        return status;
    }
    return ks_fail(err, KS_ERR_FORMAT, feed->offset + (int64_t)feed->len,
                   "Cannot read snapshot: the compressed stream %s",
                   damage == KS_INPUT_CUT ? "is cut" : "is damaged");
}

static enum ks_status read_input(struct reading *r, const struct ks_snapshot_source *source,
                                 struct ks_input *input, struct ks_err *err)
{
    uint64_t half = ks_memory_size() / 2;
    uint64_t bytes_max = source->bytes_max ? source->bytes_max : half ? half : BYTES_MAX_UNKNOWN;
    struct ks_feed feed = {.input = input};
    r->bytes_max = bytes_max;
    enum ks_status status = ks_feed_init(&feed, 0, err);
    ks_input_count(input, source->progress);
    if (status == KS_OK) {
        status = ks_pickle_read(&feed, r->strings, bytes_max, &r->pickle, err);
        status = refuse_stream(input, &feed, status, err);
    }
    r->snapshot->file_bytes = feed.offset + (int64_t)feed.len;
    ks_feed_release(&feed);
    if (status == KS_OK) {
        r->snapshot->protocol = ks_pickle_protocol(r->pickle);
        status = read_values(r, err);
    }
    return status;
}

enum ks_status ks_snapshot_read(const struct ks_snapshot_source *source,
                                struct ks_snapshot *snapshot, struct ks_err *err)
{
    struct reading r = {.snapshot = snapshot, .strings = snapshot->pool->strings};
    struct ks_input *input = NULL;
    KS_TRY(ks_input_open(source->path, &input, err));
    enum ks_status status = read_input(&r, source, input, err);
    ks_input_close(input);
    ks_pickle_close(r.pickle);
    ks_free(r.known);
    return status;
}

bool ks_snapshot_is_file(const char *path)
{
    char head[64];
    size_t size = 0;
    struct ks_input *input = NULL;
    struct stat info;
    /* What a pipe gives once must be left to who reads it. */
    bool is_file = stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
                   ks_input_open(path, &input, NULL) == KS_OK &&
                   ks_input_read(input, head, sizeof(head), &size, NULL) == KS_OK &&
                   ks_pickle_is_head(head, size);
    ks_input_close(input);
    return is_file;
}
