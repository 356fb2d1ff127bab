/* CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), as RFC 3720 appendix B.4 has it: by it the
 * reader of a recording tells whole slots and items from cut ones. Writer and reader share it, so
 * it is part of the layout. */
#ifndef KS_WIRE_CRC32C_H
#define KS_WIRE_CRC32C_H

#include <stdint.h>

/* Of `size` bytes that follow those with checksum `crc`; 0 for the first ones. */
uint32_t ks_wire_crc32c(uint32_t crc, const void *bytes, uint64_t size);
/* The same without the processor's own instruction: its twin in tests. */
uint32_t ks_wire_crc32c_plain(uint32_t crc, const void *bytes, uint64_t size);

#endif
