/* What must hold in a sealed file so that scans of it look like those of any trace: nothing behind
 * the store asks again whether an id exists or a time is in order. */
#include "store/kst_impl.h"

enum check {
    CHECK_NONE,
    CHECK_LANE,
    CHECK_START,
    CHECK_DUR,
    CHECK_MOMENT, /* KS_TIME_NONE or not negative */
    CHECK_STRING,
    CHECK_STREAM, /* track of a stream of the lane's source, or 0 */
    CHECK_HOST,   /* ... that slices can be in, or 0 */
    CHECK_COLLECTIVE,
    CHECK_STACK,
    CHECK_CATEGORY,
    CHECK_LINK_KIND,
};

static const uint8_t checks[KS_TABLE_COUNT][KS_COLUMNS_MAX] = {
    [KS_TABLE_slice] =
        {
            [KS_SLICE_COL_lane] = CHECK_LANE,
            [KS_SLICE_COL_start_ns] = CHECK_START,
            [KS_SLICE_COL_dur_ns] = CHECK_DUR,
            [KS_SLICE_COL_name] = CHECK_STRING,
            [KS_SLICE_COL_dims] = CHECK_STRING,
            [KS_SLICE_COL_types] = CHECK_STRING,
            [KS_SLICE_COL_concrete] = CHECK_STRING,
            [KS_SLICE_COL_category] = CHECK_CATEGORY,
        },
    [KS_TABLE_gpu] =
        {
            [KS_GPU_COL_lane] = CHECK_LANE,
            [KS_GPU_COL_start_ns] = CHECK_START,
            [KS_GPU_COL_dur_ns] = CHECK_DUR,
            [KS_GPU_COL_launch_ns] = CHECK_MOMENT,
            [KS_GPU_COL_launch_end_ns] = CHECK_MOMENT,
            [KS_GPU_COL_launch_lane] = CHECK_HOST,
            [KS_GPU_COL_stream] = CHECK_STREAM,
            [KS_GPU_COL_name] = CHECK_STRING,
            [KS_GPU_COL_grid] = CHECK_STRING,
            [KS_GPU_COL_block] = CHECK_STRING,
            [KS_GPU_COL_collective] = CHECK_COLLECTIVE,
            [KS_GPU_COL_category] = CHECK_CATEGORY,
        },
    [KS_TABLE_memory] =
        {
            [KS_MEMORY_COL_lane] = CHECK_LANE,
            [KS_MEMORY_COL_start_ns] = CHECK_START,
            [KS_MEMORY_COL_dur_ns] = CHECK_DUR,
        },
    [KS_TABLE_mark] =
        {
            [KS_MARK_COL_lane] = CHECK_LANE,
            [KS_MARK_COL_start_ns] = CHECK_START,
            [KS_MARK_COL_dur_ns] = CHECK_DUR,
            [KS_MARK_COL_name] = CHECK_STRING,
            [KS_MARK_COL_series] = CHECK_STRING,
            [KS_MARK_COL_unit] = CHECK_STRING,
            [KS_MARK_COL_values] = CHECK_STRING,
        },
    [KS_TABLE_sample] =
        {
            [KS_SAMPLE_COL_lane] = CHECK_LANE,
            [KS_SAMPLE_COL_start_ns] = CHECK_START,
            [KS_SAMPLE_COL_dur_ns] = CHECK_DUR,
            [KS_SAMPLE_COL_stack] = CHECK_STACK,
        },
    [KS_TABLE_link] =
        {
            [KS_LINK_COL_lane] = CHECK_LANE,
            [KS_LINK_COL_start_ns] = CHECK_START,
            [KS_LINK_COL_dur_ns] = CHECK_DUR,
            [KS_LINK_COL_gpu_first_ns] = CHECK_MOMENT,
            [KS_LINK_COL_gpu_end_ns] = CHECK_MOMENT,
            [KS_LINK_COL_name] = CHECK_STRING,
            [KS_LINK_COL_kind] = CHECK_LINK_KIND,
        },
};

/* ------------------------------------------------------------------ lanes and chunks */

#define KIND_BIT(kind) (1U << (unsigned)(kind))

/* Kinds of the tracks whose rows a table holds. */
static const unsigned lane_kinds[KS_TABLE_COUNT] = {
    [KS_TABLE_slice] = KIND_BIT(KS_TRACK_THREAD) | KIND_BIT(KS_TRACK_ASYNC),
    [KS_TABLE_gpu] = KIND_BIT(KS_TRACK_DEVICE),
    [KS_TABLE_memory] = KIND_BIT(KS_TRACK_PROCESS),
    [KS_TABLE_mark] = ~0U,
    [KS_TABLE_sample] = KIND_BIT(KS_TRACK_THREAD),
    [KS_TABLE_link] = KIND_BIT(KS_TRACK_THREAD) | KIND_BIT(KS_TRACK_ASYNC),
};

static bool is_track(const struct ks_trace *trace, uint32_t track, unsigned kinds)
{
    return track > 0 && track < trace->track_count &&
           (kinds & KIND_BIT(trace->tracks[track].kind)) != 0;
}

static bool are_lanes_good(const struct ks_trace *trace, enum ks_table_id id)
{
    const struct ks_table *table = &trace->tables[id];
    uint64_t row = 0;
    uint32_t track = 0;
    for (size_t i = 0; i < table->lane_count; i++) {
        const struct ks_lane *lane = &table->lanes[i];
        if (lane->row_begin != row || lane->row_end <= row || lane->track <= track ||
            !is_track(trace, lane->track, lane_kinds[id])) {
            return false;
        }
        row = lane->row_end;
        track = lane->track;
    }
    return row == table->rows;
}

const char *ks_kst_check_table(const struct ks_trace *trace, enum ks_table_id id,
                               const struct ks_kst_times *times)
{
    const struct ks_table *table = &trace->tables[id];
    if (!are_lanes_good(trace, id)) {
        return "lanes do not fit the rows";
    }
    size_t lane = 0;
    for (uint64_t chunk = 0; chunk < ks_table_chunk_count(table); chunk++) {
        uint64_t row = chunk << table->chunk_shift;
        while (table->lanes[lane].row_end <= row) {
            lane++;
        }
        bool goes_on = table->lanes[lane].row_begin < row;
        if (times[chunk].first_ns < 0 || times[chunk].max_ns < times[chunk].last_ns ||
            (goes_on && times[chunk].first_ns < times[chunk - 1].last_ns)) {
            return "chunks are not in order of time";
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------ values */

/* The lane that holds the row. */
static const struct ks_lane *lane_at(const struct ks_table *table, uint64_t row)
{
    size_t begin = 0;
    size_t end = table->lane_count;
    while (end - begin > 1) {
        size_t middle = begin + (end - begin) / 2;
        if (table->lanes[middle].row_begin <= row) {
            begin = middle;
        } else {
            end = middle;
        }
    }
    return &table->lanes[begin];
}

/* Behind the last row of the lane, or of the chunk. */
static size_t stretch_end(const struct ks_lane *lane, uint64_t row, size_t count)
{
    return lane->row_end - row < count ? (size_t)(lane->row_end - row) : count;
}

static bool are_tracks_of_lanes(const struct ks_table *table, uint64_t row, size_t count,
                                const uint32_t *values)
{
    const struct ks_lane *lane = lane_at(table, row);
    for (size_t i = 0; i < count; lane++) {
        size_t end = stretch_end(lane, row, count);
        uint32_t wrong = 0;
        for (; i < end; i++) {
            wrong |= values[i] ^ lane->track;
        }
        if (wrong != 0) {
            return false;
        }
    }
    return true;
}

static bool are_starts_in_order(const struct ks_table *table, const struct ks_kst_times *times,
                                uint64_t row, size_t count, const int64_t *values)
{
    const struct ks_lane *lane = lane_at(table, row);
    int64_t max_ns = values[0];
    bool is_good = values[0] == times->first_ns && values[count - 1] == times->last_ns;
    for (size_t i = 0; i < count; lane++) {
        size_t end = stretch_end(lane, row, count);
        is_good = is_good && values[i] >= 0;
        for (i++; i < end; i++) {
            is_good = is_good & (values[i] >= values[i - 1]);
        }
        max_ns = values[end - 1] > max_ns ? values[end - 1] : max_ns;
    }
    return is_good && max_ns == times->max_ns;
}

static bool are_between(const int64_t *values, size_t count, int64_t low, int64_t high)
{
    bool is_good = true;
    for (size_t i = 0; i < count; i++) {
        is_good = is_good & (values[i] >= low) & (values[i] <= high);
    }
    return is_good;
}

static bool are_moments(const int64_t *values, size_t count)
{
    bool is_good = true;
    for (size_t i = 0; i < count; i++) {
        is_good = is_good & ((values[i] >= 0) | (values[i] == KS_TIME_NONE));
    }
    return is_good;
}

static bool are_below(const uint32_t *values, size_t count, uint64_t limit)
{
    bool is_good = true;
    for (size_t i = 0; i < count; i++) {
        is_good = is_good & (values[i] < limit);
    }
    return is_good;
}

static bool are_bytes_below(const uint8_t *values, size_t count, unsigned limit)
{
    bool is_good = true;
    for (size_t i = 0; i < count; i++) {
        is_good = is_good & (values[i] < limit);
    }
    return is_good;
}

/* Rows of a lane refer to tracks of its source only. */
static bool are_tracks(const struct ks_trace *trace, const struct ks_table *table, uint64_t row,
                       size_t count, const uint32_t *values, unsigned kinds)
{
    const struct ks_lane *lane = lane_at(table, row);
    for (size_t i = 0; i < count; lane++) {
        size_t end = stretch_end(lane, row, count);
        uint32_t source = trace->tracks[lane->track].source;
        uint32_t good = 0; /* rows of one track follow each other */
        for (; i < end; i++) {
            bool is_good =
                values[i] == good || values[i] == 0 ||
                (is_track(trace, values[i], kinds) && trace->tracks[values[i]].source == source);
            if (!is_good) {
                return false;
            }
            good = values[i];
        }
    }
    return true;
}

const char *ks_kst_check_column(const struct ks_trace *trace, enum ks_table_id id, size_t column,
                                const struct ks_kst_times *times, uint64_t row, size_t count,
                                const void *values)
{
    const struct ks_table *table = &trace->tables[id];
    bool is_good = true;
    switch ((enum check)checks[id][column]) {
    case CHECK_NONE: break;
    case CHECK_LANE: is_good = are_tracks_of_lanes(table, row, count, values); break;
    case CHECK_START: is_good = are_starts_in_order(table, times, row, count, values); break;
    /* No end needs more than 64 bits. */
    case CHECK_DUR: is_good = are_between(values, count, 0, INT64_MAX - times->max_ns); break;
    case CHECK_MOMENT: is_good = are_moments(values, count); break;
    case CHECK_STRING: is_good = are_below(values, count, ks_strpool_count(trace->strings)); break;
    case CHECK_STREAM:
        is_good = are_tracks(trace, table, row, count, values, KIND_BIT(KS_TRACK_STREAM));
        break;
    case CHECK_HOST:
        is_good = are_tracks(trace, table, row, count, values, lane_kinds[KS_TABLE_slice]);
        break;
    case CHECK_COLLECTIVE:
        is_good = are_below(values, count, (uint64_t)trace->collective_count + 1);
        break;
    case CHECK_STACK: is_good = are_below(values, count, (uint64_t)trace->stack_count + 1); break;
    case CHECK_CATEGORY: is_good = are_bytes_below(values, count, KS_CATEGORY_COUNT); break;
    case CHECK_LINK_KIND: is_good = are_bytes_below(values, count, KS_LINK_MEMSET + 1); break;
    }
    return is_good ? NULL : "a value is not possible";
}
