"""Goal: `kscope query` keeps what docs/query.md promises: exit status, formats, limits, refusals.
Method: runs the program as a user would, with SQL that is wrong, hostile or endless."""

import csv
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import peak_memory
import pytest
from query_program import (
    DATA,
    FORMULA,
    ODD,
    PAGE,
    PROGRAM,
    TRACES,
    document,
    documented_tables,
    query,
    rows,
    start,
)

TRACE = TRACES["healthy"][0]
ENDLESS = "with recursive c(x) as (select 1 union all select x + 1 from c) select {} from c"


def said(result):
    text = result.stderr.decode()
    assert "\x1b" not in text
    return text


def only_document(result):
    return json.loads(result.stdout)


# ---------------------------------------------------------------- the schema


def test_page_holds_the_schema():
    schema = query("--schema").stdout.decode()
    assert schema.startswith("### slice\n")
    assert PAGE.read_text().endswith("\n\n" + schema), (
        "write it anew: build/kscope query --schema, behind the text of '## Tables'"
    )


def test_schema_is_what_sqlite_says():
    documented = documented_tables()
    assert {"slice", "gpu", "memory", "mark", "sample", "link", "track", "source", "string"} <= set(
        documented
    )
    names = [row["name"] for row in rows([TRACE], "select name from sqlite_schema")]
    assert names == list(documented)
    for name, columns in documented.items():
        found = rows([TRACE], f"pragma table_info({name})")
        assert [(row["name"], row["type"]) for row in found] == columns, name


def test_schema_needs_no_trace():
    result = query("--schema", TRACE)
    assert result.returncode == 2
    assert "with --schema" in said(result)


# ---------------------------------------------------------------- formats


def test_a_table_is_the_default():
    sql = "select name, calls from fact_kernels order by calls desc, name limit 2"
    result = query("--width", "60", TRACE, sql)
    assert (result.returncode, said(result)) == (0, "")
    lines = result.stdout.decode().splitlines()
    assert len(lines) == 3
    assert re.fullmatch(r"name +calls", lines[0])
    assert all(len(line) <= 60 for line in lines)
    assert query("--table", "--width", "60", TRACE, sql).stdout == result.stdout
    calls = [row["calls"] for row in rows([TRACE], sql)]
    assert [int(line.split()[-1]) for line in lines[1:]] == calls


def test_table_shows_null_numbers_and_bytes():
    sql = "select null as a, 1e999 as b, -0.5 as c, x'00ff' as d, 'x' as e, 9223372036854775807"
    lines = query(TRACE, sql).stdout.decode().splitlines()
    assert lines[1].split() == ["-", "Infinity", "-0.5", "x'00ff'", "x", "9223372036854775807"]


def test_table_of_no_rows_is_its_head():
    assert query(TRACE, "select 1 as a where 0").stdout == b"a\n"


def test_table_of_many_rows_keeps_whole_numbers():
    """Widths come from the first rows; a later number may be wider."""
    sql = (
        "with recursive c(x) as (select 1 union all select x + 1 from c where x < 1000) "
        "select case when x < 900 then x else x * 1000000007 end as n, 'text' as t from c"
    )
    lines = query(TRACE, sql).stdout.decode().splitlines()
    assert len(lines) == 1001
    assert lines[1000].split() == ["1000000007000", "text"]


def test_csv():
    sql = "select 'a,\"b\"' as \"x,y\", null as n, '' as e, 0.1 as r, 'c' || char(10) || 'd' as l"
    result = query("--csv", TRACE, sql)
    assert result.returncode == 0
    assert result.stdout == b'"x,y","n","e","r","l"\n"a,""b""",,"",0.1,"c\nd"\n'
    header, row = csv.reader(io.StringIO(result.stdout.decode()))
    assert header == ["x,y", "n", "e", "r", "l"]
    assert row == ['a,"b"', "", "", "0.1", "c\nd"]


def test_json():
    sql = "select 1 as a, null as a, 0.5 as b, 'x' as c, x'0aff' as d, 1e999 as e"
    found = document([TRACE], sql)
    assert found == {
        "schema": "kinetoscope.query/1",
        "columns": ["a", "a", "b", "c", "d", "e"],
        "rows": [[1, None, 0.5, "x", "0aff", None]],
        "row_count": 1,
        "truncated": False,
    }


@pytest.mark.parametrize("number", [2**53 + 1, 2**63 - 1, -(2**63)])
def test_integers_are_exact(number):
    sql = f"select {number if number > -(2**63) else '-9223372036854775807 - 1'}"
    assert document([TRACE], sql)["rows"] == [[number]]
    assert query("--csv", TRACE, sql).stdout.decode().splitlines()[1] == str(number)


def test_odd_names(odd):
    found = [row["name"] for row in rows([odd], "select name from slice order by id")]
    assert found == [ODD, FORMULA.replace("HYPER", "HYPER\ufffd"), None, "aten::mm", "-5"]
    text = query("--csv", odd, "select name from slice order by id").stdout.decode()
    cells = [row[0] if row else "" for row in csv.reader(io.StringIO(text, newline=""))]
    assert cells[1:] == [
        ODD.replace("\0", "\ufffd"),
        "'" + FORMULA.replace("HYPER", "HYPER\ufffd"),
        "",
        "aten::mm",
        "'-5",
    ]
    table = query(odd, "select name from slice order by id").stdout.decode()
    assert table.splitlines()[1] == "a\\u0000b\\u202e\\u0007,\"'\\u000aline"
    assert "HYPER" in table.splitlines()[2]


def test_odd_names_can_be_asked_for(odd):
    rest = ODD[2:].replace("'", "''")
    sql = f"select id from slice where name = 'a' || char(0) || '{rest}'"
    assert rows([odd], sql) == [{"id": 0}]
    assert rows([odd], "select id from slice where name is null") == [{"id": 2}]
    assert rows([odd], "select s.id from slice s join string t on t.id = s.name_id "
                       "where t.text = 'aten::mm'") == [{"id": 3}]  # fmt: skip


def test_a_column_name_cannot_act_on_the_terminal():
    result = query(TRACE, 'select 1 as "\x1b[31mred"')
    assert b"\x1b" not in result.stdout
    assert b"\\u001b[31mred" in result.stdout


def test_formats_exclude_each_other():
    for pair in (("--json", "--csv"), ("--csv", "--table"), ("--table", "--json")):
        assert query(*pair, TRACE, "select 1").returncode == 2


def test_output_file(tmp_path):
    path = tmp_path / "rows.csv"
    assert query("--csv", "-o", path, TRACE, "select 1 as a").returncode == 0
    assert path.read_text() == '"a"\n1\n'
    assert query("--csv", "-o", path, TRACE, "select abs(-9223372036854775808)").returncode == 2
    assert path.read_text() == '"a"\n1\n'
    assert list(tmp_path.iterdir()) == [path]


# ---------------------------------------------------------------- the statement


def test_sql_from_a_file(tmp_path):
    path = tmp_path / "one.sql"
    path.write_bytes(b"\xef\xbb\xbf-- comment\nselect 1 as a;\n")
    assert query("--csv", TRACE, "-f", path).stdout == b'"a"\n1\n'
    result = query("--csv", TRACE, "--file", "-", input=b"select 2 as a")
    assert result.stdout == b'"a"\n2\n'
    result = query(TRACE, "-f", tmp_path / "none.sql")
    assert result.returncode == 3
    assert "Cannot read SQL: No such file" in said(result)
    assert query("-", "-f", "-", input=b"").returncode == 2


def test_sql_in_a_file_names_its_place(tmp_path):
    path = tmp_path / "bad.sql"
    path.write_text("select 1,\n  nope\nfrom slice\n")
    result = query(TRACE, "-f", path)
    assert result.returncode == 2
    assert (
        said(result)
        == f"kscope: {path}: Cannot run query: no such column: nope (line 2, column 3)\n"
    )


def test_a_trace_from_standard_input():
    sql = "select count(*) as n from gpu"
    result = query("--csv", "-", sql, input=TRACE.read_bytes())
    assert result.stdout == query("--csv", TRACE, sql).stdout


def test_several_ranks():
    found = rows(
        TRACES["straggler"],
        "select t.rank, count(*) as n from gpu g join track t on t.id = g.track_id "
        "group by t.rank order by t.rank",
    )
    assert [row["rank"] for row in found] == [0, 1]
    for rank, row in enumerate(found):
        (alone,) = rows([TRACES["straggler"][rank]], "select count(*) as n from gpu")
        assert alone["n"] == row["n"]


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ([], 2, "Cannot query without TRACE and SQL"),
        (["select 1"], 2, "both TRACE and SQL"),
        (["-f", "/dev/null"], 2, "without TRACE"),
        ([TRACE, "selec 1"], 2, "syntax error (line 1, column 1)"),
        ([TRACE, "select 1; select 2"], 2, "(line 1, column 11)"),
        ([TRACE, ""], 2, "it is empty"),
        ([TRACE, "-f", "/dev/null"], 2, "it is empty"),
        (["no-such-file", "select 1"], 3, "no-such-file: Cannot open"),
        (["no-such-file", "select nope"], 2, "no such column"),  # said before a trace is read
        ([TRACE, "select 1", "--max-seconds", "0"], 2, "number from 1"),
        ([TRACE, "select 1", "--limit", "0"], 2, "number from 1"),
        ([TRACE, "select 1", "--memory", "lots"], 2, "512M"),
    ],
)
def test_mistakes(words, status, message):
    result = query(*words)
    assert (result.returncode, result.stdout) == (status, b"")
    assert message in said(result)


@pytest.mark.parametrize("sql", ["select nope", "select 1; select 2", "attach 'x' as y"])
def test_json_on_failure(sql):
    result = query("--json", TRACE, sql)
    assert result.returncode == 2
    found = only_document(result)
    assert found["schema"] == "kinetoscope.error/1"
    assert found["error"]["code"] == "usage"


# ---------------------------------------------------------------- hostile statements


@pytest.mark.parametrize(
    "sql",
    [
        "insert into slice(id) values (1)",
        "drop table slice",
        "create table t(a)",
        "attach '{path}' as x",
        "vacuum into '{path}'",
        "pragma writable_schema = 1",
        "pragma temp_store_directory = '/tmp'",
        "select load_extension('{path}')",
        "select writefile('{path}', 'x')",
        "select readfile('/etc/passwd')",
        "select * from pragma_database_list",
        "explain delete from slice",
        "select 1 from slice into outfile '{path}'",
        "\x00",
    ],
)
def test_nothing_is_written_or_loaded(sql, tmp_path):
    path = tmp_path / "made.db"
    file = tmp_path / "statement.sql"
    file.write_text(sql.format(path=path))
    result = query(TRACE, "-f", file)
    assert (result.returncode, result.stdout) == (2, b"")
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("sql", "statuses"),
    [
        ("select " + "(" * 100_000 + "1", (2,)),
        ("select " + "not " * 100_000 + "1", (2, 3)),
        ("select " + "1+" * 200_000 + "1", (2, 3)),
        ("select 1" + " union all select 1" * 20_000, (2, 3)),
        ("select " + ",".join("1" * 5000), (2, 3)),
        ("select 1 from " + ",".join(f"slice t{i}" for i in range(70)), (2,)),
        ("select " + "x" * 2_000_000, (3,)),
        ("select '" + "a" * 2_000_000 + "'", (3,)),
        ("select zeroblob(2147483647)", (3,)),
        ("select hex(zeroblob(33000000))", (3,)),
        ("select replace(hex(zeroblob(10000)), '0', hex(zeroblob(10000)))", (3,)),
        ("select group_concat(a.name, '') from slice a, slice b limit 1", (3,)),
        ("select json('" + "[" * 100_000 + "')", (2,)),
        ("select name from slice where name like '" + "%a" * 600 + "'", (2, 3)),
        (b"select '\xff\xfe\x00'", (2,)),
        (bytes(range(256)) * 100, (2,)),
    ],
    ids=range(16),
)
def test_excess_is_refused(sql, statuses, tmp_path):
    path = tmp_path / "statement.sql"
    path.write_bytes(sql if isinstance(sql, bytes) else sql.encode())
    result = query(TRACE, "-f", path, "--max-seconds", "5", "--memory", "64M")
    assert result.returncode in statuses, said(result)
    assert "Cannot " in said(result)


def peak_of(tmp_path, *words):
    """(exit status, peak memory in bytes) of the program."""
    file = tmp_path / "peak"
    command = peak_memory.command([PROGRAM, *words], file)
    run = subprocess.run(command, stdout=subprocess.DEVNULL, timeout=120)
    return run.returncode, peak_memory.peak_bytes(file)


def test_memory_stays_within_its_limit(tmp_path):
    """Rows that are sorted or kept go to a file; what cannot is refused."""
    numbers = "with recursive c(x) as (select 1 union all select x + 1 from c limit 60000)"
    sql = f"{numbers} select hex(randomblob(500)) as t from c order by t"
    options = ("--memory", "64M", "--max-seconds", "60")
    status, peak = peak_of(tmp_path, "query", *options, TRACE, sql)
    assert status == 0
    assert peak < 200 << 20
    sql = "select max(t) from (select group_concat(hex(randomblob(100000)), '') as t from slice)"
    options = ("--memory", "16M", "--max-seconds", "20")
    status, peak = peak_of(tmp_path, "query", *options, TRACE, sql)
    assert status == 3
    assert peak < 150 << 20


# ---------------------------------------------------------------- limits of time and rows


@pytest.mark.parametrize("columns", ["count(*)", "x"])
def test_an_endless_query_is_stopped(columns):
    began = time.monotonic()
    result = query("--csv", "--max-seconds", "1", "-o", "/dev/null", TRACE, ENDLESS.format(columns))
    assert result.returncode == 3
    assert "longer than 1 s" in said(result)
    assert time.monotonic() - began < 30


def test_an_endless_scan_is_stopped():
    sql = "select count(*) from slice a, slice b, slice c where a.id + b.id + c.id = -1"
    result = query("--max-seconds", "1", TRACE, sql)
    assert (result.returncode, result.stdout) == (3, b"")


def test_a_function_that_never_looks_at_the_clock():
    sql = "select instr(hex(zeroblob(8000000)), hex(zeroblob(4000000)) || '1')"
    began = time.monotonic()
    assert query("--max-seconds", "1", TRACE, sql).returncode == 3
    assert time.monotonic() - began < 30


def test_rows_until_the_limit_are_kept():
    result = query("--json", "--max-seconds", "1", TRACE, ENDLESS.format("x"))
    assert result.returncode == 3
    found = only_document(result)
    assert found["error"]["code"] == "limit"
    assert found["row_count"] == len(found["rows"]) > 1000
    assert [row[0] for row in found["rows"][:3]] == [1, 2, 3]


def test_a_failure_behind_the_first_row():
    sql = (
        "select abs(x) as x from (select 1 as x union all select 2 "
        "union all select -9223372036854775807 - 1)"
    )
    result = query("--json", TRACE, sql)
    assert result.returncode == 2
    found = only_document(result)
    assert found["rows"] == [[1], [2]]
    assert found["error"] == {"code": "usage", "message": "Cannot run query: integer overflow"}
    assert said(result).count("\n") == 1
    result = query("--csv", TRACE, sql)
    assert (result.returncode, result.stdout) == (2, b'"x"\n1\n2\n')


@pytest.mark.parametrize(("limit", "cut"), [(2, True), (3, False), (4, False)])
def test_limit(limit, cut):
    found = document([TRACE], "values (1), (2), (3)", "--limit", limit)
    assert found["row_count"] == len(found["rows"]) == min(limit, 3)
    assert found["truncated"] is cut
    text = query("--limit", limit, TRACE, "values (1), (2), (3)").stdout.decode()
    assert ("there are more" in text) is cut


def interrupt(*words):
    """Sends Ctrl-C when the query runs, which is when it has written its first rows."""
    process = subprocess.Popen(
        [PROGRAM, "query", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    first = os.read(process.stdout.fileno(), 1 << 16)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return process.returncode, first + out, err.decode()


def test_interrupt_ends_the_document():
    status, out, err = interrupt("--json", TRACE, ENDLESS.format("x"))
    assert (status, err) == (-signal.SIGINT, "kscope: Cannot finish query: interrupted\n")
    found = json.loads(out)
    assert found["error"]["code"] == "cancelled"
    assert found["row_count"] == len(found["rows"])


def test_interrupt_leaves_no_file(tmp_path):
    path = tmp_path / "rows.csv"
    process = subprocess.Popen(
        [PROGRAM, "query", "--csv", "-o", path, TRACE, ENDLESS.format("x")], stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 60
    while not any(file.stat().st_size for file in tmp_path.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, b"interrupted" in err) == (-signal.SIGINT, True)
    assert list(tmp_path.iterdir()) == []


def test_a_second_interrupt_ends_at_once(tmp_path):
    """Inside a function that asks nobody."""
    sql = "select instr(hex(zeroblob(8000000)), hex(zeroblob(4000000)) || '1')"
    process = subprocess.Popen(
        [PROGRAM, "query", "-o", tmp_path / "x", TRACE, sql], stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.iterdir()):  # the file is opened right before the query starts
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == -signal.SIGINT
    assert list(tmp_path.iterdir()) == []


def test_nobody_reads():
    with subprocess.Popen(
        [PROGRAM, "query", "--csv", TRACE, ENDLESS.format("x")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        os.read(process.stdout.fileno(), 100)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode in (141, -signal.SIGPIPE)  # Python had it ignored, or did not


def test_a_full_disk():
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [PROGRAM, "query", "--csv", TRACE, "select * from slice"],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert result.returncode == 125


# ---------------------------------------------------------------- the rest


def test_rows_looked_at_are_said():
    (track,) = rows(
        [TRACE],
        "select track_id as id, min(ts_ns) as ts_ns from slice "
        "group by 1 order by count(*) desc limit 1",
    )
    sql = (
        f"select name from slice where track_id = {track['id']} "
        f"and ts_ns < {track['ts_ns'] + 1_000_000}"
    )
    result = query("--json", "--verbose", TRACE, sql)
    looked = int(re.search(r"(\d+) rows of events were looked at", said(result))[1])
    assert looked == only_document(result)["row_count"]
    (total,) = rows([TRACE], "select count(*) as n from slice")
    assert 0 < looked < total["n"] / 5


def test_little_memory_gives_the_same_rows():
    sql = (
        "select s.name, count(*), sum(g.dur_ns) from slice s join gpu g using (correlation) "
        "group by 1"
    )
    path = DATA / "A.leak.bad.pt.trace.json.gz"
    assert query("--csv", "--memory", "4M", path, sql).stdout == query("--csv", path, sql).stdout


def test_colours_and_width_of_a_terminal():
    main, side = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", "COLUMNS": ""}
    env.pop("NO_COLOR", None)
    subprocess.run([PROGRAM, "query", TRACE, "select 1 as one"], stdout=side, env=env, timeout=60)
    assert select.select([main], [], [], 10)[0]
    text = os.read(main, 4096)
    os.close(main)
    os.close(side)
    assert text.startswith(b"\x1b[1mone")


def test_damaged_input_is_refused_when_strict(tmp_path):
    path = tmp_path / "cut.json"
    path.write_text('{"traceEvents": [{"ph": "X", "name": "k", "ts": 1, "dur": 1}, {"ph"')
    assert query(path, "select count(*) from slice").returncode == 0
    assert query("--strict", path, "select 1").returncode == 3


def test_version_names_sqlite():
    assert json.loads(start("version", "--json").stdout)["libraries"]["sqlite"].startswith("3.")
