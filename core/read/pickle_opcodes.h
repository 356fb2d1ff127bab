/* The opcodes of pickles, and which of them a reader of data takes. */
#ifndef KS_READ_PICKLE_OPCODES_H
#define KS_READ_PICKLE_OPCODES_H

#include "base/compiler.h"

/* The byte that stands for each in a file. */
enum ks_pickle_opcode {
    KS_OP_EMPTY_TUPLE = ')',
    KS_OP_MARK = '(',
    KS_OP_STOP = '.',
    KS_OP_POP = '0',
    KS_OP_POP_MARK = '1',
    KS_OP_DUP = '2',
    KS_OP_BINBYTES = 'B',
    KS_OP_SHORT_BINBYTES = 'C',
    KS_OP_BINFLOAT = 'G',
    KS_OP_BININT = 'J',
    KS_OP_BININT1 = 'K',
    KS_OP_BININT2 = 'M',
    KS_OP_NONE = 'N',
    KS_OP_BINSTRING = 'T',
    KS_OP_SHORT_BINSTRING = 'U',
    KS_OP_BINUNICODE = 'X',
    KS_OP_EMPTY_LIST = ']',
    KS_OP_APPEND = 'a',
    KS_OP_DICT = 'd',
    KS_OP_APPENDS = 'e',
    KS_OP_BINGET = 'h',
    KS_OP_LONG_BINGET = 'j',
    KS_OP_LIST = 'l',
    KS_OP_BINPUT = 'q',
    KS_OP_LONG_BINPUT = 'r',
    KS_OP_SETITEM = 's',
    KS_OP_TUPLE = 't',
    KS_OP_SETITEMS = 'u',
    KS_OP_EMPTY_DICT = '}',
    KS_OP_PROTO = 0x80,
    KS_OP_TUPLE1 = 0x85,
    KS_OP_TUPLE2 = 0x86,
    KS_OP_TUPLE3 = 0x87,
    KS_OP_NEWTRUE = 0x88,
    KS_OP_NEWFALSE = 0x89,
    KS_OP_LONG1 = 0x8A,
    KS_OP_LONG4 = 0x8B,
    KS_OP_SHORT_BINUNICODE = 0x8C,
    KS_OP_BINUNICODE8 = 0x8D,
    KS_OP_BINBYTES8 = 0x8E,
    KS_OP_EMPTY_SET = 0x8F,
    KS_OP_ADDITEMS = 0x90,
    KS_OP_FROZENSET = 0x91,
    KS_OP_MEMOIZE = 0x94,
    KS_OP_FRAME = 0x95,
    KS_OP_BYTEARRAY8 = 0x96,
};

struct ks_pickle_opcode_facts {
    const char *name;   /* as Python's pickletools has it; NULL: there is no such opcode */
    const char *reason; /* why it is refused; NULL: it is read */
    uint8_t size;       /* bytes of its argument: all of it, or the length that comes first */
    bool has_length;    /* that many bytes follow, as the argument says */
};

/* By the byte of the opcode. */
extern const struct ks_pickle_opcode_facts ks_pickle_opcodes[256];

#endif
