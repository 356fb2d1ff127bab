"""Reads the call paths of a recording, byte by byte and slowly, without the engine."""

import struct
from dataclasses import dataclass

HEADER_SIZE, SLOT_SIZE, SLOT_HEADER_SIZE = 4096, 16384, 64
COUNT_OFFSET = 72 + 40 + 64 + 256 + 8  # behind three texts and two numbers
SLOT_MAGIC = 0x544C534B
ITEMS, NODES = 2, 3
STRING, CODE, FUNCTIONS = 2, 5, 11
NODE = struct.Struct("<IIIIQQQQ")
ROOT = 0xFFFFFFFF


@dataclass
class Path:
    names: tuple  # of the functions, outermost first
    code: tuple  # of the last one, as in Profile.codes
    tid: int
    open: int
    calls: int
    total_ticks: int
    open_tick: int
    child_ticks: int


@dataclass
class Profile:
    pid: int
    state: int
    paths: list
    codes: dict  # (qualified name, file, first line) by id
    functions: list  # (has_c_calls, mechanism, cost_ticks, start_tick, stop_tick)

    def calls(self, name):
        return sum(path.calls for path in self.paths if path.names[-1] == name)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def items_of(payload):
    at = 0
    while at + 8 <= len(payload):
        word, crc = struct.unpack_from("<II", payload, at)
        if word == 0:
            return
        data = payload[at + 8 : at + 8 + (word & 0xFFFFFF)]
        assert crc32c(data) == crc
        yield word >> 24, data
        at += 8 + (len(data) + 7 & ~7)


def read(path):
    """Profile of one file; asserts that it keeps to the format."""
    with open(path, "rb") as file:
        data = file.read(HEADER_SIZE)
        size = struct.unpack_from("<I", data, COUNT_OFFSET)[0] * SLOT_SIZE
        data += file.read(size)
    assert data[:8] == b"KSREC\r\n\x1a"
    pid = struct.unpack_from("<I", data, 20)[0]
    slot_count, state = struct.unpack_from("<II", data, COUNT_OFFSET)
    strings, codes, functions, nodes = {}, {}, [], {}
    for index in range(slot_count):
        slot = data[HEADER_SIZE + index * SLOT_SIZE :][:SLOT_SIZE]
        magic, kind, _, number, _, _, tid = struct.unpack_from("<IHHIIII", slot)
        if magic != SLOT_MAGIC:
            continue
        assert number == index
        payload = slot[SLOT_HEADER_SIZE:]
        if kind == ITEMS:
            for item, body in items_of(payload):
                if item == STRING:
                    ident, length = struct.unpack_from("<II", body)
                    strings[ident] = body[8 : 8 + length].decode()
                elif item == CODE:
                    ident, name, file, line = struct.unpack("<IIII", body)
                    codes[ident] = (strings[name], strings[file], line)
                elif item == FUNCTIONS:
                    functions.append(struct.unpack("<IIQQQ", body))
        elif kind == NODES:
            for i in range(len(payload) // NODE.size):
                node = NODE.unpack_from(payload, i * NODE.size)
                if node[0]:
                    nodes[index, i] = (tid, *node)
    paths = [make_path(nodes, codes, key) for key in nodes]
    return Profile(pid, state, paths, codes, functions)


def make_path(nodes, codes, key):
    tid, last, _, _, is_open, *numbers = nodes[key]
    names = []
    while key[0] != ROOT:
        _, code, slot, index, *_ = nodes[key]
        names.append(codes[code][0])
        key = (slot, index)
    return Path(tuple(reversed(names)), codes[last], tid, is_open, *numbers)
