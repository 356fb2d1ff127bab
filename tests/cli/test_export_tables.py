"""Goal: exported tables hold the rows that SQL shows, in files that other programs read. Method:
each table of real traces is read back by two readers of the format (pyarrow with DuckDB or
nanoarrow), and compared cell by cell with the answer of kscope query."""

import csv
import io
import json
import math
import subprocess

import duckdb
import nanoarrow
import pyarrow
import pyarrow.parquet
import pytest
from cli_program import PROGRAM, ROOT, environment
from nanoarrow.ipc import InputStream

DATA = ROOT / "tests" / "data"
GPU = DATA / "A.host_sync.bad.pt.trace.json.gz"
SCANS = ["slice", "gpu", "memory", "mark", "sample", "link"]
NAMES = ["track", "source", "string", "stack", "call_path"]
LISTS = (
    "operators kernels steps phases idle devices streams copies copy_sites syncs places links "
    "findings inputs regions functions samples"
).split()
TABLES = SCANS + NAMES + LISTS
EVENTS = """
select t.source_id, t.rank, p.number as pid, t.number as tid, null as device, null as stream,
       e.ts_ns, e.dur_ns, e.name, e.category, e.external_id, e.correlation, e.sequence,
       e.input_shapes, null as bytes
from slice e join track t on t.id = e.track_id left join track p on p.id = t.parent_id
where {host}
union all
select t.source_id, t.rank, null, null, e.device, e.stream, e.ts_ns, e.dur_ns, e.name, e.category,
       e.external_id, e.correlation, null, null, e.bytes
from gpu e join track t on t.id = e.track_id
where {gpu}
"""


def query(kscope, sql, *paths):
    run = kscope("query", "--json", *paths, sql)
    assert run.returncode == 0, run.stderr
    document = json.loads(run.stdout)
    return document["columns"], [tuple(row) for row in document["rows"]]


def export(kscope, tmp_path, form, *words):
    target = tmp_path / f"table.{form}"
    run = kscope("export", "--to", form, "-o", target, *words)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    return target


def rows_of(table):
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def read_parquet(path):
    """By pyarrow, after DuckDB was seen to read the same."""
    table = pyarrow.parquet.read_table(path)
    table.validate(full=True)
    rows = rows_of(table)
    assert duckdb.sql(f"select * from '{path}'").fetchall() == rows
    return table.column_names, rows


def read_arrow(path):
    """By pyarrow from the footer, after nanoarrow read the same from front to end."""
    with pyarrow.OSFile(str(path)) as file, pyarrow.ipc.open_file(file) as reader:
        table = reader.read_all()
    table.validate(full=True)
    rows = rows_of(table)
    stream = io.BytesIO(path.read_bytes()[len(b"ARROW1\0\0") :])
    with InputStream.from_readable(stream) as source:
        assert list(nanoarrow.Array(nanoarrow.ArrayStream(source)).iter_tuples()) == rows
    return table.column_names, rows


READERS = {"parquet": read_parquet, "arrow": read_arrow}


def sql_of(table):
    return f'select * from "{"fact_" if table in LISTS else ""}{table}"'


@pytest.mark.parametrize("form", READERS)
@pytest.mark.parametrize("table", TABLES)
def test_tables_hold_what_sql_shows(kscope, tmp_path, form, table):
    names, rows = READERS[form](export(kscope, tmp_path, form, "--table", table, GPU))
    assert (names, rows) == query(kscope, sql_of(table), GPU)


@pytest.mark.parametrize("form", READERS)
def test_events_join_host_and_gpu(kscope, tmp_path, form):
    paths = [DATA / f"D.straggler.bad.rank{rank}.pt.trace.json.gz" for rank in (0, 1)]
    names, rows = READERS[form](export(kscope, tmp_path, form, *paths))
    truth_names, truth = query(kscope, EVENTS.format(host=1, gpu=1), *paths)
    assert names == truth_names
    assert sorted(rows, key=repr) == sorted(truth, key=repr)
    assert {row[names.index("rank")] for row in rows} == {0, 1}


def test_csv_has_the_same_rows(kscope):
    for table in ("events", *SCANS, *NAMES):
        text = kscope("export", "--to", "csv", "--table", table, GPU).stdout
        lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
        sql = EVENTS.format(host=1, gpu=1) if table == "events" else sql_of(table)
        names, rows = query(kscope, sql, GPU)
        assert lines[0] == names
        wanted = [["" if value is None else value for value in row] for row in rows]
        found = [
            [type(want)(cell) for cell, want in zip(line, row, strict=True)]
            for line, row in zip(lines[1:], wanted, strict=True)
        ]
        key = repr if table == "events" else (lambda row: 0)
        assert sorted(found, key=key) == sorted(wanted, key=key)


# ---------------------------------------------------------------- what is chosen


def chosen(kscope, tmp_path, form, *words, table="events"):
    names, rows = READERS[form](export(kscope, tmp_path, form, "--table", table, *words, GPU))
    return [dict(zip(names, row, strict=True)) for row in rows]


@pytest.mark.parametrize("form", READERS)
def test_times_choose_what_overlaps(kscope, tmp_path, form):
    found = chosen(kscope, tmp_path, form, "--time", "20:35.5")
    inside = "(ts_ns < 35500000 and (ts_ns >= 20000000 or ts_ns + dur_ns > 20000000))"
    _, truth = query(kscope, EVENTS.format(host=inside, gpu=inside), GPU)
    assert 0 < len(found) == len(truth)
    assert sum(row["dur_ns"] for row in found) == sum(row[7] for row in truth)


@pytest.mark.parametrize("form", READERS)
def test_categories_choose_rows(kscope, tmp_path, form):
    found = chosen(kscope, tmp_path, form, "--category", "kernel,Operator")
    assert {row["category"] for row in found} == {"kernel", "cpu_op"}
    _, truth = query(kscope, "select count(*) from slice where category = 'cpu_op' union all "
                             "select count(*) from gpu where category = 'kernel'", GPU)  # fmt: skip
    assert len(found) == sum(row[0] for row in truth)
    assert chosen(kscope, tmp_path, form, "--category", "kernel", table="mark") == []


@pytest.mark.parametrize("form", READERS)
def test_steps_choose_rows(kscope, tmp_path, form):
    _, ((number, start, length),) = query(
        kscope, "select number, host_start_ns, host_ns from fact_steps limit 1 offset 1", GPU
    )
    found = chosen(kscope, tmp_path, form, "--steps", str(number), table="slice")
    assert found
    assert all(start <= row["ts_ns"] < start + length for row in found)
    found = chosen(kscope, tmp_path, form, "--steps", str(number), table="gpu")
    assert found
    assert all(start <= row["launch_ns"] < start + length for row in found
               if row["launch_ns"] is not None)  # fmt: skip
    (kernels,) = query(
        kscope, f"select count(*) from gpu where launch_ns >= {start} and "
        f"launch_ns < {start + length}", GPU
    )[1]  # fmt: skip
    assert len([row for row in found if row["launch_ns"] is not None]) == kernels[0]


def test_what_cannot_be_chosen_is_refused(kscope):
    for words, message in (
        (("csv", "--time", "1:2"), "of whole steps"),
        (("parquet", "--table", "kernels", "--category", "kernel"), "of whole steps"),
        (("parquet", "--category", "kernel,mine"), "category mine"),
        (("parquet", "--table", "nothing"), "must be one of"),
        (("csv", "--compression", "none"), "goes with parquet"),
        (("chrome", "--device", "0"), "not read that deep"),
    ):
        run = kscope("export", "--to", *words, GPU)
        assert (run.returncode, run.stdout) == (2, ""), words
        assert message in run.stderr


# ---------------------------------------------------------------- shapes of tables


def write_trace(path, events):
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def span(index, **changes):
    event = {"ph": "X", "cat": "cpu_op", "name": f"op {index % 700}", "pid": 1, "tid": 1,
             "ts": 10 * index, "dur": 5}  # fmt: skip
    return {**event, **changes}


@pytest.mark.parametrize("form", READERS)
@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_many_rows(kscope, tmp_path, form, compression):
    """More than a batch of rows, with a column that is sometimes known, and runs of all lengths."""
    events = [
        span(i, name=f"op {i // 9 if i % 1000 < 300 else i % 700}",
             args={"External id": i} if i % 3 else {})
        for i in range(70_000)
    ]  # fmt: skip
    trace = write_trace(tmp_path / "many.json", events)
    path = export(kscope, tmp_path, form, "--table", "slice", "--compression", compression, trace)
    names, rows = READERS[form](path)
    assert len(rows) == 70_000
    assert [row[names.index("name")] for row in rows] == [event["name"] for event in events]
    assert [row[names.index("external_id")] for row in rows] == [
        event["args"].get("External id") for event in events
    ]


def test_parquet_has_groups_and_statistics(kscope, tmp_path):
    trace = write_trace(tmp_path / "many.json", [span(i) for i in range(70_000)])
    facts = pyarrow.parquet.ParquetFile(export(kscope, tmp_path, "parquet", trace)).metadata
    groups = [facts.row_group(i) for i in range(facts.num_row_groups)]
    assert [group.num_rows for group in groups] == [65_536, 70_000 - 65_536]
    times = [group.column(facts.schema.names.index("ts_ns")).statistics for group in groups]
    assert [(one.min, one.max) for one in times] == [
        (0, 655_350_000), (655_360_000, 699_990_000)
    ]  # fmt: skip
    assert facts.metadata[b"kinetoscope.table"] == b"events"


@pytest.mark.parametrize("form", READERS)
def test_an_empty_table(kscope, tmp_path, form, small):
    names, rows = READERS[form](export(kscope, tmp_path, form, "--table", "memory", small))
    assert (names, rows) == query(kscope, "select * from memory", small)
    assert rows == []


@pytest.mark.parametrize("form", READERS)
def test_names_that_attack(kscope, tmp_path, form):
    texts = ["", "a\0b", "é\U0001f600", "x" * 1_000_000, "\ufffd", 'say "it"', "line\nend"]
    trace = tmp_path / "names.json"
    write_trace(trace, [span(i, name=text) for i, text in enumerate(texts)])
    names, rows = READERS[form](export(kscope, tmp_path, form, "--table", "slice", trace))
    found = [row[names.index("name")] for row in rows]
    assert found == [text or None for text in texts]


@pytest.mark.parametrize("form", READERS)
def test_a_path_that_is_no_text(kscope, tmp_path, form, small):
    folder = bytes(tmp_path) + b"/\xff"
    (tmp_path / "table").mkdir()
    with open(folder + b".json", "wb") as file:
        file.write(small.read_bytes())
    target = tmp_path / f"table.{form}"
    subprocess.run([PROGRAM, "export", "--to", form, "--table", "source", "-o", str(target),
                    folder + b".json"], check=True, env=environment())  # fmt: skip
    names, rows = READERS[form](target)
    assert rows[0][names.index("path")].endswith("/\ufffd.json")


@pytest.mark.parametrize("form", READERS)
def test_reals(kscope, tmp_path, form):
    values = [0.0, -0.0, 1.5, -2.25, 1e300, 5e-324]
    events = [
        {"ph": "C", "name": "c", "pid": 1, "ts": i, "args": {"v": value}}
        for i, value in enumerate(values)
    ]
    trace = write_trace(tmp_path / "reals.json", [span(0), *events])
    names, rows = READERS[form](export(kscope, tmp_path, form, "--table", "mark", trace))
    found = [row[names.index("value")] for row in rows]
    assert found == values
    assert [math.copysign(1, one) for one in found] == [math.copysign(1, one) for one in values]
