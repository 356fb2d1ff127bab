/* A table of the report as columns in memory, by Arrow's C stream interface: what pandas, polars,
 * pyarrow and duckdb take without a file between.
 *
 * All rows are copied at once, so that the stream outlives the report and is read from any thread;
 * a batch is given away whole. Types are those of the Arrow file: int64, float64 or UTF-8, each of
 * which may be null. */
#ifndef KS_EXPORT_ARROW_STREAM_H
#define KS_EXPORT_ARROW_STREAM_H

#include <kscope/kscope_arrow.h>

#include "export/export.h"

/* `table` must be one of ks_export_table_name; `column` alone, or all when it is NULL.
 * KS_ERR_USAGE: there is no such column. After an error `out` holds nothing. */
enum ks_status ks_arrow_stream_open(const struct ks_view *view, const char *table,
                                    const char *column, struct ArrowArrayStream *out,
                                    struct ks_err *err) KS_MUST_CHECK;
/* Names and types of the columns; reads no row. */
enum ks_status ks_arrow_stream_describe(const struct ks_view *view, const char *table,
                                        struct ArrowSchema *out, struct ks_err *err) KS_MUST_CHECK;

#endif
