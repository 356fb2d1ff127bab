#include "wire/crc32c.h"

/* Four bits at a time: 64 bytes of table, for machines without the instruction. */
uint32_t ks_wire_crc32c_plain(uint32_t crc, const void *bytes, uint64_t size)
{
    static const uint32_t table[16] = {0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1,
                                       0x417B1DBC, 0x5125DAD3, 0x61C69362, 0x7198540D,
                                       0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9,
                                       0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75};
    const unsigned char *at = bytes;
    crc = ~crc;
    for (; size > 0; size--) {
        crc ^= *at++;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

#ifdef __x86_64__

/* Its comparisons tell a fuzzer nothing, but cost it most of its time. */
#if defined(__clang__) && defined(FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
__attribute__((no_sanitize("coverage")))
#endif
__attribute__((target("sse4.2"))) static uint32_t
by_instruction(uint32_t crc, const unsigned char *at, uint64_t size)
{
    uint64_t sum = ~crc;
    for (; size >= sizeof(uint64_t); size -= sizeof(uint64_t)) {
        uint64_t word;
        __builtin_memcpy(&word, at, sizeof(word));
        sum = __builtin_ia32_crc32di(sum, word);
        at += sizeof(word);
    }
    crc = (uint32_t)sum;
    for (; size > 0; size--) {
        crc = __builtin_ia32_crc32qi(crc, *at++);
    }
    return ~crc;
}

uint32_t ks_wire_crc32c(uint32_t crc, const void *bytes, uint64_t size)
{
    return __builtin_cpu_supports("sse4.2") ? by_instruction(crc, bytes, size)
                                            : ks_wire_crc32c_plain(crc, bytes, size);
}

#else

uint32_t ks_wire_crc32c(uint32_t crc, const void *bytes, uint64_t size)
{
    return ks_wire_crc32c_plain(crc, bytes, size);
}

#endif
