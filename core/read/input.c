#include "read/input.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/err.h"
#include "base/progress.h"
#include "read/decoder.h"

#ifdef KS_SMALL_LIMITS /* fuzzing: what a limit does must show in small inputs */
enum { COMPRESSED_WINDOW = 256 };
#else
enum { COMPRESSED_WINDOW = 256 * 1024 };
#endif

/* Decompression bombs: JSON shrinks 10 to 40 times; a thousand times is no trace. */
static const uint64_t BOMB_RATIO = 1000;
static const uint64_t BOMB_SIZE_MIN = (uint64_t)1 << 30;

struct ks_input {
    int fd;
    bool owns_fd;
    const struct ks_decoder *decoder; /* NULL: plain */
    void *state;
    unsigned char *buf; /* compressed bytes, or the head of a plain file */
    size_t buf_at;
    size_t buf_len;
    bool at_eof;     /* the file is read to its end */
    bool is_between; /* the decoder stands behind a whole member */
    bool is_over;
    enum ks_input_damage damage;
    uint64_t bytes_in;
    uint64_t bytes_out;
    struct ks_progress *progress;
};

static enum ks_status read_some(struct ks_input *input, void *bytes, size_t capacity, size_t *size,
                                struct ks_err *err)
{
    ssize_t got;
    do {
        got = read(input->fd, bytes, capacity);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot read: %s", strerror(errno));
    }
    *size = (size_t)got;
    input->at_eof |= got == 0;
    input->bytes_in += (uint64_t)got;
    ks_progress_add_done(input->progress, (uint64_t)got);
    return KS_OK;
}

static enum ks_status refill(struct ks_input *input, struct ks_err *err)
{
    input->buf_at = 0;
    input->buf_len = 0;
    return read_some(input, input->buf, COMPRESSED_WINDOW, &input->buf_len, err);
}

/* Can the input be read again from its begin? */
static bool is_plain_file(const struct ks_input *input)
{
    struct stat st;
    return input->owns_fd && fstat(input->fd, &st) == 0 && S_ISREG(st.st_mode);
}

static enum ks_status open_decoder(struct ks_input *input, struct ks_err *err)
{
    static const struct ks_decoder *const DECODERS[] = {
#ifdef KS_ISAL
        &ks_decoder_isal,
#endif
        &ks_decoder_gzip, &ks_decoder_zstd};
    for (size_t i = 0; i < KS_COUNT_OF(DECODERS) && !input->decoder; i++) {
        bool is_usable = !DECODERS[i]->exact || is_plain_file(input);
        if (!is_usable || !DECODERS[i]->sniff(input->buf, input->buf_len)) {
            continue;
        }
        input->state = DECODERS[i]->open();
        if (!input->state) {
            return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot start decompression: kind=%s",
                           DECODERS[i]->name);
        }
        input->decoder = DECODERS[i];
    }
    return KS_OK;
}

static enum ks_status open_fd(struct ks_input *input, const char *path, struct ks_err *err)
{
    if (strcmp(path, "-") == 0) {
        input->fd = STDIN_FILENO;
        return KS_OK;
    }
    input->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (input->fd < 0) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot open: %s", strerror(errno));
    }
    input->owns_fd = true;
    struct stat st;
    if (fstat(input->fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot read: it is a folder");
    }
    return KS_OK;
}

enum ks_status ks_input_open(const char *path, struct ks_input **out, struct ks_err *err)
{
    struct ks_input *input = ks_alloc(1, sizeof(*input));
    if (!input) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot open: out of memory");
    }
    input->fd = -1;
    enum ks_status status = open_fd(input, path, err);
    if (status == KS_OK) {
        input->buf = ks_alloc(1, COMPRESSED_WINDOW);
        status = input->buf
                     ? refill(input, err)
                     : ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot open: out of memory");
    }
    /* A pipe may give one byte at a time; four tell all formats apart. */
    while (status == KS_OK && input->buf_len < 4 && !input->at_eof) {
        size_t got;
        status = read_some(input, input->buf + input->buf_len, COMPRESSED_WINDOW - input->buf_len,
                           &got, err);
        input->buf_len += status == KS_OK ? got : 0;
    }
    if (status == KS_OK) {
        status = open_decoder(input, err);
    }
    if (status != KS_OK) {
        ks_input_close(input);
        return status;
    }
    *out = input;
    return KS_OK;
}

bool ks_input_size(const char *path, uint64_t *size)
{
    struct stat info;
    bool is_file = stat(path, &info) == 0 && S_ISREG(info.st_mode);
    *size = is_file ? (uint64_t)info.st_size : 0;
    return is_file;
}

void ks_input_count(struct ks_input *input, struct ks_progress *progress)
{
    input->progress = progress;
    ks_progress_add_done(progress, input->bytes_in);
}

void ks_input_close(struct ks_input *input)
{
    if (!input) {
        return;
    }
    if (input->state) {
        input->decoder->close(input->state);
    }
    if (input->owns_fd) {
        close(input->fd);
    }
    ks_free(input->buf);
    ks_free(input);
}

static enum ks_status read_plain(struct ks_input *input, char *bytes, size_t capacity, size_t *size,
                                 struct ks_err *err)
{
    size_t left = input->buf_len - input->buf_at;
    if (left > 0) {
        *size = left < capacity ? left : capacity;
        memcpy(bytes, input->buf + input->buf_at, *size);
        input->buf_at += *size;
        return KS_OK;
    }
    *size = 0;
    return input->at_eof ? KS_OK : read_some(input, bytes, capacity, size, err);
}

static enum ks_status check_bomb(const struct ks_input *input, struct ks_err *err)
{
    if (input->bytes_out < BOMB_SIZE_MIN || input->bytes_out / BOMB_RATIO < input->bytes_in) {
        return KS_OK;
    }
    return ks_fail(err, KS_ERR_LIMIT, KS_NO_OFFSET,
                   "Cannot decompress: %llu bytes grew to more than %llu, as no trace does",
                   (unsigned long long)input->bytes_in, (unsigned long long)input->bytes_out);
}

/* One call of the decoder, with more compressed bytes when it has none. */
static enum ks_status decode_some(struct ks_input *input, struct ks_decoder_io *io,
                                  struct ks_err *err)
{
    if (input->buf_at == input->buf_len && !input->at_eof) {
        KS_TRY(refill(input, err));
    }
    size_t room = io->out_size;
    io->in = input->buf + input->buf_at;
    io->in_size = input->buf_len - input->buf_at;
    bool has_input = io->in_size > 0;
    enum ks_decoder_state state = has_input || !input->is_between
                                      ? input->decoder->decode(input->state, io)
                                      : KS_DECODER_BETWEEN;
    input->buf_at = input->buf_len - io->in_size;
    if (state == KS_DECODER_NO_MEMORY) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot decompress: out of memory");
    }
    input->is_between = state == KS_DECODER_BETWEEN;
    if (state == KS_DECODER_DAMAGED) {
        input->is_over = true;
        input->damage = KS_INPUT_DAMAGED;
    } else if (input->at_eof && !has_input && io->out_size == room) {
        input->is_over = true;
        input->damage = input->is_between ? KS_INPUT_WHOLE : KS_INPUT_CUT;
    }
    return KS_OK;
}

/* Throws away what has been given already. */
static enum ks_status skip_bytes(struct ks_input *input, uint64_t count, struct ks_err *err)
{
    enum { STEP = 64 * 1024 };
    unsigned char *bytes = ks_alloc(1, STEP);
    if (!bytes) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot decompress: out of memory");
    }
    enum ks_status status = KS_OK;
    while (status == KS_OK && count > 0 && !input->is_over) {
        size_t room = count < STEP ? (size_t)count : STEP;
        struct ks_decoder_io io = {.out = bytes, .out_size = room};
        status = decode_some(input, &io, err);
        count -= room - io.out_size;
    }
    ks_free(bytes);
    return status;
}

/* The quick decoder has come to an end that is none: the exact one decides what is behind the
 * `given` bytes. */
static enum ks_status start_over(struct ks_input *input, uint64_t given, struct ks_err *err)
{
    const struct ks_decoder *exact = input->decoder->exact;
    void *state = exact->open();
    if (!state) {
        return ks_fail(err, KS_ERR_NOMEM, KS_NO_OFFSET, "Cannot start decompression: kind=%s",
                       exact->name);
    }
    input->decoder->close(input->state);
    input->decoder = exact;
    input->state = state;
    KS_TRY(ks_input_seek(input, 0, err));
    input->buf_at = 0;
    input->buf_len = 0;
    input->is_between = false;
    input->is_over = false;
    input->damage = KS_INPUT_WHOLE;
    input->bytes_in = 0;
    return skip_bytes(input, given, err);
}

enum ks_status ks_input_read(struct ks_input *input, char *bytes, size_t capacity, size_t *size,
                             struct ks_err *err)
{
    if (!input->decoder) {
        return read_plain(input, bytes, capacity, size, err);
    }
    struct ks_decoder_io io = {.out = (unsigned char *)bytes, .out_size = capacity};
    while (!input->is_over && io.out_size > 0) {
        KS_TRY(decode_some(input, &io, err));
        if (input->damage != KS_INPUT_WHOLE && input->decoder->exact) {
            /* What it wrote in this call may hold bytes that the exact one would not give. */
            KS_TRY(start_over(input, input->bytes_out, err));
            io = (struct ks_decoder_io){.out = (unsigned char *)bytes, .out_size = capacity};
        }
    }
    *size = capacity - io.out_size;
    input->bytes_out += *size;
    return check_bomb(input, err);
}

int ks_input_plain_file(const struct ks_input *input, int64_t *size)
{
    struct stat st;
    if (input->decoder || !is_plain_file(input) || fstat(input->fd, &st) != 0) {
        return -1;
    }
    *size = st.st_size;
    return input->fd;
}

enum ks_status ks_input_seek(struct ks_input *input, int64_t offset, struct ks_err *err)
{
    if (lseek(input->fd, offset, SEEK_SET) != offset) {
        return ks_fail(err, KS_ERR_IO, KS_NO_OFFSET, "Cannot read: %s", strerror(errno));
    }
    input->buf_at = input->buf_len;
    input->at_eof = false;
    return KS_OK;
}

enum ks_input_damage ks_input_damage(const struct ks_input *input)
{
    return input->damage;
}

struct ks_str ks_input_compression(const struct ks_input *input)
{
    return input->decoder ? ks_str_from(input->decoder->name) : KS_STR("");
}
