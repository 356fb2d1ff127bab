/* CRC-32C (Castagnoli), by which readers tell whole slots and items from cut ones. */
#ifndef KS_CAPTURE_SHARED_CHECKSUM_H
#define KS_CAPTURE_SHARED_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Goes on from `crc`, which is 0 at the start. */
uint32_t ks_capture_crc32c(uint32_t crc, const void *bytes, size_t size);

#endif
