/* Decompresses an input on a thread of its own, some blocks ahead of whoever reads them. The bytes,
 * and where an error comes, are those that reading the input itself would give. */
#ifndef KS_READ_READ_AHEAD_H
#define KS_READ_READ_AHEAD_H

#include "read/input.h"

struct ks_read_ahead;

/* The input belongs to the thread until ks_read_ahead_end. `*out` NULL: no thread could be had. */
enum ks_status ks_read_ahead_start(struct ks_input *input, size_t block_bytes,
                                   struct ks_read_ahead **out, struct ks_err *err) KS_MUST_CHECK;
/* Like ks_input_read. */
enum ks_status ks_read_ahead_read(struct ks_read_ahead *ahead, char *bytes, size_t capacity,
                                  size_t *size, struct ks_err *err) KS_MUST_CHECK;
/* Stops the thread; NULL is fine. */
void ks_read_ahead_end(struct ks_read_ahead *ahead);

#endif
