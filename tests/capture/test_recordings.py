"""Goal: recordings come out of the program as they were written, alone and beside traces of torch.

Method: recordings written byte by byte (write_recording.py) with random regions, read by `kscope
query` and compared with a twin that keeps the same regions in Python; damaged ones, whose counters
and first bad byte are known; one beside traces, which must change nothing but the clock's origin.
"""

import json
import os
import random
import struct
import subprocess
import time
from pathlib import Path

import pytest
import write_recording
from sample_recordings import GOLDEN, SAMPLES
from write_recording import (
    HEADER_SIZE,
    OF_MARK,
    RUNNING,
    SLOT_SIZE,
    START_UNIX_NS,
    UNIT,
    VALUE_INT,
    VALUE_TEXT,
    Recording,
)

ROOT = Path(__file__).resolve().parents[2]
KSCOPE = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))


def kscope(*words, ok=0):
    run = subprocess.run(
        [KSCOPE, *map(str, words)],
        capture_output=True,
        timeout=120,
        env={**os.environ, "XDG_CACHE_HOME": os.devnull},
    )
    assert run.returncode == ok, run.stderr.decode()
    return run.stdout.decode()


def query(path, statement):
    document = json.loads(kscope("query", "--json", path, statement))
    return [tuple(row) for row in document["rows"]]


def report(*words):
    return json.loads(kscope("report", "--json", *words))


def test_functions_and_samples_are_shown_everywhere():
    """Two functions and two threads of known times: sample_recordings.sampled()."""
    path = ROOT / "tests" / "golden" / "capture" / "recording_functions" / "input.ksrec.gz"
    document = report(path)
    assert [(f["name"], f["self_ns"], f["total_ns"]) for f in document["functions"]] == [
        ("forward", 600, 600),
        ("main", 300, 900),
    ]
    main = {"name": "main", "file": "train.py", "line": 1, "calls": 4, "primitive_calls": 4,
            "self_ns": 600, "total_ns": 600}  # fmt: skip
    assert document["functions"][0]["callers"] == [main]
    looks = [(s["tid"], s["name"], s["self_samples"]) for s in document["samples"]]
    assert looks == [(42, "forward", 8), (42, "main", 4), (41, "forward", 8), (41, "main", 1)]
    sentence = "Of the time in functions, forward (model.py:20) takes most by itself: 600 ns"
    screen = " ".join(kscope("report", path).split())
    assert document["verdict"]["text"] == sentence + " (67 %)." and screen.startswith(sentence)
    assert "calls forward (model.py:20) 600 ns in 4 calls; main (train.py:1) 300 ns" in screen
    assert "samples a thread: forward (model.py:20) 67 %; main (train.py:1) 33 %" in screen
    page = kscope("report", "--markdown", path)
    assert "| forward | model.py:20 | 4 | 600 ns | 600 ns |" in page
    assert "| main | train.py:1 | 41 | 11 % | 100 % |" in page


# ---------------------------------------------------------------- the twin


class Twin:
    """Regions by the definition: an end ends what is open inside of its region."""

    def __init__(self):
        self.rows = []
        self.open = {}
        self.last = 0

    def begin(self, tick, track, name, category):
        self.last = max(self.last, tick)
        self.open.setdefault(track, []).append((tick, name, category, {}))

    def value(self, track, key, value):
        self.open[track][-1][3][key] = value

    def end(self, tick, track, name, category):
        self.last = max(self.last, tick)
        stack = self.open.get(track, [])
        if not any(frame[1:3] == (name, category) for frame in stack):
            return
        while True:
            frame = stack.pop()
            self.rows.append((*frame[:1], tick - frame[0], track, *frame[1:]))
            if frame[1:3] == (name, category):
                return

    def finish(self):
        for track, stack in self.open.items():
            for tick, *rest in stack:
                self.rows.append((tick, self.last - tick, track, *rest))
        return [(*row[:4], row[4] or None, row[5]) for row in self.rows]


def random_lane(rng, recording, tid, events):
    """Writes a lane and gives its rows by the twin; tracks are thread or task names."""
    lane, twin = recording.thread(tid, f"t{tid}"), Twin()
    track, tick, nameless = f"t{tid}", 0, 0
    for _ in range(events):
        tick += rng.randrange(0, 50)
        name, category = rng.choice("abc"), rng.choice(["", "x", "y"])
        match rng.randrange(6):
            case 0 | 1:
                lane.begin(tick, name, category)
                twin.begin(tick, track, name, category)
            case 2 | 3:
                stack = twin.open.get(track)
                if stack and rng.random() < 0.8:
                    name, category = stack[-1][1:3]
                lane.end(tick, name, category)
                twin.end(tick, track, name, category)
            case 4:
                task = rng.randrange(3)
                lane.task(task)
                track = f"task {task}" if task else f"t{tid}"
            case 5:
                value = rng.choice([nameless, nameless / 7, f"text {nameless}"])
                nameless += 1
                lane.value(f"k{nameless}", value)
                if twin.open.get(track):
                    twin.value(track, f"k{nameless}", value)
    return twin.finish()


@pytest.mark.parametrize("seed", range(6))
def test_random_regions(tmp_path, seed):
    rng = random.Random(seed)
    recording = Recording(pid=5, state=RUNNING)
    want = {tid: random_lane(rng, recording, tid, 3000) for tid in (5, 6)}
    path = tmp_path / "a.ksrec"
    recording.write(path)
    first = min(row[0] for rows in want.values() for row in rows)
    for tid, rows in want.items():
        got = query(
            path,
            "select ts_ns, dur_ns, t.name, s.name, region_category, region_values from slice s "
            "join track t on t.id = s.track_id "
            f"where t.number = {tid} or t.text like '{tid} task %'",
        )
        shown = [(row[0] + first, *row[1:5], json.loads(row[5] or "{}")) for row in got]
        assert sorted(shown, key=repr) == sorted(rows, key=repr)


# ---------------------------------------------------------------- whole files


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_golden_inputs_are_as_written(name):
    import gzip

    data = (ROOT / "tests/golden/capture" / name / "input.ksrec.gz").read_bytes()
    assert gzip.decompress(data) == GOLDEN[name]().bytes()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.__name__)
def test_seeds_of_the_fuzzer_are_as_written(sample):
    recording = sample()
    seed = (ROOT / "fuzz/corpus/recording" / sample.__name__).read_bytes()
    assert seed == recording.packed(sizes=len(recording.slots) * 4)


def test_kst_holds_the_same(tmp_path):
    path = tmp_path / "a.ksrec"
    GOLDEN["recording"]().write(path)
    os.utime(path, (1, 1))
    time.sleep(0.05)  # a file that was written just now is not believed to stay as it is
    cache = tmp_path / "cache"
    statement = "select ts_ns, name, category, region_category, region_values from slice"
    first = kscope("query", "--cache", cache, path, statement)
    sealed = list(cache.rglob("*.kst"))
    assert len(sealed) == 1
    assert kscope("query", sealed[0], statement) == first


def test_samples_and_call_paths(tmp_path):
    path = tmp_path / "a.ksrec"
    next(s for s in SAMPLES if s.__name__ == "sampled")().write(path)
    frames = query(
        path,
        "with recursive frame(sample, stack, depth) as (select id, stack_id, 0 from sample "
        "union all select sample, caller_id, depth + 1 from frame join stack s on s.id = stack "
        "where caller_id is not null) select sample, group_concat(place, ' < ') from (select "
        "sample, function || ':' || line as place from frame join stack s on s.id = stack "
        "order by sample, depth) group by sample order by sample",
    )
    outer, even, odd = "main:10", "forward:25 < main:10", "forward:26 < main:10"
    assert [text for _, text in frames] == [outer, even, even, odd, outer, odd]
    paths = query(path, "select function, calls, total_ns, self_ns, parent_id from call_path")
    assert paths == [("main", 1, 900, 300, None), ("forward", 4, 600, 600, 1)]


def test_values_of_outer_regions_and_of_instants(tmp_path):
    path = tmp_path / "a.ksrec"
    recording = Recording()
    lane = recording.thread(100, "main")
    step, size = recording.site("step", "c"), recording.site("size", "")
    lane.begin(10, "step", "c").begin(20, "forward", "c")
    lane.event(7, VALUE_INT, size, aux=step)
    lane.event(8, VALUE_INT, size)
    lane.mark(25, "here", "c")
    lane.event(9, VALUE_INT | 1 << 8, size)
    lane.end(30, "forward", "c").end(40, "step", "c")
    recording.write(path)
    rows = query(path, "select name, region_values from slice order by name")
    assert rows == [("forward", '{"size": 8}'), ("step", '{"size": 7}')]
    assert query(path, "select name, mark_values from mark") == [("here", '{"size": 9}')]
    assert report(path)["inputs"][0]["counts"] == {}


def test_values_of_instants(tmp_path):
    """They follow their instant, also where something else was recorded in between; they are many;
    or their instant is not there."""
    path = tmp_path / "a.ksrec"
    recording = Recording()
    lane = recording.thread(100, "main")
    key = recording.site("k", "")
    lane.event(1, VALUE_INT | OF_MARK << 8, key)
    lane.mark(10, "first", "c", loss=0.5, file='a"b', n=-3).mark(20, "none", "c")
    lane.mark(30, "apart", "d").counter(31, "count", 4).begin(32, "region", "c")
    lane.task(7).value("k", 5, OF_MARK).value("text", "\n", OF_MARK).task(0).end(33, "region", "c")
    lane.mark(40, "many", "c", **{f"k{i}": i for i in range(100)})
    lane.event(99, VALUE_TEXT | OF_MARK << 8, key)
    recording.write(path)
    rows = query(path, "select name, series, mark_values from mark where not is_counter")
    found = {name: (series, values and json.loads(values)) for name, series, values in rows}
    assert found == {
        "first": ("c", {"loss": 0.5, "file": 'a"b', "n": -3}),
        "none": ("c", None),
        "apart": ("d", {"k": 5, "text": "\n"}),
        "many": ("c", {f"k{i}": i for i in range(64)}),
    }
    assert query(path, "select name, value, mark_values from mark where is_counter") == [
        ("count", 4.0, None)
    ]
    counts = report(path)["inputs"][0]["counts"]
    assert counts == {"values_without_region": 1, "values_left_out": 100 - 64 + 1}


def test_units_of_counters(tmp_path):
    path = tmp_path / "a.ksrec"
    recording = Recording()
    lane = recording.thread(100, "main")
    lane.counter(1, "tokens", 5, "input").counter(2, "tokens", 6, "output").counter(3, "lr", 0.5)
    recording.unit("tokens", "input", "wrong")
    recording.unit("tokens", "input", "token")  # the last one holds
    recording.metric(1, "memory", "bytes", 2)
    recording.metrics(4, [(1, 64.0)])
    recording.item(UNIT, struct.pack("<II", 999, recording.string("nobody's")))
    recording.write(path)
    rows = query(path, "select name, series, value, unit from mark order by ts_ns")
    assert rows == [
        ("tokens", "input", 5, "token"),
        ("tokens", "output", 6, None),
        ("lr", None, 0.5, None),
        ("memory", "bytes 2", 64, "bytes"),
    ]
    csv = kscope("export", "--to", "csv", "--table", "mark", path).splitlines()
    assert "value,unit,mark_values" in csv[0] and sum(",token," in line for line in csv) == 1


@pytest.mark.parametrize(
    "said, worker",
    [("3", 3), ("0", 0), ("", None), ("-1", None), ("3x", None), ("9" * 12, None)],
)
def test_which_worker_it_is(tmp_path, said, worker):
    path = tmp_path / "a.ksrec"
    recording = Recording()
    recording.note("process", "Process-1")
    recording.note("worker", said)
    recording.thread(100, "main").mark(5, "here", "c")
    recording.write(path)
    (source,) = report(path)["inputs"]
    assert source.get("worker") == worker and source["counts"] == {"records_left_out": 1}
    assert query(path, "select worker from source") == [(worker,)]
    assert (f"worker      {worker} of a DataLoader" in kscope("info", path)) is (worker is not None)


def test_the_header_may_say_the_worker(tmp_path):
    path = tmp_path / "a.ksrec"
    Recording(worker=4).write(path)
    assert report(path)["inputs"][0]["worker"] == 4


def test_why_it_was_turned_off(tmp_path):
    path = tmp_path / "a.ksrec"
    next(s for s in SAMPLES if s.__name__ == "off")().write(path)
    text = kscope("info", path)
    assert "off         the disk is full\n" in text
    assert "loss        12 events could not be written" in text


def test_standard_input_and_a_small_memory(tmp_path):
    """Slots wait for the end of the file in chunks that spill."""
    recording = Recording(pid=5)
    lane = recording.thread(5)
    for i in range(20_000):
        lane.begin(i * 10, "region", "x").end(i * 10 + 5, "region", "x")
    path = tmp_path / "a.ksrec"
    recording.write(path)
    statement = "select count(*), sum(dur_ns) from slice"
    assert query(path, statement) == [(20_000, 100_000)]
    text = kscope("query", "--json", "--memory", "16M", path, statement)
    assert json.loads(text)["rows"] == [[20_000, 100_000]]
    with path.open("rb") as file:
        run = subprocess.run([KSCOPE, "info", "-"], stdin=file, capture_output=True, timeout=60)
    assert b"events      20,000 in" in run.stdout


# ---------------------------------------------------------------- damage


def flip(data, at):
    data[at] ^= 1


DAMAGES = {
    "magic of a slot": (lambda d: flip(d, HEADER_SIZE + SLOT_SIZE), HEADER_SIZE + SLOT_SIZE,
                        {"slots_damaged": 1}),
    "byte of a sealed slot": (lambda d: flip(d, HEADER_SIZE + SLOT_SIZE + 80),
                              HEADER_SIZE + SLOT_SIZE, {"slots_unlike_checksum": 1}),
    "count of slots": (lambda d: d.__setitem__(440, 9), None, {"unterminated": 1}),
    "cut in the last slot": (lambda d: d.__delitem__(slice(len(d) - 5, None)), None,
                             {"unterminated": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_damage(tmp_path, name):
    change, offset, counts = DAMAGES[name]
    recording = Recording(pid=5)
    recording.thread(5).begin(0, "a").end(10, "a")
    recording.thread(6).begin(0, "a").end(10, "a")
    data = bytearray(recording.bytes())
    change(data)
    path = tmp_path / "a.ksrec"
    path.write_bytes(data)
    document = report(path)
    assert document["inputs"][0]["counts"] == counts
    run = subprocess.run([KSCOPE, "report", "--json", "--strict", path], capture_output=True)
    assert run.returncode == 3
    error = json.loads(run.stdout)["error"]
    assert error["offset"] == (len(data) if offset is None else offset)


def test_every_prefix_opens(tmp_path):
    data = GOLDEN["recording"]().bytes()
    path = tmp_path / "a.ksrec"
    for size in range(HEADER_SIZE, len(data), 1777):
        path.write_bytes(data[:size])
        assert report(path)["inputs"][0]["status"] == "truncated"


# ---------------------------------------------------------------- beside traces of torch


def without_clock(value, shift):
    """The document with every moment counted from the same place."""
    if isinstance(value, list):
        return [without_clock(item, shift) for item in value]
    if not isinstance(value, dict):
        return value
    moments = ("start_ns", "host_start_ns", "end_ns")
    return {
        key: item + shift if key in moments and item is not None else without_clock(item, shift)
        for key, item in value.items()
    }


def test_beside_traces(tmp_path, monkeypatch):
    base = 1764000000000000000 - 5_000_000
    case = ROOT / "tests/golden/kineto/two_ranks"
    for rank in range(2):
        (tmp_path / f"rank{rank}.json").write_bytes((case / f"rank{rank}.json").read_bytes())
    alone = report(tmp_path)
    monkeypatch.setattr(write_recording, "START_UNIX_NS", base)
    for rank in range(2):
        recording = Recording(pid=1, rank=rank, world_size=2, start_unix_ns=base)
        lane = recording.thread(1)
        for i in range(30):
            lane.begin(i * 1_000_000, "step", "training_loop")
            lane.end(i * 1_000_000 + 900_000, "step", "training_loop")
        recording.write(tmp_path / f"a.rank{rank}.ksrec")
    both = report(tmp_path)
    assert {source["run"] for source in both["inputs"]} == {1}
    assert int(both["origin_ns"]) == base
    shift = int(alone["origin_ns"]) - base
    assert both["regions"][0]["calls"] == 60
    for key in ("inputs", "origin_ns", "regions", "reasons"):
        alone.pop(key), both.pop(key)
    assert without_clock(both, -shift) == without_clock(alone, 0)


def test_chrome_export_takes_the_trace(tmp_path):
    case = ROOT / "tests/golden/kineto/two_ranks/rank0.json"
    (tmp_path / "rank0.json").write_bytes(case.read_bytes())
    recording = Recording(pid=1, rank=0, world_size=2)
    recording.thread(1).begin(0, "a").end(10, "a")
    recording.write(tmp_path / "a.ksrec")
    out = tmp_path / "out" / "x.json"
    out.parent.mkdir()
    kscope("export", "--to", "chrome", "-o", out, tmp_path)
    assert len(json.loads(out.read_text())["traceEvents"]) > 0
    run = subprocess.run([KSCOPE, "export", "--to", "chrome", "-o", out, tmp_path / "a.ksrec"],
                         capture_output=True)  # fmt: skip
    assert run.returncode == 2
    assert b"--to perfetto" in run.stderr


def test_clocks_meet(tmp_path):
    """A tick of 2.5 GHz, between two looks at the clock, is where Unix time was."""
    recording = Recording(pid=5, khz=2_500_000)
    lane = recording.thread(5)
    recording.clock(1_000, 10, START_UNIX_NS)
    recording.clock(2_500_001_000, 1_000_000_010, START_UNIX_NS + 1_000_000_000)
    lane.begin(1_250_001_000, "half", "").end(1_250_001_025, "half", "")
    path = tmp_path / "a.ksrec"
    recording.write(path)
    ((start, dur),) = query(path, "select ts_ns, dur_ns from slice")
    origin = int(report(path)["origin_ns"])
    assert (origin + start, dur) == (START_UNIX_NS + 500_000_000, 10)
