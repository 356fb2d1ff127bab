#include "cache/facts_file.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "advise/findings_image.h"
#include "analyze/facts_image.h"
#include "base/bytes.h"
#include "base/err.h"
#include "base/read_at.h"

/* magic, trace id, sizes of both images, hash of each, hash of all that */
enum { MAGIC_SIZE = 8, HEAD_SIZE = MAGIC_SIZE + 6 * 8 };

static const char magic[MAGIC_SIZE + 1] = "\x8FKSFACT1";

static enum ks_status fail_nomem(struct ks_err *err)
{
    return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot keep facts: no memory");
}

static enum ks_status fail_damaged(struct ks_err *err)
{
    return ks_fail(err, KS_ERR_FORMAT, KS_NO_OFFSET, "Cannot read facts: the file is damaged");
}

/* ------------------------------------------------------------------ writing */

static enum ks_status write_text(int fd, const struct ks_text *text, struct ks_err *err)
{
    size_t done = 0;
    while (done < text->len) {
        ssize_t n = write(fd, text->ptr + done, text->len - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot write facts: reason=\"%s\"",
                           n < 0 ? strerror(errno) : "nothing was written");
        }
        done += (size_t)n;
    }
    return KS_OK;
}

static void put_head(struct ks_text *head, uint64_t trace_id, const struct ks_text *facts,
                     const struct ks_text *findings)
{
    ks_text_append(head, magic, MAGIC_SIZE);
    ks_put_u64(head, trace_id);
    ks_put_u64(head, facts->len);
    ks_put_u64(head, findings->len);
    ks_put_u64(head, XXH3_64bits(facts->ptr, facts->len));
    ks_put_u64(head, XXH3_64bits(findings->ptr, findings->len));
    ks_put_u64(head, head->failed ? 0 : XXH3_64bits(head->ptr, head->len));
}

enum ks_status ks_facts_file_write(int fd, uint64_t trace_id, const struct ks_facts *facts,
                                   const struct ks_findings *findings, struct ks_err *err)
{
    struct ks_text texts[3];
    for (size_t i = 0; i < KS_COUNT_OF(texts); i++) {
        ks_text_init(&texts[i]);
    }
    enum ks_status status = ks_facts_pack(facts, &texts[1], err);
    if (status == KS_OK) {
        status = ks_findings_pack(findings, &texts[2], err);
    }
    if (status == KS_OK) {
        put_head(&texts[0], trace_id, &texts[1], &texts[2]);
        status = texts[0].failed ? fail_nomem(err) : KS_OK;
    }
    for (size_t i = 0; i < KS_COUNT_OF(texts); i++) {
        if (status == KS_OK) {
            status = write_text(fd, &texts[i], err);
        }
    }
    for (size_t i = 0; i < KS_COUNT_OF(texts); i++) {
        ks_text_release(&texts[i]);
    }
    return status;
}

/* ------------------------------------------------------------------ reading */

static enum ks_status read_at(int fd, char *ptr, size_t size, uint64_t offset, struct ks_err *err)
{
    ssize_t got = ks_read_at(fd, ptr, size, (int64_t)offset);
    if (got < 0) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot read facts: reason=\"%s\"",
                       strerror(errno));
    }
    return (size_t)got == size ? KS_OK : fail_damaged(err);
}

struct head {
    uint64_t sizes[2];
    uint64_t hashes[2];
};

static enum ks_status read_head(int fd, uint64_t trace_id, struct head *head, struct ks_err *err)
{
    struct stat info;
    char text[HEAD_SIZE];
    if (fstat(fd, &info) != 0) {
        return fail_damaged(err);
    }
    KS_TRY(read_at(fd, text, sizeof(text), 0, err));
    struct ks_bytes bytes = {text + MAGIC_SIZE, sizeof(text) - MAGIC_SIZE, false};
    uint64_t id = ks_bytes_u64(&bytes);
    head->sizes[0] = ks_bytes_u64(&bytes);
    head->sizes[1] = ks_bytes_u64(&bytes);
    head->hashes[0] = ks_bytes_u64(&bytes);
    head->hashes[1] = ks_bytes_u64(&bytes);
    uint64_t size = (uint64_t)info.st_size;
    bool is_good = memcmp(text, magic, MAGIC_SIZE) == 0 &&
                   ks_bytes_u64(&bytes) == XXH3_64bits(text, sizeof(text) - sizeof(uint64_t)) &&
                   id == trace_id && head->sizes[0] <= size && head->sizes[1] <= size &&
                   HEAD_SIZE + head->sizes[0] + head->sizes[1] == size;
    return is_good ? KS_OK : fail_damaged(err);
}

static enum ks_status read_image(int fd, const struct head *head, size_t index,
                                 struct ks_arena *arena, char **bytes, struct ks_err *err)
{
    size_t size = (size_t)head->sizes[index];
    uint64_t offset = HEAD_SIZE + (index > 0 ? head->sizes[0] : 0);
    *bytes = ks_new(arena, char, size + 1);
    if (!*bytes) {
        return fail_nomem(err);
    }
    KS_TRY(read_at(fd, *bytes, size, offset, err));
    return XXH3_64bits(*bytes, size) == head->hashes[index] ? KS_OK : fail_damaged(err);
}

static enum ks_status read_both(int fd, uint64_t trace_id, const struct ks_trace *trace,
                                struct ks_arena arenas[2], struct ks_facts *facts,
                                struct ks_findings *findings, struct ks_err *err)
{
    struct head head = {0};
    char *bytes[2];
    KS_TRY(read_head(fd, trace_id, &head, err));
    KS_TRY(read_image(fd, &head, 0, &arenas[0], &bytes[0], err));
    KS_TRY(read_image(fd, &head, 1, &arenas[1], &bytes[1], err));
    KS_TRY(ks_findings_unpack(bytes[1], (size_t)head.sizes[1], &arenas[1], findings, err));
    enum ks_status status =
        ks_facts_unpack(bytes[0], (size_t)head.sizes[0], trace, &arenas[0], facts, err);
    if (status != KS_OK) {
        ks_findings_release(findings);
    }
    return status;
}

enum ks_status ks_facts_file_read(int fd, uint64_t trace_id, const struct ks_trace *trace,
                                  struct ks_facts *facts, struct ks_findings *findings,
                                  struct ks_err *err)
{
    struct ks_arena arenas[2];
    ks_arena_init(&arenas[0]);
    ks_arena_init(&arenas[1]);
    enum ks_status status = read_both(fd, trace_id, trace, arenas, facts, findings, err);
    ks_arena_release(&arenas[0]);
    ks_arena_release(&arenas[1]);
    return status;
}
