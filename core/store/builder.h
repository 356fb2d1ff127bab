/* Readers fill a builder; sealing makes the trace. Rows come in any order and are collected in
 * runs of `chunk_rows`; a full run is sorted at once, and seal merges the runs (several passes when
 * the chunk memory is small), links GPU work to its launch by (source, correlation), and fills the
 * columns marked "seal" in tables.def. One source at a time is open. Not thread-safe. */
#ifndef KS_STORE_BUILDER_H
#define KS_STORE_BUILDER_H

#include "store/trace.h"

struct ks_trace_builder;

struct ks_trace_options {
    uint64_t chunk_bytes_max; /* 0: no limit */
    uint32_t chunk_rows;      /* power of two; 0: 65,536 */
};

enum ks_status ks_trace_builder_create(const struct ks_trace_options *options,
                                       struct ks_trace_builder **out, struct ks_err *err)
    KS_MUST_CHECK;
void ks_trace_builder_destroy(struct ks_trace_builder *builder); /* NULL is fine */

/* Opens the next source; its struct can be filled until seal (pointer stays good). It starts with
 * rank and world_size -1, run 1 and no start_ns and end_ns: closing fills those from the rows. */
enum ks_status ks_trace_builder_source_open(struct ks_trace_builder *builder, struct ks_str path,
                                            struct ks_source **out, struct ks_err *err)
    KS_MUST_CHECK;
/* Ends the source: its open runs are sorted and closed. */
enum ks_status ks_trace_builder_source_close(struct ks_trace_builder *builder, struct ks_err *err)
    KS_MUST_CHECK;
uint32_t ks_trace_builder_source_count(const struct ks_trace_builder *builder);
struct ks_source *ks_trace_builder_source(struct ks_trace_builder *builder, uint32_t index);

/* Memory that lives as long as the trace: for what a reader hangs onto its source (gpus). */
struct ks_arena *ks_trace_builder_arena(struct ks_trace_builder *builder);

enum ks_status ks_trace_builder_intern(struct ks_trace_builder *builder, struct ks_str text,
                                       struct ks_strid *out, struct ks_err *err) KS_MUST_CHECK;
struct ks_str ks_trace_builder_str(const struct ks_trace_builder *builder, struct ks_strid id);

/* Number or text of a pid or tid. Text that is an integer should be given as number. */
struct ks_track_key {
    int64_t number;
    struct ks_strid text; /* when not 0, number does not count */
};

/* Tracks of the open source, made at first sight. A device is a process track's sibling:
 * keyed by its ordinal. Names can be set later and may come before the first event. */
enum ks_status ks_trace_builder_process(struct ks_trace_builder *builder, struct ks_track_key pid,
                                        uint32_t *track, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_trace_builder_thread(struct ks_trace_builder *builder, struct ks_track_key pid,
                                       struct ks_track_key tid, uint32_t *track, struct ks_err *err)
    KS_MUST_CHECK;
enum ks_status ks_trace_builder_stream(struct ks_trace_builder *builder, int64_t device,
                                       int64_t stream, uint32_t *device_track,
                                       uint32_t *stream_track, struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_trace_builder_async(struct ks_trace_builder *builder, struct ks_track_key pid,
                                      uint32_t *track, struct ks_err *err) KS_MUST_CHECK;
struct ks_track *ks_trace_builder_track(struct ks_trace_builder *builder, uint32_t track);

/* Appends one row to the open source: times relative to the source's base. */
enum ks_status ks_trace_builder_slice(struct ks_trace_builder *builder,
                                      const struct ks_slice_row *row, struct ks_err *err)
    KS_MUST_CHECK;
enum ks_status ks_trace_builder_gpu(struct ks_trace_builder *builder, const struct ks_gpu_row *row,
                                    struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_trace_builder_memory(struct ks_trace_builder *builder,
                                       const struct ks_memory_row *row, struct ks_err *err)
    KS_MUST_CHECK;
enum ks_status ks_trace_builder_mark(struct ks_trace_builder *builder,
                                     const struct ks_mark_row *row, struct ks_err *err)
    KS_MUST_CHECK;
enum ks_status ks_trace_builder_sample(struct ks_trace_builder *builder,
                                       const struct ks_sample_row *row, struct ks_err *err)
    KS_MUST_CHECK;
/* A stack or call path of the open source, with an id (>= 1) above those before; what it names as
 * caller or parent must be of this source, and there. */
enum ks_status ks_trace_builder_stack(struct ks_trace_builder *builder,
                                      const struct ks_stack *stack, uint32_t *id,
                                      struct ks_err *err) KS_MUST_CHECK;
enum ks_status ks_trace_builder_call_path(struct ks_trace_builder *builder,
                                          const struct ks_call_path *path, uint32_t *id,
                                          struct ks_err *err) KS_MUST_CHECK;
/* A collective equal to an earlier one gets its id (>= 1). */
enum ks_status ks_trace_builder_collective(struct ks_trace_builder *builder,
                                           const struct ks_collective *collective, uint32_t *id,
                                           struct ks_err *err) KS_MUST_CHECK;

/* A builder for a part of the open source of `builder`, one of `parts` that are filled at the same
 * time by a thread each. It has strings and tracks of its own, and a source that is open until the
 * part ends; the memory of its rows belongs to `builder`, whose chunk pool must be shared while
 * there are parts. It is ended by ks_trace_builder_destroy. */
enum ks_status ks_trace_builder_create_part(const struct ks_trace_builder *builder, uint32_t parts,
                                            struct ks_trace_builder **out, struct ks_err *err)
    KS_MUST_CHECK;
/* Takes all rows of the part, as if they had been added here in their order: strings, tracks and
 * collectives get the ids that they would have got. `order` is added to that of slices. What the
 * part's source says beyond rows is the caller's to take. The part is empty after that; after an
 * error, both can only be destroyed. */
enum ks_status ks_trace_builder_absorb(struct ks_trace_builder *builder,
                                       struct ks_trace_builder *part, uint32_t order,
                                       struct ks_err *err) KS_MUST_CHECK;
struct ks_chunk_pool *ks_trace_builder_pool(const struct ks_trace_builder *builder);

/* Makes the trace of all sources whose `run` equals `run` (0: all) and ends the builder in every
 * case: the builder must not be used after. A source that is still open is closed first. Sources,
 * and the tracks of those that are left, are renumbered in their order. */
enum ks_status ks_trace_builder_seal(struct ks_trace_builder *builder, int64_t run,
                                     struct ks_trace **out, struct ks_err *err) KS_MUST_CHECK;

#endif
