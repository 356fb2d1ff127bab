/* A trace to a sealed file: chunks one after the other, then strings, then the directory, at last
 * the header. Reads the trace as any scan does, so it may run beside them. */
#include <errno.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/err.h"
#include "store/kst_impl.h"

enum { BUFFER_SIZE = 1 << 20, STRINGS_AT_ONCE = 1024 };

struct writer {
    const struct ks_trace *trace;
    int fd;
    const atomic_bool *stop;
    uint64_t offset; /* of the buffer in the file */
    char *buf;
    size_t used;
    size_t capacity;
    struct ks_text directory;
};

static enum ks_status write_at(int fd, const char *ptr, size_t size, uint64_t offset,
                               struct ks_err *err)
{
    while (size > 0) {
        ssize_t n = pwrite(fd, ptr, size, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET,
                           "Cannot write sealed trace: size=%zu, reason=\"%s\"", size,
                           n < 0 ? strerror(errno) : "nothing was written");
        }
        ptr += n;
        size -= (size_t)n;
        offset += (uint64_t)n;
    }
    return KS_OK;
}

static enum ks_status flush(struct writer *w, struct ks_err *err)
{
    KS_TRY(write_at(w->fd, w->buf, w->used, w->offset, err));
    w->offset += w->used;
    w->used = 0;
    return KS_OK;
}

/* Room for `size` bytes at once, which is at most the capacity. */
static enum ks_status reserve(struct writer *w, size_t size, struct ks_err *err)
{
    if (w->stop && atomic_load(w->stop)) {
        return ks_fail(err, KS_ERR_CANCELLED, KS_NO_OFFSET, "Cannot write sealed trace: stopped");
    }
    KS_ASSERT(size <= w->capacity);
    return w->capacity - w->used < size ? flush(w, err) : KS_OK;
}

static uint64_t place_of(const struct writer *w)
{
    return w->offset + w->used;
}

/* ------------------------------------------------------------------ chunks */

static void put_entry(struct writer *w, const struct ks_kst_entry *entry)
{
    ks_put_u64(&w->directory, entry->offset);
    ks_put_u64(&w->directory, entry->hash);
    ks_put_u64(&w->directory, entry->coding.base);
    ks_put_u8(&w->directory, entry->coding.encoding);
    ks_put_u8(&w->directory, entry->coding.width);
    ks_text_append(&w->directory, "\0\0\0\0\0\0", 6);
}

static enum ks_status write_column(struct writer *w, const void *values, size_t value_size,
                                   size_t count, struct ks_err *err)
{
    KS_TRY(reserve(w, ks_kst_room(value_size, count), err));
    struct ks_kst_entry entry = {.offset = place_of(w)};
    char *to = w->buf + w->used;
    size_t size = ks_kst_encode(values, value_size, count, &entry.coding, to);
    entry.hash = XXH3_64bits(to, size);
    w->used += size;
    put_entry(w, &entry);
    return KS_OK;
}

static struct ks_kst_times times_of(const int64_t *start_ns, size_t count)
{
    struct ks_kst_times times = {start_ns[0], start_ns[count - 1], start_ns[0]};
    for (size_t i = 1; i < count; i++) {
        times.max_ns = start_ns[i] > times.max_ns ? start_ns[i] : times.max_ns;
    }
    return times;
}

/* Values that a reader would refuse come from times that are absurd, though they fit. */
static enum ks_status write_shown(struct writer *w, enum ks_table_id id, const struct ks_scan *scan,
                                  uint64_t row, size_t count, struct ks_err *err)
{
    const struct ks_table_layout *layout = ks_table_layout(id);
    struct ks_kst_times times = times_of(scan->cols[KS_MEMORY_COL_start_ns], count);
    ks_put_i64(&w->directory, times.first_ns);
    ks_put_i64(&w->directory, times.last_ns);
    ks_put_i64(&w->directory, times.max_ns);
    if (ks_kst_check_column(w->trace, id, KS_MEMORY_COL_dur_ns, &times, row, count,
                            scan->cols[KS_MEMORY_COL_dur_ns])) {
        return ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                       "Cannot write sealed trace: its times are too far apart");
    }
    for (size_t i = 0; i < layout->column_count; i++) {
        KS_TRY(write_column(w, scan->cols[i], layout->columns[i].size, count, err));
    }
    return KS_OK;
}

static enum ks_status write_chunks(struct writer *w, enum ks_table_id id, struct ks_err *err)
{
    uint64_t row = 0;
    size_t count = 0;
    struct ks_scan scan;
    ks_scan_open(&scan, w->trace, id, KS_ALL_COLUMNS, 0, ks_trace_rows(w->trace, id));
    enum ks_status status = ks_scan_next(&scan, &row, &count, err);
    while (status == KS_OK) {
        status = write_shown(w, id, &scan, row, count, err);
        if (status == KS_OK) {
            status = ks_scan_next(&scan, &row, &count, err);
        }
    }
    ks_scan_close(&scan);
    return status == KS_END ? KS_OK : status;
}

static enum ks_status write_table(struct writer *w, enum ks_table_id id, struct ks_err *err)
{
    const struct ks_table *table = &w->trace->tables[id];
    ks_put_u64(&w->directory, table->rows);
    ks_put_u32(&w->directory, table->chunk_shift);
    ks_put_u32(&w->directory, (uint32_t)table->lane_count);
    for (size_t i = 0; i < table->lane_count; i++) {
        ks_put_u32(&w->directory, table->lanes[i].track);
        ks_put_u64(&w->directory, table->lanes[i].row_begin);
        ks_put_u64(&w->directory, table->lanes[i].row_end);
    }
    return write_chunks(w, id, err);
}

/* ------------------------------------------------------------------ strings */

struct section {
    struct ks_kst_section place;
    XXH3_state_t hash;
};

static void section_begin(struct writer *w, struct section *section)
{
    section->place = (struct ks_kst_section){.offset = place_of(w)};
    (void)XXH3_64bits_reset(&section->hash);
}

static enum ks_status section_add(struct writer *w, struct section *section, const char *ptr,
                                  size_t size, struct ks_err *err)
{
    (void)XXH3_64bits_update(&section->hash, ptr, size);
    section->place.size += size;
    while (size > 0) {
        size_t n = size < w->capacity ? size : w->capacity;
        KS_TRY(reserve(w, n, err));
        memcpy(w->buf + w->used, ptr, n);
        w->used += n;
        ptr += n;
        size -= n;
    }
    return KS_OK;
}

static void section_end(struct writer *w, struct section *section)
{
    ks_put_u64(&w->directory, section->place.offset);
    ks_put_u64(&w->directory, section->place.size);
    ks_put_u64(&w->directory, XXH3_64bits_digest(&section->hash));
}

static enum ks_status write_lengths(struct writer *w, struct section *section, struct ks_err *err)
{
    uint32_t lengths[STRINGS_AT_ONCE];
    uint32_t count = ks_trace_str_count(w->trace);
    section_begin(w, section);
    for (uint32_t id = 0; id < count;) {
        size_t n = 0;
        for (; n < STRINGS_AT_ONCE && id < count; n++, id++) {
            lengths[n] = (uint32_t)ks_trace_str(w->trace, (struct ks_strid){id}).len;
        }
        KS_TRY(section_add(w, section, (const char *)lengths, n * sizeof(lengths[0]), err));
    }
    section_end(w, section);
    return KS_OK;
}

static enum ks_status write_texts(struct writer *w, struct section *section, struct ks_err *err)
{
    uint32_t count = ks_trace_str_count(w->trace);
    section_begin(w, section);
    for (uint32_t id = 0; id < count; id++) {
        struct ks_str text = ks_trace_str(w->trace, (struct ks_strid){id});
        KS_TRY(section_add(w, section, text.ptr, text.len, err));
        KS_TRY(section_add(w, section, "", 1, err));
    }
    section_end(w, section);
    return KS_OK;
}

static enum ks_status write_strings(struct writer *w, struct ks_err *err)
{
    struct section *section = ks_alloc(1, sizeof(*section));
    if (!section) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write sealed trace: no memory");
    }
    ks_put_u32(&w->directory, ks_trace_str_count(w->trace));
    enum ks_status status = write_lengths(w, section, err);
    if (status == KS_OK) {
        status = write_texts(w, section, err);
    }
    ks_free(section);
    return status == KS_OK ? flush(w, err) : status; // columns begin aligned
}

/* ------------------------------------------------------------------ the whole file */

static enum ks_status write_header(struct writer *w, uint64_t directory_hash, struct ks_err *err)
{
    struct ks_text header;
    ks_text_init(&header);
    ks_text_append(&header, KS_KST_MAGIC, KS_KST_MAGIC_SIZE);
    ks_put_u32(&header, KS_KST_VERSION);
    ks_put_u32(&header, KS_KST_HEADER_SIZE);
    ks_put_u64(&header, w->offset + w->directory.len);
    ks_put_u64(&header, w->offset);
    ks_put_u64(&header, w->directory.len);
    ks_put_u64(&header, directory_hash);
    ks_put_u64(&header, 0);
    ks_put_u64(&header, header.failed ? 0 : XXH3_64bits(header.ptr, header.len));
    enum ks_status status = header.failed ? ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET,
                                                    "Cannot write sealed trace: no memory")
                                          : write_at(w->fd, header.ptr, header.len, 0, err);
    ks_text_release(&header);
    return status;
}

static enum ks_status write_all(struct writer *w, uint64_t *id, struct ks_err *err)
{
    KS_TRY(write_strings(w, err));
    struct ks_text schema;
    ks_text_init(&schema);
    ks_kst_put_schema(&schema);
    ks_put_u32(&w->directory, (uint32_t)schema.len);
    ks_text_append(&w->directory, schema.ptr, schema.len);
    w->directory.failed = w->directory.failed || schema.failed;
    ks_text_release(&schema);
    ks_kst_put_meta(w->trace, &w->directory);
    for (size_t i = 0; i < KS_TABLE_COUNT; i++) {
        KS_TRY(write_table(w, (enum ks_table_id)i, err));
    }
    KS_TRY(flush(w, err));
    if (w->directory.failed) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write sealed trace: no memory");
    }
    *id = XXH3_64bits(w->directory.ptr, w->directory.len);
    KS_TRY(write_at(w->fd, w->directory.ptr, w->directory.len, w->offset, err));
    return write_header(w, *id, err);
}

enum ks_status ks_kst_write(const struct ks_trace *trace, int fd, const atomic_bool *stop,
                            uint64_t *id, struct ks_err *err)
{
    struct writer w = {
        .trace = trace,
        .fd = fd,
        .stop = stop,
        .offset = KS_KST_HEADER_SIZE,
        .capacity = BUFFER_SIZE,
    };
    for (size_t i = 0; i < KS_TABLE_COUNT; i++) {
        size_t largest = (size_t)ks_table_chunk_rows(&trace->tables[i]) * sizeof(uint64_t);
        w.capacity = largest > w.capacity ? largest : w.capacity;
    }
    w.buf = ks_pages_map(w.capacity);
    if (!w.buf) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot write sealed trace: no memory");
    }
    ks_text_init(&w.directory);
    enum ks_status status = write_all(&w, id, err);
    ks_text_release(&w.directory);
    ks_pages_unmap(w.buf, w.capacity);
    return status;
}
