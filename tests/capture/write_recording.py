"""Writes recordings (wire/recording.h) byte by byte, whole or damaged, without the recorder.

    recording = Recording(pid=7, rank=0)
    main = recording.thread(tid=7, name="MainThread")
    main.begin(1000, "step", "training_loop").value("batch", 32).end(5000, "step", "training_loop")
    recording.write("out.ksrec")

Ticks are ns of the recording's clock unless `khz` says otherwise. Slots come in the order in which
lanes take them. What a test wants damaged it changes in `slots` before `bytes()`, or in the bytes.
"""

import pathlib
import struct

HEADER_SIZE = 4096
SLOT_SIZE = 16384
SLOT_HEADER_SIZE = 64
PAYLOAD_SIZE = SLOT_SIZE - SLOT_HEADER_SIZE
MAGIC = b"KSREC\r\n\x1a"
SLOT_MAGIC = 0x544C534B
EVENTS, ITEMS, NODES = 1, 2, 3
BEGIN, END, MARK, COUNTER, VALUE_INT, VALUE_REAL, VALUE_TEXT, TRACK = range(1, 9)
CLOCK, STRING, SITE, THREAD, CODE, STACK, SAMPLE, METRIC, METRICS, NOTE, FUNCTIONS, SAMPLER = range(
    1, 13
)
UNIT = 13
OF_MARK = 1
RUNNING, CLOSED, OFF = range(3)
START_UNIX_NS = 1_700_000_000_000_000_000
NONE = 0xFFFFFFFF


def _table():
    out = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        out.append(i)
    return out


_CRC_TABLE = _table()


def crc32c(data, crc=0):
    crc ^= NONE
    for byte in data:
        crc = crc >> 8 ^ _CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ NONE


class Slot:
    def __init__(self, kind, index, lane, sequence, tid, start_tick=0):
        self.kind, self.index, self.lane, self.sequence = kind, index, lane, sequence
        self.tid, self.start_tick, self.lost = tid, start_tick, 0
        self.payload = bytearray()
        self.is_sealed = True
        self.crc = None  # None: the right one
        self.magic = SLOT_MAGIC

    def bytes(self):
        head = struct.pack(
            "<IHHIIII",
            self.magic,
            self.kind,
            self.is_sealed,
            self.index,
            self.lane,
            self.sequence,
            self.tid,
        )
        size, crc = 0, 0
        if self.is_sealed:
            size = len(self.payload)
            crc = crc32c(head, crc32c(self.payload)) if self.crc is None else self.crc
        head += struct.pack("<IIQQ16x", size, crc, self.start_tick, self.lost)
        return (head + bytes(self.payload)).ljust(SLOT_SIZE, b"\0")


class Lane:
    """What one thread writes of one kind."""

    def __init__(self, recording, kind, tid):
        self.recording, self.kind, self.tid = recording, kind, tid
        self.number = recording.lane_count = recording.lane_count + 1
        self.sequence = 0
        self.slot = None

    def put(self, data):
        if self.slot is None or len(self.slot.payload) + len(data) > PAYLOAD_SIZE:
            self.next_slot()
        self.slot.payload += data
        return self

    def next_slot(self):
        slots = self.recording.slots
        self.slot = Slot(self.kind, len(slots), self.number, self.sequence, self.tid)
        self.sequence += 1
        slots.append(self.slot)

    def event(self, tick, kind, ident, aux=0):
        return self.put(struct.pack("<QQ", tick & (1 << 64) - 1, ident | kind << 32 | aux << 48))

    def begin(self, tick, name, category=""):
        return self.event(tick, BEGIN, self.recording.site(name, category))

    def end(self, tick, name, category=""):
        return self.event(tick, END, self.recording.site(name, category))

    def mark(self, tick, name, category="", **values):
        self.event(tick, MARK, self.recording.site(name, category))
        for key, value in values.items():
            self.value(key, value, OF_MARK)
        return self

    def counter(self, tick, name, value, category=""):
        self.event(tick, COUNTER, self.recording.site(name, category))
        return self.value(name, value)

    def value(self, key, value, flags=0):
        site = self.recording.site(key, "")
        flags <<= 8
        if isinstance(value, int):
            return self.event(value, VALUE_INT | flags, site)
        if isinstance(value, float):
            bits = struct.unpack("<Q", struct.pack("<d", value))[0]
            return self.event(bits, VALUE_REAL | flags, site)
        return self.event(self.recording.string(value), VALUE_TEXT | flags, site)

    def task(self, ident):
        return self.event(0, TRACK, ident)


class Recording:
    def __init__(self, pid=100, rank=-1, khz=0, start_tick=0, **header):
        self.slots = []
        self.lane_count = 0
        self.strings, self.sites, self.codes, self.stacks = {}, {}, {}, {}
        self.header = {
            "version": 1,
            "header_size": HEADER_SIZE,
            "slot_size": SLOT_SIZE,
            "pid": pid,
            "parent_pid": 1,
            "rank": rank,
            "local_rank": rank,
            "world_size": -1,
            "worker": -1,
            "is_tsc": int(khz > 0),
            "start_unix_ns": START_UNIX_NS,
            "start_tick": start_tick,
            "start_process_ns": 0,
            "boot_id": "",
            "host": "here",
            "program": "train.py",
            "tick_khz": khz,
            "state": CLOSED,
            "events_lost": 0,
            "items_lost": 0,
            "off_reason": "",
        }
        self.header.update(header)
        self.items = Lane(self, ITEMS, pid)
        if not khz:
            self.clock(start_tick, start_tick, START_UNIX_NS)

    def item(self, kind, payload, lane=None):
        head = struct.pack("<II", kind << 24 | len(payload), crc32c(payload))
        pad = b"\0" * (-len(payload) % 8)
        (lane or self.items).put(head + payload + pad)

    def _numbered(self, table, key):
        """Number of the key, and whether it is new."""
        is_new = key not in table
        return table.setdefault(key, len(table) + 1), is_new

    def string(self, text):
        data = text.encode() if isinstance(text, str) else text
        ident, is_new = self._numbered(self.strings, data)
        if is_new:
            self.item(STRING, struct.pack("<II", ident, len(data)) + data)
        return ident

    def site(self, name, category):
        names = self.string(name), self.string(category) if category else 0
        ident, is_new = self._numbered(self.sites, names)
        if is_new:
            self.item(SITE, struct.pack("<IIII", ident, *names, 0))
        return ident

    def unit(self, name, category, text):
        self.item(UNIT, struct.pack("<II", self.site(name, category), self.string(text)))

    def note(self, key, text):
        self.item(NOTE, struct.pack("<II", self.string(key), self.string(text)))

    def clock(self, tick, monotonic_ns, unix_ns):
        self.item(CLOCK, struct.pack("<Qqq", tick, monotonic_ns, unix_ns))

    def thread(self, tid, name=None):
        if name is not None:
            self.item(THREAD, struct.pack("<II", tid, self.string(name)))
        return Lane(self, EVENTS, tid)

    def code(self, name, file, first_line):
        key = self.string(name), self.string(file), first_line
        ident, is_new = self._numbered(self.codes, key)
        if is_new:
            self.item(CODE, struct.pack("<IIII", ident, *key))
        return ident

    def stack(self, *frames):
        """Outermost first: (name, file, first line, line)."""
        caller = 0
        for name, file, first_line, line in frames:
            key = caller, self.code(name, file, first_line), line
            ident, is_new = self._numbered(self.stacks, key)
            if is_new:
                self.item(STACK, struct.pack("<IIII", ident, *key))
            caller = ident
        return caller

    def sample(self, tick, tid, stack, weight=1, flags=1):
        self.item(SAMPLE, struct.pack("<QIIII", tick, tid, stack, weight, flags))

    def metric(self, ident, name, unit, index=-1):
        self.item(METRIC, struct.pack("<IIIi", ident, self.string(name), self.string(unit), index))

    def metrics(self, tick, values):
        data = struct.pack("<QII", tick, len(values), 0)
        for ident, value in values:
            data += struct.pack("<Id", ident, value)
        self.item(METRICS, data)

    def node(self, lane, code, parent=(NONE, 0), calls=0, total=0, child=0, still_open=(0, 0)):
        """A call path; returns (slot, index), to be the parent of others."""
        count, since = still_open
        lane.put(struct.pack("<IIIIQQQQ", code, *parent, count, calls, total, since, child))
        return lane.slot.index, len(lane.slot.payload) // 48 - 1

    def bytes(self):
        h = self.header
        head = MAGIC + struct.pack(
            "<IIIIIiiiiIqQq40s64s256sI",
            *(h[k] for k in ("version", "header_size", "slot_size", "pid", "parent_pid")),
            *(h[k] for k in ("rank", "local_rank", "world_size", "worker", "is_tsc")),
            *(h[k] for k in ("start_unix_ns", "start_tick", "start_process_ns")),
            *(h[k].encode() for k in ("boot_id", "host", "program")),
            h["tick_khz"],
        )
        head += struct.pack("<I", crc32c(head))
        head += struct.pack(
            "<IIQQQ128s",
            h.get("slot_count", len(self.slots)),
            h["state"],
            h["events_lost"],
            h["items_lost"],
            START_UNIX_NS,
            h["off_reason"].encode(),
        )
        return head.ljust(HEADER_SIZE, b"\0") + b"".join(s.bytes() for s in self.slots)

    def packed(self, sizes=0, how=0b101):
        """As fuzz/fuzz_recording.c takes it: no zeros at the ends, checksums left out."""

        def part(flags, data):
            return struct.pack("<BH", flags, len(data)) + data

        data = self.bytes()
        out = bytes([sizes]) + part(1, data[:HEADER_SIZE].rstrip(b"\0"))
        for i, slot in enumerate(self.slots):
            begin = HEADER_SIZE + i * SLOT_SIZE
            used = data[begin : begin + SLOT_HEADER_SIZE + len(slot.payload)]
            out += part(how if slot.is_sealed else 0b110, used)
        return out

    def write(self, path):
        pathlib.Path(path).write_bytes(self.bytes())
