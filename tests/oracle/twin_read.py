"""Reads undamaged trace files for the twin: json from the standard library, decimals kept as text.

Knows nothing of the engine. An `Event` is a slice, GPU row or allocator event with exact integer
nanoseconds on the file's own clock; `Source.base_ns` is what to add to compare files.
"""

import gzip
import io
import json
import lzma
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

CATEGORIES = {
    "cpu_op": "op",
    "operator": "op",
    "user_annotation": "annotation",
    "cuda_runtime": "runtime",
    "runtime": "runtime",
    "cuda_driver": "driver",
    "python_function": "python",
    "overhead": "overhead",
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "gpu_user_annotation": "gpu_annotation",
    "cuda_sync": "gpu_sync",
    "trace": "trace",
}
WORK = ("kernel", "memcpy", "memset")


@dataclass
class Event:
    """One row. `order` is its place in the file, `end` equals `start` for instants."""

    kind: str
    name: str
    pid: object
    tid: object
    start: int
    end: int
    args: dict
    order: int

    @property
    def dur(self):
        return self.end - self.start


@dataclass
class Source:
    """One file: its rows, and what stands around traceEvents."""

    path: str
    top: dict
    base_ns: int = 0
    rank: int | None = None
    events: int = 0
    rows: list = field(default_factory=list)

    def of(self, *kinds):
        return [e for e in self.rows if e.kind in kinds]


def nanoseconds(value):
    """Microseconds as int or Decimal -> ns, rounded half away from zero."""
    ns = Fraction(value) * 1000
    whole = int(abs(ns) + Fraction(1, 2))
    return whole if ns >= 0 else -whole


def read_bytes(path):
    with open(path, "rb") as f:
        data = f.read()
    if data[:2] == b"\x1f\x8b":
        return gzip.GzipFile(fileobj=io.BytesIO(data)).read()
    if data[:6] == b"\xfd7zXZ\x00":
        return lzma.decompress(data)
    return data


def as_number(value):
    """Ids may be text: "12345", "stream 7"."""
    if isinstance(value, str):
        word = value.rsplit(" ", 1)[-1]
        if word.lstrip("-").isdigit():
            return int(word)
    return value


def kind_of(raw):
    kind = CATEGORIES.get(str(raw.get("cat", "")).lower(), "other")
    if raw["ph"] in "iI":
        return "memory" if raw.get("name") == "[memory]" else "instant"
    return kind


def make_event(raw, start, end, order):
    return Event(
        kind_of(raw),
        raw.get("name", ""),
        as_number(raw.get("pid")),
        as_number(raw.get("tid")),
        start,
        end,
        raw.get("args") or {},
        order,
    )


class _Slices:
    """Pairs B with E by thread: an E that names a deeper frame closes the inner ones with it."""

    def __init__(self):
        self.open = {}

    def begin(self, raw, start, order):
        self.open.setdefault((raw.get("pid"), raw.get("tid")), []).append((raw, start, order))

    def end(self, raw, end):
        stack = self.open.get((raw.get("pid"), raw.get("tid")), [])
        name = raw.get("name")
        wanted = [i for i, (b, _, _) in enumerate(stack) if name in (None, b.get("name"))]
        if not wanted:
            return []
        closed = stack[wanted[-1] :]
        del stack[wanted[-1] :]
        return [make_event(b, start, end, order) for b, start, order in closed]


def parse(data, path="trace"):
    """Source of a JSON text."""
    doc = json.loads(data, parse_float=Decimal)
    top = doc if isinstance(doc, dict) else {"traceEvents": doc}
    source = Source(path, {k: v for k, v in top.items() if k != "traceEvents"})
    source.base_ns = int(source.top.get("baseTimeNanoseconds", 0))
    source.rank = (source.top.get("distributedInfo") or {}).get("rank")
    slices = _Slices()
    for order, raw in enumerate(top["traceEvents"]):
        ph = raw["ph"]
        if ph in ("M", "s", "t", "f"):
            continue
        start = nanoseconds(raw["ts"])
        if ph == "X":
            end = start + nanoseconds(raw["dur"])
            source.rows.append(make_event(raw, start, end, order))
        elif ph in "iI":
            source.rows.append(make_event(raw, start, start, order))
        elif ph == "B":
            slices.begin(raw, start, order)
        elif ph == "E":
            ended = slices.end(raw, start)
            source.rows.extend(ended)
            source.events += len(ended)
        source.events += ph in "XiIC"
    source.rows.sort(key=lambda e: e.order)
    return source


def read(path):
    return parse(read_bytes(path), str(path))
