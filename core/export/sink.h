/* Bytes on their way out: a buffer before the callback, so that writers may put a few at a time.
 * Failures are remembered: ask once, by ks_sink_finish. Allocates nothing. */
#ifndef KS_EXPORT_SINK_H
#define KS_EXPORT_SINK_H

#include "base/str.h"

enum { KS_SINK_SIZE = 16 * 1024 };

struct ks_sink {
    ks_write_cb write;
    void *user;
    bool failed;    /* `write` gave false */
    int64_t offset; /* how much was put so far */
    size_t used;
    char buffer[KS_SINK_SIZE];
};

void ks_sink_init(struct ks_sink *sink, ks_write_cb write, void *user);
void ks_sink_put(struct ks_sink *sink, const char *bytes, size_t size);
void ks_sink_text(struct ks_sink *sink, const char *text);
void ks_sink_int(struct ks_sink *sink, int64_t number);
/* Hands on what is buffered. KS_ERR_IO when a write failed. */
enum ks_status ks_sink_finish(struct ks_sink *sink, struct ks_err *err) KS_MUST_CHECK;

#endif
