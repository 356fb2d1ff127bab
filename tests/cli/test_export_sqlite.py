"""Goal: an exported database holds the tables of kscope query, and appears whole or not at all.
Method: Python's own SQLite reads it; sizes of files are limited and signals sent while it is
written."""

import contextlib
import json
import resource
import signal
import sqlite3
import subprocess
import time

import pytest
from cli_program import PROGRAM, ROOT, environment

DATA = ROOT / "tests" / "data"
GPU = DATA / "A.host_sync.bad.pt.trace.json.gz"


def query(kscope, sql, *paths):
    run = kscope("query", "--json", *paths, sql)
    assert run.returncode == 0, run.stderr
    return [tuple(row) for row in json.loads(run.stdout)["rows"]]


@contextlib.contextmanager
def exported(kscope, target, *words):
    run = kscope("export", "--to", "sqlite", "-o", target, *words)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    with contextlib.closing(sqlite3.connect(f"file:{target}?mode=ro", uri=True)) as database:
        yield database


def tables_of(database, kind):
    rows = database.execute("select name from sqlite_schema where type = ? order by 1", (kind,))
    return [name for (name,) in rows if name != "kinetoscope"]


def schema_of(database, name):
    return [row[1:3] for row in database.execute(f"pragma table_info('{name}')")]


def test_tables_are_those_of_query(kscope, tmp_path):
    paths = [DATA / f"D.straggler.bad.rank{rank}.pt.trace.json.gz" for rank in (0, 1)]
    with exported(kscope, tmp_path / "x.db", *paths) as database:
        assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
        names = tables_of(database, "table")
        of_query = query(kscope, "select name from sqlite_schema order by 1", *paths)
        # A file holds one run: what two are compared by is empty without --compare, and left out.
        assert names == [name for (name,) in of_query if not name.startswith("fact_compare_")]
        for name in names:
            sql = f'select * from "{name}"'
            assert database.execute(sql).fetchall() == query(kscope, sql, *paths), name
            assert schema_of(database, name) == query(
                kscope, f"select name, type from pragma_table_info('{name}')", *paths
            )


def test_its_own_facts(kscope, tmp_path):
    with exported(kscope, tmp_path / "x.db", GPU) as database:
        facts = dict(database.execute("select key, value from kinetoscope"))
        origin = json.loads(kscope("report", "--json", GPU).stdout)["origin_ns"]
        assert facts["origin_ns"] == origin
        assert facts["version"] in kscope("version").stdout


def test_events_are_those_of_csv(kscope, tmp_path):
    with exported(kscope, tmp_path / "x.db", GPU) as database:
        cursor = database.execute("select * from events")
        rows = [
            ",".join("" if value is None else str(value) for value in row[:8]) for row in cursor
        ]
        names = ",".join(column[0] for column in cursor.description)
    lines = kscope("export", "--to", "csv", "--table", "events", GPU).stdout.splitlines()
    assert lines[0] == names
    assert sorted(rows) == sorted(",".join(line.split(",")[:8]) for line in lines[1:])


def test_what_is_chosen(kscope, tmp_path):
    words = ("--time", "20:35.5", "--category", "kernel,cpu_op")
    inside = "ts_ns < 35500000 and (ts_ns >= 20000000 or ts_ns + dur_ns > 20000000)"
    with exported(kscope, tmp_path / "x.db", *words, GPU) as database:
        for name, category in (("slice", "cpu_op"), ("gpu", "kernel")):
            found = database.execute(f"select * from {name}").fetchall()
            assert found == query(
                kscope, f"select * from {name} where {inside} and category = '{category}'", GPU
            )
            assert found
        assert not any(name.startswith("fact_") for name in tables_of(database, "table"))
    ((number,),) = query(kscope, "select number from fact_steps limit 1 offset 1", GPU)
    with exported(kscope, tmp_path / "x.db", "--steps", number, GPU) as database:
        assert database.execute("select number from fact_steps").fetchall() == [(number,)]


def test_names_that_attack(kscope, tmp_path):
    texts = ["a\0b", "é\U0001f600", "x" * 1_000_000, "'); drop table slice; --"]
    trace = tmp_path / "names.json"
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": i, "dur": 1}
        for i, name in enumerate(texts)
    ]
    trace.write_text(json.dumps({"traceEvents": events}))
    with exported(kscope, tmp_path / "x.db", trace) as database:
        assert [name for (name,) in database.execute("select name from slice")] == texts


def test_it_needs_a_file(kscope, tmp_path):
    for words in ((), ("-o", "-"), ("-o", "/dev/null"), ("-o", tmp_path / "x.db.gz")):
        run = kscope("export", "--to", "sqlite", *words, GPU)
        assert (run.returncode, run.stdout) == (2, "")
        assert "Cannot" in run.stderr
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- whole or not at all

FILES = {"sqlite": "x.db", "parquet": "x.parquet", "arrow": "x.arrow", "perfetto": "x.pftrace",
         "csv": "x.csv", "speedscope": "x.json", "chrome": "x.trace.json"}  # fmt: skip


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "large.json"
    events = [
        {"ph": "X", "cat": "cpu_op", "name": f"op {i} {'x' * 40}", "pid": 1, "tid": 1,
         "ts": 10 * i, "dur": 5}
        for i in range(100_000)
    ]  # fmt: skip
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))


def words_of(form, target, path):
    table = ["--table", "slice"] if form == "csv" else []
    return [PROGRAM, "export", "--to", form, *table, "-o", str(target), str(path)]


@pytest.mark.parametrize("form", FILES)
def test_a_full_disk_leaves_the_old_file(tmp_path, large, form):
    """The limit on the size of files stands for the disk; SIGXFSZ stays ignored, as Python has
    it."""
    target = tmp_path / FILES[form]
    target.write_text("old")
    run = subprocess.run(words_of(form, target, large), preexec_fn=limit_files, check=False,
                         restore_signals=False, capture_output=True, text=True,
                         env=environment())  # fmt: skip
    assert run.returncode == 125, run.stderr
    assert "Cannot write" in run.stderr
    assert [path.name for path in tmp_path.iterdir()] == [FILES[form]]
    assert target.read_text() == "old"


@pytest.mark.parametrize("form", FILES)
def test_interrupting_leaves_the_old_file(tmp_path, large, form):
    target = tmp_path / FILES[form]
    target.write_text("old")
    process = subprocess.Popen(words_of(form, target, large), env=environment())
    while process.poll() is None and len(list(tmp_path.iterdir())) < 2:
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    assert process.wait() in (-signal.SIGINT, 0)
    assert [path.name for path in tmp_path.iterdir()] == [FILES[form]]
    assert (target.read_text(errors="replace") == "old") == (process.returncode != 0)
