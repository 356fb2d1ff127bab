/* What must hold in every trace that reading gives, whatever the input was. */
#ifndef KS_TESTS_CHECK_SEALED_H
#define KS_TESTS_CHECK_SEALED_H

#include "store/trace.h"

/* Strings are UTF-8, no duration is negative, rows are sorted; asserts. */
void check_sealed(const struct ks_trace *trace);

#endif
