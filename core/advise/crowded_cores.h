/* cpu.oversubscribed where the trace does not tell of cores itself, but curves of the monitor do:
 * its rule says what is claimed. */
#ifndef KS_ADVISE_CROWDED_CORES_H
#define KS_ADVISE_CROWDED_CORES_H

#include "advise/findings.h"

/* Do curves tell, of any source? */
bool ks_crowded_cores_are_known(const struct ks_facts *facts);
enum ks_status ks_crowded_cores_check(const struct ks_rule *rule, const struct ks_facts *facts,
                                      struct ks_findings *out, struct ks_check *check,
                                      struct ks_err *err) KS_MUST_CHECK;

#endif
