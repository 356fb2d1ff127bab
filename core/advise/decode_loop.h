/* What the rules about inference loops share. */
#ifndef KS_ADVISE_DECODE_LOOP_H
#define KS_ADVISE_DECODE_LOOP_H

#include "advise/findings.h"

/* False: `check` says that the steps train. */
bool ks_decode_loop_can_be(const struct ks_facts *facts, struct ks_check *check);

/* Does a cache of keys and values explain that a source keeps that much more of each step? */
bool ks_decode_loop_explains_growth(const struct ks_facts *facts, int64_t bytes);

/* Does the host of an engine run code between reading results and launching the next iteration, for
 * 5% of the step and more? serve.host_gap reports that, host.python_gap leaves it alone. */
bool ks_decode_loop_has_gap(const struct ks_facts *facts);

#endif
