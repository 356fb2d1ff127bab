"""Reads a report page as a browser does, without one: its policy, its elements, its data blocks."""

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser


class _Elements(HTMLParser):
    """All elements in order, with their attributes and the text of scripts and styles."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.elements = []
        self.is_open = False

    def handle_starttag(self, tag, attrs):
        self.elements.append([tag, dict(attrs), ""])
        self.is_open = True

    def handle_endtag(self, tag):
        self.is_open = False

    def handle_data(self, data):
        if self.is_open:
            self.elements[-1][2] += data


class Page:
    """A page: `blocks` by id, `elements` as (tag, attributes, text), `size` in bytes."""

    def __init__(self, path):
        data = path.read_bytes()
        self.size = len(data)
        self.text = data.decode("utf-8")
        parser = _Elements()
        parser.feed(self.text)
        parser.close()
        self.elements = [tuple(element) for element in parser.elements]
        self.blocks = {
            attrs["id"]: _decode(attrs, text)
            for tag, attrs, text in self.elements
            if tag == "script" and attrs.get("type") == "application/json"
        }

    def tags(self):
        """Names of elements, in order."""
        return [tag for tag, _, _ in self.elements]

    def policy(self):
        """The content security policy, by directive."""
        content = next(
            attrs["content"]
            for tag, attrs, _ in self.elements
            if tag == "meta" and attrs.get("http-equiv") == "Content-Security-Policy"
        )
        return {words[0]: words[1:] for words in (part.split() for part in content.split(";"))}

    def hash_of(self, tag):
        """What the policy must name for the only script (or style) that runs."""
        (text,) = [
            text
            for name, attrs, text in self.elements
            if name == tag and attrs.get("type") != "application/json"
        ]
        digest = hashlib.sha256(text.encode()).digest()
        return f"'sha256-{base64.b64encode(digest).decode()}'"


def _decode(attrs, text):
    if attrs.get("data-encoding") == "gzip":
        text = gzip.decompress(base64.b64decode(text)).decode("utf-8")
    else:
        # Nothing that a parser of HTML or an old one of scripts could stumble over.
        assert not re.search("[<>&\u2028\u2029]", text), attrs
    return json.loads(text)


def undelta(column):
    """Absolute values of a column of differences."""
    total, out = 0, []
    for value in column:
        total += value
        out.append(total)
    return out


def rows(level):
    """The rows of a level as (start, end, depth, name, count)."""
    starts = undelta(level["ts"])
    columns = [level[key] for key in ("dur", "depth", "name", "count")]
    assert all(len(column) == len(starts) for column in columns)
    return [
        (start, start + dur, depth, name, count)
        for start, dur, depth, name, count in zip(starts, *columns, strict=True)
    ]


def check_timeline(timeline):
    """What holds for every timeline, whatever the trace."""
    names = len(timeline["strings"])
    ids = {track["id"] for track in timeline["tracks"]}
    assert len(ids) == len(timeline["tracks"])
    ranges = [(part["start_ns"], part["end_ns"]) for part in timeline["ranges"]]
    assert ranges == sorted(ranges)
    assert all(end <= start for (_, end), (start, _) in zip(ranges, ranges[1:], strict=False))
    for track in timeline["tracks"]:
        _check_track(track, names, timeline, ranges)
    flows = timeline["flows"]
    assert set(flows["from_track"]) | set(flows["to_track"]) <= ids
    assert len({len(column) for column in flows.values()}) == 1
    for counter in timeline["counters"]:
        assert len(counter["ts"]) == len(counter["min"]) == len(counter["max"])
        assert all(low <= high for low, high in zip(counter["min"], counter["max"], strict=True))


def _check_track(track, names, timeline, ranges):
    whole, *exact = track["levels"]
    assert not whole["is_exact"] and whole["resolution_ns"] > 0
    assert (whole["start_ns"], whole["end_ns"]) == (timeline["start_ns"], timeline["end_ns"])
    assert sum(whole["count"]) == track["events"], track["name"]
    for level in track["levels"]:
        spans = rows(level)
        assert spans == sorted(spans, key=lambda span: span[0])
        assert all(end >= start for start, end, *_ in spans)
        assert all(0 <= name < names and count > 0 for *_, name, count in spans)
        assert all(0 <= depth < track["depth_max"] for _, _, depth, _, _ in spans)
    for level in exact:
        assert level["is_exact"] and level["resolution_ns"] == 0
        assert (level["start_ns"], level["end_ns"]) in ranges
        assert set(level["count"]) == {1}
        for start, end, *_ in rows(level):
            assert start < level["end_ns"] and end >= level["start_ns"]


def check_flame(flame):
    """What holds for every flame graph."""
    for kind in flame["kinds"]:
        nodes = kind["nodes"]
        inside = [0] * len(nodes["parent"])
        for place, (parent, name) in enumerate(zip(nodes["parent"], nodes["name"], strict=True)):
            assert -1 <= parent < place and 0 <= name < len(kind["strings"])
            if parent >= 0:
                inside[parent] += nodes["total"][place]
        for place, total in enumerate(nodes["total"]):
            assert total == inside[place] + nodes["self"][place], kind["name"]


def check_memory(memory):
    """What holds for every curve of memory."""
    for device in memory["devices"]:
        low, high = device["allocated_min"], device["allocated_max"]
        assert len(device["ts"]) == len(low) == len(high) == len(device["reserved"])
        assert all(0 <= a <= b for a, b in zip(low, high, strict=True))
        assert len(low) <= 4000
