/* The tracks of the timeline: steps of each rank, threads, streams. A stream has three: work,
 * annotations and waits, which overlap freely. When there are too many the busiest are kept, and
 * all others of the host and of devices share one track each. */
#ifndef KS_PAGE_PAGE_TRACKS_H
#define KS_PAGE_PAGE_TRACKS_H

#include "page/span_depths.h"
#include "show/view.h"

struct ks_json;

enum { KS_PAGE_TRACKS_MAX = 256 };

/* In the order in which tracks of a rank stand on the page. */
enum ks_page_track_kind {
    KS_PAGE_STEPS,
    KS_PAGE_THREAD,
    KS_PAGE_ASYNC,
    KS_PAGE_STREAM,
    KS_PAGE_ANNOTATIONS,
    KS_PAGE_WAITS,
    KS_PAGE_REST_HOST,
    KS_PAGE_REST_GPU,
    KS_PAGE_TRACK_KINDS,
};

struct ks_page_track {
    enum ks_page_track_kind kind;
    uint32_t track;  /* of the trace; steps: the number of their source */
    uint32_t source; /* rest: not used */
    uint64_t weight; /* rows that it may have */
    bool is_main;    /* the thread that runs the steps */
    size_t merged;   /* rest: how many tracks these are */
    struct ks_str name;
    struct ks_str process;
    struct ks_span_depths depths;
    uint64_t events; /* counted by who places spans, as is ... */
    uint32_t depth_max;
};

struct ks_page_tracks {
    struct ks_arena arena;
    struct ks_page_track *list;
    size_t count;
    uint16_t *places; /* by track of the trace and kind: 1 + place in `list`, 0 no row is there */
    uint16_t *steps;  /* by source */
};

enum ks_status ks_page_tracks_init(struct ks_page_tracks *tracks, const struct ks_view *view,
                                   struct ks_err *err) KS_MUST_CHECK;
void ks_page_tracks_release(struct ks_page_tracks *tracks); /* also after a failed init */

/* Which of the tracks of a stream a row lies on. */
enum ks_page_track_kind ks_page_tracks_gpu_kind(enum ks_category category);
/* Place of a track of the trace; it must have rows. */
uint16_t ks_page_tracks_host(const struct ks_page_tracks *tracks, uint32_t track);
uint16_t ks_page_tracks_gpu(const struct ks_page_tracks *tracks, uint32_t track,
                            enum ks_page_track_kind kind);
/* Are there rows of the host on this track? */
bool ks_page_tracks_has_host(const struct ks_page_tracks *tracks, uint32_t track);
/* Place of the steps of a source that has some. */
uint16_t ks_page_tracks_steps(const struct ks_page_tracks *tracks, uint32_t source);
static inline bool ks_page_track_is_rest(const struct ks_page_track *track)
{
    return track->kind >= KS_PAGE_REST_HOST;
}
/* "steps", "thread", ... */
const char *ks_page_track_word(enum ks_page_track_kind kind);

#endif
