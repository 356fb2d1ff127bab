#include "capture/shared/checksum.h"

#include <string.h>

/* Four bits at a time: for processors without the instruction, where speed is no matter. The
 * polynomial is 0x1EDC6F41, reflected. */
static uint32_t by_table(uint32_t crc, const unsigned char *bytes, size_t size)
{
    static const uint32_t table[16] = {0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1,
                                       0x417B1DBC, 0x5125DAD3, 0x61C69362, 0x7198540D,
                                       0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9,
                                       0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75};
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return crc;
}

#ifdef __x86_64__

__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc,
                                                                 const unsigned char *bytes,
                                                                 size_t size)
{
    uint64_t wide = crc;
    for (; size >= sizeof(uint64_t); size -= sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, bytes, sizeof(word));
        wide = __builtin_ia32_crc32di(wide, word);
        bytes += sizeof(word);
    }
    crc = (uint32_t)wide;
    for (; size > 0; size--) {
        crc = __builtin_ia32_crc32qi(crc, *bytes++);
    }
    return crc;
}

uint32_t ks_capture_crc32c(uint32_t crc, const void *bytes, size_t size)
{
    crc = ~crc;
    return ~(__builtin_cpu_supports("sse4.2") ? by_instruction(crc, bytes, size)
                                              : by_table(crc, bytes, size));
}

#else

uint32_t ks_capture_crc32c(uint32_t crc, const void *bytes, size_t size)
{
    return ~by_table(~crc, bytes, size);
}

#endif
