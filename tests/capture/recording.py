"""Reads recordings (wire/recording.h) slowly and obviously, with none of our code in between.

    recording = read(path)
    recording.values(tid)      what VALUE_INT events of a thread said, in their order
    recording.regions()        (tid, site, begin tick, end tick) of each region that ended
    recording.lost             events that the writer says it had no room for

Whatever breaks the format raises Broken: a wrong checksum, a gap, an event of no kind. Of a slot
that is open what was published counts; no event may follow one that is not there, which may have
been half written when the process ended (`torn`).
"""

import pathlib
import struct
from dataclasses import dataclass, field

import numpy
from write_recording import (
    BEGIN,
    CLOCK,
    COUNTER,
    END,
    EVENTS,
    HEADER_SIZE,
    ITEMS,
    MAGIC,
    NODES,
    NOTE,
    PAYLOAD_SIZE,
    SITE,
    SLOT_HEADER_SIZE,
    SLOT_MAGIC,
    SLOT_SIZE,
    STRING,
    TRACK,
    VALUE_INT,
    crc32c,
)

HEADER = struct.Struct("<8s5I4iIqQq40s64s256sII")
STATE = struct.Struct("<IIQQQ128s")
SLOT = struct.Struct("<IHHIIIIIIQQ")


class Broken(Exception):
    """The file is not what its writer promises."""


@dataclass
class Slot:
    index: int
    kind: int
    lane: int
    sequence: int
    tid: int
    is_sealed: bool
    lost: int
    payload: bytes


@dataclass
class Recording:
    pid: int = 0
    parent_pid: int = 0
    worker: int = -1
    is_tsc: bool = False
    tick_khz: int = 0
    start_unix_ns: int = 0
    start_tick: int = 0
    host: str = ""
    program: str = ""
    state: int = 0
    lost: int = 0
    items_lost: int = 0
    off_reason: str = ""
    torn: int = 0  # events that were not published when the process ended
    strings: dict = field(default_factory=dict)
    sites: dict = field(default_factory=dict)
    clocks: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    items: list = field(default_factory=list)
    slots: list = field(default_factory=list)
    events: dict = field(default_factory=dict)  # tid: [(tick, id, kind)]

    def values(self, tid):
        return [tick for tick, _, kind in self.events.get(tid, []) if kind == VALUE_INT]

    def regions(self):
        found = []
        for tid, events in self.events.items():
            stack = []
            for tick, site, kind in events:
                if kind == BEGIN:
                    stack.append((tick, site))
                elif kind == END:
                    begin, opened = stack.pop()
                    require(opened == site, f"end of site {site} in site {opened}")
                    found.append((tid, self.sites.get(site, site), begin, tick))
        return found


def require(is_so, sentence):
    if not is_so:
        raise Broken(sentence)


def text(raw):
    return raw.split(b"\0", 1)[0].decode()


def _pairs():
    """Of each two bytes, what they make of a checksum that is zero before them."""
    one = numpy.array([crc32c(bytes([i]), 0xFFFFFFFF) ^ 0xFFFFFFFF for i in range(256)], "u4")
    pair = numpy.arange(1 << 16, dtype=numpy.uint32)
    first = one[pair & 0xFF]
    return first >> 8 ^ one[(first ^ pair >> 8) & 0xFF]


PAIRS = _pairs()


def crcs_of_rows(rows):
    """CRC-32C of each row of a matrix of bytes, all rows at a time, two bytes a step."""
    crc = numpy.full(len(rows), 0xFFFFFFFF, numpy.uint32)
    for column in numpy.ascontiguousarray(rows.view("<u2").T):
        crc = crc >> 16 ^ PAIRS[(crc ^ column) & 0xFFFF]
    return crc ^ numpy.uint32(0xFFFFFFFF)


def read_header(data, recording):
    require(len(data) >= HEADER_SIZE, "no header")
    (
        magic,
        version,
        header_size,
        slot_size,
        pid,
        parent,
        _,
        _,
        _,
        worker,
        is_tsc,
        unix,
        tick,
        _,
    ) = HEADER.unpack_from(data)[:14]
    _, host, program, khz, crc = HEADER.unpack_from(data)[14:]
    require(magic == MAGIC and version == 1, "not a recording")
    require((header_size, slot_size) == (HEADER_SIZE, SLOT_SIZE), "other sizes")
    require(crc == crc32c(data[: HEADER.size - 4]), "the header's checksum is wrong")
    recording.pid, recording.parent_pid, recording.worker = pid, parent, worker
    recording.is_tsc, recording.tick_khz = bool(is_tsc), khz
    recording.start_unix_ns, recording.start_tick = unix, tick
    recording.host, recording.program = text(host), text(program)
    count, recording.state, recording.lost, recording.items_lost, _, reason = STATE.unpack_from(
        data, (HEADER.size + 7) // 8 * 8
    )
    recording.off_reason = text(reason)
    return count


def read_slots(data, count, recording):
    sealed = []
    for index in range(count):
        at = HEADER_SIZE + index * SLOT_SIZE
        raw = data[at : at + SLOT_SIZE]
        require(len(raw) >= SLOT_HEADER_SIZE, f"slot {index} is not in the file")
        magic, kind, is_sealed, own, lane, sequence, tid, size, crc, _, lost = SLOT.unpack_from(raw)
        if magic == 0:
            require(index == count - 1, f"slot {index} was never begun")
            continue
        require(magic == SLOT_MAGIC and own == index, f"slot {index} has another's head")
        require(kind in (EVENTS, ITEMS, NODES), f"slot {index} is of no kind")
        payload = raw[SLOT_HEADER_SIZE:].ljust(PAYLOAD_SIZE, b"\0")
        if is_sealed:
            require(size <= PAYLOAD_SIZE, f"slot {index} is too large")
            sealed.append((index, size, crc, payload, raw[:24]))
            payload = payload[:size]
        recording.slots.append(
            Slot(index, kind, lane, sequence, tid, bool(is_sealed), lost, payload)
        )
    check_sealed(sealed)


def check_sealed(sealed):
    """Full slots all at once, the others byte by byte: their checksum goes on with the head."""
    full = [slot for slot in sealed if slot[1] == PAYLOAD_SIZE]
    if full:
        rows = numpy.frombuffer(b"".join(s[3] + sealed_head(s[4]) for s in full), numpy.uint8)
        found = crcs_of_rows(rows.reshape(len(full), -1))
        for (index, _, crc, _, _), mine in zip(full, found, strict=True):
            require(crc == int(mine), f"the checksum of slot {index} is wrong")
    for index, size, crc, payload, head in sealed:
        if size != PAYLOAD_SIZE:
            mine = crc32c(payload[:size] + sealed_head(head))
            require(crc == mine, f"the checksum of slot {index} is wrong")


def sealed_head(head):
    return head[:6] + b"\1\0" + head[8:]


def read_events(slot, recording):
    events = recording.events.setdefault(slot.tid, [])
    is_over = False
    for tick, word in struct.iter_unpack("<QQ", slot.payload):
        kind = word >> 32 & 0xFF
        if is_over:
            require(word == 0, f"slot {slot.index}: an event behind one that is not there")
        elif word == 0:
            require(not slot.is_sealed, f"slot {slot.index}: a hole in what is sealed")
            is_over = True
            recording.torn += tick != 0
        else:
            require(BEGIN <= kind <= TRACK, f"slot {slot.index}: an event of kind {kind}")
            events.append((tick, word & 0xFFFFFFFF, kind))


def read_items(slot, recording):
    at = 0
    while at + 8 <= len(slot.payload):
        word, crc = struct.unpack_from("<II", slot.payload, at)
        if word == 0:
            require(not slot.is_sealed, f"slot {slot.index}: a hole in what is sealed")
            return
        kind, size = word >> 24, word & 0xFFFFFF
        payload = slot.payload[at + 8 : at + 8 + size]
        require(len(payload) == size and crc == crc32c(payload), f"slot {slot.index}: a torn item")
        read_item(kind, payload, recording)
        at += (8 + size + 7) // 8 * 8


def read_item(kind, payload, recording):
    recording.items.append((kind, payload))
    if kind == CLOCK:
        recording.clocks.append(struct.unpack("<Qqq", payload))
    elif kind == STRING:
        own, length = struct.unpack_from("<II", payload)
        require(len(payload) == 8 + length, "a string of another length")
        recording.strings[own] = payload[8:].decode()
    elif kind == SITE:
        own, name, category, _ = struct.unpack("<IIII", payload)
        recording.sites[own] = (recording.strings[name], recording.strings[category])
    elif kind == NOTE:
        key, value = struct.unpack("<II", payload)
        recording.notes.append((recording.strings[key], recording.strings[value]))


def check_sequences(recording):
    lanes = {}
    for slot in recording.slots:
        if slot.kind != NODES:
            require(slot.sequence == lanes.get(slot.lane, 0), f"slot {slot.index} is out of turn")
            lanes[slot.lane] = slot.sequence + 1


def check_names(recording):
    """Whatever an event names was written before the process ended."""
    for events in recording.events.values():
        for _, own, kind in events:
            named = kind in (BEGIN, END, COUNTER)
            require(not named or own in recording.sites, f"an event of the unknown site {own}")


def read(path):
    """The recording at `path`; raises Broken."""
    data = pathlib.Path(path).read_bytes()
    recording = Recording()
    read_slots(data, read_header(data, recording), recording)
    check_sequences(recording)
    for slot in recording.slots:
        if slot.kind == EVENTS:
            read_events(slot, recording)
        elif slot.kind == ITEMS:
            read_items(slot, recording)
    check_names(recording)
    return recording


def read_folder(folder):
    """All recordings of a folder by their pid."""
    return {r.pid: r for r in map(read, sorted(pathlib.Path(folder).glob("*.ksrec")))}
