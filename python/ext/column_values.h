/* One column of a table as Python takes it: the bytes of an array, or a list of str. */
#ifndef KS_PY_COLUMN_VALUES_H
#define KS_PY_COLUMN_VALUES_H

#include "engine_types.h"

#include <kscope/kscope_arrow.h>

/* A list of str. */
PyObject *ks_column_names(const struct ArrowSchema *schema);

/* All batches that are left of the stream of one column. A new reference: of whole numbers ("q",
 * bytearray), of others ("d", bytearray); whole numbers of which some are unknown are "d" too, and
 * what is unknown is NaN. Of texts a list of str and None. */
PyObject *ks_column_values(struct ArrowArrayStream *stream);

#endif
