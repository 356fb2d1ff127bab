"""Goal: exports hold the numbers of the report, and are what other programs expect. Method: real
traces and hostile ones are exported and read back by Python's own readers."""

import csv
import io
import json

import pytest
from cli_program import ROOT

DATA = ROOT / "tests" / "data"
GPU = DATA / "A.host_sync.bad.pt.trace.json.gz"
HOSTILE = sorted(path for path in (ROOT / "tests" / "hostile").glob("*.json"))
TABLES = (
    "operators kernels steps phases idle devices streams copies copy_sites syncs places links "
    "findings inputs"
).split()


def report(kscope, *words):
    run = kscope("report", "--json", *words)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def export(kscope, *words):
    run = kscope("export", *words)
    assert (run.returncode, run.stderr) == (0, ""), run.stderr
    return run.stdout


# ---------------------------------------------------------------- csv


def look_up(row, key):
    for part in key.split("."):
        row = row[part]
    return row


def as_field(value):
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'" + value if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
    return value


def read_csv(text):
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert all(len(row) == len(rows[0]) for row in rows)
    return rows[0], [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def check_table(document, table, text):
    header, rows = read_csv(text)
    wanted = document[table] if isinstance(document[table], list) else [document[table]]
    assert len(rows) == len(wanted)
    for row, truth in zip(rows, wanted, strict=True):
        for key in header:
            value = as_field(look_up(truth, key))
            if isinstance(value, str):
                assert row[key] == value
            else:
                assert json.loads(row[key]) == value
    return header


@pytest.mark.parametrize("table", TABLES)
def test_csv_holds_the_numbers_of_json(kscope, table):
    document = report(kscope, GPU)
    if table not in document:
        table_rows = read_csv(export(kscope, "--to", "csv", "--table", table, GPU))[1]
        assert table in ("phases", "idle"), "a view of steps: no list of its own in JSON"
        assert len(table_rows) > 0
        return
    header = check_table(document, table, export(kscope, "--to", "csv", "--table", table, GPU))
    assert len(header) > 2


def test_csv_of_chosen_steps(kscope):
    number = report(kscope, GPU)["steps"][1]["number"]
    document = report(kscope, "--step", number, GPU)
    for spelling in (f"{number}", f"{number}..{number}", f"{number}-{number}"):
        text = export(kscope, "--to", "csv", "--steps", spelling, GPU)
        check_table(document, "operators", text)


def test_csv_of_a_rank(kscope):
    ranks = [DATA / f"D.straggler.bad.rank{rank}.pt.trace.json.gz" for rank in (0, 1)]
    document = report(kscope, ranks[1])
    check_table(document, "kernels", export(kscope, "--to", "csv", "-t", "kernels", "--rank", 1,
                                            *ranks))  # fmt: skip
    run = kscope("export", "--to", "csv", "--rank", 7, *ranks)
    assert run.returncode == 2
    assert "rank 7" in run.stderr


def test_csv_of_names_that_attack(kscope, tmp_path):
    names = ["=cmd|' /C calc'!A0", 'a"b,c', "nul\0here", "line\r\nbreak", "x" * 100_000, "+1", "é"]
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 10 * i, "dur": 5 + i}
        for i, name in enumerate(names)
    ]
    path = tmp_path / "names.json"
    path.write_text(json.dumps({"traceEvents": events}))
    output = tmp_path / "names.csv"
    assert export(kscope, "--to", "csv", "-o", output, path) == ""
    _, rows = read_csv(output.read_bytes().decode())
    found = {row["name"] for row in rows}
    assert found == {as_field(name).replace("\0", "\ufffd") for name in names}


# ---------------------------------------------------------------- folded

FOLDED = {"self-cpu": "self_exclusive_ns", "device": "self_device_ns"}
STACKS = [
    "A.host_sync.bad", "A.dataloader.bad", "A.python_bound.bad", "A.cpu_fallback.bad",
    "A.small_h2d.bad", "D.straggler.bad.rank0",
]  # fmt: skip


def read_folded(text):
    stacks = {}
    for line in text.splitlines():
        path, value = line.rsplit(" ", 1)
        assert path not in stacks, "a stack has one line"
        stacks[tuple(path.split(";"))] = int(value)
    assert list(stacks) == sorted(stacks, key=lambda path: [name.encode() for name in path])
    return stacks


def sum_by_name(pairs):
    sums = {}
    for name, value in pairs:
        sums[name.replace(";", ":")] = sums.get(name.replace(";", ":"), 0) + value
    return {name: value for name, value in sums.items() if value}


def check_folded(kscope, weight, column, path, *steps):
    rows = report(kscope, *(("--step", *steps) if steps else ()), path)["operators"]
    truth = sum_by_name((row["name"], row[column]) for row in rows)
    words = ["--steps", *steps] if steps else []
    stacks = read_folded(export(kscope, "--to", "folded", "--weight", weight, *words, path))
    found = sum_by_name((stack[-1], value) for stack, value in stacks.items())
    assert truth
    assert {name: value for name, value in found.items() if name in truth} == truth
    return stacks, set(found) - set(truth)


@pytest.mark.parametrize("name", STACKS)
@pytest.mark.parametrize("weight", FOLDED)
def test_folded_adds_up_to_the_report(kscope, name, weight):
    path = DATA / f"{name}.pt.trace.json.gz"
    if weight == "device" and not report(kscope, path)["kernels"]:
        assert export(kscope, "--to", "folded", "--weight", "device", path) == ""
        return
    _, others = check_folded(kscope, weight, FOLDED[weight], path)
    if weight == "device":
        assert others == set()


def test_folded_of_chosen_steps(kscope):
    number = report(kscope, GPU)["steps"][1]["number"]
    for weight, column in FOLDED.items():
        check_folded(kscope, weight, column, GPU, number)


def test_folded_has_python_frames(kscope):
    path = ROOT / "tests" / "golden" / "kineto" / "python_frames" / "input.json"
    stacks = read_folded(export(kscope, "--to", "folded", path))
    assert any(
        any(".py(" in frame for frame in stack) and stack[-1].startswith("aten::")
        for stack in stacks
    )


# ---------------------------------------------------------------- speedscope


def check_speedscope(document):
    """What speedscope's schema asks of a file with evented profiles, and its reader of events.
    Gives for each profile its events as (name, start, end, depth)."""
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert isinstance(document["exporter"], str)
    frames = document["shared"]["frames"]
    assert all(isinstance(frame["name"], str) and set(frame) == {"name"} for frame in frames)
    spans = {}
    for profile in document["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "events"}
        assert profile["type"] == "evented"
        assert profile["unit"] == "nanoseconds"
        assert isinstance(profile["name"], str)
        assert profile["name"] not in spans
        spans[profile["name"]] = check_events(profile, frames)
    return spans


def check_events(profile, frames):
    now = profile["startValue"]
    stack, spans = [], []
    for event in profile["events"]:
        assert set(event) == {"type", "frame", "at"}
        assert now <= event["at"] <= profile["endValue"], "time goes on"
        now = event["at"]
        name = frames[event["frame"]]["name"]
        if event["type"] == "O":
            stack.append((name, now))
            continue
        assert event["type"] == "C"
        opened, start = stack.pop()
        assert opened == name, "what is closed is on top"
        spans.append((name, start, now, len(stack)))
    assert stack == [], "all that is opened is closed"
    return spans


@pytest.mark.parametrize("name", STACKS)
def test_speedscope_holds_threads_and_streams(kscope, name):
    path = DATA / f"{name}.pt.trace.json.gz"
    run = kscope("export", "--to", "speedscope", path)
    assert run.returncode == 0
    document = report(kscope, path)
    spans = check_speedscope(json.loads(run.stdout))
    streams = {key.split(", stream ")[1]: rows for key, rows in spans.items() if "stream" in key}
    assert {str(row["stream"]): row["busy_ns"] for row in document["streams"]} == {
        stream: sum(end - start for _, start, end, depth in rows if depth == 0)
        for stream, rows in streams.items()
    }
    assert any("thread" in key for key in spans)
    if run.stderr == "":
        check_whole_spans(document, spans)


def check_whole_spans(document, spans):
    """Nothing was cut: durations of runtime calls, which torch never merges, add up."""
    truth = {row["name"]: row["cpu_ns"] for row in document["operators"]
             if row["kind"] == "runtime"}  # fmt: skip
    found = sum_by_name(
        (name, end - start) for rows in spans.values() for name, start, end, _ in rows
    )
    assert {name: found.get(name, 0) for name in truth} == truth


def test_speedscope_says_what_it_cut(kscope, tmp_path):
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": 10}
        for name, ts in (("a", 0), ("b\0\ud800", 5))
    ]
    path = tmp_path / "overlap.json"
    path.write_text(json.dumps({"traceEvents": events}))
    run = kscope("export", "--to", "speedscope", path)
    assert (run.returncode, "shortened 1 spans" in run.stderr) == (0, True)
    (rows,) = check_speedscope(json.loads(run.stdout)).values()
    assert len(rows) == 2


# ---------------------------------------------------------------- what is chosen

FROM, TO = 20_000_000, 35_500_000


def query(kscope, sql, path):
    run = kscope("query", "--json", path, sql)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)["rows"]


def covered(kscope, table, where, lane="track_id"):
    """For each lane, how much of the time its rows cover."""
    sums, ends = {}, {}
    for track, start, dur in query(
        kscope, f"select {lane}, ts_ns, dur_ns from {table} where {where} order by 1, 2", GPU
    ):
        begin, end = max(start, FROM, ends.get(track, FROM)), min(start + dur, TO)
        if end > begin:
            sums[track] = sums.get(track, 0) + end - begin
            ends[track] = end
    return sums


CHOSEN = ("--time", "20:35.5", "--category", "cpu_op,cuda_runtime,kernel")


def test_folded_of_times_and_categories(kscope):
    stacks = read_folded(export(kscope, "--to", "folded", *CHOSEN, GPU))
    names = {frame for stack in stacks for frame in stack}
    assert "aten::linear" in names
    assert not any(name.startswith(("ProfilerStep", "Optimizer")) for name in names)
    where = "category in ('cpu_op', 'cuda_runtime') and not is_async"
    assert sum(stacks.values()) == sum(covered(kscope, "slice", where).values()) > 0


def test_folded_device_time_of_times(kscope):
    stacks = read_folded(export(kscope, "--to", "folded", "--weight", "device", *CHOSEN, GPU))
    ((truth,),) = query(
        kscope, "select sum(g.dur_ns) from gpu g where g.category != 'gpu_user_annotation' and "
        "exists (select 1 from slice s where s.external_id = g.external_id and "
        f"s.category = 'cpu_op' and s.ts_ns >= {FROM} and s.ts_ns < {TO})", GPU
    )  # fmt: skip
    assert sum(stacks.values()) == truth > 0


def test_speedscope_of_times_and_categories(kscope):
    document = json.loads(export(kscope, "--to", "speedscope", *CHOSEN, GPU))
    assert {(one["startValue"], one["endValue"]) for one in document["profiles"]} == {(FROM, TO)}
    spans = check_speedscope(document)
    top = {
        name: sum(end - start for _, start, end, depth in rows if depth == 0)
        for name, rows in spans.items()
    }
    threads = [length for name, length in top.items() if "thread" in name]
    streams = [length for name, length in top.items() if "stream" in name]
    where = "category in ('cpu_op', 'cuda_runtime') and not is_async"
    assert sorted(threads) == sorted(covered(kscope, "slice", where).values())
    assert streams == list(covered(kscope, "gpu", "category = 'kernel'", "stream_id").values())
    assert threads and streams


# ---------------------------------------------------------------- the command

FORMATS = ("csv", "folded", "speedscope", "perfetto", "parquet", "arrow")


@pytest.mark.parametrize("name", [path.name for path in HOSTILE])
def test_hostile_files_are_exported_or_refused(kscope, tmp_path, name):
    path = ROOT / "tests" / "hostile" / name
    works = kscope("report", path).returncode
    for form in (*FORMATS, "sqlite"):
        run = kscope("export", "--to", form, "-o", tmp_path / "out", path)
        assert run.returncode == works, (form, run.stderr)
        assert run.returncode in (0, 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["x"], "without --to"),
        (["--to", "xml", "x"], "must be one of"),
        (["--to", "csv"], "without PATH"),
        (["--to", "csv", "--table", "kernel", "x"], "must be one of"),
        (["--to", "csv", "--weight", "device", "x"], "goes with folded"),
        (["--to", "folded", "--table", "steps", "x"], "goes with csv"),
        (["--to", "csv", "--steps", "7..3", "x"], "N..M"),
        (["--to", "csv", "--steps", "-", "x"], "N..M"),
    ],
)
def test_mistakes(kscope, words, message):
    run = kscope("export", *words)
    assert (run.returncode, run.stdout) == (2, "")
    assert message in run.stderr


def test_an_input_is_not_overwritten(kscope, small):
    before = small.read_bytes()
    for form in FORMATS:
        run = kscope("export", "--to", form, "-o", small, small)
        assert run.returncode == 2
        assert "it is an input" in run.stderr
    assert small.read_bytes() == before


def test_a_broken_input_leaves_the_old_file(kscope, tmp_path):
    target = tmp_path / "old.csv"
    target.write_text("old")
    bad = tmp_path / "bad.json"
    bad.write_text("no trace")
    assert kscope("export", "--to", "csv", "-o", target, bad).returncode == 3
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.json", "old.csv"]


def test_a_full_disk_is_said(kscope, small):
    for form in FORMATS:
        run = kscope("export", "--to", form, "-o", "/dev/full", small)
        assert run.returncode == 125
        assert "No space left" in run.stderr
