#include "read/pickle_opcodes.h"

#define IMPORTS "it names code to import"
#define CALLS "it calls code"
#define EXTENDS "it names code of the extension registry"
#define PERSISTS "it names an object outside of the file"
#define BUFFERS "it needs a buffer outside of the file"
#define OLD "it belongs to protocols 0 and 1, which no snapshot is written in"

#define READ(size) NULL, (size), false
#define READ_LENGTH(size) NULL, (size), true
#define REFUSE(reason) (reason), 0, false

const struct ks_pickle_opcode_facts ks_pickle_opcodes[256] = {
    [KS_OP_MARK] = {"MARK", READ(0)},
    [KS_OP_STOP] = {"STOP", READ(0)},
    [KS_OP_POP] = {"POP", READ(0)},
    [KS_OP_POP_MARK] = {"POP_MARK", READ(0)},
    [KS_OP_DUP] = {"DUP", READ(0)},
    [KS_OP_EMPTY_TUPLE] = {"EMPTY_TUPLE", READ(0)},
    [KS_OP_BINBYTES] = {"BINBYTES", READ_LENGTH(4)},
    [KS_OP_SHORT_BINBYTES] = {"SHORT_BINBYTES", READ_LENGTH(1)},
    [KS_OP_BINFLOAT] = {"BINFLOAT", READ(8)},
    [KS_OP_BININT] = {"BININT", READ(4)},
    [KS_OP_BININT1] = {"BININT1", READ(1)},
    [KS_OP_BININT2] = {"BININT2", READ(2)},
    [KS_OP_NONE] = {"NONE", READ(0)},
    [KS_OP_BINSTRING] = {"BINSTRING", READ_LENGTH(4)},
    [KS_OP_SHORT_BINSTRING] = {"SHORT_BINSTRING", READ_LENGTH(1)},
    [KS_OP_BINUNICODE] = {"BINUNICODE", READ_LENGTH(4)},
    [KS_OP_EMPTY_LIST] = {"EMPTY_LIST", READ(0)},
    [KS_OP_APPEND] = {"APPEND", READ(0)},
    [KS_OP_DICT] = {"DICT", READ(0)},
    [KS_OP_APPENDS] = {"APPENDS", READ(0)},
    [KS_OP_BINGET] = {"BINGET", READ(1)},
    [KS_OP_LONG_BINGET] = {"LONG_BINGET", READ(4)},
    [KS_OP_LIST] = {"LIST", READ(0)},
    [KS_OP_BINPUT] = {"BINPUT", READ(1)},
    [KS_OP_LONG_BINPUT] = {"LONG_BINPUT", READ(4)},
    [KS_OP_SETITEM] = {"SETITEM", READ(0)},
    [KS_OP_TUPLE] = {"TUPLE", READ(0)},
    [KS_OP_SETITEMS] = {"SETITEMS", READ(0)},
    [KS_OP_EMPTY_DICT] = {"EMPTY_DICT", READ(0)},
    [KS_OP_PROTO] = {"PROTO", READ(1)},
    [KS_OP_TUPLE1] = {"TUPLE1", READ(0)},
    [KS_OP_TUPLE2] = {"TUPLE2", READ(0)},
    [KS_OP_TUPLE3] = {"TUPLE3", READ(0)},
    [KS_OP_NEWTRUE] = {"NEWTRUE", READ(0)},
    [KS_OP_NEWFALSE] = {"NEWFALSE", READ(0)},
    [KS_OP_LONG1] = {"LONG1", READ_LENGTH(1)},
    [KS_OP_LONG4] = {"LONG4", READ_LENGTH(4)},
    [KS_OP_SHORT_BINUNICODE] = {"SHORT_BINUNICODE", READ_LENGTH(1)},
    [KS_OP_BINUNICODE8] = {"BINUNICODE8", READ_LENGTH(8)},
    [KS_OP_BINBYTES8] = {"BINBYTES8", READ_LENGTH(8)},
    [KS_OP_EMPTY_SET] = {"EMPTY_SET", READ(0)},
    [KS_OP_ADDITEMS] = {"ADDITEMS", READ(0)},
    [KS_OP_FROZENSET] = {"FROZENSET", READ(0)},
    [KS_OP_MEMOIZE] = {"MEMOIZE", READ(0)},
    [KS_OP_FRAME] = {"FRAME", READ(8)},
    [KS_OP_BYTEARRAY8] = {"BYTEARRAY8", READ_LENGTH(8)},

    ['c'] = {"GLOBAL", REFUSE(IMPORTS)},
    ['i'] = {"INST", REFUSE(IMPORTS)},
    [0x93] = {"STACK_GLOBAL", REFUSE(IMPORTS)},
    ['R'] = {"REDUCE", REFUSE(CALLS)},
    ['b'] = {"BUILD", REFUSE(CALLS)},
    ['o'] = {"OBJ", REFUSE(CALLS)},
    [0x81] = {"NEWOBJ", REFUSE(CALLS)},
    [0x92] = {"NEWOBJ_EX", REFUSE(CALLS)},
    [0x82] = {"EXT1", REFUSE(EXTENDS)},
    [0x83] = {"EXT2", REFUSE(EXTENDS)},
    [0x84] = {"EXT4", REFUSE(EXTENDS)},
    ['P'] = {"PERSID", REFUSE(PERSISTS)},
    ['Q'] = {"BINPERSID", REFUSE(PERSISTS)},
    [0x97] = {"NEXT_BUFFER", REFUSE(BUFFERS)},
    [0x98] = {"READONLY_BUFFER", REFUSE(BUFFERS)},
    ['F'] = {"FLOAT", REFUSE(OLD)},
    ['I'] = {"INT", REFUSE(OLD)},
    ['L'] = {"LONG", REFUSE(OLD)},
    ['S'] = {"STRING", REFUSE(OLD)},
    ['V'] = {"UNICODE", REFUSE(OLD)},
    ['g'] = {"GET", REFUSE(OLD)},
    ['p'] = {"PUT", REFUSE(OLD)},
};
