"""Reads the stacks of a recording, written from wire/recording.h alone."""

import struct
from dataclasses import dataclass, field

HEADER_SIZE = 4096
SLOT_SIZE = 16384
SLOT_HEADER_SIZE = 64
SLOT_MAGIC = 0x544C534B
SLOT_ITEMS = 2
STRING, THREAD, CODE, STACK, SAMPLE, SAMPLER = 2, 4, 5, 6, 7, 12
RUNNING, HOLDS_GIL = 1, 2


@dataclass(frozen=True)
class Frame:
    name: str
    file: str
    line: int
    first_line: int


@dataclass(frozen=True)
class Sample:
    tick: int
    tid: int
    stack: int
    weight: int
    flags: int


@dataclass
class Recorded:
    """Stacks are tuples of frames, the outermost first."""

    samples: list = field(default_factory=list)
    threads: dict = field(default_factory=dict)
    sampler: dict = field(default_factory=dict)
    strings: dict = field(default_factory=dict)
    codes: dict = field(default_factory=dict)
    stacks: dict = field(default_factory=dict)
    made: dict = field(default_factory=dict)

    def stack(self, number):
        frames = []
        while number != 0:
            if number in self.made:
                break
            number, code, line = self.stacks[number]
            name, file, first_line = self.codes[code]
            frames.append(Frame(self.strings[name], self.strings[file], line, first_line))
        outer = self.made.get(number, ())
        return outer + tuple(reversed(frames))

    def weights(self):
        """(thread id, stack) of all samples, with the looks that saw it."""
        seen = {}
        for sample in self.samples:
            key = (sample.tid, sample.stack)
            seen[key] = seen.get(key, 0) + sample.weight
        return [(tid, self.stack(stack), weight) for (tid, stack), weight in seen.items()]


def take_item(out, kind, data):
    if kind == STRING:
        number, length = struct.unpack_from("<II", data)
        out.strings[number] = data[8 : 8 + length].decode()
    elif kind == THREAD:
        tid, name = struct.unpack_from("<II", data)
        out.threads[tid] = out.strings[name]
    elif kind == CODE:
        number, name, file, first_line = struct.unpack_from("<IIII", data)
        assert number & 0x80000000, "the bit of the stack sampler"
        assert number not in out.codes
        out.codes[number] = (name, file, first_line)
    elif kind == STACK:
        number, caller, code, line = struct.unpack_from("<IIII", data)
        assert number not in out.stacks and (caller == 0 or caller in out.stacks)
        assert code in out.codes
        out.stacks[number] = (caller, code, line)
    elif kind == SAMPLE:
        sample = Sample(*struct.unpack_from("<QIIII", data))
        assert sample.stack in out.stacks and sample.weight > 0
        out.samples.append(sample)
    elif kind == SAMPLER:
        names = ("looks", "samples", "torn", "late", "cpu_ns", "rate_hz")
        out.sampler = dict(zip(names, struct.unpack_from("<QQQQQI", data), strict=True))


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"KSREC\r\n\x1a"
    slots = []
    for at in range(HEADER_SIZE, len(data), SLOT_SIZE):
        head = data[at : at + SLOT_HEADER_SIZE]
        if len(head) < SLOT_HEADER_SIZE:
            break
        magic, kind, _, _, lane, sequence = struct.unpack_from("<IHHIII", head)
        if magic == SLOT_MAGIC and kind == SLOT_ITEMS:
            slots.append((lane, sequence, data[at + SLOT_HEADER_SIZE : at + SLOT_SIZE]))
    out = Recorded()
    for _, _, payload in sorted(slots, key=lambda slot: slot[:2]):
        at = 0
        while at + 8 <= len(payload):
            (word,) = struct.unpack_from("<I", payload, at)
            if word == 0:
                break
            size = word & 0xFFFFFF
            take_item(out, word >> 24, payload[at + 8 : at + 8 + size])
            at += 8 + (size + 7) // 8 * 8
    return out
