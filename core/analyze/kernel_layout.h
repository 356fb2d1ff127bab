/* What the name of a kernel says about the layout of images. */
#ifndef KS_ANALYZE_KERNEL_LAYOUT_H
#define KS_ANALYZE_KERNEL_LAYOUT_H

#include "base/str.h"

/* KS_REPLAY_CONVERSION: it turns NCHW into NHWC or back; KS_REPLAY_NCHW: it works on NCHW and has a
 * faster twin for NHWC; 0: neither. */
unsigned ks_kernel_layout_marks(struct ks_str name);

#endif
