/* CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), as RFC 3720 appendix B.4 has it. */
#ifndef KS_BASE_CRC32C_H
#define KS_BASE_CRC32C_H

#include "base/compiler.h"

/* Of `size` bytes that follow those with checksum `crc`; 0 for the first ones. */
uint32_t ks_crc32c(uint32_t crc, const void *bytes, size_t size);
/* The same without the processor's own instruction: its twin in tests. */
uint32_t ks_crc32c_plain(uint32_t crc, const void *bytes, size_t size);

#endif
