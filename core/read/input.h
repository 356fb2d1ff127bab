/* Bytes of one input file, decompressed: plain, gzip (any number of members) or zstd, told apart by
 * content. Never more than a window of it is in memory. What is wrong with the compressed stream is
 * no error here: reading ends early and `damage` says so. */
#ifndef KS_READ_INPUT_H
#define KS_READ_INPUT_H

#include "base/str.h"

struct ks_input;

enum ks_input_damage {
    KS_INPUT_WHOLE,
    KS_INPUT_CUT,     /* the compressed stream ends early */
    KS_INPUT_DAMAGED, /* the compressed stream holds bytes that cannot be, or a wrong checksum */
};

/* `path` "-" reads standard input. Errors: KS_ERR_IO (cannot be opened, is a folder),
 * KS_ERR_NOMEM. */
enum ks_status ks_input_open(const char *path, struct ks_input **out, struct ks_err *err)
    KS_MUST_CHECK;
/* False: a pipe, or not there; only what has been read can be said then. */
bool ks_input_size(const char *path, uint64_t *size);
/* Counts the bytes of the file that are read; what has been so far is added. */
void ks_input_count(struct ks_input *input, struct ks_progress *progress);
void ks_input_close(struct ks_input *input); /* NULL is fine */
/* Up to `capacity` bytes; *size 0 only at the end. Errors: KS_ERR_IO, KS_ERR_LIMIT (a
 * decompression bomb), KS_ERR_NOMEM. */
enum ks_status ks_input_read(struct ks_input *input, char *bytes, size_t capacity, size_t *size,
                             struct ks_err *err) KS_MUST_CHECK;
/* Descriptor and size of a plain file, in which every byte can be read at any time; -1 when the
 * input is none: compressed, a pipe, standard input. */
int ks_input_plain_file(const struct ks_input *input, int64_t *size);
/* Goes on at `offset` of a plain file. */
enum ks_status ks_input_seek(struct ks_input *input, int64_t offset, struct ks_err *err)
    KS_MUST_CHECK;
enum ks_input_damage ks_input_damage(const struct ks_input *input);
struct ks_str ks_input_compression(const struct ks_input *input); /* "", "gzip", "zstd" */

#endif
