"""Changes of the input whose effect on the report is known beforehand.

No test here knows a right number: each compares two reports. Inputs: small real traces, and drawn
ones.
"""

import copy
import ctypes
import ctypes.util
import gzip
import json
import os
import random

import agreement
import pytest
import trace_random
import trace_text
from kscope_program import DATA, report, report_bytes, run

SMALL = ("A.recompiles.good", "A.churn.bad")
SEEDS = range(100 if os.environ.get("KSCOPE_TEST_SLOW") else 12)
# What names the file or counts its bytes, and what depends on them.
OF_THE_FILE = ("inputs", "verdict", "environment", "reasons")
CLOCK_KEYS = ("start_ns", "host_start_ns")


def text_of(name):
    return gzip.decompress((DATA / f"{name}.pt.trace.json.gz").read_bytes())


def real(name):
    return trace_text.from_json(text_of(name))


def single(seed):
    """A drawn trace of one file."""
    return trace_random.draw_trace(random.Random(seed), None)


def is_whole_us(trace):
    return "plan" in trace and trace["plan"].unit_ns == 1000


def write(folder, name, trace, layout="two-line"):
    path = folder / name
    path.write_bytes(trace_text.render(trace, layout, is_whole_us(trace)))
    return path


def absolute(node, origin):
    """The document with each moment on the clock that the file counts from."""
    if isinstance(node, list):
        return [absolute(n, origin) for n in node]
    if isinstance(node, dict):
        return {
            k: v + origin if k in CLOCK_KEYS and v is not None else absolute(v, origin)
            for k, v in node.items()
        }
    return node


def figures(doc):
    """Everything in a report that comes from the events."""
    origin = int(doc["origin_ns"] or 0)
    rest = {k: v for k, v in doc.items() if k not in (*OF_THE_FILE, "origin_ns")}
    events = [(i["events"], i["status"], i["rank"]) for i in doc["inputs"]]
    return absolute(rest, origin) | {"events": events}


def assert_same(got, want):
    for key in want:
        assert got.get(key) == want[key], key
    assert got.keys() == want.keys()


@pytest.fixture(params=[*SMALL, *SEEDS], ids=str)
def trace(request):
    return real(request.param) if isinstance(request.param, str) else single(request.param)


# ------------------------------------------------------------------ order and clock


def shuffled(events, seed):
    """Any order, but rows of one thread with equal start and end keep theirs: it says who is
    inside whom."""
    rng = random.Random(seed)
    places = list(range(len(events)))
    rng.shuffle(places)
    groups = {}
    for place in places:
        e = events[place]
        groups.setdefault((e.get("pid"), e.get("tid"), e.get("ts"), e.get("dur")), []).append(place)
    order = {}
    for members in groups.values():
        order |= dict(zip(members, sorted(members), strict=True))
    return [events[order[place]] for place in places]


def test_order_of_events_does_not_matter(trace, tmp_path):
    want = figures(report(write(tmp_path, "a.json", trace)))
    for seed in (1, 2):
        moved = trace | {"events": shuffled(trace["events"], seed)}
        assert_same(figures(report(write(tmp_path, "b.json", moved))), want)


@pytest.mark.parametrize("shift_us", (1, 86_400_000_000))
def test_shifted_clock_moves_only_the_origin(trace, shift_us, tmp_path):
    want = figures(report(write(tmp_path, "a.json", trace)))
    shift = shift_us * 1000
    later = copy.deepcopy(trace)
    for event in later["events"]:
        if "ts" in event:
            event["ts"] += shift
    doc = report(write(tmp_path, "b.json", later))
    got = absolute(figures(doc), -shift)
    assert_same(got, want)


def test_shifted_base_moves_only_the_origin(tmp_path):
    trace = real(SMALL[0])
    want = report(write(tmp_path, "a.json", trace))
    trace["top"]["baseTimeNanoseconds"] += 7_889_238_000_000_000
    got = report(write(tmp_path, "b.json", trace))
    assert int(got["origin_ns"]) - int(want["origin_ns"]) == 7_889_238_000_000_000
    assert got["steps"] == want["steps"]


# ------------------------------------------------------------------ layout and compression


def test_layout_does_not_matter(trace, tmp_path):
    want = figures(report(write(tmp_path, "a.json", trace)))
    for layout in ("one-key", "compact", "re-ordered"):
        assert_same(figures(report(write(tmp_path, "b.json", trace, layout))), want)


def test_array_form_loses_only_what_stands_around_the_events(tmp_path):
    trace = single(4) | {"top": {}}
    want = figures(report(write(tmp_path, "a.json", trace, "compact")))
    assert_same(figures(report(write(tmp_path, "b.json", trace, "array"))), want)


def test_keys_before_or_after_the_events(tmp_path):
    trace = real(SMALL[1])
    events = ",".join(trace_text.compact_event(e, trace_text.padded) for e in trace["events"])
    around = ",".join(trace_text.top_pairs(trace["top"], trace["top"]))
    reports = []
    for text in (
        f'{{{around},"traceEvents":[{events}]}}',
        f'{{"traceEvents":[{events}],{around}}}',
    ):
        (tmp_path / "a.json").write_text(text)
        reports.append(report_bytes(tmp_path / "a.json"))
    first, second = (figures(json.loads(r)) for r in reports)
    assert_same(second, first)


def end_of(event):
    return {k: event[k] for k in ("name", "pid", "tid")} | {
        "ph": "E",
        "ts": event["ts"] + event["dur"],
    }


def as_begin_end(events):
    """Host slices of one thread as B and E in order of time; those that overlap in part stay."""
    out, stack = [], []

    def close_until(moment):
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= moment:
            out.append(end_of(stack.pop()))

    for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        close_until(event["ts"])
        if stack and event["ts"] + event["dur"] > stack[-1]["ts"] + stack[-1]["dur"]:
            out.append(event)
            continue
        out.append({k: v for k, v in event.items() if k != "dur"} | {"ph": "B"})
        stack.append(event)
    close_until(float("inf"))
    return out


def without_equal_spans(events):
    """Rows of one thread with equal start and end: only the first, as order tells them apart."""
    seen, out = set(), []
    for event in events:
        key = (event.get("pid"), event.get("tid"), event.get("ts"), event.get("dur"))
        if "dur" not in event or key not in seen:
            out.append(event)
        seen.add(key)
    return out


def test_begin_and_end_events_equal_complete_ones(trace, tmp_path):
    trace = trace | {"events": without_equal_spans(trace["events"])}
    want = figures(report(write(tmp_path, "a.json", trace)))
    threads, rest = {}, []
    for event in trace["events"]:
        is_host = event.get("cat") in ("cpu_op", "user_annotation")
        place = threads.setdefault(event["tid"], []) if is_host else rest
        place.append(event)
    paired = rest + [e for events in threads.values() for e in as_begin_end(events)]
    got = figures(report(write(tmp_path, "b.json", trace | {"events": paired}, "compact")))
    assert_same(got, want)


def test_outer_of_two_equal_spans_is_the_one_that_began_first(tmp_path):
    common = {"pid": 1, "tid": 1}
    events = [common | {"ph": "B", "cat": "cpu_op", "name": n, "ts": 0} for n in ("outer", "inner")]
    events += [common | {"ph": "E", "name": n, "ts": 9000} for n in ("inner", "outer")]
    doc = report(write(tmp_path, "a.json", {"top": {}, "events": events}, "compact"))
    own = {row["name"]: row["self_exclusive_ns"] for row in doc["operators"]}
    assert own == {"outer": 0, "inner": 9000}


def members(data, count):
    """Several gzip members behind each other, as appending tools and bgzip write."""
    size = -(-len(data) // count)
    return b"".join(gzip.compress(data[i : i + size]) for i in range(0, len(data), size))


def zstd(data):
    library = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
    library.ZSTD_compressBound.restype = library.ZSTD_compress.restype = ctypes.c_size_t
    room = library.ZSTD_compressBound(ctypes.c_size_t(len(data)))
    out = ctypes.create_string_buffer(room)
    args = (out, ctypes.c_size_t(room), data, ctypes.c_size_t(len(data)), 3)
    size = library.ZSTD_compress(*args)
    return out.raw[:size]


@pytest.mark.parametrize("name", SMALL)
def test_compression_does_not_matter(name, tmp_path):
    data = text_of(name)
    plain = tmp_path / "plain.json"
    plain.write_bytes(data)
    want = figures(report(plain))
    packed = {
        "one.gz": gzip.compress(data),
        "many.gz": members(data, 7),
        "no_suffix": members(data, 2),
        "some.zst": zstd(data),
        "two.zst": zstd(data[:1000]) + zstd(data[1000:]),
    }
    for file, content in packed.items():
        (tmp_path / file).write_bytes(content)
        assert_same(figures(report(tmp_path / file)), want)


def test_two_runs_give_the_same_bytes(trace, tmp_path):
    path = write(tmp_path, "a.json", trace)
    assert report_bytes(path) == report_bytes(path)


# ------------------------------------------------------------------ more and less input


def test_annotations_on_the_device_change_no_device(trace, tmp_path):
    before = report(write(tmp_path, "a.json", trace))
    more = copy.deepcopy(trace)
    for event in trace["events"]:
        if event.get("cat") in ("kernel", "gpu_memcpy"):
            note = {k: event[k] for k in ("ph", "pid", "tid", "ts", "dur")}
            note |= {"cat": "gpu_user_annotation", "name": "ProfilerStep#2"}
            note["ts"] -= 1000
            note["dur"] += 5000
            more["events"].append(note)
    after = report(write(tmp_path, "b.json", more))
    for key in ("devices", "streams", "kernels", "copies", "links", "operators", "steps"):
        assert absolute(after[key], int(after["origin_ns"])) == absolute(
            before[key], int(before["origin_ns"])
        ), key


def moved_to(trace, pid, device, number):
    """The same trace in another process, on other devices, with other ids."""
    out = copy.deepcopy(trace)
    for event in out["events"]:
        args = event.get("args", {})
        is_gpu = "stream" in args or event.get("cat") == "gpu_user_annotation"
        event["pid"] = event["pid"] + device if is_gpu else pid
        if "device" in args:
            args["device"] += device
        for key in ("correlation", "External id"):
            if key in args:
                args[key] += number
    return out


def sums(rows, key, columns):
    out = {}
    for row in rows:
        mine = out.setdefault(tuple(row[k] for k in key), dict.fromkeys(columns, 0))
        for column in columns:
            mine[column] += row[column] or 0
    return out


@pytest.mark.parametrize("seed", SEEDS)
def test_one_file_of_two_processes_equals_two_ranks(seed, tmp_path):
    rng = random.Random(seed)
    first, second = (trace_random.draw_trace(rng, rank) for rank in (0, 1))
    for t in (first, second):
        t["top"] = first["top"] | {"distributedInfo": t["top"]["distributedInfo"]}
    second = moved_to(second, 200, 4, 1_000_000)
    paths = [write(tmp_path, f"rank{i}.json", t, "compact") for i, t in enumerate((first, second))]
    apart = report(*paths)
    both = {"top": {k: v for k, v in first["top"].items() if k != "distributedInfo"}}
    both["events"] = first["events"] + second["events"]
    together = report(write(tmp_path, "both.json", both, "compact"))
    columns = ("calls", "cpu_ns", "self_cpu_ns", "self_exclusive_ns", "device_ns", "self_device_ns")
    for key, names, what in (
        ("operators", ("kind", "name"), columns),
        ("kernels", ("kind", "name", "device"), ("calls", "total_ns")),
        ("copies", ("kind",), ("calls", "bytes", "total_ns")),
        ("devices", ("device",), ("span_ns", "busy_ns", "comm_ns", "exposed_comm_ns")),
        ("streams", ("device", "stream"), ("busy_ns", "gap_ns")),
    ):
        assert sums(apart[key], names, what) == sums(together[key], names, what), key
    assert apart["links"] == together["links"]


def test_two_ranks_together_are_each_alone_side_by_side():
    paths = [DATA / f"D.straggler.bad.rank{rank}.pt.trace.json.gz" for rank in (0, 1)]
    both, alone = report(*paths), [report(p) for p in paths]
    for key in ("devices", "streams", "steps"):
        apart = [row for d in alone for row in absolute(d[key], int(d["origin_ns"]))]
        assert absolute(both[key], int(both["origin_ns"])) == apart, key
    for column in ("launches", "linked", "orphan_gpu_events", "launches_without_work"):
        assert both["links"][column] == sum(d["links"][column] for d in alone)


# ------------------------------------------------------------------ files that end early


def cuts(data, count, seed):
    begin = data.index(b'"traceEvents"') + len(b'"traceEvents": [')
    rng = random.Random(seed)
    return sorted(rng.randrange(begin, len(data) - 30) for _ in range(count))


@pytest.mark.parametrize("layout", trace_text.LAYOUTS[:4])
def test_cut_file_gives_what_came_before_the_cut(layout, tmp_path):
    data = trace_text.render(real(SMALL[0]), layout)
    if layout == "re-ordered":
        data = data[: data.index(b'"schemaVersion"')]
    path = tmp_path / "cut.json"
    events = 0
    for cut in cuts(data, 25, layout):
        path.write_bytes(data[:cut])
        doc = report(path)
        assert doc["inputs"][0]["status"] == "truncated", cut
        assert doc["inputs"][0]["events"] >= events, cut
        assert not agreement.holds_together(doc), cut
        events = doc["inputs"][0]["events"]
        assert run("report", "--json", "--strict", path).returncode == 3, cut
    assert events > 0


def test_cut_compressed_file(tmp_path):
    packed = members(text_of(SMALL[0]), 3)
    path = tmp_path / "cut.gz"
    rng, events = random.Random(1), 0
    for cut in sorted(rng.randrange(4000, len(packed) - 9) for _ in range(25)):
        path.write_bytes(packed[:cut])
        doc = report(path)
        assert doc["inputs"][0]["status"] == "truncated", cut
        assert doc["inputs"][0]["events"] >= events, cut
        events = doc["inputs"][0]["events"]
    assert events > 0


# ------------------------------------------------------------------ undamaged input


def test_strict_gives_the_same_bytes_for_undamaged_input(trace, tmp_path):
    path = write(tmp_path, "a.json", trace)
    assert report(path)["inputs"][0]["status"] == "ok"
    assert report_bytes("--strict", path) == report_bytes(path)


@pytest.mark.parametrize("damage", (b'"name": "a\x01b"', b'"name": nan', b'"name": "a\\qb"'))
def test_strict_refuses_what_is_repaired(damage, tmp_path):
    event = b'{"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1, "dur": 2, '
    path = tmp_path / "a.json"
    path.write_bytes(b'{"traceEvents": [' + event + damage + b"}]}")
    assert report(path)["inputs"][0]["status"] == "repaired"
    assert run("report", "--json", "--strict", path).returncode == 3


def test_every_report_holds_together(trace, tmp_path):
    assert not agreement.holds_together(report(write(tmp_path, "a.json", trace)))
