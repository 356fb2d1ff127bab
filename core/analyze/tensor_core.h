/* Does a kernel of this name use tensor cores? Names are all a trace says; the table and what it
 * cannot know (Triton, in-house kernels) stand in docs/analyses/kernels.md. */
#ifndef KS_ANALYZE_TENSOR_CORE_H
#define KS_ANALYZE_TENSOR_CORE_H

#include "base/str.h"

bool ks_tensor_core_is_used(struct ks_str kernel_name);

#endif
