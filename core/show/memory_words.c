/* Words that the text, the JSON document and the folded stacks of a memory snapshot share. */
#include "show/memory_picture.h"
#include "show/plain.h"
#include "show/units.h"

static struct ks_str file_name(struct ks_str path)
{
    const char *slash = path.len > 0 ? memrchr(path.ptr, '/', path.len) : NULL;
    size_t skip = slash ? (size_t)(slash - path.ptr) + 1 : 0;
    return (struct ks_str){path.ptr + skip, path.len - skip};
}

void ks_memory_append_place(struct ks_text *text, const struct ks_stack_pool *pool, uint32_t frame)
{
    if (frame == 0) {
        ks_text_append_str(text, KS_STR("no stack"));
        return;
    }
    struct ks_str file = file_name(ks_stack_pool_file(pool, frame));
    struct ks_str name = ks_stack_pool_name(pool, frame);
    bool is_native = pool->frames[frame].line == 0; /* libtorch has no lines */
    if (is_native) {
        name = ks_plain_kernel(name);
    } else {
        ks_text_append_str(text, file);
        ks_text_printf(text, ":%lld ", (long long)pool->frames[frame].line);
    }
    ks_text_append_str(text, name);
}

const char *ks_memory_verdict_word(enum ks_pressure_verdict verdict)
{
    static const char *const words[] = {
        [KS_PRESSURE_FITS] = "fits",
        [KS_PRESSURE_ELSEWHERE] = "other_pool",
        [KS_PRESSURE_FRAGMENTED] = "fragmented",
        [KS_PRESSURE_EXPANDABLE] = "fragmented_though_expandable",
        [KS_PRESSURE_LIMITED] = "limited",
        [KS_PRESSURE_SHORT] = "too_little_memory",
        [KS_PRESSURE_UNKNOWN] = "needs_more_from_device",
    };
    return words[verdict];
}

void ks_memory_append_verdict(struct ks_text *text, const struct ks_pressure *pressure)
{
    struct ks_unit_text missing = ks_units_bytes(pressure->missing);
    switch (pressure->verdict) {
    case KS_PRESSURE_FITS:
        ks_text_append_str(text, KS_STR("it fits into a free piece, if that is of its pool and "
                                        "stream"));
        break;
    case KS_PRESSURE_ELSEWHERE:
        ks_text_append_str(text,
                           KS_STR("a free piece is large enough, but it is of another pool or "
                                  "stream, so it could not be used"));
        break;
    case KS_PRESSURE_FRAGMENTED:
        ks_text_printf(text,
                       "together %sthe free pieces are enough, alone none is: "
                       "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True would help",
                       pressure->free_usable < pressure->asked ? "with the device's free memory "
                                                               : "");
        break;
    case KS_PRESSURE_EXPANDABLE:
        ks_text_append_str(text,
                           KS_STR("together the free pieces are enough, alone none is, though "
                                  "segments are expandable: pieces of other pools, streams, "
                                  "or less than a page"));
        break;
    case KS_PRESSURE_LIMITED:
        ks_text_append_str(text,
                           KS_STR("the device has enough free: a limit as "
                                  "torch.cuda.set_per_process_memory_fraction sets forbids it, or "
                                  "it came free only then"));
        break;
    case KS_PRESSURE_SHORT:
        if (pressure->missing > 0) {
            ks_text_printf(text, "all free memory together is %s too little: less must be held",
                           missing.text);
        } else {
            ks_text_append_str(text, KS_STR("what is free lies in pieces below 2 MiB, which cannot "
                                            "be put together: less must be held"));
        }
        break;
    case KS_PRESSURE_UNKNOWN:
        if (pressure->missing > 0) {
            ks_text_printf(text,
                           "what is reserved cannot hold it: the device must have %s free at least",
                           missing.text);
        } else {
            ks_text_append_str(text, KS_STR("no free piece can hold it: the device must give a new "
                                            "segment"));
        }
        break;
    }
}

const char *ks_memory_note_key(enum ks_snap_note note)
{
    static const char *const keys[KS_SNAP_NOTE_COUNT] = {
        [KS_SNAP_NOTE_BLOCKS_MISMATCH] = "segments_blocks_differ",
        [KS_SNAP_NOTE_SUMS_MISMATCH] = "segments_sums_differ",
        [KS_SNAP_NOTE_UNKNOWN_ACTION] = "events_unknown",
        [KS_SNAP_NOTE_UNKNOWN_STATE] = "blocks_unknown",
        [KS_SNAP_NOTE_ALLOC_LOST] = "frees_missing",
        [KS_SNAP_NOTE_FREE_UNSEEN] = "allocs_missing",
    };
    return keys[note];
}

const char *ks_memory_note_text(enum ks_snap_note note)
{
    static const char *const texts[KS_SNAP_NOTE_COUNT] = {
        [KS_SNAP_NOTE_BLOCKS_MISMATCH] =
            "segments whose blocks do not add up to their size: blocks are what is counted",
        [KS_SNAP_NOTE_SUMS_MISMATCH] =
            "segments that state other sums than their blocks have: blocks are what is counted",
        [KS_SNAP_NOTE_UNKNOWN_ACTION] = "events of an unknown kind, which are not counted",
        [KS_SNAP_NOTE_UNKNOWN_STATE] = "blocks in an unknown state, which count as free",
        [KS_SNAP_NOTE_ALLOC_LOST] =
            "allocations of the trace that are gone without a free: the timeline leaves them out",
        [KS_SNAP_NOTE_FREE_UNSEEN] =
            "blocks that are there after their free without an allocation: held since that free",
    };
    return texts[note];
}

const char *ks_memory_size_name(enum ks_size_class size)
{
    static const char *const names[] = {
        [KS_SIZE_TINY] = "up to 512 B",       [KS_SIZE_SMALL] = "up to 1 MiB",
        [KS_SIZE_MEDIUM] = "below 10 MiB",    [KS_SIZE_LARGE] = "below 200 MiB",
        [KS_SIZE_HUGE] = "200 MiB and above",
    };
    return names[size];
}

const char *ks_memory_state_name(enum ks_snap_state state)
{
    static const char *const names[] = {
        [KS_SNAP_INACTIVE] = "inactive",
        [KS_SNAP_ACTIVE] = "active_allocated",
        [KS_SNAP_PENDING_FREE] = "active_pending_free",
    };
    return names[state];
}
