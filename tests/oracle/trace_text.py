"""Writes a trace in each layout that is found in the wild.

A trace is {"top": {...}, "events": [...]}: events are those of the JSON format, but "ts" and "dur"
are integer nanoseconds. `render` gives the bytes of a file.
"""

import json
import random

LAYOUTS = ("two-line", "one-key", "compact", "re-ordered", "array")
TIMES = ("ts", "dur")


def padded(ns):
    """Three decimals, as the C++ writer prints them."""
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03d}"


def trimmed(ns):
    """As Python prints what it read: 1.500 -> 1.5, 2.000 -> 2.0."""
    text = padded(ns).rstrip("0")
    return text + "0" if text.endswith(".") else text


def integer(ns):
    """Whole microseconds, as PyTorch wrote them until 2.2."""
    assert ns % 1000 == 0
    return str(ns // 1000)


def pairs_of(event, clock, separators=(", ", ": ")):
    """[(key, text)] of an event."""
    out = []
    for key, value in event.items():
        is_time = key in TIMES
        text = clock(value) if is_time else json.dumps(value, separators=separators)
        out.append((key, text))
    return out


def two_line_event(event, clock):
    pairs = [f'"{k}": {v}' for k, v in pairs_of(event, clock) if k != "args"]
    lines = [", ".join(pairs[:5]), ", ".join(pairs[5:])]
    text = "  {\n    " + ",\n    ".join(line for line in lines if line)
    if event.get("args"):
        args = ", ".join(f'"{k}": {json.dumps(v)}' for k, v in event["args"].items())
        text += ',\n    "args": {\n      ' + args + "\n    }"
    return text + "\n  }"


def one_key_event(event, clock):
    pairs = [f'"{k}": {v}' for k, v in pairs_of(event, clock)]
    return "  {\n    " + ",\n    ".join(pairs) + "\n  }"


def compact_event(event, clock):
    return "{" + ",".join(f'"{k}":{v}' for k, v in pairs_of(event, clock, (",", ":"))) + "}"


def mixed_event(event, clock, rng):
    pairs = pairs_of(event, clock)
    rng.shuffle(pairs)
    return "{" + ", ".join(f'"{k}": {v}' for k, v in pairs) + "}"


def top_pairs(top, names):
    return [f'"{key}": {json.dumps(top[key])}' for key in names if key in top]


def render_pretty(trace, clock, write_event):
    """Most keys before the events, the name and the clock after them."""
    last = ("traceName", "displayTimeUnit", "baseTimeNanoseconds")
    head = top_pairs(trace["top"], [k for k in trace["top"] if k not in last])
    tail = top_pairs(trace["top"], last)
    events = ",\n".join(write_event(e, clock) for e in trace["events"])
    parts = [*head, '"traceEvents": [\n' + events + "\n  ]", *tail]
    return "\n{\n  " + ",\n  ".join(parts) + "\n}\n"


def render_compact(trace, clock):
    """Metadata events first, one event a line, no blanks."""
    events = sorted(trace["events"], key=lambda e: e["ph"] != "M")
    head = "".join(p + "," for p in top_pairs(trace["top"], trace["top"]))
    lines = ",\n".join(compact_event(e, clock) for e in events)
    return "{" + head + '"traceEvents":[\n' + lines + "\n]}"


def render_reordered(trace, clock):
    """traceEvents first and everything else behind it, as json.dump of a filtered dict gives."""
    rng = random.Random(5)
    events = ", ".join(mixed_event(e, clock, rng) for e in trace["events"])
    return (
        "{"
        + ", ".join(['"traceEvents": [' + events + "]", *top_pairs(trace["top"], trace["top"])])
        + "}"
    )


def render(trace, layout, whole_us=False):
    """Bytes of the trace in this layout; `whole_us` writes times as integers."""
    clock = integer if whole_us else trimmed if layout == "re-ordered" else padded
    if layout == "two-line":
        text = render_pretty(trace, clock, two_line_event)
    elif layout == "one-key":
        text = render_pretty(trace, clock, one_key_event)
    elif layout == "compact":
        text = render_compact(trace, clock)
    elif layout == "re-ordered":
        text = render_reordered(trace, clock)
    else:
        text = "[" + ",\n".join(compact_event(e, clock) for e in trace["events"]) + "]\n"
    return text.encode()


def from_json(data):
    """The trace of a file's text, with exact times."""
    from twin_read import nanoseconds

    doc = json.loads(data, parse_float=_Text)
    events = doc["traceEvents"] if isinstance(doc, dict) else doc
    for event in events:
        for key in TIMES:
            if key in event:
                event[key] = nanoseconds(str(event[key]))
    top = {k: v for k, v in doc.items() if k != "traceEvents"} if isinstance(doc, dict) else {}
    return {"top": top, "events": events}


class _Text(float):
    """A float that remembers its text: times must not lose digits, other numbers stay numbers."""

    def __new__(cls, text):
        self = super().__new__(cls, text)
        self.text = text
        return self

    def __str__(self):
        return self.text
