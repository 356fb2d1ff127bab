/* The rules: one file rule_<id>.c, one line here and one in registry.c. */
#ifndef KS_ADVISE_REGISTRY_H
#define KS_ADVISE_REGISTRY_H

#include "advise/findings.h"

extern const struct ks_rule ks_rule_input_starved;

#endif
