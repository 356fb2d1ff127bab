/* The file of a recording: a range of addresses as large as it may get, mapped piece by piece.
 * Not thread-safe, but for the slots it gave out: recorder.c holds the lock. */
#ifndef KS_CAPTURE_SHARED_RECORDING_FILE_H
#define KS_CAPTURE_SHARED_RECORDING_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "capture/shared/recorder.h"

struct ks_recording_file {
    char path[4096];
    int fd;       /* -1: no file */
    dev_t device; /* these two: which file it is; a program may close what it did not open */
    ino_t inode;
    char *base;         /* of the reserved addresses; the header lies there */
    uint64_t bytes_max; /* reserved */
    _Atomic uint64_t bytes_mapped;
    bool is_tsc;
};

/* 0, or -1 and a sentence. */
int ks_recording_file_create(struct ks_recording_file *file,
                             const struct ks_capture_options *options,
                             char reason[KS_CAPTURE_REASON_SIZE]);
/* The next slot, zero but for its head, or NULL: the file is at its limit, or the disk is full. */
struct ks_wire_slot *ks_recording_file_take(struct ks_recording_file *file,
                                            const struct ks_wire_slot *head);
/* Are so few slots mapped that more should be, before somebody waits for them? */
bool ks_recording_file_is_short(const struct ks_recording_file *file);
/* Maps another piece; gives its range, for ks_recording_file_touch, which needs no lock. */
bool ks_recording_file_grow(struct ks_recording_file *file, char **from, size_t *size);
/* The first store to a page of a file costs a microsecond: as much as twenty regions. */
void ks_recording_file_touch(char *from, size_t size);
/* Writes the checksum of a slot whose `size` is set. */
void ks_recording_file_seal(struct ks_wire_slot *slot);
struct ks_wire_header *ks_recording_file_header(const struct ks_recording_file *file);
struct ks_wire_slot *ks_recording_file_slot(const struct ks_recording_file *file, uint32_t index);
/* Is the address in the file's range? */
bool ks_recording_file_holds(const struct ks_recording_file *file, const void *address);
/* Memory takes the place of the file, where the file has become shorter: what is written there from
 * now on is lost. Safe in a signal handler. */
void ks_recording_file_unhook(struct ks_recording_file *file);
/* No slot is taken any more. Threads may still write into theirs, so the addresses stay. */
void ks_recording_file_close(struct ks_recording_file *file);
/* After a fork the child has no such file any more: its addresses are not mapped. */
void ks_recording_file_forget(struct ks_recording_file *file);
/* The same where the parent may have the very descriptor: clone() can share the table of them. */
void ks_recording_file_leave(struct ks_recording_file *file);

#endif
