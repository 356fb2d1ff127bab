/* What the name of a kernel says about the cores that it uses. */
#ifndef KS_ANALYZE_KERNEL_PRECISION_H
#define KS_ANALYZE_KERNEL_PRECISION_H

#include "base/str.h"

/* Is it a product of matrices or a convolution that computes in fp32 without tensor cores? */
bool ks_kernel_is_fp32_product(struct ks_str name);

#endif
