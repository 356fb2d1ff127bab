/* The recorder: the one owner of a process's recording (wire/recording.h). All event sources in the
 * process write through it: regions, function profiler, stack sampler, monitor. It lives in
 * libkscope_capture.so, which is never unloaded, so that they share it.
 *
 * Nothing here raises, prints, ends the program, changes errno or takes memory by malloc once it
 * has started. Any failure turns it off and leaves a reason in the file. A child, by fork() or by
 * the bare system call, gets a file of its own at its first event; the parent's is not mapped. */
#ifndef KS_CAPTURE_SHARED_RECORDER_H
#define KS_CAPTURE_SHARED_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/recording.h"

#define KS_CAPTURE_API __attribute__((visibility("default")))

enum { KS_CAPTURE_REASON_SIZE = 128 };

struct ks_capture_options {
    const char *folder; /* must be there; the file's name never collides */
    uint64_t bytes_max; /* the file grows no further; 0: 2 GiB */
    int32_t rank;       /* these four: -1 unknown */
    int32_t local_rank;
    int32_t world_size;
    int32_t worker;
};

/* A thread's window into its open slot of events. `next >= end`: no room, or no recorder. It stays
 * where it is as long as its thread lives, also in a child after a fork. A record is taken by
 * adding to `next`, by one instruction where signal handlers of the thread may record, too. */
struct ks_capture_lane {
    struct ks_wire_event *next;
    struct ks_wire_event *end;
    uint32_t is_tsc;
    uint32_t reserved;
};

/* 0: recording; it is no fault to start twice. -1: `reason` says why not, as a sentence. */
KS_CAPTURE_API int ks_capture_start(const struct ks_capture_options *options,
                                    char reason[KS_CAPTURE_REASON_SIZE]);
/* Seals what is open and marks the file as closed. Threads that write meanwhile lose their events,
 * which is counted. It can be started again: another file. */
KS_CAPTURE_API void ks_capture_stop(void);
KS_CAPTURE_API bool ks_capture_is_on(void);
/* Of the file; "" when there is none. Good until the next start. */
KS_CAPTURE_API const char *ks_capture_path(void);
/* Turns recording off for good and leaves the reason in the file. */
KS_CAPTURE_API void ks_capture_turn_off(const char *reason);

/* The calling thread's lane; never NULL. */
KS_CAPTURE_API struct ks_capture_lane *ks_capture_lane(void);
/* Writes an event where `next >= end`: takes a new slot, or counts a loss. */
KS_CAPTURE_API void ks_capture_event_slow(struct ks_capture_lane *lane, uint64_t tick,
                                          uint64_t word);
/* Now, in ticks of the recording. */
KS_CAPTURE_API uint64_t ks_capture_tick(void);

/* Ids of texts and of (name, category), the same for the same text, valid in children too. 0: no
 * room. A short lock, no system call; look it up once and keep it. */
KS_CAPTURE_API uint32_t ks_capture_string(const char *text, size_t length);
KS_CAPTURE_API uint32_t ks_capture_site(const char *name, size_t name_length, const char *category,
                                        size_t category_length);

/* Says something of this process by two texts, a key and what it is: in its file, and in each file
 * that it begins later; begins none. What came last holds; children say their own. */
KS_CAPTURE_API void ks_capture_note(uint32_t key, uint32_t text);

/* Writes one item from any thread, at most 4096 bytes of payload. False: lost, and counted. */
KS_CAPTURE_API bool ks_capture_item(enum ks_wire_item_kind kind, const void *payload, size_t size);
/* The same, but into the file of this generation alone: for items that go by numbers which the
 * caller gives out anew in each file. False also when it is another one, and nothing is lost then.
 */
KS_CAPTURE_API bool ks_capture_item_of(uint32_t generation, enum ks_wire_item_kind kind,
                                       const void *payload, size_t size);

/* A fresh slot of nodes for the calling thread, whose payload it may change for ever; NULL: no
 * room. `index` is its number in the file. It stays mapped after a stop, but not over a fork. */
KS_CAPTURE_API struct ks_wire_node *ks_capture_nodes(uint32_t *index);
/* Changes when the process gets another file (start, stop, fork): what came from ks_capture_nodes
 * before is of no file then. */
KS_CAPTURE_API uint32_t ks_capture_generation(void);

/* For tests of what happens on full disks and files at their limit. */
KS_CAPTURE_API uint64_t ks_capture_events_lost(void);

#endif
