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

/* Table, times and categories are as the options say. After an error `out` holds nothing. */
enum ks_status ks_arrow_stream_open(const struct ks_view *view,
                                    const struct ks_export_options *options,
                                    struct ArrowArrayStream *out, struct ks_err *err) KS_MUST_CHECK;

#endif
