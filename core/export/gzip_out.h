/* Compresses what is written: a ks_write_cb in front of another one. The same bytes in give the
 * same bytes out; the header holds no name and no time. */
#ifndef KS_EXPORT_GZIP_OUT_H
#define KS_EXPORT_GZIP_OUT_H

#include "base/compiler.h"

struct ks_gzip_out;

enum ks_status ks_gzip_out_create(ks_write_cb write, void *user, struct ks_gzip_out **out,
                                  struct ks_err *err) KS_MUST_CHECK;
/* A ks_write_cb; `user` is the ks_gzip_out. */
bool ks_gzip_out_write(void *user, const char *bytes, size_t size);
/* Ends the stream; KS_ERR_IO when a write failed. */
enum ks_status ks_gzip_out_finish(struct ks_gzip_out *out, struct ks_err *err) KS_MUST_CHECK;
void ks_gzip_out_destroy(struct ks_gzip_out *out); /* NULL is fine */

#endif
