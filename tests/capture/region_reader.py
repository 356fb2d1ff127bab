"""Reads regions, marks, counters and notes of a recording in slow and obvious Python.

Knows wire/recording.h and none of our code. Each thread's slots are put together by lane, each
sealed slot is checked; anything that does not fit is an AssertionError.
"""

import pathlib
import struct
from dataclasses import dataclass, field

HEADER_SIZE, SLOT_SIZE, SLOT_HEADER_SIZE = 4096, 16384, 64
EVENTS, ITEMS = 1, 2
BEGIN, END, MARK, COUNTER, INT, REAL, TEXT, TRACK = range(1, 9)
STRING, SITE, NOTE, UNIT = 2, 3, 10, 13
OF_MARK = 1


def _remainder(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_REMAINDERS = [_remainder(byte) for byte in range(256)]


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _REMAINDERS[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


@dataclass
class Region:
    name: str
    category: str
    tid: int
    track: int
    begin: int
    end: int | None = None
    parent: "Region | None" = None
    values: dict = field(default_factory=dict)

    @property
    def path(self):
        return (self.parent.path if self.parent else ()) + (self.name,)


@dataclass
class Mark:
    name: str
    category: str
    tick: int
    values: dict


class Reading:
    """regions (in order of their begin in each lane), marks, counters [(name, value)], notes."""

    def __init__(self, path, checks_sums=True):
        data = pathlib.Path(path).read_bytes()
        assert data[:8] == b"KSREC\r\n\x1a"
        self.pid, self.parent_pid, self.rank = struct.unpack_from("<IIi", data, 20)
        self.slot_count, self.state, self.lost = struct.unpack_from("<IIQ", data, 440)
        self.strings, self.sites, self.notes, self.units = {0: ""}, {}, {}, {}
        self.regions, self.marks, self.counters = [], [], []
        self.unmatched = 0
        slots = [self._slot(data, index, checks_sums) for index in range(self.slot_count)]
        slots = [slot for slot in slots if slot]
        lanes = {}
        for kind, lane, sequence, tid, payload in slots:
            if kind == ITEMS:
                self._items(payload)
            elif kind == EVENTS:
                lanes.setdefault(lane, []).append((sequence, tid, payload))
        for parts in lanes.values():
            self._lane(sorted(parts))

    @staticmethod
    def _slot(data, index, checks_sums):
        at = HEADER_SIZE + index * SLOT_SIZE
        head = struct.unpack_from("<IHHIIIIII", data, at)
        magic, kind, is_sealed, number, lane, sequence, tid, size, crc = head
        if magic != 0x544C534B:
            return None
        assert number == index
        payload = data[at + SLOT_HEADER_SIZE : at + SLOT_SIZE]
        if is_sealed:
            payload = payload[:size]
            if checks_sums:
                assert crc32c(data[at : at + 24], crc32c(payload)) == crc
        return kind, lane, sequence, tid, payload

    def _items(self, payload):
        at = 0
        while at + 8 <= len(payload):
            (word,) = struct.unpack_from("<I", payload, at)
            if word == 0:
                break
            kind, size = word >> 24, word & 0xFFFFFF
            body = payload[at + 8 : at + 8 + size]
            if kind == STRING:
                number, length = struct.unpack_from("<II", body)
                self.strings[number] = body[8 : 8 + length].decode("utf-8")
            elif kind == SITE:
                number, name, category, _ = struct.unpack("<IIII", body)
                self.sites[number] = (name, category)
            elif kind == NOTE:
                key, text = struct.unpack("<II", body)
                self.notes[self.strings[key]] = self.strings[text]
            elif kind == UNIT:
                number, text = struct.unpack("<II", body)
                self.units[self._site(number)] = self.strings[text]
            at += 8 + (size + 7) // 8 * 8

    def _site(self, number):
        return tuple(self.strings[text] for text in self.sites[number])

    def _lane(self, parts):
        assert [sequence for sequence, _, _ in parts] == list(range(len(parts)))
        tracks, track, mark, counter = {0: []}, 0, None, None
        for _, tid, payload in parts:
            for at in range(0, len(payload) - 15, 16):
                tick, number, kind, flags, aux = struct.unpack_from("<QIBBH", payload, at)
                if kind == 0:
                    break
                stack = tracks.setdefault(track, [])
                if kind == BEGIN:
                    name, category = self._site(number)
                    region = Region(name, category, tid, track, tick)
                    region.parent = stack[-1][1] if stack else None
                    stack.append((number, region))
                    self.regions.append(region)
                elif kind == END:
                    if stack and stack[-1][0] == number:
                        stack.pop()[1].end = tick
                    else:
                        self.unmatched += 1
                elif kind == MARK:
                    mark = Mark(*self._site(number), tick, {})
                    self.marks.append(mark)
                elif kind == COUNTER:
                    counter = self._site(number)[0]
                elif kind == TRACK:
                    track = number
                else:
                    value = self._value(kind, tick)
                    if counter is not None:
                        self.counters.append((counter, value))
                        counter = None
                    elif flags & OF_MARK:
                        mark.values[self._site(number)[0]] = value
                    else:
                        owner = [r for site, r in stack if aux in (0, site & 0xFFFF)][-1]
                        owner.values[self._site(number)[0]] = value

    def _value(self, kind, bits):
        if kind == TEXT:
            return self.strings[bits]
        return struct.unpack("<q" if kind == INT else "<d", struct.pack("<Q", bits))[0]

    def count(self, name):
        return sum(region.name == name for region in self.regions)
