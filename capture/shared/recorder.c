/* The lock is held on all slow paths and over a fork(). A thread that is about to take it notes so,
 * that a signal handler which records then loses its event instead of waiting for ever.
 *
 * A child of the bare system call, or of _Fork(), runs no handler. It has no mark (fork_mark.h),
 * and its lanes are without room (lanes.c). So its first event, or whatever else it asks us, comes
 * to `is_own_process`, which makes it a process of its own: the lock is as it happened to be held,
 * names may be half there, and malloc's locks may be held for ever, so that it gets no keeper. */
#include "capture/shared/recorder.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "capture/shared/bus_guard.h"
#include "capture/shared/fork_mark.h"
#include "capture/shared/items.h"
#include "capture/shared/keeper.h"
#include "capture/shared/lanes.h"
#include "capture/shared/names.h"
#include "capture/shared/recording_file.h"
#include "capture/shared/small_file.h"
#include "capture/shared/ticks.h"

enum {
    FOLDER_SIZE = 3072,
    FULL_SLOTS_MAX = 256,
    SEALED_AT_ONCE = 16,
    NOTES_MAX = 16,
    NS_PER_S = 1000000000,
};

/* String ids. */
struct note {
    uint32_t key;
    uint32_t text;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ks_recording_file file = {.fd = -1};
static struct ks_items items;
static struct ks_names names;
static struct note notes[NOTES_MAX]; /* of this process */
static uint32_t note_count;
static char folder[FOLDER_SIZE];
static struct ks_capture_options wanted;
static _Atomic bool is_on;
static bool wants_file; /* a child that has recorded nothing yet */
static bool is_full;    /* until the keeper has looked again */
static bool is_tsc;
static bool has_mark;       /* the kernel tells children */
static uint32_t generation; /* what the mark says; 0 before the first start */
static bool is_bare;        /* a child, or of one, that no handler saw: takes no memory */
static pid_t file_pid;      /* of the process that made the file */
static uint32_t numbers;    /* of lanes, given out in this file */
/* Full slots whose checksum the keeper will write: it takes a tenth of the time of a region. */
static struct ks_wire_slot *full_slots[FULL_SLOTS_MAX];
static uint32_t full_count;
static uint64_t lost_before; /* by files that are closed */
static int64_t looked_ns;    /* the last time without a keeper */
static bool is_fork_inside; /* a signal handler forks while its thread has the lock, and keeps it */
static struct ks_lane no_lane;

static __thread volatile int is_inside __attribute__((tls_model("initial-exec")));

static void next_generation(void)
{
    ks_fork_mark_set(++generation);
}

/* What a child has to forget of its parent. The mark comes last: others wait for it. */
static void begin_child(void)
{
    const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    lock = fresh;
    is_inside = 0;
    is_fork_inside = false;
    wants_file = wants_file || atomic_load(&is_on);
    atomic_store(&is_on, false);
    full_count = 0;
    ks_keeper_forget();
    ks_lanes_after_fork(!is_bare, is_tsc);
    wanted.worker = -1; /* these two: what it is it will say itself */
    note_count = 0;
    next_generation();
}

/* False in a signal handler of the thread that does this at the moment. */
static bool adopt(void)
{
    if (!ks_fork_mark_claim()) {
        return ks_fork_mark_wait();
    }
    int error = errno;
    is_bare = true;
    ks_names_mend(&names);
    ks_recording_file_leave(&file);
    begin_child();
    errno = error;
    return true;
}

static bool is_own_process(void)
{
    return __builtin_expect(ks_fork_mark_get() != 0, 1) || !ks_fork_mark_is_lost() || adopt();
}

/* False in a signal handler that came while its thread is in here. */
static bool enter(void)
{
    if (!is_own_process() || is_inside) {
        return false;
    }
    is_inside = 1;
    (void)pthread_mutex_lock(&lock);
    return true;
}

static void leave(void)
{
    (void)pthread_mutex_unlock(&lock);
    is_inside = 0;
}

/* ------------------------------------------------------------------ slots of a thread */

static struct ks_wire_event *events_of(struct ks_wire_slot *slot)
{
    return (struct ks_wire_event *)(void *)(slot + 1);
}

static struct ks_wire_slot *take_slot(enum ks_wire_slot_kind kind, uint32_t number,
                                      uint32_t sequence, uint64_t lost)
{
    const struct ks_wire_slot head = {
        .kind = (uint16_t)kind,
        .lane = number,
        .sequence = sequence,
        .tid = (uint32_t)gettid(),
        .start_tick = ks_ticks(is_tsc),
        .lost = lost,
    };
    struct ks_wire_slot *slot = is_full ? NULL : ks_recording_file_take(&file, &head);
    is_full = !slot;
    if (slot && ks_recording_file_is_short(&file)) {
        ks_keeper_wake();
    }
    return slot;
}

/* Who found no room has moved `next` on. */
static const struct ks_wire_event *end_of_window(const struct ks_lane *lane)
{
    return lane->window.next < lane->window.end ? lane->window.next : lane->window.end;
}

static void seal_some(uint32_t count)
{
    for (; count > 0 && full_count > 0; count--) {
        ks_recording_file_seal(full_slots[--full_count]);
    }
}

static bool is_open(const struct ks_lane *lane)
{
    return lane->slot && lane->generation == generation;
}

/* The thread of the lane is through with its slot. */
static void leave_slot(struct ks_lane *lane)
{
    if (!is_open(lane)) {
        return;
    }
    if (full_count == FULL_SLOTS_MAX || !ks_keeper_is_there()) {
        seal_some(FULL_SLOTS_MAX);
    }
    lane->slot->size = (uint32_t)((uintptr_t)end_of_window(lane) - (uintptr_t)(lane->slot + 1));
    full_slots[full_count++] = lane->slot;
    lane->slot = NULL;
}

/* Its thread may be writing: what is published counts. */
static void close_lane(struct ks_lane *lane)
{
    if (!is_open(lane)) {
        return;
    }
    const struct ks_wire_event *events = events_of(lane->slot);
    uint32_t count = 0;
    while (count < KS_WIRE_PAYLOAD_SIZE / sizeof(*events) &&
           __atomic_load_n(&events[count].word, __ATOMIC_ACQUIRE) != 0) {
        count++;
    }
    lane->slot->size = count * (uint32_t)sizeof(*events);
    ks_recording_file_seal(lane->slot);
    lane->slot = NULL;
}

/* What a thread wrote into the rest of a slot after it was sealed by a stop. */
static uint64_t written_behind_seal(const struct ks_lane *lane)
{
    if (!lane->slot || !lane->window.end) {
        return 0;
    }
    const struct ks_wire_event *end = events_of(lane->slot) + lane->slot->size / sizeof(*end);
    const struct ks_wire_event *written = end_of_window(lane);
    return written > end ? (uint64_t)(written - end) : 0;
}

static void join_file(struct ks_lane *lane)
{
    if (lane->generation != generation) {
        lane->lost = written_behind_seal(lane);
        lost_before += lane->lost;
        lane->generation = generation;
        lane->tid = (uint32_t)gettid();
        lane->window.is_tsc = is_tsc; // which the lanes of a child have lost
        lane->number = ++numbers;
        lane->sequence = 0;
        lane->dropped_depth = 0;
        lane->slot = NULL;
    }
}

static void look_after(void)
{
    is_full = false;
    ks_items_put_clock(&items, is_tsc);
    ks_recording_file_header(&file)->heartbeat_unix_ns = (uint64_t)ks_clock_ns(CLOCK_REALTIME);
}

/* Once a second, where no keeper does it. */
static void look_after_alone(void)
{
    int64_t now_ns = ks_keeper_is_there() ? looked_ns : ks_clock_ns(CLOCK_MONOTONIC);
    if (now_ns - looked_ns >= NS_PER_S) {
        looked_ns = now_ns;
        look_after();
    }
}

/* The record to fill, or NULL: no room. */
static struct ks_wire_event *open_slot(struct ks_lane *lane)
{
    join_file(lane);
    leave_slot(lane);
    look_after_alone();
    lane->window.next = lane->window.end = NULL;
    struct ks_wire_slot *slot = take_slot(KS_WIRE_EVENTS, lane->number, lane->sequence, lane->lost);
    if (!slot) {
        return NULL;
    }
    lane->sequence++;
    lane->slot = slot;
    /* The first record is the caller's: a signal handler that comes now gets the second. */
    lane->window.next = events_of(slot) + 1;
    lane->window.end = events_of(slot) + KS_WIRE_PAYLOAD_SIZE / sizeof(*lane->window.next);
    return events_of(slot);
}

static void end_thread(struct ks_lane *lane)
{
    if (enter()) {
        close_lane(lane);
        lane->window.next = lane->window.end = NULL;
        leave();
    }
}

/* ------------------------------------------------------------------ beginning and ending */

static void put_names(void)
{
    for (uint32_t id = 1; id <= names.text_count; id++) {
        uint32_t length = 0;
        const char *text = ks_names_bytes(&names, id, &length);
        ks_items_put_text(&items, id, text, length);
    }
    for (uint32_t id = 1; id <= names.site_count; id++) {
        const struct ks_name_site *site = &names.sites[id - 1];
        const struct ks_wire_site item = {id, site->name, site->category, 0};
        ks_items_put(&items, KS_WIRE_SITE, &item, sizeof(item));
    }
}

static void put_notes(void)
{
    for (uint32_t i = 0; i < note_count; i++) {
        ks_items_put(&items, KS_WIRE_NOTE, &notes[i], sizeof(notes[i]));
    }
}

static struct ks_wire_slot *take_items_slot(uint32_t sequence, uint64_t lost)
{
    return take_slot(KS_WIRE_ITEMS, 1, sequence, lost);
}

static int begin(char reason[KS_CAPTURE_REASON_SIZE])
{
    lost_before = 0;
    is_full = false;
    if (ks_recording_file_create(&file, &wanted, reason) != 0) {
        return -1;
    }
    file_pid = getpid();
    looked_ns = ks_clock_ns(CLOCK_MONOTONIC);
    next_generation();
    numbers = 1; /* that of items */
    full_count = 0;
    ks_items_init(&items, take_items_slot);
    ks_items_put_clock(&items, is_tsc);
    put_names();
    put_notes();
    ks_bus_guard_set(&file, &is_on);
    atomic_store(&is_on, true);
    if (!is_bare) {
        ks_keeper_start();
    }
    return 0;
}

bool ks_recorder_make_room(void)
{
    char *from = NULL;
    size_t size = 0;
    bool is_done = true;
    bool is_sealed = true;
    if (enter()) {
        seal_some(SEALED_AT_ONCE);
        is_done = !atomic_load(&is_on) || !ks_recording_file_is_short(&file) ||
                  !ks_recording_file_grow(&file, &from, &size);
        is_sealed = full_count == 0;
        leave();
    }
    if (!is_done) {
        ks_recording_file_touch(from, size);
    }
    return !is_done || !is_sealed;
}

int ks_recorder_look_after(void)
{
    int fd = -1;
    if (enter()) {
        if (atomic_load(&is_on)) {
            look_after();
            fd = file.fd;
        }
        leave();
    }
    return fd;
}

static void close_all(void)
{
    struct ks_lane *lane;
    for (uint32_t i = 0; (lane = ks_lane_at(i)) != NULL; i++) {
        struct ks_wire_slot *slot = lane->slot;
        close_lane(lane);
        if (lane != ks_lane_own()) {
            lane->slot = slot; /* its thread may go on in it */
        }
    }
}

static void end(void)
{
    struct ks_lane *own = ks_lane_own();
    ks_items_put_clock(&items, is_tsc);
    atomic_store(&is_on, false);
    seal_some(FULL_SLOTS_MAX);
    close_all();
    if (own) {
        own->window.next = own->window.end = NULL;
    }
    ks_items_close(&items);
    __atomic_store_n(&ks_recording_file_header(&file)->state, (uint32_t)KS_WIRE_CLOSED,
                     __ATOMIC_RELEASE);
    next_generation();
    ks_recording_file_close(&file);
}

/* A child begins a file of its own when it has something to say. */
static bool is_ready(void)
{
    if (!is_own_process()) {
        return false;
    }
    if (atomic_load(&is_on)) {
        return true;
    }
    if (wants_file && enter()) {
        char reason[KS_CAPTURE_REASON_SIZE] = "";
        if (wants_file) {
            wants_file = false;
            (void)begin(reason);
        }
        leave();
    }
    return atomic_load(&is_on);
}

/* ------------------------------------------------------------------ fork */

static void before_fork(void)
{
    is_fork_inside = !enter();
}

static void after_fork_in_parent(void)
{
    if (!is_fork_inside) {
        leave();
    }
    is_fork_inside = false;
}

/* A handler that ran before this one, or of a signal, may have recorded: then all is done. */
static void after_fork_in_child(void)
{
    if (!has_mark || ks_fork_mark_is_lost()) {
        ks_recording_file_forget(&file);
        begin_child();
    }
}

static void prepare(void)
{
    static bool is_prepared;
    if (!is_prepared) {
        is_prepared = true;
        has_mark = ks_fork_mark_init();
        next_generation();
        is_tsc = ks_ticks_are_tsc();
        ks_lanes_on_thread_end(end_thread);
        (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    }
}

/* ------------------------------------------------------------------ for everybody */

static int refuse(char reason[KS_CAPTURE_REASON_SIZE], const char *sentence)
{
    struct ks_small_text text = {reason, KS_CAPTURE_REASON_SIZE, 0, 0};
    ks_small_text_put(&text, sentence);
    return -1;
}

static int start(const struct ks_capture_options *options, char reason[KS_CAPTURE_REASON_SIZE])
{
    prepare();
    if (atomic_load(&is_on)) {
        return 0;
    }
    if (strlen(options->folder) >= sizeof(folder)) {
        return refuse(reason, "the folder's path is too long");
    }
    if (!ks_names_init(&names)) {
        return refuse(reason, "no memory for names");
    }
    memcpy(folder, options->folder, strlen(options->folder) + 1);
    wanted = *options;
    wanted.folder = folder;
    wants_file = false;
    return begin(reason);
}

int ks_capture_start(const struct ks_capture_options *options, char reason[KS_CAPTURE_REASON_SIZE])
{
    int error = errno;
    int result = -1;
    reason[0] = '\0';
    if (enter()) {
        result = start(options, reason);
        leave();
    }
    errno = error;
    return result;
}

void ks_capture_stop(void)
{
    int error = errno;
    if (enter()) {
        wants_file = false;
        if (atomic_load(&is_on)) {
            end();
        }
        leave();
    }
    ks_keeper_stop();
    errno = error;
}

void ks_capture_turn_off(const char *reason)
{
    if (!enter()) {
        return;
    }
    if (atomic_load(&is_on)) {
        struct ks_wire_header *header = ks_recording_file_header(&file);
        struct ks_small_text text = {header->off_reason, sizeof(header->off_reason), 0, 0};
        ks_small_text_put(&text, reason);
        end();
        header->state = KS_WIRE_OFF;
    }
    wants_file = false;
    leave();
}

bool ks_capture_is_on(void)
{
    return is_own_process() && (atomic_load(&is_on) || wants_file);
}

const char *ks_capture_path(void)
{
    return file.path;
}

uint32_t ks_capture_generation(void)
{
    return is_own_process() ? ks_fork_mark_get() : 0;
}

uint64_t ks_capture_tick(void)
{
    return ks_ticks(is_tsc);
}

uint64_t ks_capture_events_lost(void)
{
    return (file.base ? ks_recording_file_header(&file)->events_lost : 0) + lost_before;
}

struct ks_capture_lane *ks_capture_lane(void)
{
    struct ks_lane *lane = ks_lane_own();
    if (!lane && enter()) {
        prepare();
        lane = ks_lane_take(is_tsc, close_lane);
        leave();
    }
    return lane ? &lane->window : &no_lane.window;
}

/* ------------------------------------------------------------------ writing */

static void count_lost(struct ks_lane *lane)
{
    lane->lost++;
    (void)__atomic_fetch_add(&ks_recording_file_header(&file)->events_lost, 1, __ATOMIC_RELAXED);
}

/* The end of a region whose begin was lost is no event. */
static bool is_end_of_lost(struct ks_lane *lane, unsigned kind)
{
    bool is_end = kind == KS_WIRE_END && lane->dropped_depth > 0;
    lane->dropped_depth -= is_end;
    return is_end;
}

/* Which has something else in place of the tick. */
static bool is_value(unsigned kind)
{
    return kind >= KS_WIRE_VALUE_INT && kind <= KS_WIRE_VALUE_TEXT;
}

static void write_slow(struct ks_lane *lane, uint64_t tick, uint64_t word)
{
    unsigned kind = word >> 32 & 0xff;
    if (!is_ready()) {
        return;
    }
    if (lane->window.is_tsc != is_tsc && !is_value(kind)) {
        tick = ks_ticks(is_tsc); // in a new child its lane said another clock
    }
    if (!enter()) {
        count_lost(lane);
        return;
    }
    struct ks_wire_event *at =
        lane != &no_lane && !is_end_of_lost(lane, kind) ? open_slot(lane) : NULL;
    if (!at && atomic_load(&is_on)) {
        count_lost(lane);
        lane->dropped_depth += kind == KS_WIRE_BEGIN;
    }
    leave();
    if (at) {
        at->tick = tick;
        __atomic_store_n(&at->word, word, __ATOMIC_RELEASE);
    }
}

void ks_capture_event_slow(struct ks_capture_lane *window, uint64_t tick, uint64_t word)
{
    int error = errno;
    write_slow((struct ks_lane *)(void *)window, tick, word);
    errno = error;
}

/* Into the file of a generation, or of any. Being ready may begin a file, which is another one. */
static bool put_item(const uint32_t *of, enum ks_wire_item_kind kind, const void *payload,
                     size_t size)
{
    int error = errno;
    bool is_there = false;
    if (is_ready() && enter()) {
        bool is_wanted = atomic_load(&is_on) && (!of || *of == generation);
        is_there = is_wanted && ks_items_put(&items, kind, payload, size);
        if (is_wanted && !is_there) {
            ks_recording_file_header(&file)->items_lost++;
        }
        leave();
    }
    errno = error;
    return is_there;
}

bool ks_capture_item(enum ks_wire_item_kind kind, const void *payload, size_t size)
{
    return put_item(NULL, kind, payload, size);
}

bool ks_capture_item_of(uint32_t of, enum ks_wire_item_kind kind, const void *payload, size_t size)
{
    return put_item(&of, kind, payload, size);
}

static void note(struct note wanted_note)
{
    uint32_t at = 0;
    while (at < note_count && notes[at].key != wanted_note.key) {
        at++;
    }
    if (at == NOTES_MAX || (at < note_count && notes[at].text == wanted_note.text)) {
        return;
    }
    notes[at] = wanted_note;
    note_count += at == note_count;
    if (atomic_load(&is_on)) {
        ks_items_put(&items, KS_WIRE_NOTE, &wanted_note, sizeof(wanted_note));
    }
}

void ks_capture_note(uint32_t key, uint32_t text)
{
    int error = errno;
    if (key != 0 && text != 0 && enter()) {
        note((struct note){key, text});
        leave();
    }
    errno = error;
}

static uint32_t text_id(const char *text, size_t length)
{
    bool is_new = false;
    uint32_t id = ks_names_text(&names, text, length, &is_new);
    if (is_new && atomic_load(&is_on)) {
        uint32_t kept = 0;
        const char *own = ks_names_bytes(&names, id, &kept);
        ks_items_put_text(&items, id, own, kept);
    }
    return id;
}

uint32_t ks_capture_string(const char *text, size_t length)
{
    uint32_t id = 0;
    int error = errno;
    if (enter()) {
        id = ks_names_init(&names) ? text_id(text, length) : 0;
        leave();
    }
    errno = error;
    return id;
}

static uint32_t site_id(const char *name, size_t name_length, const char *category,
                        size_t category_length)
{
    bool is_new = false;
    struct ks_name_site site = {text_id(name, name_length), text_id(category, category_length)};
    uint32_t id = site.name && site.category ? ks_names_site(&names, site, &is_new) : 0;
    if (is_new && atomic_load(&is_on)) {
        const struct ks_wire_site item = {id, site.name, site.category, 0};
        ks_items_put(&items, KS_WIRE_SITE, &item, sizeof(item));
    }
    return id;
}

uint32_t ks_capture_site(const char *name, size_t name_length, const char *category,
                         size_t category_length)
{
    uint32_t id = 0;
    int error = errno;
    if (enter()) {
        id = ks_names_init(&names) ? site_id(name, name_length, category, category_length) : 0;
        leave();
    }
    errno = error;
    return id;
}

struct ks_wire_node *ks_capture_nodes(uint32_t *index)
{
    struct ks_wire_slot *slot = NULL;
    int error = errno;
    if (is_ready() && enter()) {
        slot = atomic_load(&is_on) ? take_slot(KS_WIRE_NODES, ++numbers, 0, 0) : NULL;
        *index = slot ? slot->index : 0;
        leave();
    }
    errno = error;
    return slot ? (struct ks_wire_node *)(void *)(slot + 1) : NULL;
}

/* Only improves what is there: it says that the process ended as it should. A child that shares our
 * memory may come here, too, while we go on. */
__attribute__((destructor)) static void end_with_the_process(void)
{
    if (file_pid == getpid()) {
        ks_capture_stop();
    }
}
