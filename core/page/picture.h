/* Static pictures of a report as SVG, for papers and comments: the parts of each step, what each
 * GPU waits for, memory over time. Each brings colours for light and dark, and states its numbers
 * in words, so that it needs no colours. */
#ifndef KS_PAGE_PICTURE_H
#define KS_PAGE_PICTURE_H

#include "export/sink.h"
#include "show/view.h"

/* Parts of one bar, or curves: what a colour stands for. */
struct ks_picture_key {
    const char *label;
    const char *color;
};

/* The start of a picture of this size: title, and a line below it. */
void ks_picture_begin(struct ks_sink *sink, int width, int height, const char *title,
                      struct ks_str subtitle);
void ks_picture_end(struct ks_sink *sink);
/* printf for parts of at most 500 bytes, of numbers and words of ours. */
void ks_picture_put(struct ks_sink *sink, const char *format, ...) KS_PRINTF(2, 3);
/* Text of any origin; `attributes` are ours. */
void ks_picture_text(struct ks_sink *sink, double x, double y, const char *attributes,
                     struct ks_str text);
/* A bar from `x`, with a title that says what it is. */
void ks_picture_bar(struct ks_sink *sink, double x, double y, double width,
                    const struct ks_picture_key *key, struct ks_str value);

enum ks_status ks_picture_steps(const struct ks_view *view, ks_write_cb write, void *user,
                                struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_picture_idle(const struct ks_view *view, ks_write_cb write, void *user,
                               struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_picture_memory(const struct ks_view *view, ks_write_cb write, void *user,
                                 struct ks_err *err) KS_MUST_CHECK;

#endif
