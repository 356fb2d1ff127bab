#include "read/fingerprint.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/err.h"
#include "read/run_status.h"
#include "wire/recording.h"

enum {
    PROBE_SIZE = 64 * 1024, /* at each end of the file */
    SAMPLE_SIZE = 4096,     /* and so much at so many places between */
    SAMPLES = 16,
    UNPACKED_MAX = 40, /* JSON of traces shrinks to a tenth or less, hardly ever to this */
    RECORDING_MAX = 5, /* two events of 16 bytes make a row of 88, and wait beside it */
};

struct taker {
    XXH3_state_t *hash;
    char *buf;
    struct ks_fingerprint *out;
};

static int64_t ns_of(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void add_number(struct taker *t, int64_t number)
{
    (void)XXH3_128bits_update(t->hash, &number, sizeof(number));
}

/* The NUL tells where a text ends. */
static void add_text(struct taker *t, const char *text)
{
    (void)XXH3_128bits_update(t->hash, text, strlen(text) + 1);
}

/* Change time too: it cannot be set back, as that of modification can. */
static void add_identity(struct taker *t, const struct stat *info)
{
    int64_t modified_ns = ns_of(info->st_mtim);
    int64_t changed_ns = ns_of(info->st_ctim);
    int64_t newest_ns = modified_ns > changed_ns ? modified_ns : changed_ns;
    add_number(t, (int64_t)info->st_dev);
    add_number(t, (int64_t)info->st_ino);
    add_number(t, (int64_t)info->st_size);
    add_number(t, modified_ns);
    add_number(t, changed_ns);
    t->out->newest_ns = newest_ns > t->out->newest_ns ? newest_ns : t->out->newest_ns;
}

/* ------------------------------------------------------------------ content */

static size_t add_bytes(struct taker *t, int fd, size_t size, int64_t offset)
{
    ssize_t got = pread(fd, t->buf, size, (off_t)offset);
    add_number(t, got);
    if (got > 0) {
        (void)XXH3_128bits_update(t->hash, t->buf, (size_t)got);
    }
    return got > 0 ? (size_t)got : 0;
}

static bool is_compressed(const char *head, size_t size)
{
    return size >= 4 &&
           (memcmp(head, "\x1F\x8B", 2) == 0 || memcmp(head, "\x28\xB5\x2F\xFD", 4) == 0);
}

/* How many bytes of JSON take as much memory as one of this file. */
static uint64_t factor_of(const char *head, size_t size)
{
    if (is_compressed(head, size)) {
        return UNPACKED_MAX;
    }
    size_t magic = sizeof(((struct ks_wire_header *)0)->magic);
    bool is_recording = size >= magic && memcmp(head, KS_WIRE_MAGIC, magic) == 0;
    return is_recording ? RECORDING_MAX : 1;
}

static void add_content(struct taker *t, int fd, int64_t size)
{
    size_t head = add_bytes(t, fd, PROBE_SIZE, 0);
    t->out->bytes += (uint64_t)size * factor_of(t->buf, head);
    if (size <= PROBE_SIZE) {
        return;
    }
    for (int64_t i = 1; i <= SAMPLES; i++) {
        (void)add_bytes(t, fd, SAMPLE_SIZE, size / (SAMPLES + 1) * i);
    }
    (void)add_bytes(t, fd, PROBE_SIZE, size > 2 * PROBE_SIZE ? size - PROBE_SIZE : PROBE_SIZE);
}

static void add_file(struct taker *t, const struct ks_file_entry *file)
{
    struct stat info;
    /* A pipe must not be opened: what opens it next would miss its bytes. */
    bool is_file =
        strcmp(file->path, "-") != 0 && stat(file->path, &info) == 0 && S_ISREG(info.st_mode);
    int fd = is_file ? open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        t->out->is_whole = false;
    } else {
        add_text(t, file->path);
        add_number(t, file->is_given);
        add_identity(t, &info);
        add_content(t, fd, (int64_t)info.st_size);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}

/* ------------------------------------------------------------------ status files */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum ks_status list_status_files(DIR *dir, struct ks_arena *arena, const char ***names,
                                        size_t *count, struct ks_err *err)
{
    size_t capacity = 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (!ks_run_status_is_name(entry->d_name)) {
            continue;
        }
        if (*count == capacity) {
            capacity = capacity ? 2 * capacity : 16;
            const char **grown = ks_new(arena, const char *, capacity);
            if (!grown) {
                return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot list status files");
            }
            if (*count > 0) {
                memcpy(grown, *names, *count * sizeof(*grown));
            }
            *names = grown;
        }
        (*names)[*count] = ks_arena_copy(arena, entry->d_name, strlen(entry->d_name));
        if (!(*names)[*count]) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot list status files");
        }
        (*count)++;
    }
    if (*count > 1) {
        qsort(*names, *count, sizeof(**names), compare_names);
    }
    return KS_OK;
}

/* What processes, and the monitor, say beside traces enters the sources. */
static enum ks_status add_status_files(struct taker *t, const char *folder, struct ks_arena *arena,
                                       struct ks_err *err)
{
    DIR *dir = opendir(folder);
    if (!dir) {
        return KS_OK;
    }
    const char **names = NULL;
    size_t count = 0;
    enum ks_status status = list_status_files(dir, arena, &names, &count, err);
    for (size_t i = 0; status == KS_OK && i < count; i++) {
        struct stat info;
        if (fstatat(dirfd(dir), names[i], &info, AT_SYMLINK_NOFOLLOW) == 0) {
            add_text(t, names[i]);
            add_identity(t, &info);
        }
    }
    struct stat info;
    if (status == KS_OK && fstatat(dirfd(dir), "monitor.jsonl", &info, AT_SYMLINK_NOFOLLOW) == 0) {
        add_identity(t, &info);
    }
    (void)closedir(dir);
    return status;
}

static const char *folder_of(const char *path, struct ks_arena *arena)
{
    const char *slash = strrchr(path, '/');
    return slash ? ks_arena_copy(arena, path, (size_t)(slash - path) + 1) : ".";
}

/* ------------------------------------------------------------------ all of it */

static enum ks_status add_all(struct taker *t, const struct ks_read_options *options,
                              struct ks_arena *arena, struct ks_err *err)
{
    struct ks_file_list files = {0};
    const char *last = "";
    KS_TRY(ks_read_list(options, &files, arena, err));
    for (size_t i = 0; i < files.count; i++) {
        add_file(t, &files.list[i]);
        const char *folder = folder_of(files.list[i].path, arena);
        if (!folder) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot look at files: no memory");
        }
        if (strcmp(folder, last) != 0) {
            last = folder;
            KS_TRY(add_status_files(t, folder, arena, err));
        }
    }
    return KS_OK;
}

enum ks_status ks_fingerprint_take(const struct ks_read_options *options,
                                   struct ks_fingerprint *out, struct ks_err *err)
{
    struct ks_arena arena;
    ks_arena_init(&arena);
    *out = (struct ks_fingerprint){.newest_ns = INT64_MIN, .is_whole = true};
    struct taker t = {.buf = ks_alloc(1, PROBE_SIZE), .out = out, .hash = XXH3_createState()};
    enum ks_status status = KS_OK;
    if (t.buf && t.hash) {
        (void)XXH3_128bits_reset(t.hash);
        status = add_all(&t, options, &arena, err);
        XXH128_hash_t hash = XXH3_128bits_digest(t.hash);
        out->low = hash.low64;
        out->high = hash.high64;
    } else {
        status = ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot look at files: no memory");
    }
    out->is_whole = out->is_whole && status == KS_OK;
    (void)XXH3_freeState(t.hash);
    ks_free(t.buf);
    ks_arena_release(&arena);
    return status;
}
