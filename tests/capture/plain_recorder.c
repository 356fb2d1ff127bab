/* A recorder for tests of what writes through one: the functions of capture/shared/recorder.h that
 * the function profiler needs, in the simplest way that keeps to wire/recording.h. One lock, one
 * lane of items; a slot of nodes for whoever asks. A forked child begins a file of its own. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "capture/shared/recorder.h"

enum { SLOTS_MAX = 4096, STRINGS_MAX = 1 << 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ks_capture_lane lane;
static char folder[2048];
static char path[4096];
static uint8_t *file;
static uint32_t slot_limit, slot_count, generation;
static uint8_t *items; /* the open slot */
static uint32_t items_used, items_sequence;
static char *strings[STRINGS_MAX];
static uint32_t string_count, strings_written;
static bool is_on;

static uint32_t crc32c(const void *data, size_t size, uint32_t crc)
{
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= ((const uint8_t *)data)[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
        }
    }
    return ~crc;
}

static uint64_t clock_ns(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct ks_wire_header *header(void)
{
    return (struct ks_wire_header *)file;
}

static void open_file(void)
{
    snprintf(path, sizeof(path), "%s/%ld.%u.ksrec", folder, (long)getpid(), generation);
    size_t size = KS_WIRE_HEADER_SIZE + (size_t)SLOTS_MAX * KS_WIRE_SLOT_SIZE;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || ftruncate(fd, (off_t)size) < 0) {
        abort();
    }
    file = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    madvise(file, size, MADV_DONTFORK);
    close(fd);
    struct ks_wire_header *head = header();
    memcpy(head->magic, KS_WIRE_MAGIC, sizeof(head->magic));
    head->version = KS_WIRE_VERSION;
    head->header_size = KS_WIRE_HEADER_SIZE;
    head->slot_size = KS_WIRE_SLOT_SIZE;
    head->pid = (uint32_t)getpid();
    head->start_tick = clock_ns(CLOCK_MONOTONIC);
    head->start_unix_ns = (int64_t)clock_ns(CLOCK_REALTIME);
    head->crc = crc32c(head, offsetof(struct ks_wire_header, crc), 0);
    slot_count = strings_written = items_sequence = 0;
    items = NULL;
}

static uint8_t *take_slot(enum ks_wire_slot_kind kind, uint32_t lane_number, uint32_t sequence)
{
    if (!file) {
        open_file(); // in a child, at the first event
    }
    if (slot_count == slot_limit) {
        return NULL;
    }
    uint8_t *bytes = file + KS_WIRE_HEADER_SIZE + (size_t)slot_count * KS_WIRE_SLOT_SIZE;
    struct ks_wire_slot *slot = (struct ks_wire_slot *)bytes;
    slot->kind = (uint16_t)kind;
    slot->index = slot_count;
    slot->lane = lane_number;
    slot->sequence = sequence;
    slot->tid = (uint32_t)syscall(SYS_gettid);
    __atomic_store_n(&slot->magic, KS_WIRE_SLOT_MAGIC, __ATOMIC_RELEASE);
    header()->slot_count = ++slot_count;
    return bytes;
}

static void seal_items(void)
{
    struct ks_wire_slot *slot = (struct ks_wire_slot *)items;
    slot->size = items_used;
    slot->is_sealed = 1;
    uint32_t crc = crc32c(items + KS_WIRE_SLOT_HEADER_SIZE, items_used, 0);
    slot->crc = crc32c(slot, offsetof(struct ks_wire_slot, size), crc);
}

static bool write_item(enum ks_wire_item_kind kind, const void *payload, size_t size)
{
    uint32_t whole = (uint32_t)(sizeof(struct ks_wire_item) + ((size + 7) & ~(size_t)7));
    if (!items || items_used + whole > KS_WIRE_PAYLOAD_SIZE) {
        if (items) {
            seal_items();
        }
        items = take_slot(KS_WIRE_ITEMS, 1, items_sequence++);
        items_used = 0;
    }
    if (!items) {
        header()->items_lost++;
        return false;
    }
    struct ks_wire_item *item =
        (struct ks_wire_item *)(items + KS_WIRE_SLOT_HEADER_SIZE + items_used);
    memcpy(item + 1, payload, size);
    item->crc = crc32c(payload, size, 0);
    __atomic_store_n(&item->word, (uint32_t)kind << 24 | (uint32_t)size, __ATOMIC_RELEASE);
    items_used += whole;
    return true;
}

static void write_strings(void)
{
    while (strings_written < string_count) {
        uint32_t payload[1024];
        const char *text = strings[strings_written];
        uint32_t length = (uint32_t)strnlen(text, sizeof(payload) - 8);
        payload[0] = ++strings_written;
        payload[1] = length;
        memcpy(&payload[2], text, length);
        write_item(KS_WIRE_STRING, payload, 8 + length);
    }
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

static void after_in_child(void)
{
    pthread_mutex_unlock(&lock);
    file = NULL;
    generation++;
}

int ks_capture_start(const struct ks_capture_options *options, char reason[KS_CAPTURE_REASON_SIZE])
{
    static bool has_handlers;
    (void)reason;
    if (!has_handlers) {
        pthread_atfork(before_fork, after_in_parent, after_in_child);
        has_handlers = true;
    }
    if (file) { // the file before this one goes away under whoever wrote into it
        munmap(file, KS_WIRE_HEADER_SIZE + (size_t)SLOTS_MAX * KS_WIRE_SLOT_SIZE);
    }
    snprintf(folder, sizeof(folder), "%s", options->folder);
    slot_limit = SLOTS_MAX;
    if (options->bytes_max) {
        slot_limit = (uint32_t)((options->bytes_max - KS_WIRE_HEADER_SIZE) / KS_WIRE_SLOT_SIZE);
    }
    generation++;
    open_file();
    is_on = true;
    return 0;
}

void ks_capture_stop(void)
{
    if (items) {
        seal_items();
    }
    header()->state = KS_WIRE_CLOSED;
    is_on = false;
}

bool ks_capture_is_on(void)
{
    return is_on;
}

const char *ks_capture_path(void)
{
    return path;
}

struct ks_capture_lane *ks_capture_lane(void)
{
    return &lane; // not the time stamp counter
}

uint64_t ks_capture_tick(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

uint32_t ks_capture_generation(void)
{
    return generation;
}

uint32_t ks_capture_string(const char *text, size_t length)
{
    pthread_mutex_lock(&lock);
    uint32_t found = 0;
    for (uint32_t i = 0; i < string_count && found == 0; i++) {
        if (strncmp(strings[i], text, length) == 0 && strings[i][length] == '\0') {
            found = i + 1;
        }
    }
    if (found == 0 && string_count < STRINGS_MAX) {
        strings[string_count] = strndup(text, length);
        found = ++string_count;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

bool ks_capture_item(enum ks_wire_item_kind kind, const void *payload, size_t size)
{
    pthread_mutex_lock(&lock);
    if (!file) {
        open_file();
    }
    write_strings();
    bool is_written = is_on && write_item(kind, payload, size);
    pthread_mutex_unlock(&lock);
    return is_written;
}

struct ks_wire_node *ks_capture_nodes(uint32_t *index)
{
    static uint32_t lanes = 1;
    pthread_mutex_lock(&lock);
    uint8_t *slot = is_on ? take_slot(KS_WIRE_NODES, ++lanes, 0) : NULL;
    *index = slot ? ((struct ks_wire_slot *)slot)->index : 0;
    pthread_mutex_unlock(&lock);
    return slot ? (struct ks_wire_node *)(slot + KS_WIRE_SLOT_HEADER_SIZE) : NULL;
}
