"""Goal: profiles that cProfile dumps give the numbers that Python's pstats reads from them, to the
nanosecond, and what is no such profile is refused with its place. Method: ten programs under
cProfile, each table beside pstats; files by hand in which one thing is wrong."""

import cProfile
import gzip
import json
import marshal
import os
import profile
import pstats
import struct
import subprocess
import sys

import pytest
from profile_program import PROGRAM, ROOT, report, start

sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests" / "capture"))
import function_programs
import peak_memory

EXIT_INPUT = 3
VERSIONS = (2, 3, 4)  # of marshal; Python 3.8 to 3.13 write 4
RAN_ALONE = [p for p in function_programs.PROGRAMS if p.__name__ != "training_steps"]


def training_like():
    """What a training loop without torch calls: the tenth program."""

    class Loader:
        def __iter__(self):
            for i in range(20):
                yield [i * j for j in range(50)]

    def forward(batch):
        return sum(map(float, batch))

    losses = [forward(batch) / len(batch) for batch in Loader()]
    return json.dumps(sorted(losses))


PROGRAMS = (*RAN_ALONE, training_like)


def query(path, sql):
    done = start("query", "--json", path, sql)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["rows"]


def run_profiled(program, path):
    profiler = cProfile.Profile()
    profiler.runcall(program)
    profiler.dump_stats(path)
    return path


def ns(seconds):
    return round(seconds * 1e9)


def key_of(row):
    return (row["file"] or "", row["line"] or 0, row["name"] or "")


def expect(*paths):
    """What pstats says of the files, in our units."""
    stats = pstats.Stats(*map(str, paths)).stats
    return {
        key: (
            calls,
            primitive,
            ns(own),
            ns(total),
            {caller: (c[0], c[1], ns(c[2]), ns(c[3])) for caller, c in callers.items()},
        )
        for key, (primitive, calls, own, total, callers) in stats.items()
    }


def found(document):
    columns = ("calls", "primitive_calls", "self_ns", "total_ns")
    return {
        key_of(row): (
            *(row[column] for column in columns),
            {key_of(c): tuple(c[column] for column in columns) for c in row["callers"]},
        )
        for row in document["functions"]
    }


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_numbers_are_those_of_pstats(program, tmp_path):
    path = run_profiled(program, tmp_path / "run.pstats")
    assert len(PROGRAMS) == 10 and len(expect(path)) > 1
    assert found(report(path)) == expect(path)


def test_recursion_is_in_the_programs(tmp_path):
    rows = expect(run_profiled(function_programs.recursive, tmp_path / "run.pstats")).values()
    assert any(calls > primitive for calls, primitive, *_ in rows)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_marshal(version, tmp_path):
    path = run_profiled(function_programs.callbacks, tmp_path / "run.pstats")
    stats = marshal.loads(path.read_bytes())
    other = tmp_path / "other.pstats"
    other.write_bytes(marshal.dumps(stats, version))
    assert found(report(other)) == expect(path)


def test_several_files_add_up_as_in_pstats(tmp_path):
    paths = [
        run_profiled(program, tmp_path / f"{i}.pstats")
        for i, program in enumerate((training_like, function_programs.recursive, training_like))
    ]
    assert found(report(*paths)) == expect(*paths)


def test_what_pstats_dumps_itself(tmp_path):
    path = run_profiled(training_like, tmp_path / "run.pstats")
    stripped = tmp_path / "stripped.pstats"
    pstats.Stats(str(path)).strip_dirs().dump_stats(str(stripped))
    assert found(report(stripped)) == expect(stripped)


def test_callers_of_the_module_profile_have_numbers_only(tmp_path):
    path = tmp_path / "run.pstats"
    profiler = profile.Profile()
    profiler.runcall(training_like)
    profiler.dump_stats(path)
    document = report(path)
    stats = marshal.loads(path.read_bytes())
    rows = {key_of(row): row for row in document["functions"]}
    assert rows.keys() == stats.keys()
    for key, (primitive, calls, own, total, callers) in stats.items():
        row = rows[key]
        assert (row["primitive_calls"], row["calls"]) == (primitive, calls)
        assert (row["self_ns"], row["total_ns"]) == (ns(own), ns(total))
        assert {key_of(c): c["calls"] for c in row["callers"]} == callers
        assert all(c["total_ns"] is c["self_ns"] is None for c in row["callers"])
    counts = document["inputs"][0]["counts"]
    assert counts == {"callers_without_time": sum(len(row[4]) for row in stats.values())}


def test_text_info_sql_and_exports_tell_the_same(tmp_path):
    path = run_profiled(function_programs.recursive, tmp_path / "run.pstats")
    want = expect(path)
    info = start("info", path)
    assert info.returncode == 0 and "pstats" in info.stdout and str(len(want)) in info.stdout
    overview = start("report", path).stdout
    assert overview.startswith("Of the time in functions, ")
    assert "fib" in start("report", "--table", "functions", path).stdout
    rows = query(path, "select name, sum(self_ns), sum(primitive_calls) from fact_functions "
                       "group by name")  # fmt: skip
    assert sum(row[1] for row in rows) == sum(row[2] for row in want.values())
    assert sum(row[2] for row in rows) == sum(row[1] for row in want.values())
    rows = query(path, "select f.function, sum(c.total_ns) from call_path c "
                       "join call_path f on f.id = c.parent_id where c.function = 'fib' "
                       "group by 1")  # fmt: skip
    fib = next(value for key, value in want.items() if key[2] == "fib")
    assert dict(rows) == {caller[2]: c[3] for caller, c in fib[4].items()}
    folded = start("export", "--to", "folded", path).stdout.splitlines()
    weights = [int(line.rsplit(" ", 1)[1]) for line in folded]
    assert sum(weights) == sum(row[2] for row in want.values())
    assert all(";" not in line for line in folded)  # the file has no paths


def test_sealed_and_compressed(tmp_path):
    path = run_profiled(function_programs.recursive, tmp_path / "run.pstats")
    packed = tmp_path / "run.pstats.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert found(report(packed)) == expect(path)
    cache = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for _ in range(2):  # the second one is read from the cache
        done = start("report", "--json", path, env=cache)
        assert found(json.loads(done.stdout)) == expect(path)


def test_folders_are_not_searched_for_profiles(tmp_path):
    run_profiled(training_like, tmp_path / "run.pstats")
    done = start("report", tmp_path)
    assert done.returncode == EXIT_INPUT and "by name" in done.stderr


# ---------------------------------------------------------------------- damage

KEY = ("f.py", 3, "f")
GOOD = {KEY: (1, 2, 0.25, 0.5, {("g.py", 1, "g"): (2, 1, 0.25, 0.5)})}


def write(folder, data):
    path = folder / "x.pstats"
    path.write_bytes(data if isinstance(data, bytes) else marshal.dumps(data))
    return path


def refuse(folder, data, *words):
    done = start("report", "--json", *words, write(folder, data))
    assert done.returncode == EXIT_INPUT, (done.returncode, done.stdout[:300])
    return json.loads(done.stdout)["error"]


HEAD = b"{)\x03z\x04f.pyi\x03\0\0\0z\x01f"
REFUSED = {
    "code": (marshal.dumps({KEY: (1, 2, 0.5, 0.5, compile("1", "x", "eval"))}, 2), "0x63 (code)"),
    "code first": (HEAD + b"c\0\0\0\0", "0x63 (code)"),
    "bytes": (HEAD + b"s\1\0\0\0x", "0x73 (bytes)"),
    "set": (HEAD + b"<\1\0\0\0N", "0x3c (set)"),
    "frozen set": (HEAD + b">\1\0\0\0N", "0x3e (frozen set)"),
    "list": (HEAD + b"[\1\0\0\0N", "0x5b (list)"),
    "complex": (HEAD + b"y" + bytes(16), "0x79 (complex)"),
    "None": (HEAD + b"N", "0x4e (None)"),
    "Ellipsis": (HEAD + b".", "0x2e"),
    "reference of Python 2": (HEAD + b"R\0\0\0\0", "0x52"),
    "unknown type": (HEAD + b"\x01", "0x01"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_types_that_hold_more_than_data_are_refused(name, tmp_path):
    data, words = REFUSED[name]
    error = refuse(tmp_path, data)
    assert f"type {words} is not taken" in error["message"]
    assert data[error["offset"]] & 0x7F == int(words[2:4], 16)


STRUCTURE = {
    "value is missing": (HEAD + b"0", "a value is missing", len(HEAD)),
    "refers to nothing": (HEAD + b"r\x07\0\0\0", "not there yet", len(HEAD)),
    "refers far away": (HEAD + b"r\xff\xff\xff\xff", "not there yet", len(HEAD)),
    "a tuple in itself": (HEAD + b"\xa9\x01r\0\0\0\0", "part of itself", len(HEAD) + 2),
    "a dict in itself": (b"\xfb" + HEAD[1:] + b"r\0\0\0\0", "part of itself", len(HEAD)),
    "deep": (HEAD + b")\x01" * 5000, "nested more than 16 deep", len(HEAD) + 2 * 15),
    "deep dicts": (HEAD + b"{i\0\0\0\0" * 5000, "nested more than", len(HEAD) + 6 * 15),
    "a huge text": (HEAD + b"u\xff\xff\xff\xff", "the limit is 16777216", len(HEAD)),
    "a huge number": (HEAD + b"l\xff\xff\xff\x7f", "the limit is 16777216", len(HEAD)),
    "a hugely negative one": (HEAD + b"l\0\0\0\x80", "the limit is 16777216", len(HEAD)),
}


@pytest.mark.parametrize("name", STRUCTURE)
def test_what_marshal_never_writes_is_refused(name, tmp_path):
    data, words, offset = STRUCTURE[name]
    error = refuse(tmp_path, data)
    assert words in error["message"] and error["offset"] == offset


def peak(folder, path):
    file = folder / "peak"
    words = peak_memory.command([PROGRAM, "report", path], file)
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    return peak_memory.peak_bytes(file)


def test_a_tuple_of_four_billion_takes_no_memory(tmp_path):
    data = marshal.dumps(GOOD, 2)[:-1] + HEAD[1:] + b"(\xff\xff\xff\xff"
    path = write(tmp_path, data)
    before = peak(tmp_path, write(tmp_path, GOOD))
    path.write_bytes(data)
    assert peak(tmp_path, path) < before + 4_000_000


@pytest.mark.parametrize("value", [b"r\0\0\0\0", b"i\1\0\0\0", b")\0"])
def test_values_without_end_meet_a_limit(value, tmp_path):
    """A megabyte of gzip that holds a billion values."""
    data = b"{\xa9\x03z\x04f.pyi\x03\0\0\0z\x01f(\xff\xff\xff\xff" + value * 40_000_000
    path = tmp_path / "x.pstats.gz"
    path.write_bytes(gzip.compress(data, 1))
    done = start("report", "--json", path)
    error = json.loads(done.stdout)["error"]
    assert done.returncode == EXIT_INPUT and "more than 16777216 values" in error["message"]


def text(value):
    return b"z" + bytes([len(value)]) + value


def number(value):
    return b"i" + struct.pack("<i", value)


def function(line):
    return b")\x03" + text(b"f.py") + number(line) + text(b"f")


def test_callers_that_functions_share_meet_a_limit(tmp_path):
    """Each function has the callers of the first one, by a reference of five bytes."""
    counts = b")\x05" + number(1) + number(1) + (b"g" + struct.pack("<d", 0.5)) * 2
    callers = b"\xfb" + b"".join(function(i) + number(1) for i in range(400)) + b"0"
    data = b"{" + function(1) + counts + callers
    data += b"".join(function(i) + counts + b"r\0\0\0\0" for i in range(2, 400)) + b"0"
    assert "more callers than bytes for them" in refuse(tmp_path, data)["message"]


def entry(**changes):
    parts = {"cc": 1, "nc": 2, "tt": 0.5, "ct": 0.5, "callers": {}, **changes}
    return tuple(parts.values())


BAD_ENTRIES = {
    "key is no tuple": {5: entry()},
    "key is short": {("f.py", 3): entry()},
    "line is a text": {("f.py", "3", "f"): entry()},
    "line is negative": {("f.py", -1, "f"): entry()},
    "line is huge": {("f.py", 1 << 40, "f"): entry()},
    "entry is short": {KEY: (1, 2, 0.5, 0.5)},
    "entry is a number": {KEY: 5},
    "calls are negative": {KEY: entry(nc=-1)},
    "more primitive calls than calls": {KEY: entry(cc=3)},
    "calls are a float": {KEY: entry(nc=2.0)},
    "not a number": {KEY: entry(tt=float("nan"))},
    "endless": {KEY: entry(ct=float("inf"))},
    "negative time": {KEY: entry(tt=-1e-9)},
    "time does not fit": {KEY: entry(ct=1e300)},
    "callers are no dict": {KEY: entry(callers=(1, 2))},
    "caller is no tuple": {KEY: entry(callers={"g": (1, 1, 0.5, 0.5)})},
    "numbers of a caller are short": {KEY: entry(callers={("g", 1, "g"): (1, 1)})},
    "negative calls of a caller": {KEY: entry(callers={("g", 1, "g"): -1})},
}


@pytest.mark.parametrize("name", BAD_ENTRIES)
def test_entries_that_cannot_be_are_counted(name, tmp_path):
    first = ("a.py", 1, "a")
    path = write(tmp_path, {first: entry(), **BAD_ENTRIES[name]})
    document = report(path)
    assert first in found(document)
    counters = document["inputs"][0]["counts"]
    assert counters["profile_entries_damaged"] == 1
    error = refuse(tmp_path, path.read_bytes(), "--strict")
    assert error["offset"] > 0 and "not what cProfile writes" in error["message"]


def test_a_huge_number_of_calls(tmp_path):
    calls = found(report(write(tmp_path, {KEY: entry(nc=1 << 200)})))[KEY][0]
    assert calls == (1 << 63) - 1


def test_callers_without_an_entry_have_no_row(tmp_path):
    rows = found(report(write(tmp_path, GOOD)))
    assert rows == {KEY: (2, 1, 250_000_000, 500_000_000,
                          {("g.py", 1, "g"): (2, 1, 250_000_000, 500_000_000)})}  # fmt: skip


def test_own_time_above_the_total_is_kept(tmp_path):
    row = found(report(write(tmp_path, {KEY: entry(tt=2.0, ct=1.0)})))[KEY]
    assert row[2:4] == (2_000_000_000, 1_000_000_000)


def test_an_empty_profile(tmp_path):
    assert found(report(write(tmp_path, {}))) == {}


def test_bytes_behind_the_dict_are_counted(tmp_path):
    path = write(tmp_path, marshal.dumps(GOOD) + b"x" * 300_000)
    assert report(path)["inputs"][0]["counts"] == {"trailing_bytes": 300_000}


def test_paths_that_are_no_utf8(tmp_path):
    name = os.fsdecode(b"caf\xe9.py")
    document = report(write(tmp_path, {(name, 3, "f"): entry()}))
    assert document["functions"][0]["file"].startswith("caf\ufffd")
    assert document["inputs"][0]["counts"] == {"repaired_strings": 1}


def test_files_cut_at_each_byte(tmp_path):
    """What comes before the cut is shown, and that it was cut is said."""
    stats = {(f"{i}.py", i, "f"): entry(nc=i + 2) for i in range(4)}
    data = marshal.dumps(stats)
    whole = found(report(write(tmp_path, data)))
    path = tmp_path / "x.pstats"
    seen = set()
    for size in range(1, len(data)):
        path.write_bytes(data[:size])
        done = start("report", "--json", path)
        document = json.loads(done.stdout)
        if done.returncode != 0:
            assert done.returncode == EXIT_INPUT and "functions" not in document
            continue
        rows = found(document)
        seen.add(len(rows))
        assert document["inputs"][0]["counts"] == {"unterminated": 1}
        assert all(whole[key] == row for key, row in rows.items())
    assert seen == {1, 2, 3, 4}


def test_flipped_bytes_never_crash(tmp_path):
    path = run_profiled(training_like, tmp_path / "run.pstats")
    data = path.read_bytes()
    other = tmp_path / "flipped.pstats"
    codes = set()
    for at in range(0, len(data), max(1, len(data) // 300)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        other.write_bytes(bytes(flipped))
        done = start("report", "--json", other)
        codes.add(done.returncode)
        json.loads(done.stdout)
    assert codes == {0, EXIT_INPUT}


def test_numbers_of_all_sizes(tmp_path):
    sizes = [0, 1, 0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000, 1 << 45, (1 << 62) + 5, (1 << 63) - 1]
    stats = {(f"{n}.py", 1, "f"): entry(cc=0, nc=n) for n in sizes}
    rows = found(report(write(tmp_path, stats)))
    assert {key: row[0] for key, row in rows.items()} == {(f"{n}.py", 1, "f"): n for n in sizes}
    old = b"{)\x03z\x04f.pyi\x03\0\0\0z\x01f)\x05i\0\0\0\0I" + struct.pack("<q", 1 << 40)
    old += b"g" + struct.pack("<d", 0.5) + b"g" + struct.pack("<d", 0.5) + b"{00"
    assert found(report(write(tmp_path, old)))[KEY][0] == 1 << 40
