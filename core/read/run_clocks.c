#include "read/run_clocks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "read/json_members.h"
#include "read/reader.h"
#include "read/step_times.h"

enum {
    LINE_MAX_BYTES = 16 * 1024, /* ours have some 6,000 with 16 GPUs */
    READ_BYTES = 64 * 1024,
    FILE_MAX_BYTES = 64 << 20,
    PIDS_MAX = 16,
    PPM = 1000 * 1000,
    MHZ_MAX = 100 * 1000,           /* what is more is no clock ... */
    VALUE_MAX = 1000 * 1000 * 1000, /* ... and nothing else, so that no sum overflows */
};

/* Why a clock is not higher: NVML's bits. */
enum {
    REASON_IDLE = 1,
    REASON_POWER_CAP = 4,
    REASON_HARDWARE = 8, /* heat or brake, which drivers may name as well */
    REASON_HEAT = 32 | 64,
    REASON_BRAKE = 128,
};

/* One GPU of a line; -1: not known. */
struct look {
    int64_t busy_percent, mhz, mhz_max, reasons, temperature_c;
    int64_t power_mw, power_limit_mw, power_default_mw, others;
    int64_t pids[PIDS_MAX];
    size_t pid_count;
    struct ks_source *const *sources;
    size_t source_count;
};

/* ------------------------------------------------------------------ one look */

static bool is_of(const struct look *look, int64_t pid)
{
    bool is_found = look->pid_count == 0;
    for (size_t i = 0; i < look->pid_count && !is_found; i++) {
        is_found = look->pids[i] == pid;
    }
    return is_found;
}

/* A GPU at work, whose clock and reasons are known. */
static bool is_of_use(const struct look *look)
{
    return look->busy_percent > 0 && look->busy_percent <= 100 && look->reasons >= 0 &&
           !(look->reasons & REASON_IDLE) && look->mhz > 0 && look->mhz_max > 0 &&
           look->mhz_max <= MHZ_MAX;
}

/* One look has one reason: the one that comes first here. */
static enum ks_clock_hold hold_of(int64_t reasons)
{
    return reasons & REASON_HEAT        ? KS_CLOCK_HEAT
           : reasons & REASON_BRAKE     ? KS_CLOCK_BRAKE
           : reasons & REASON_HARDWARE  ? KS_CLOCK_HARDWARE
           : reasons & REASON_POWER_CAP ? KS_CLOCK_POWER_CAP
                                        : KS_CLOCK_HOLDS;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* 0 where it is not known. */
static int64_t known(int64_t value)
{
    return value > 0 && value <= VALUE_MAX ? value : 0;
}

static void add_look(const struct look *look, struct ks_clock_use *use)
{
    enum ks_clock_hold hold = hold_of(look->reasons);
    int64_t mhz = look->mhz < look->mhz_max ? look->mhz : look->mhz_max;
    use->looks++;
    use->mhz += mhz;
    use->mhz_max = larger(use->mhz_max, look->mhz_max);
    use->temperature_c_max = larger(use->temperature_c_max, known(look->temperature_c));
    use->power_mw += known(look->power_mw);
    use->power_limit_mw = known(look->power_limit_mw);
    use->power_default_mw = known(look->power_default_mw);
    use->others_max = larger(use->others_max, known(look->others));
    if (hold < KS_CLOCK_HOLDS) {
        use->held[hold]++;
        use->lost_ppm[hold] += PPM - PPM * mhz / look->mhz_max;
    }
}

void ks_run_clocks_finish(struct ks_clock_use *use)
{
    int64_t by = use->looks > 0 ? use->looks : 1;
    use->mhz /= by;
    use->power_mw /= by;
    for (int i = 0; i < KS_CLOCK_HOLDS; i++) {
        use->lost_ppm[i] /= by;
    }
}

/* ------------------------------------------------------------------ one line */

static enum ks_json take_pids(struct ks_json_cursor *c, struct look *look)
{
    bool more;
    enum ks_json step = ks_json_open_array(c, &more);
    while (step == KS_JSON_OK && more) {
        int64_t pid = 0;
        step = ks_json_take_number(c, &pid);
        step = step == KS_JSON_OK ? ks_json_next(c, ']', &more) : step;
        if (pid > 0 && look->pid_count < PIDS_MAX) {
            look->pids[look->pid_count++] = pid;
        }
    }
    return step;
}

static enum ks_json take_gpu_member(struct ks_json_cursor *c, struct ks_str key, void *user)
{
    struct look *look = user;
    const struct {
        struct ks_str key;
        int64_t *value;
    } members[] = {
        {KS_STR("busy_percent"), &look->busy_percent},
        {KS_STR("sm_mhz"), &look->mhz},
        {KS_STR("sm_mhz_max"), &look->mhz_max},
        {KS_STR("reasons"), &look->reasons},
        {KS_STR("temperature_c"), &look->temperature_c},
        {KS_STR("power_mw"), &look->power_mw},
        {KS_STR("power_limit_mw"), &look->power_limit_mw},
        {KS_STR("power_default_mw"), &look->power_default_mw},
        {KS_STR("other_processes"), &look->others},
    };
    for (size_t i = 0; i < KS_COUNT_OF(members); i++) {
        if (ks_str_equal(key, members[i].key)) {
            return ks_json_take_number(c, members[i].value);
        }
    }
    return ks_str_equal(key, KS_STR("pids")) ? take_pids(c, look) : ks_json_skip(c);
}

static enum ks_json take_member(struct ks_json_cursor *c, struct ks_str key, void *user)
{
    const struct look *line = user;
    bool more;
    if (!ks_str_equal(key, KS_STR("gpus"))) {
        return ks_json_skip(c);
    }
    enum ks_json step = ks_json_open_array(c, &more);
    while (step == KS_JSON_OK && more) {
        struct look look = {-1, -1, -1, -1, -1, -1, -1, -1, -1, {0}, 0, NULL, 0};
        if (!ks_json_each_member(c, take_gpu_member, &look)) {
            return KS_JSON_BAD;
        }
        step = ks_json_next(c, ']', &more);
        for (size_t i = 0; i < line->source_count && is_of_use(&look); i++) {
            if (is_of(&look, line->sources[i]->pid)) {
                add_look(&look, &line->sources[i]->clocks);
            }
        }
    }
    return step;
}

void ks_run_clocks_add_line(struct ks_str text, struct ks_source *const *list, size_t count)
{
    struct ks_json_cursor cursor = {.at = text.ptr, .end = text.ptr + text.len};
    struct look line = {.sources = list, .source_count = count};
    (void)ks_json_each_member(&cursor, take_member, &line);
}

/* ------------------------------------------------------------------ the file */

struct line_buf {
    size_t len;
    bool is_too_long; /* the rest of the line is left out as well */
    char text[LINE_MAX_BYTES + KS_WINDOW_PAD];
};

static void end_line(struct line_buf *line, struct ks_source *const *list, size_t count)
{
    if (line->len > 0 && !line->is_too_long) {
        memset(line->text + line->len, 0, KS_WINDOW_PAD);
        ks_run_clocks_add_line((struct ks_str){line->text, line->len}, list, count);
    }
    line->len = 0;
    line->is_too_long = false;
}

static void add_bytes(struct line_buf *line, const char *bytes, size_t size,
                      struct ks_source *const *list, size_t count)
{
    while (size > 0) {
        const char *end = memchr(bytes, '\n', size);
        size_t len = end ? (size_t)(end - bytes) : size;
        if (len <= LINE_MAX_BYTES - line->len) {
            memcpy(line->text + line->len, bytes, len);
            line->len += len;
        } else {
            line->is_too_long = true;
        }
        if (end) {
            end_line(line, list, count);
        }
        len += end != NULL;
        bytes += len;
        size -= len;
    }
}

/* A line without an end was not written to its end. */
static enum ks_status read_file(int fd, struct ks_source *const *list, size_t count,
                                struct ks_err *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        return KS_OK;
    }
    struct line_buf *line = ks_alloc(1, sizeof(*line));
    char *bytes = ks_alloc(READ_BYTES, 1);
    ssize_t got = line && bytes ? 1 : 0;
    for (int64_t offset = 0; got > 0 && offset < FILE_MAX_BYTES; offset += got) {
        got = pread(fd, bytes, READ_BYTES, (off_t)offset);
        if (got > 0) {
            add_bytes(line, bytes, (size_t)got, list, count);
        }
    }
    enum ks_status status = line && bytes ? KS_OK
                                          : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET,
                                                    "Cannot read the monitor: no memory");
    ks_free(line);
    ks_free(bytes);
    return status;
}

static struct ks_str folder_of(struct ks_str path)
{
    const char *slash = path.len > 0 ? memrchr(path.ptr, '/', path.len) : NULL;
    return slash ? (struct ks_str){path.ptr, (size_t)(slash - path.ptr) + 1} : KS_STR("./");
}

static enum ks_status read_folder(struct ks_str folder, struct ks_source *const *list, size_t count,
                                  struct ks_err *err)
{
    char path[4096];
    int len = snprintf(path, sizeof(path), "%.*smonitor.jsonl", (int)folder.len, folder.ptr);
    int fd = len > 0 && (size_t)len < sizeof(path)
                 ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                 : -1;
    if (fd < 0) {
        return KS_OK;
    }
    enum ks_status status = read_file(fd, list, count, err);
    close(fd);
    for (size_t i = 0; i < count; i++) {
        ks_run_clocks_finish(&list[i]->clocks);
    }
    return status;
}

/* Sources of one folder mostly follow each other. */
static enum ks_status apply(struct ks_trace_builder *builder, struct ks_source **list,
                            struct ks_err *err)
{
    struct ks_str folder = {0};
    size_t count = 0;
    for (uint32_t i = 0; i < ks_trace_builder_source_count(builder); i++) {
        struct ks_source *source = ks_trace_builder_source(builder, i);
        struct ks_str next = folder_of(ks_trace_builder_str(builder, source->path));
        if (source->pid <= 0) {
            continue;
        }
        if (count > 0 && !ks_str_equal(next, folder)) {
            KS_TRY(read_folder(folder, list, count, err));
            count = 0;
        }
        folder = next;
        list[count++] = source;
    }
    return count > 0 ? read_folder(folder, list, count, err) : KS_OK;
}

enum ks_status ks_run_clocks_apply(struct ks_trace_builder *builder, struct ks_err *err)
{
    struct ks_source **list =
        ks_alloc((size_t)ks_trace_builder_source_count(builder) + 1, sizeof(struct ks_source *));
    if (!list) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot read the monitor: no memory");
    }
    enum ks_status status = apply(builder, list, err);
    ks_free(list);
    return status;
}
