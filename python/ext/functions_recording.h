/* The recorder's functions that the function profiler calls. They are weak: a process that loaded
 * no recorder has none of them, and profiles into its own memory. */
#ifndef KS_PYTHON_FUNCTIONS_RECORDING_H
#define KS_PYTHON_FUNCTIONS_RECORDING_H

#include "capture/shared/recorder.h"

#pragma weak ks_capture_is_on
#pragma weak ks_capture_lane
#pragma weak ks_capture_string
#pragma weak ks_capture_item
#pragma weak ks_capture_nodes
#pragma weak ks_capture_generation

static inline bool ks_functions_can_record(void)
{
    return &ks_capture_is_on && ks_capture_is_on();
}

#endif
