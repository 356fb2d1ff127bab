"""Goal: what comes from the cache is what reading the input gives, byte for byte, and nothing that
is wrong with the cache reaches a report. Method: the same command without a cache, with an empty
one and with a full one, for all traces and outputs; entries that are changed, cut, foreign or in
use; inputs that change behind the cache's back."""

import concurrent.futures
import json
import os
import pathlib
import resource
import shutil
import stat
import time

import pytest
from cli_program import ROOT, SMALL

TRACES = sorted((ROOT / "tests" / "data").glob("*.trace.json.gz"))
HOSTILE = sorted((ROOT / "tests" / "hostile").glob("*.json"))
OUTPUTS = [
    ["report", "--json"],
    ["report", "--width", "120"],
    ["report", "--markdown"],
    ["report", "--sarif"],
    ["report", "--table", "operators", "--group-by", "shape", "--all-rows"],
    ["report", "--table", "syncs", "--all-rows"],
    ["report", "--table", "places", "--all-rows"],
    ["report", "--json", "--step", "3..5"],
    ["report", "--json", "--device", "0"],
]
TABLES = [
    "slice",
    "gpu",
    "memory",
    "mark",
    "sample",
    "link",
    "track",
    "source",
    "string",
    "stack",
    "call_path",
    "fact_kernels",
]


def settle(path, seconds=10):
    """The cache does not believe that a file which was written just now stays as it is; change time
    cannot be set, so the clock has to tick on."""
    os.utime(path, (os.stat(path).st_atime, os.stat(path).st_mtime - seconds))
    time.sleep(0.05)


@pytest.fixture
def trace(small):
    settle(small)
    return small


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def entries(cache, kind="*"):
    return sorted(cache.glob(f"*.{kind}")) if cache.exists() else []


def same(kscope, cache, words, empty=True):
    """Runs without a cache, with an empty and with a full one."""
    if empty:
        shutil.rmtree(cache, ignore_errors=True)
    results = [
        kscope(*words, *extra) for extra in (["--no-cache"], ["--cache", cache], ["--cache", cache])
    ]
    seen = [(r.returncode, r.stdout, r.stderr) for r in results]
    assert seen[0] == seen[1] == seen[2]
    return results[2]


def is_hit(kscope, cache, *words):
    result = kscope("report", "-v", "--cache", cache, *words)
    return "cache: facts are" in result.stderr.replace("facts are kept", "facts were kept")


# ------------------------------------------------------------------ the same bytes


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name.split(".pt.")[0])
def test_every_trace(kscope, cache, path):
    for words in OUTPUTS:
        result = same(kscope, cache, [*words, path], empty=False)
        assert result.returncode in (0, 2), result.stderr
    assert len(entries(cache, "kst")) == 1
    assert is_hit(kscope, cache, path)


@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: path.stem)
def test_hostile_files(kscope, cache, path):
    for words in OUTPUTS[:2]:
        same(kscope, cache, [*words, path])


def test_query(kscope, cache):
    path = ROOT / "tests/data/A.healthy.good.pt.trace.json.gz"
    for table in TABLES:
        words = ["query", path, f"select * from {table}", "--csv"]
        result = same(kscope, cache, words, empty=False)
        assert result.returncode == 0
    by_name = "select count(*) from slice where name = 'cudaLaunchKernel'"
    assert int(same(kscope, cache, ["query", path, by_name, "--csv"]).stdout.split()[-1]) > 0


FORMATS = ["csv", "folded", "speedscope", "chrome", "perfetto", "sqlite", "parquet", "arrow"]


def exported(kscope, target, form, *words):
    table = ["--table", "slice"] if form in ("csv", "parquet", "arrow") else []
    run = kscope("export", "--to", form, *table, "-o", target, *words)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    return target.read_bytes()


@pytest.mark.parametrize("form", FORMATS)
def test_export(kscope, cache, tmp_path, form):
    path = ROOT / "tests/data/A.healthy.good.pt.trace.json.gz"
    target = tmp_path / "out"
    plain = exported(kscope, target, form, path, "--no-cache")
    for _ in ("empty", "full"):
        assert exported(kscope, target, form, path, "--cache", cache) == plain
    assert len(entries(cache)) == 2


def test_folder_and_several_files(kscope, cache, tmp_path):
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    for path in sorted((ROOT / "tests/data").glob("D.straggler.bad.rank?.pt.trace.json.gz")):
        shutil.copy(path, ranks)
    for path in ranks.iterdir():
        settle(path)
    assert "rank 1" in same(kscope, cache, ["report", ranks]).stdout
    same(kscope, cache, ["report", "--json", *sorted(ranks.iterdir())], empty=False)
    assert is_hit(kscope, cache, ranks)
    (ranks / "D.straggler.bad.rank1.pt.trace.json.gz").unlink()
    assert not is_hit(kscope, cache, ranks)


# ------------------------------------------------------------------ what it is found by


def test_a_changed_file_is_read_again(kscope, cache, trace):
    assert "aten::add" in kscope("report", "--json", "--cache", cache, trace).stdout
    assert is_hit(kscope, cache, trace)
    before = os.stat(trace)
    text = trace.read_text()
    trace.write_text(text.replace("aten::add", "aten::sub"))
    os.utime(trace, ns=(before.st_atime_ns, before.st_mtime_ns))
    settle(trace, 0)
    changed = kscope("report", "--json", "--cache", cache, trace).stdout
    assert "aten::sub" in changed and "aten::add" not in changed
    # The size changes, and the time goes back to where it was.
    trace.write_text(text.replace("aten::add", "aten::addmm"))
    os.utime(trace, ns=(before.st_atime_ns, before.st_mtime_ns))
    settle(trace, 0)
    assert "aten::addmm" in kscope("report", "--json", "--cache", cache, trace).stdout


def test_options_have_facts_of_their_own(kscope, cache, trace):
    kscope("report", "--cache", cache, trace)
    for words in (["--group-by", "shape"], ["--step", "3"], ["--device", "0"]):
        assert not is_hit(kscope, cache, trace, *words)
        assert is_hit(kscope, cache, trace, *words)
    assert len(entries(cache, "kst")) == 1
    assert len(entries(cache, "facts")) == 4
    assert not is_hit(kscope, cache, trace, "--strict")  # another reading
    assert len(entries(cache, "kst")) == 2


def test_what_changes_no_byte_shares_them(kscope, cache, trace):
    kscope("report", "--cache", cache, trace)
    for words in (["--json"], ["--threads", "1"], ["--memory", "64M"], ["--table", "steps"]):
        assert is_hit(kscope, cache, trace, *words)
    assert kscope("query", trace, "select 1", "--cache", cache).returncode == 0
    assert len(entries(cache)) == 2


def test_a_file_that_was_just_written_is_not_kept(kscope, cache, small):
    """Its times could stay the same when it changes once more."""
    future = os.stat(small).st_mtime + 100
    os.utime(small, (future, future))
    same(kscope, cache, ["report", small])
    assert not entries(cache)


def test_pipes_and_failures_are_not_kept(kscope, cache, trace, tmp_path):
    piped = kscope("report", "--cache", cache, "-", input=trace.read_text())
    assert piped.returncode == 0
    assert kscope("report", "--cache", cache, tmp_path / "missing").returncode == 3
    empty = tmp_path / "empty.json"
    empty.write_text("")
    settle(empty)
    assert kscope("report", "--cache", cache, empty).returncode == 3
    assert kscope("report", "--cache", cache, trace, "--step", "99").returncode == 2
    assert not entries(cache)


def test_warnings_are_not_lost(kscope, cache, trace, tmp_path):
    folder = tmp_path / "log"
    folder.mkdir()
    shutil.copy(trace, folder / "a.json")
    (folder / "b.json").write_text('{"a": 1}')
    for path in folder.iterdir():
        settle(path)
    assert "left out" in same(kscope, cache, ["report", folder]).stderr


# ------------------------------------------------------------------ damage


def damage_and_compare(kscope, cache, words, wanted, path, data):
    path.write_bytes(data)
    path.chmod(0o600)
    result = kscope(*words, "--cache", cache)
    assert (result.returncode, result.stdout, result.stderr) == wanted
    return result


@pytest.mark.parametrize("kind", ["kst", "facts"])
@pytest.mark.parametrize("words", [["report", "--json"], ["query", "--csv"]], ids=lambda w: w[0])
def test_damaged_entries_are_made_anew(kscope, cache, trace, kind, words):
    words = [words[0], trace, *words[1:]]
    words += ["select * from slice, source"] if words[0] == "query" else []
    good = same(kscope, cache, words)
    wanted = (0, good.stdout, good.stderr)
    path = entries(cache, kind)[0]
    data = path.read_bytes()
    for at in [0, 9, 40, 70, 90, len(data) // 2, len(data) - 1]:
        flipped = data[:at] + bytes([data[at] ^ 16]) + data[at + 1 :]
        damage_and_compare(kscope, cache, words, wanted, path, flipped)
    for size in [0, 10, 63, 64, len(data) - 1]:
        damage_and_compare(kscope, cache, words, wanted, path, data[:size])
    kscope("report", "--cache", cache, trace)
    assert is_hit(kscope, cache, trace)


def test_a_damaged_chunk_is_noticed_when_it_is_used(kscope, cache, trace):
    """Facts are there, so a report uses no chunk; a query does."""
    words = ["query", trace, "select sum(dur_ns) from slice", "--csv"]
    good = same(kscope, cache, words)
    path = entries(cache, "kst")[0]
    data = bytearray(path.read_bytes())
    data[64:400] = bytes(b ^ 1 for b in data[64:400])  # chunks come first
    damage_and_compare(kscope, cache, words, (0, good.stdout, ""), path, data)
    assert not entries(cache, "kst") or entries(cache, "kst")[0].read_bytes() != bytes(data)


@pytest.mark.parametrize("form", [form for form in FORMATS if form != "chrome"])
def test_an_export_reads_the_input_when_a_chunk_is_damaged(kscope, cache, trace, tmp_path, form):
    plain = exported(kscope, tmp_path / "out", form, trace, "--no-cache")
    kscope("report", "--cache", cache, trace)
    path = entries(cache, "kst")[0]
    data = bytearray(path.read_bytes())
    data[64:400] = bytes(b ^ 1 for b in data[64:400])  # chunks come first
    path.write_bytes(data)
    assert exported(kscope, tmp_path / "out", form, trace, "--cache", cache) == plain


@pytest.fixture
def long_trace(tmp_path):
    """Of more rows than a chunk has, and more text than SQLite keeps before it writes."""
    path = tmp_path / "long.json"
    name = "x" * 400
    path.write_text(json.dumps({"traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 10 * i, "dur": 5}
        for i in range(70_000)
    ]}))  # fmt: skip
    settle(path)
    return path


def test_a_database_that_was_begun_is_written_anew(kscope, cache, long_trace, tmp_path):
    """The damage shows when most of the rows are in the file already."""
    plain = exported(kscope, tmp_path / "out", "sqlite", long_trace, "--no-cache")
    kscope("report", "--cache", cache, long_trace)
    path = entries(cache, "kst")[0]
    data = bytearray(path.read_bytes())
    data[-20_000:-6000] = bytes(b ^ 1 for b in data[-20_000:-6000])
    path.write_bytes(data)
    assert exported(kscope, tmp_path / "out", "sqlite", long_trace, "--cache", cache) == plain


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))


def test_a_full_disk_is_no_damage_of_the_cache(kscope, cache, long_trace, tmp_path):
    kscope("report", "--cache", cache, long_trace)
    for form in ("sqlite", "csv"):
        table = ["--table", "slice"] if form == "csv" else []
        run = kscope(
            *["export", "--to", form, *table, "--cache", cache, "-o", tmp_path / "out"],
            long_trace,
            preexec_fn=limit_files,
            restore_signals=False,
        )
        assert run.returncode == 125
        assert is_hit(kscope, cache, long_trace)


def test_files_of_others_are_not_believed(kscope, cache, trace):
    good = same(kscope, cache, ["report", "--json", trace])
    for path in entries(cache):
        path.chmod(0o644)
    assert not is_hit(kscope, cache, trace)
    assert is_hit(kscope, cache, trace)  # and were written anew
    if os.geteuid() == 0:
        for path in entries(cache):
            os.chown(path, 1, 1)
        assert not is_hit(kscope, cache, trace)
    assert kscope("report", "--json", "--cache", cache, trace).stdout == good.stdout


# ------------------------------------------------------------------ folders


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_the_users_folder(kscope, trace, tmp_path):
    env = {"XDG_CACHE_HOME": str(tmp_path / "xdg")}
    assert kscope("report", trace, env=env).returncode == 0
    folder = tmp_path / "xdg" / "kinetoscope"
    assert mode(folder) == 0o700
    assert {mode(path) for path in entries(folder)} == {0o600}
    assert len(entries(folder)) == 2
    env = {"XDG_CACHE_HOME": str(tmp_path / "other")}
    assert kscope("report", trace, "--no-cache", env=env).returncode == 0
    assert not (tmp_path / "other").exists()
    home = {"XDG_CACHE_HOME": "", "HOME": str(tmp_path / "home")}
    assert kscope("report", trace, env=home).returncode == 0
    assert len(entries(tmp_path / "home" / ".cache" / "kinetoscope")) == 2


def test_nothing_beside_the_input(kscope, trace, tmp_path):
    before = sorted(tmp_path.iterdir())
    assert kscope("report", trace, env={"XDG_CACHE_HOME": "/nonexistent"}).returncode == 0
    assert sorted(tmp_path.iterdir()) == before


def folders_that_cannot_be(tmp_path):
    a_file = tmp_path / "file"
    a_file.write_text("")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    return [a_file, a_file / "below", shared, pathlib.Path("/proc/none"), tmp_path / ("x" * 300)]


def test_a_folder_that_cannot_be_used_changes_nothing(kscope, trace, tmp_path):
    plain = kscope("report", "--no-cache", trace)
    for folder in folders_that_cannot_be(tmp_path):
        result = kscope("report", "--cache", folder, trace)
        assert (result.returncode, result.stdout, result.stderr) == (0, plain.stdout, "")
        told = kscope("report", "-v", "--cache", folder, trace).stderr
        assert f"no cache in {folder}" in told
    assert not list((tmp_path / "shared").iterdir())


def test_size(kscope, cache, trace, tmp_path):
    other = tmp_path / "other.json"
    other.write_text(json.dumps(SMALL))
    settle(other)
    kscope("report", "--cache", cache, trace)
    size = sum(path.stat().st_size for path in entries(cache))
    env = {"KSCOPE_CACHE_SIZE": str(size + 100)}
    assert kscope("report", "--cache", cache, other, env=env).returncode == 0
    assert sum(path.stat().st_size for path in entries(cache)) <= size + 100
    assert is_hit(kscope, cache, other)
    bad = kscope("report", "--cache", cache, other, env={"KSCOPE_CACHE_SIZE": "much"})
    assert bad.returncode == 2 and "KSCOPE_CACHE_SIZE=much" in bad.stderr


def test_options_that_do_not_fit(kscope, trace):
    both = kscope("report", "--cache", "x", "--no-cache", trace)
    assert both.returncode == 2 and "Cannot use --cache with --no-cache" in both.stderr
    none = kscope("report", "--cache", "", trace)
    assert none.returncode == 2 and "without the name of a folder" in none.stderr


def test_many_at_once(kscope, cache):
    path = ROOT / "tests/data/A.pageable.bad.pt.trace.json.gz"
    plain = kscope("report", "--json", "--no-cache", path).stdout
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        runs = [pool.submit(kscope, "report", "--json", "--cache", cache, path) for _ in range(24)]
        assert {(run.result().returncode, run.result().stdout) for run in runs} == {(0, plain)}
    assert len(entries(cache, "kst")) == 1
    assert not list(cache.glob("draft-*"))
    assert is_hit(kscope, cache, path)


# ------------------------------------------------------------------ sealed traces by themselves


@pytest.fixture
def sealed(kscope, cache, tmp_path):
    source = ROOT / "tests/data/A.healthy.good.pt.trace.json.gz"
    kscope("report", "--cache", cache, source)
    path = tmp_path / "x.kst"
    shutil.copy(entries(cache, "kst")[0], path)
    return source, path


def test_a_sealed_trace_is_an_input(kscope, sealed):
    source, path = sealed
    report = kscope("report", "--json", "--no-cache", source).stdout
    assert kscope("report", "--json", path).stdout == report
    assert kscope("report", "--json", path, "--run", "1").stdout == report
    assert kscope("query", path, "select count(*) n from gpu", "--csv").returncode == 0
    assert "kineto-json" in kscope("info", path).stdout
    renamed = path.with_name("anything.json")
    path.rename(renamed)
    assert kscope("report", "--json", renamed).stdout == report  # by content, not by name


def test_a_sealed_trace_stands_alone(kscope, sealed, small):
    _, path = sealed
    for words in (["report", path, small], ["report", small, path]):
        result = kscope(*words)
        assert result.returncode == 3 and "it is a sealed one" in result.stderr
    piped = kscope("report", "--run", "2", path)
    assert piped.returncode == 2 and "the sealed trace holds 1" in piped.stderr


def test_a_damaged_sealed_trace_is_refused(kscope, sealed):
    _, path = sealed
    data = path.read_bytes()
    for at in [8, 20, 70, len(data) // 2, len(data) - 5]:
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        result = kscope("report", "--json", path)
        assert result.returncode == 3
        assert "Cannot read sealed trace" in json.loads(result.stdout)["error"]["message"]
    path.write_bytes(data[:-1])
    assert "not as long as it was" in kscope("report", path).stderr
