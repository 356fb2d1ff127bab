/* Parts of export_speedscope.c: frames, names of profiles, profiles of call paths and samples. */
#ifndef KS_EXPORT_SPEEDSCOPE_STACKS_H
#define KS_EXPORT_SPEEDSCOPE_STACKS_H

#include "base/map.h"
#include "export/row_filter.h"
#include "show/json_writer.h"

struct ks_text;

/* All profiles share the frames, numbered in order of appearance; those of spans have neither file
 * nor line. */
struct ks_speedscope_frames {
    struct ks_map index; /* (name, file << 32 | line) -> 1 + frame */
    struct ks_function_id *list;
    size_t count;
    size_t capacity;
};

void ks_speedscope_frames_init(struct ks_speedscope_frames *frames);
void ks_speedscope_frames_release(struct ks_speedscope_frames *frames);
enum ks_status ks_speedscope_frames_find(struct ks_speedscope_frames *frames,
                                         const struct ks_function_id *id, uint32_t *frame,
                                         struct ks_err *err) KS_MUST_CHECK;
void ks_speedscope_frames_write(const struct ks_speedscope_frames *frames,
                                const struct ks_view *view, struct ks_json *json);

/* "rank 0, pid 12, thread 12: MainThread" */
void ks_speedscope_append_title(struct ks_text *title, const struct ks_view *view, uint32_t track);

/* A sampled profile for each thread whose calls were counted, and for each whose stacks were
 * sampled. Call paths have no time and no category: there are none when such are chosen. */
enum ks_status ks_speedscope_stacks(const struct ks_row_filter *filter, const struct ks_view *view,
                                    struct ks_speedscope_frames *frames, struct ks_json *json,
                                    struct ks_err *err) KS_MUST_CHECK;

#endif
