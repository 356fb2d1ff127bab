/* A file that becomes shorter while it is mapped turns the next store into a SIGBUS, which would
 * end the program. The one signal handler that we install: for addresses of the recording it puts
 * memory there and turns recording off; everything else goes to the handler before it. */
#ifndef KS_CAPTURE_SHARED_BUS_GUARD_H
#define KS_CAPTURE_SHARED_BUS_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>

struct ks_recording_file;

void ks_bus_guard_set(struct ks_recording_file *file, _Atomic bool *is_on);

#endif
