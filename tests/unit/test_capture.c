/* Goal: each function of the recorder does what recorder.h says, also from many threads.
 * Method: a recording in a folder of its own, read through the layout of wire/recording.h with a
 * checksum that is calculated bit by bit. Under the thread sanitizer the same. */
#include "capture/shared/recorder.h"

#include "cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire/crc32c.h"

enum { THREADS = 8, EVENTS = 20000, MIB = 1 << 20 };

static char folder[] = "/tmp/kscope-test-XXXXXX";

struct recording {
    const char *base;
    size_t size;
    const struct ks_wire_header *header;
};

static uint32_t crc_by_bits(uint32_t crc, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
        }
    }
    return ~crc;
}

/* ------------------------------------------------------------------ writing and reading */

static void begin(uint64_t bytes_max)
{
    char reason[KS_CAPTURE_REASON_SIZE];
    const struct ks_capture_options options = {folder, bytes_max, 1, 2, 4, 3};
    assert_int_equal(ks_capture_start(&options, reason), 0);
    assert_true(ks_capture_is_on());
}

static void put(uint64_t tick, uint64_t word)
{
    struct ks_capture_lane *lane = ks_capture_lane();
    struct ks_wire_event *at = lane->next;
    if (at >= lane->end) {
        ks_capture_event_slow(lane, tick, word);
        return;
    }
    lane->next = at + 1;
    at->tick = tick;
    __atomic_store_n(&at->word, word, __ATOMIC_RELEASE);
}

static uint64_t word_of(enum ks_wire_event_kind kind, uint32_t id)
{
    return id | (uint64_t)kind << 32;
}

/* After a stop: the file does not change any more. */
static struct recording open_recording(void)
{
    struct stat status;
    int fd = open(ks_capture_path(), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &status) == 0);
    struct recording found = {.size = (size_t)status.st_size};
    void *at = mmap(NULL, found.size, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(at != MAP_FAILED);
    close(fd);
    found.base = at;
    found.header = at;
    assert_int_equal(found.header->crc, crc_by_bits(0, at, offsetof(struct ks_wire_header, crc)));
    return found;
}

static void close_recording(struct recording *recording)
{
    munmap((void *)(uintptr_t)recording->base, recording->size);
    assert_int_equal(unlink(ks_capture_path()), 0);
}

static const struct ks_wire_slot *slot_of(const struct recording *recording, uint32_t index)
{
    size_t offset = KS_WIRE_HEADER_SIZE + (size_t)index * KS_WIRE_SLOT_SIZE;
    assert_true(offset + KS_WIRE_SLOT_SIZE <= recording->size);
    return (const void *)(recording->base + offset);
}

static void check_seal(const struct ks_wire_slot *slot)
{
    assert_true(slot->size <= KS_WIRE_PAYLOAD_SIZE);
    uint32_t crc = crc_by_bits(0, slot + 1, slot->size);
    assert_int_equal(slot->crc, crc_by_bits(crc, slot, offsetof(struct ks_wire_slot, size)));
}

/* Events of a kind in all slots, whose seals are checked as well. */
static uint64_t count_events(const struct recording *recording, enum ks_wire_event_kind kind)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < recording->header->slot_count; i++) {
        const struct ks_wire_slot *slot = slot_of(recording, i);
        const struct ks_wire_event *events = (const void *)(slot + 1);
        assert_int_equal(slot->magic, KS_WIRE_SLOT_MAGIC);
        if (slot->kind == KS_WIRE_NODES) {
            continue;
        }
        assert_true(slot->is_sealed);
        check_seal(slot);
        for (uint32_t k = 0; slot->kind == KS_WIRE_EVENTS && k < slot->size / 16; k++) {
            count += (events[k].word >> 32 & 0xff) == kind;
        }
    }
    return count;
}

static unsigned count_items(const struct recording *recording, enum ks_wire_item_kind kind,
                            const void *payload, size_t size)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < recording->header->slot_count; i++) {
        const struct ks_wire_slot *slot = slot_of(recording, i);
        const char *at = (const char *)(slot + 1);
        const char *end = at + slot->size;
        while (slot->kind == KS_WIRE_ITEMS && at < end) {
            const struct ks_wire_item *item = (const void *)at;
            uint32_t length = item->word & 0xffffff;
            assert_int_equal(item->crc, crc_by_bits(0, item + 1, length));
            count += item->word >> 24 == kind && length == size &&
                     (size == 0 || memcmp(item + 1, payload, size) == 0);
            at += (sizeof(*item) + length + 7) & ~(size_t)7;
        }
    }
    return count;
}

/* ------------------------------------------------------------------ tests */

static void test_checksums(void **state)
{
    (void)state;
    unsigned char bytes[67];
    assert_int_equal(ks_wire_crc32c(0, "123456789", 9), 0xE3069283u); // RFC 3720's polynomial
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (unsigned char)(i * 37 + 11);
        assert_int_equal(ks_wire_crc32c(7, bytes, i), crc_by_bits(7, bytes, i));
    }
}

static void test_header(void **state)
{
    (void)state;
    char reason[KS_CAPTURE_REASON_SIZE];
    const struct ks_capture_options again = {"/nowhere", 0, -1, -1, -1, -1};
    begin(0);
    assert_int_equal(ks_capture_start(&again, reason), 0); // it is on already
    ks_capture_stop();
    assert_false(ks_capture_is_on());
    struct recording recording = open_recording();
    const struct ks_wire_header *header = recording.header;
    assert_memory_equal(header->magic, KS_WIRE_MAGIC, 8);
    assert_int_equal(header->pid, getpid());
    assert_int_equal(header->parent_pid, getppid());
    assert_int_equal(header->rank, 1);
    assert_int_equal(header->local_rank, 2);
    assert_int_equal(header->world_size, 4);
    assert_int_equal(header->worker, 3);
    assert_int_equal(header->state, KS_WIRE_CLOSED);
    assert_true(strstr(header->program, "test_capture") != NULL);
    assert_true(strlen(header->host) > 0 && strlen(header->boot_id) == 36);
    assert_true(header->tick_khz > 0 && header->start_process_ns > 0);
    close_recording(&recording);
}

static void test_names_keep_their_ids(void **state)
{
    (void)state;
    begin(0);
    uint32_t text = ks_capture_string("loss", 4);
    uint32_t site = ks_capture_site("load", 4, "data", 4);
    assert_true(text != 0 && site != 0);
    assert_int_equal(ks_capture_string("loss", 4), text);
    assert_int_equal(ks_capture_site("load", 4, "data", 4), site);
    assert_int_not_equal(ks_capture_site("load", 4, "other", 5), site);
    ks_capture_stop();
    struct recording recording = open_recording();
    close_recording(&recording);

    begin(0); // another file has them all, too
    assert_int_equal(ks_capture_string("loss", 4), text);
    ks_capture_stop();
    recording = open_recording();
    const struct {
        uint32_t id, length;
        char bytes[4];
    } item = {text, 4, "loss"};
    assert_int_equal(count_items(&recording, KS_WIRE_STRING, &item, sizeof(item)), 1);
    close_recording(&recording);
}

/* Items that go by numbers of one file do not get into the next one, and are not lost there. */
static void test_items_of_one_file(void **state)
{
    (void)state;
    begin(0);
    uint32_t first = ks_capture_generation();
    assert_true(ks_capture_item_of(first, KS_WIRE_NOTE, "ours", 4));
    ks_capture_stop();
    assert_false(ks_capture_item_of(first, KS_WIRE_NOTE, "late", 4));
    struct recording recording = open_recording();
    assert_int_equal(count_items(&recording, KS_WIRE_NOTE, "ours", 4), 1);
    close_recording(&recording);
    begin(0);
    assert_false(ks_capture_item_of(first, KS_WIRE_NOTE, "late", 4));
    assert_true(ks_capture_item_of(ks_capture_generation(), KS_WIRE_NOTE, "ours", 4));
    ks_capture_stop();
    recording = open_recording();
    assert_int_equal(count_items(&recording, KS_WIRE_NOTE, "ours", 4), 1);
    assert_int_equal(count_items(&recording, KS_WIRE_NOTE, "late", 4), 0);
    assert_int_equal(recording.header->items_lost, 0);
    close_recording(&recording);
}

static void test_items(void **state)
{
    (void)state;
    static char long_one[4097];
    begin(0);
    errno = EDOM;
    for (int i = 0; i < 100; i++) {
        assert_true(ks_capture_item(KS_WIRE_SAMPLE, long_one, 4096));
    }
    assert_true(ks_capture_item(KS_WIRE_NOTE, "odd", 3));
    assert_false(ks_capture_item(KS_WIRE_NOTE, long_one, 4097));
    assert_int_equal(errno, EDOM);
    ks_capture_stop();
    assert_false(ks_capture_item(KS_WIRE_NOTE, "late", 4));
    struct recording recording = open_recording();
    assert_int_equal(count_items(&recording, KS_WIRE_SAMPLE, long_one, 4096), 100);
    assert_int_equal(count_items(&recording, KS_WIRE_NOTE, "odd", 3), 1);
    assert_int_equal(recording.header->items_lost, 1);
    close_recording(&recording);
}

static void test_limit_counts_what_is_lost(void **state)
{
    (void)state;
    enum { TOO_MANY = 3 * MIB / 16 };
    begin(MIB);
    for (uint64_t i = 0; i < TOO_MANY; i++) {
        put(i, word_of(KS_WIRE_MARK, 1));
    }
    uint64_t lost = ks_capture_events_lost();
    ks_capture_stop();
    struct recording recording = open_recording();
    assert_true(recording.size <= MIB && lost > 0);
    assert_int_equal(recording.header->events_lost, lost);
    assert_int_equal(count_events(&recording, KS_WIRE_MARK), TOO_MANY - lost);
    close_recording(&recording);
}

static void test_nodes(void **state)
{
    (void)state;
    uint32_t index = 0;
    begin(0);
    uint32_t generation = ks_capture_generation();
    struct ks_wire_node *nodes = ks_capture_nodes(&index);
    assert_non_null(nodes);
    nodes[3].calls = 77;
    ks_capture_stop();
    assert_int_not_equal(ks_capture_generation(), generation);
    assert_null(ks_capture_nodes(&index));
    nodes[3].calls = 78; // who goes on counting does no harm
    struct recording recording = open_recording();
    assert_true(count_events(&recording, KS_WIRE_MARK) == 0);
    close_recording(&recording);
}

static void test_turned_off_with_its_reason(void **state)
{
    (void)state;
    begin(0);
    ks_capture_turn_off("a test wanted it");
    assert_false(ks_capture_is_on());
    struct recording recording = open_recording();
    assert_int_equal(recording.header->state, KS_WIRE_OFF);
    assert_string_equal(recording.header->off_reason, "a test wanted it");
    close_recording(&recording);
}

static void *write_all(void *unused)
{
    (void)unused;
    uint32_t site = ks_capture_site("in thread", 9, "custom", 6);
    for (int i = 0; i < EVENTS; i++) {
        put(ks_capture_tick(), word_of(i % 2 ? KS_WIRE_END : KS_WIRE_BEGIN, site));
        if (i % 1000 == 0) {
            (void)ks_capture_item(KS_WIRE_SAMPLE, "sample", 6);
        }
    }
    return NULL;
}

static void run_threads(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, write_all, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void test_threads(void **state)
{
    (void)state;
    begin(0);
    run_threads();
    run_threads(); // in the lanes of those before
    ks_capture_stop();
    struct recording recording = open_recording();
    assert_int_equal(recording.header->events_lost, 0);
    assert_int_equal(count_events(&recording, KS_WIRE_BEGIN), THREADS * EVENTS);
    assert_int_equal(count_events(&recording, KS_WIRE_END), THREADS * EVENTS);
    assert_int_equal(count_items(&recording, KS_WIRE_SAMPLE, "sample", 6),
                     2 * THREADS * EVENTS / 1000);
    close_recording(&recording);
}

/* The thread sanitizer cannot follow a child of several threads that begins a thread. */
#ifndef __SANITIZE_THREAD__
static void test_child_writes_its_own_file(void **state)
{
    (void)state;
    char parent[4096];
    begin(0);
    uint32_t site = ks_capture_site("before", 6, "custom", 6);
    (void)memcpy(parent, ks_capture_path(), strlen(ks_capture_path()) + 1);
    pid_t child = fork();
    if (child == 0) {
        bool is_same = ks_capture_site("before", 6, "custom", 6) == site;
        put(1, word_of(KS_WIRE_MARK, site));
        bool is_own = strcmp(parent, ks_capture_path()) != 0;
        ks_capture_stop();
        struct recording recording = open_recording();
        uint64_t count = count_events(&recording, KS_WIRE_MARK);
        close_recording(&recording);
        _exit(is_same && is_own && count == 1 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_string_equal(parent, ks_capture_path());
    ks_capture_stop();
    struct recording recording = open_recording();
    assert_int_equal(count_events(&recording, KS_WIRE_MARK), 0);
    close_recording(&recording);
}

#endif

/* What is said of the process is in each of its files, once, and in none of a child. */
static void test_notes(void **state)
{
    (void)state;
    uint32_t key = ks_capture_string("who", 3);
    uint32_t first = ks_capture_string("worker 1", 8);
    uint32_t second = ks_capture_string("worker 2", 8);
    const uint32_t notes[2][2] = {{key, first}, {key, second}};
    ks_capture_note(key, first); // nothing is begun by it
    assert_false(ks_capture_is_on());
    for (int i = 0; i < 2; i++) {
        begin(0);
        ks_capture_note(key, second);
        ks_capture_note(key, second);
        ks_capture_note(0, second);
        ks_capture_stop();
        struct recording recording = open_recording();
        assert_int_equal(count_items(&recording, KS_WIRE_NOTE, notes[0], sizeof(notes[0])), !i);
        assert_int_equal(count_items(&recording, KS_WIRE_NOTE, notes[1], sizeof(notes[1])), 1);
        close_recording(&recording);
    }
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checksums),
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_names_keep_their_ids),
        cmocka_unit_test(test_items_of_one_file),
        cmocka_unit_test(test_items),
        cmocka_unit_test(test_limit_counts_what_is_lost),
        cmocka_unit_test(test_nodes),
        cmocka_unit_test(test_turned_off_with_its_reason),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_notes),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(test_child_writes_its_own_file),
#endif
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
