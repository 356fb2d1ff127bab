#include "capture/shared/recording_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "capture/shared/small_file.h"
#include "capture/shared/ticks.h"
#include "wire/crc32c.h"

enum { PIECE_SIZE = 1 << 20, BYTES_AHEAD = 4 << 20 };

static const uint64_t bytes_max_usual = UINT64_C(2) << 30;

static int fail(char *reason, const char *what, int error)
{
    struct ks_small_text text = {reason, KS_CAPTURE_REASON_SIZE, 0, 0};
    ks_small_text_put(&text, what);
    if (error) {
        ks_small_text_put(&text, ": ");
        ks_small_text_put(&text, strerrordesc_np(error) ? strerrordesc_np(error) : "unknown");
    }
    return -1;
}

/* ------------------------------------------------------------------ growing */

/* The signal that the kernel sends with EFBIG would end the program. */
static bool may_grow_to(uint64_t size)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
           (limit.rlim_cur == RLIM_INFINITY || size <= limit.rlim_cur);
}

static bool is_file(const struct ks_recording_file *file, int fd)
{
    struct stat there;
    return fd >= 0 && fstat(fd, &there) == 0 && there.st_dev == file->device &&
           there.st_ino == file->inode;
}

/* Daemons close all descriptors that there are, and get the same numbers for files of their own. */
static bool have_descriptor(struct ks_recording_file *file)
{
    if (is_file(file, file->fd)) {
        return true;
    }
    file->fd = open(file->path, O_RDWR | O_CLOEXEC);
    if (is_file(file, file->fd)) {
        return true;
    }
    if (file->fd >= 0) {
        (void)close(file->fd);
    }
    file->fd = -1;
    return false;
}

/* Space first: a hole in a mapped file on a full disk would be a SIGBUS at the first store. */
static bool grow(struct ks_recording_file *file)
{
    uint64_t from = file->bytes_mapped;
    uint64_t size = from + PIECE_SIZE <= file->bytes_max ? PIECE_SIZE : file->bytes_max - from;
    if (size == 0 || !may_grow_to(from + size) || !have_descriptor(file) ||
        posix_fallocate(file->fd, (off_t)from, (off_t)size) != 0) {
        return false;
    }
    void *at = mmap(file->base + from, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                    file->fd, (off_t)from);
    if (at == MAP_FAILED) {
        /* What was reserved there is gone: reserve it again. */
        (void)mmap(file->base + from, size, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        return false;
    }
    (void)madvise(at, size, MADV_DONTFORK);
    file->bytes_mapped = from + size;
    return true;
}

static uint64_t offset_of(uint32_t index)
{
    return KS_WIRE_HEADER_SIZE + (uint64_t)index * KS_WIRE_SLOT_SIZE;
}

bool ks_recording_file_is_short(const struct ks_recording_file *file)
{
    uint32_t next = ks_recording_file_header(file)->slot_count;
    return file->bytes_mapped < file->bytes_max &&
           offset_of(next) + BYTES_AHEAD > file->bytes_mapped;
}

bool ks_recording_file_grow(struct ks_recording_file *file, char **from, size_t *size)
{
    uint64_t before = file->bytes_mapped;
    if (!grow(file)) {
        return false;
    }
    *from = file->base + before;
    *size = file->bytes_mapped - before;
    return true;
}

void ks_recording_file_touch(char *from, size_t size)
{
    (void)madvise(from, size, MADV_POPULATE_WRITE);
}

struct ks_wire_slot *ks_recording_file_take(struct ks_recording_file *file,
                                            const struct ks_wire_slot *head)
{
    struct ks_wire_header *header = ks_recording_file_header(file);
    uint32_t index = header->slot_count;
    while (offset_of(index + 1) > file->bytes_mapped) {
        if (!grow(file)) {
            return NULL;
        }
    }
    struct ks_wire_slot *slot = ks_recording_file_slot(file, index);
    *slot = *head;
    slot->magic = 0;
    slot->index = index;
    __atomic_store_n(&header->slot_count, index + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->magic, (uint32_t)KS_WIRE_SLOT_MAGIC, __ATOMIC_RELEASE);
    return slot;
}

void ks_recording_file_seal(struct ks_wire_slot *slot)
{
    struct ks_wire_slot head = *slot;
    head.is_sealed = 1;
    uint32_t crc = ks_wire_crc32c(0, slot + 1, head.size);
    slot->crc = ks_wire_crc32c(crc, &head, offsetof(struct ks_wire_slot, size));
    __atomic_store_n(&slot->is_sealed, (uint16_t)1, __ATOMIC_RELEASE);
}

/* ------------------------------------------------------------------ beginning */

/* Field 22 of the text, behind the name in brackets, which may hold anything. */
static int64_t process_start_ns(void)
{
    char text[1024];
    ks_small_file_read("/proc/self/stat", text, sizeof(text));
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++) {
        at = strchr(at + 1, ' ');
    }
    int64_t ticks = 0;
    for (at = at ? at + 1 : ""; *at >= '0' && *at <= '9'; at++) {
        ticks = ticks * 10 + (*at - '0');
    }
    return ticks * (1000000000 / sysconf(_SC_CLK_TCK));
}

static void describe_program(char *program, size_t size)
{
    size_t len = ks_small_file_read("/proc/self/cmdline", program, size);
    for (size_t i = 0; i + 1 < len; i++) {
        program[i] = program[i] ? program[i] : ' ';
    }
}

static void fill_header(struct ks_wire_header *header, const struct ks_capture_options *options,
                        bool is_tsc)
{
    struct ks_wire_clock now = ks_ticks_triple(is_tsc);
    struct utsname host;
    memcpy(header->magic, KS_WIRE_MAGIC, sizeof(header->magic));
    header->version = KS_WIRE_VERSION;
    header->header_size = KS_WIRE_HEADER_SIZE;
    header->slot_size = KS_WIRE_SLOT_SIZE;
    header->pid = (uint32_t)getpid();
    header->parent_pid = (uint32_t)getppid();
    header->rank = options->rank;
    header->local_rank = options->local_rank;
    header->world_size = options->world_size;
    header->worker = options->worker;
    header->is_tsc = is_tsc;
    header->start_unix_ns = now.unix_ns;
    header->start_tick = now.tick;
    header->start_process_ns = process_start_ns();
    ks_small_file_read("/proc/sys/kernel/random/boot_id", header->boot_id, sizeof(header->boot_id));
    header->boot_id[strcspn(header->boot_id, "\n")] = '\0';
    if (uname(&host) == 0) {
        struct ks_small_text name = {header->host, sizeof(header->host), 0, 0};
        ks_small_text_put(&name, host.nodename);
    }
    describe_program(header->program, sizeof(header->program));
    header->tick_khz = ks_ticks_khz(is_tsc);
    header->crc = ks_wire_crc32c(0, header, offsetof(struct ks_wire_header, crc));
}

/* FOLDER/HOST-START-PID.ksrec; what is being made has a name that nobody looks for. */
static int put_path(struct ks_recording_file *file, const char *folder,
                    const struct ks_wire_header *header, const char *suffix)
{
    struct ks_small_text text = {file->path, sizeof(file->path), 0, 0};
    char host[sizeof(header->host)];
    memcpy(host, header->host, sizeof(host));
    for (char *at = host; *at; at++) {
        *at = *at == '/' ? '_' : *at;
    }
    ks_small_text_put(&text, folder);
    ks_small_text_put(&text, "/");
    ks_small_text_put(&text, host);
    ks_small_text_put(&text, "-");
    ks_small_text_put_number(&text, header->start_unix_ns);
    ks_small_text_put(&text, "-");
    ks_small_text_put_number(&text, header->pid);
    ks_small_text_put(&text, suffix);
    return text.is_cut ? -1 : 0;
}

/* The first piece holds the header. */
static int map_first(struct ks_recording_file *file, char *reason)
{
    file->base =
        mmap(NULL, file->bytes_max, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (file->base == MAP_FAILED) {
        file->base = NULL;
        return fail(reason, "no addresses for the recording", errno);
    }
    (void)madvise(file->base, file->bytes_max, MADV_DONTFORK);
    file->bytes_mapped = 0;
    return grow(file) ? 0 : fail(reason, "no room on the disk for a recording", 0);
}

static void give_up(struct ks_recording_file *file)
{
    if (file->fd >= 0) {
        (void)unlink(file->path);
        (void)close(file->fd);
    }
    if (file->base) {
        (void)munmap(file->base, file->bytes_max);
    }
    *file = (struct ks_recording_file){.fd = -1};
}

static bool note_which(struct ks_recording_file *file)
{
    struct stat own = {0};
    bool is_known = fstat(file->fd, &own) == 0;
    file->device = own.st_dev;
    file->inode = own.st_ino;
    return is_known;
}

int ks_recording_file_create(struct ks_recording_file *file,
                             const struct ks_capture_options *options,
                             char reason[KS_CAPTURE_REASON_SIZE])
{
    struct ks_wire_header header = {0};
    char temporary[sizeof(file->path)];
    uint64_t bytes = options->bytes_max ? options->bytes_max : bytes_max_usual;
    *file = (struct ks_recording_file){.fd = -1, .is_tsc = ks_ticks_are_tsc()};
    file->bytes_max = (bytes + PIECE_SIZE - 1) / PIECE_SIZE * PIECE_SIZE;
    fill_header(&header, options, file->is_tsc);
    if (put_path(file, options->folder, &header, ".ksrec.tmp")) {
        return fail(reason, "the folder's path is too long", 0);
    }
    memcpy(temporary, file->path, sizeof(temporary));
    file->fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file->fd < 0 || !note_which(file)) {
        return fail(reason, "cannot make a file in the folder", errno);
    }
    if (map_first(file, reason)) {
        give_up(file);
        return -1;
    }
    *ks_recording_file_header(file) = header;
    (void)put_path(file, options->folder, &header, ".ksrec");
    if (syscall(SYS_renameat2, AT_FDCWD, temporary, AT_FDCWD, file->path, 0) != 0) {
        int error = errno;
        memcpy(file->path, temporary, sizeof(temporary));
        give_up(file);
        return fail(reason, "cannot name the recording", error);
    }
    return 0;
}

/* ------------------------------------------------------------------ what it is */

struct ks_wire_header *ks_recording_file_header(const struct ks_recording_file *file)
{
    return (struct ks_wire_header *)(void *)file->base;
}

struct ks_wire_slot *ks_recording_file_slot(const struct ks_recording_file *file, uint32_t index)
{
    return (struct ks_wire_slot *)(void *)(file->base + offset_of(index));
}

bool ks_recording_file_holds(const struct ks_recording_file *file, const void *address)
{
    const char *at = address;
    return file->base && at >= file->base && at < file->base + file->bytes_max;
}

void ks_recording_file_unhook(struct ks_recording_file *file)
{
    (void)mmap(file->base, file->bytes_mapped, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

void ks_recording_file_close(struct ks_recording_file *file)
{
    if (have_descriptor(file)) {
        /* Nobody has an address behind the last slot. */
        off_t used = (off_t)offset_of(ks_recording_file_header(file)->slot_count);
        int unchanged = ftruncate(file->fd, used);
        (void)unchanged; /* it is larger than it need be */
        (void)close(file->fd);
    }
    file->fd = -1;
}

void ks_recording_file_forget(struct ks_recording_file *file)
{
    if (is_file(file, file->fd)) {
        (void)close(file->fd);
    }
    ks_recording_file_leave(file);
}

void ks_recording_file_leave(struct ks_recording_file *file)
{
    file->fd = -1;
    file->base = NULL;
    file->bytes_mapped = 0;
}
