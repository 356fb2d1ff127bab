/* A sealed file to a trace. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/read_at.h"
#include "store/kst_impl.h"

enum {
    CHUNK_SHIFT_MAX = 24,
    DIRECTORY_SIZE_MAX = 1 << 30,
};

static enum ks_status fail_damaged(struct ks_err *err, const char *what)
{
    return ks_fail(err, KS_ERR_FORMAT, KS_NO_OFFSET, "Cannot read sealed trace: %s", what);
}

static enum ks_status fail_nomem(struct ks_err *err)
{
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot open sealed trace: no memory");
}

/* A fuzzer cannot guess checksums, so it gets past them. */
static bool is_intact(const char *ptr, size_t size, uint64_t hash)
{
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    return true || (XXH3_64bits(ptr, size) == hash);
#else
    return XXH3_64bits(ptr, size) == hash;
#endif
}

bool ks_kst_is_head(const char *head, size_t size)
{
    return size >= KS_KST_MAGIC_SIZE && memcmp(head, KS_KST_MAGIC, KS_KST_MAGIC_SIZE) == 0;
}

static enum ks_status read_at(int fd, char *ptr, size_t size, uint64_t offset, struct ks_err *err)
{
    ssize_t got = ks_read_at(fd, ptr, size, (int64_t)offset);
    if (got < 0) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot read sealed trace: reason=\"%s\"",
                       strerror(errno));
    }
    return (size_t)got == size ? KS_OK : fail_damaged(err, "the file ends early");
}

/* ------------------------------------------------------------------ chunks */

void ks_kst_release(struct ks_kst *kst)
{
    if (!kst) {
        return;
    }
    (void)close(kst->fd);
    ks_free(kst->entries);
    for (size_t i = 0; i < KS_TABLE_COUNT; i++) {
        ks_free(kst->times[i]);
    }
    ks_free(kst->scratch);
    ks_free(kst);
}

static enum ks_status reserve_scratch(struct ks_kst *kst, size_t size, struct ks_err *err)
{
    if (size <= kst->scratch_size) {
        return KS_OK;
    }
    char *scratch = ks_realloc(kst->scratch, size, 1);
    if (!scratch) {
        return fail_nomem(err);
    }
    kst->scratch = scratch;
    kst->scratch_size = size;
    return KS_OK;
}

static enum ks_status read_stored(struct ks_kst *kst, const struct ks_kst_entry *entry, char *to,
                                  size_t size, struct ks_err *err)
{
    KS_TRY(read_at(kst->fd, to, size, entry->offset, err));
    return is_intact(to, size, entry->hash) ? KS_OK : fail_damaged(err, "a chunk is damaged");
}

bool ks_kst_is_damaged(const struct ks_trace *trace)
{
    return trace && trace->kst && atomic_load(&trace->kst->is_damaged);
}

static enum ks_status read_column(struct ks_kst *kst, size_t index, void *to, size_t size,
                                  struct ks_err *err)
{
    size_t id = 0;
    while (index >= kst->entry_begin[id + 1]) {
        id++;
    }
    const struct ks_table *table = &kst->trace->tables[id];
    size_t column = (index - kst->entry_begin[id]) % table->layout->column_count;
    uint64_t chunk = (index - kst->entry_begin[id]) / table->layout->column_count;
    size_t value_size = table->layout->columns[column].size;
    size_t count = size / value_size;
    const struct ks_kst_entry *entry = &kst->entries[index];
    size_t stored = ks_kst_stored_size(&entry->coding, value_size, count);
    if (entry->coding.encoding == KS_KST_PLAIN && stored == size) {
        KS_TRY(read_stored(kst, entry, to, stored, err));
    } else {
        KS_TRY(reserve_scratch(kst, stored, err));
        KS_TRY(read_stored(kst, entry, kst->scratch, stored, err));
        ks_kst_decode(kst->scratch, &entry->coding, value_size, count, to);
    }
    const char *wrong =
        ks_kst_check_column(kst->trace, (enum ks_table_id)id, column, &kst->times[id][chunk],
                            chunk << table->chunk_shift, count, to);
    return wrong ? fail_damaged(err, wrong) : KS_OK;
}

/* A ks_chunk_load_cb: the column of a chunk is wanted for the first time, or again. */
static enum ks_status load_column(void *user, size_t index, void *to, size_t size,
                                  struct ks_err *err)
{
    struct ks_kst *kst = user;
    enum ks_status status = read_column(kst, index, to, size, err);
    if (status == KS_ERR_FORMAT) {
        atomic_store(&kst->is_damaged, true);
    }
    return status;
}

/* ------------------------------------------------------------------ tables */

static enum ks_status take_lanes(struct ks_bytes *bytes, struct ks_table *table, struct ks_err *err)
{
    table->lane_count = ks_bytes_count(bytes, KS_KST_LANE_SIZE);
    table->lane_capacity = table->lane_count;
    table->lanes = ks_alloc(table->lane_count, sizeof(*table->lanes));
    if (!table->lanes) {
        return fail_nomem(err);
    }
    for (size_t i = 0; i < table->lane_count; i++) {
        table->lanes[i].track = ks_bytes_u32(bytes);
        table->lanes[i].row_begin = ks_bytes_u64(bytes);
        table->lanes[i].row_end = ks_bytes_u64(bytes);
    }
    return KS_OK;
}

/* Rows and size of chunks, first: they bound everything behind them. */
static enum ks_status take_shape(struct ks_bytes *bytes, struct ks_table *table,
                                 enum ks_table_id id, struct ks_err *err)
{
    uint64_t rows = ks_bytes_u64(bytes);
    uint32_t shift = ks_bytes_u32(bytes);
    size_t chunk_size = KS_KST_TIMES_SIZE + ks_table_layout(id)->column_count * KS_KST_ENTRY_SIZE;
    if (bytes->failed || shift > CHUNK_SHIFT_MAX || (rows >> shift) > bytes->left / chunk_size) {
        return fail_damaged(err, "the size of a table is not possible");
    }
    KS_TRY(ks_table_init(table, id, (uint32_t)1 << shift, rows, err));
    table->rows = rows;
    return KS_OK;
}

static enum ks_status take_entry(struct ks_kst *kst, struct ks_bytes *bytes,
                                 struct ks_kst_entry *entry, size_t value_size, size_t count,
                                 struct ks_err *err)
{
    entry->offset = ks_bytes_u64(bytes);
    entry->hash = ks_bytes_u64(bytes);
    entry->coding.base = ks_bytes_u64(bytes);
    entry->coding.encoding = ks_bytes_u8(bytes);
    entry->coding.width = ks_bytes_u8(bytes);
    (void)ks_bytes_take(bytes, 6);
    size_t stored = ks_kst_stored_size(&entry->coding, value_size, count);
    if (stored > kst->file_size || entry->offset > kst->file_size - stored) {
        return fail_damaged(err, "a chunk is not in the file");
    }
    return KS_OK;
}

static enum ks_status take_chunk(struct ks_kst *kst, struct ks_bytes *bytes, enum ks_table_id id,
                                 uint64_t chunk, struct ks_err *err)
{
    struct ks_table *table = &kst->trace->tables[id];
    size_t column_count = table->layout->column_count;
    size_t count = ks_table_rows_in(table, chunk);
    struct ks_kst_times *times = &kst->times[id][chunk];
    times->first_ns = ks_bytes_i64(bytes);
    times->last_ns = ks_bytes_i64(bytes);
    times->max_ns = ks_bytes_i64(bytes);
    table->chunk_starts[chunk] = times->first_ns;
    for (size_t i = 0; i < column_count; i++) {
        size_t index = kst->entry_begin[id] + (size_t)chunk * column_count + i;
        size_t value_size = table->layout->columns[i].size;
        KS_TRY(take_entry(kst, bytes, &kst->entries[index], value_size, count, err));
        KS_TRY(ks_chunk_create_unloaded(kst->trace->pool, count * value_size, index,
                                        &table->chunks[(size_t)chunk * column_count + i], err));
    }
    return KS_OK;
}

static enum ks_status take_table(struct ks_kst *kst, struct ks_bytes *bytes, enum ks_table_id id,
                                 struct ks_err *err)
{
    struct ks_table *table = &kst->trace->tables[id];
    KS_TRY(take_shape(bytes, table, id, err));
    KS_TRY(take_lanes(bytes, table, err));
    uint64_t chunk_count = ks_table_chunk_count(table);
    size_t entry_count = (size_t)chunk_count * table->layout->column_count;
    size_t begin = kst->entry_begin[id];
    struct ks_kst_entry *entries = ks_realloc(kst->entries, begin + entry_count, sizeof(*entries));
    if (!entries) {
        return fail_nomem(err);
    }
    kst->entries = entries;
    kst->entry_begin[id + 1] = begin + entry_count;
    kst->times[id] = ks_alloc(chunk_count, sizeof(*kst->times[id]));
    if (!kst->times[id]) {
        return fail_nomem(err);
    }
    for (uint64_t chunk = 0; chunk < chunk_count; chunk++) {
        KS_TRY(take_chunk(kst, bytes, id, chunk, err));
    }
    if (bytes->failed) {
        return fail_damaged(err, "the directory ends early");
    }
    const char *wrong = ks_kst_check_table(kst->trace, id, kst->times[id]);
    return wrong ? fail_damaged(err, wrong) : KS_OK;
}

/* ------------------------------------------------------------------ strings */

static enum ks_status read_section(struct ks_kst *kst, const struct ks_kst_section *section,
                                   char *to, struct ks_err *err)
{
    KS_TRY(read_at(kst->fd, to, (size_t)section->size, section->offset, err));
    return is_intact(to, (size_t)section->size, section->hash)
               ? KS_OK
               : fail_damaged(err, "the strings are damaged");
}

static bool take_section(struct ks_kst *kst, struct ks_bytes *bytes, struct ks_kst_section *section)
{
    section->offset = ks_bytes_u64(bytes);
    section->size = ks_bytes_u64(bytes);
    section->hash = ks_bytes_u64(bytes);
    return !bytes->failed && section->size <= kst->file_size &&
           section->offset <= kst->file_size - section->size;
}

static enum ks_status read_texts(struct ks_kst *kst, uint32_t count, const uint32_t *lengths,
                                 const struct ks_kst_section *texts, struct ks_err *err)
{
    char *bytes = NULL;
    struct ks_strpool *pool = NULL;
    KS_TRY(ks_strpool_create_sealed(count, (size_t)texts->size, &pool, &bytes, err));
    kst->trace->strings = pool;
    KS_TRY(read_section(kst, texts, bytes, err));
    return ks_strpool_seal(pool, lengths, (size_t)texts->size)
               ? KS_OK
               : fail_damaged(err, "the strings do not fit their lengths");
}

static enum ks_status take_strings(struct ks_kst *kst, struct ks_bytes *bytes, struct ks_err *err)
{
    struct ks_kst_section lengths;
    struct ks_kst_section texts;
    uint32_t count = ks_bytes_u32(bytes);
    if (!take_section(kst, bytes, &lengths) || !take_section(kst, bytes, &texts) || count == 0 ||
        lengths.size != (uint64_t)count * sizeof(uint32_t) || texts.size < count) {
        return fail_damaged(err, "the strings are not in the file");
    }
    uint32_t *list = ks_alloc(count, sizeof(*list));
    if (!list) {
        return fail_nomem(err);
    }
    enum ks_status status = read_section(kst, &lengths, (char *)list, err);
    if (status == KS_OK) {
        status = read_texts(kst, count, list, &texts, err);
    }
    ks_free(list);
    return status;
}

/* ------------------------------------------------------------------ directory and header */

static enum ks_status check_schema(struct ks_bytes *bytes, struct ks_err *err)
{
    struct ks_text schema;
    ks_text_init(&schema);
    ks_kst_put_schema(&schema);
    uint32_t size = ks_bytes_u32(bytes);
    const char *theirs = ks_bytes_take(bytes, size);
    bool is_ours = theirs && size == schema.len && memcmp(theirs, schema.ptr, size) == 0;
    bool failed = schema.failed;
    ks_text_release(&schema);
    if (failed) {
        return fail_nomem(err);
    }
    return is_ours ? KS_OK
                   : ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                             "Cannot read sealed trace: another version of kscope wrote it");
}

static enum ks_status take_directory(struct ks_kst *kst, struct ks_bytes *bytes, struct ks_err *err)
{
    KS_TRY(take_strings(kst, bytes, err));
    KS_TRY(check_schema(bytes, err));
    KS_TRY(ks_kst_take_meta(bytes, kst->trace, err));
    for (size_t i = 0; i < KS_TABLE_COUNT; i++) {
        KS_TRY(take_table(kst, bytes, (enum ks_table_id)i, err));
    }
    return bytes->left == 0 ? KS_OK : fail_damaged(err, "bytes follow the directory");
}

static enum ks_status read_directory(struct ks_kst *kst, const struct ks_kst_section *section,
                                     struct ks_err *err)
{
    char *ptr = ks_alloc(1, (size_t)section->size);
    if (!ptr) {
        return fail_nomem(err);
    }
    struct ks_bytes bytes = {.ptr = ptr, .left = (size_t)section->size};
    enum ks_status status = read_at(kst->fd, ptr, bytes.left, section->offset, err);
    if (status == KS_OK && !is_intact(ptr, bytes.left, section->hash)) {
        status = fail_damaged(err, "the directory is damaged");
    }
    if (status == KS_OK) {
        status = take_directory(kst, &bytes, err);
    }
    ks_free(ptr);
    return status;
}

static enum ks_status read_header(struct ks_kst *kst, struct ks_kst_section *directory,
                                  struct ks_err *err)
{
    char header[KS_KST_HEADER_SIZE];
    KS_TRY(read_at(kst->fd, header, sizeof(header), 0, err));
    if (!ks_kst_is_head(header, sizeof(header))) {
        return fail_damaged(err, "it is none");
    }
    struct ks_bytes bytes = {header + KS_KST_MAGIC_SIZE, sizeof(header) - KS_KST_MAGIC_SIZE, false};
    uint32_t version = ks_bytes_u32(&bytes);
    uint32_t header_size = ks_bytes_u32(&bytes);
    uint64_t file_size = ks_bytes_u64(&bytes);
    directory->offset = ks_bytes_u64(&bytes);
    directory->size = ks_bytes_u64(&bytes);
    directory->hash = ks_bytes_u64(&bytes);
    uint64_t flags = ks_bytes_u64(&bytes);
    if (!is_intact(header, sizeof(header) - sizeof(uint64_t), ks_bytes_u64(&bytes))) {
        return fail_damaged(err, "the header is damaged");
    }
    if (version != KS_KST_VERSION || header_size != KS_KST_HEADER_SIZE || flags != 0) {
        return ks_fail(err, KS_ERR_UNSUPPORTED, KS_NO_OFFSET,
                       "Cannot read sealed trace: it is of version %u, this is version %d",
                       (unsigned)version, KS_KST_VERSION);
    }
    if (file_size != kst->file_size) {
        return fail_damaged(err, "the file is not as long as it was");
    }
    if (directory->size > DIRECTORY_SIZE_MAX || directory->size > file_size ||
        directory->offset > file_size - directory->size) {
        return fail_damaged(err, "the directory is not in the file");
    }
    return KS_OK;
}

static enum ks_status open_file(struct ks_kst *kst, uint64_t *id, struct ks_err *err)
{
    struct stat info;
    if (fstat(kst->fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot read sealed trace: it is no file");
    }
    kst->file_size = (uint64_t)info.st_size;
    struct ks_kst_section directory = {0};
    KS_TRY(read_header(kst, &directory, err));
    *id = directory.hash;
    return read_directory(kst, &directory, err);
}

enum ks_status ks_kst_open(int fd, uint64_t chunk_bytes_max, struct ks_trace **out, uint64_t *id,
                           struct ks_err *err)
{
    struct ks_kst *kst = ks_alloc(1, sizeof(*kst));
    struct ks_trace *trace = ks_alloc(1, sizeof(*trace));
    if (!kst || !trace) {
        (void)close(fd);
        ks_free(kst);
        ks_free(trace);
        return fail_nomem(err);
    }
    kst->fd = fd;
    kst->trace = trace;
    trace->kst = kst;
    ks_arena_init(&trace->arena);
    /* A limit, so that pins are counted: what is not pinned is not there yet. */
    uint64_t bytes_max = chunk_bytes_max ? chunk_bytes_max : UINT64_MAX / 2;
    uint64_t found = 0;
    enum ks_status status = ks_chunk_pool_create(bytes_max, &trace->pool, err);
    if (status == KS_OK) {
        ks_chunk_pool_set_loader(trace->pool, load_column, kst);
        status = open_file(kst, &found, err);
    }
    if (status != KS_OK) {
        ks_trace_destroy(trace);
        return status;
    }
    if (id) {
        *id = found;
    }
    *out = trace;
    return KS_OK;
}
