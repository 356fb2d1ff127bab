#include "check_sealed.h"

#include "base/text.h"
#include "store/table.h"

static void check_strings(const struct ks_trace *trace)
{
    for (uint32_t id = 0; id < ks_trace_str_count(trace); id++) {
        struct ks_str s = ks_trace_str(trace, (struct ks_strid){id});
        for (size_t at = 0; at < s.len;) {
            size_t len = ks_utf8_sequence((const unsigned char *)s.ptr + at, s.len - at);
            KS_ASSERT(len > 0);
            at += len;
        }
    }
}

/* True for the first call of a table; later rows must not stand before earlier ones. */
static void check_row(struct ks_row_head *last, bool *has_last, struct ks_row_head row)
{
    KS_ASSERT(row.dur_ns >= 0);
    KS_ASSERT(!*has_last || !ks_row_head_before(&row, last));
    *last = row;
    *has_last = true;
}

#define CHECK_TABLE(table)                                                                         \
    do {                                                                                           \
        struct ks_##table##_scan scan;                                                             \
        struct ks_row_head last = {0};                                                             \
        bool has_last = false;                                                                     \
        uint64_t rows = 0;                                                                         \
        enum ks_status status;                                                                     \
        ks_##table##_scan_open(&scan, trace, KS_ALL_COLUMNS, 0,                                    \
                               ks_trace_rows(trace, KS_TABLE_##table));                            \
        while ((status = ks_##table##_scan_next(&scan, NULL)) == KS_OK) {                          \
            for (size_t i = 0; i < scan.count; i++) {                                              \
                check_row(&last, &has_last,                                                        \
                          (struct ks_row_head){scan.col.lane[i], scan.col.order[i],                \
                                               scan.col.start_ns[i], scan.col.dur_ns[i]});         \
            }                                                                                      \
            rows += scan.count;                                                                    \
        }                                                                                          \
        ks_##table##_scan_close(&scan);                                                            \
        KS_ASSERT(status == KS_END && rows == ks_trace_rows(trace, KS_TABLE_##table));             \
    } while (0);

void check_sealed(const struct ks_trace *trace)
{
    check_strings(trace);
    KS_TABLE_LIST(CHECK_TABLE)
}
