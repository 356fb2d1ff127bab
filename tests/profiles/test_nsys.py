"""Goal: an export of Nsight Systems gives the report that torch's trace of the same run gives where
both know the same, and no database runs code, hangs or takes memory without bound. Method: traces
as exports of several ages (nsys_from_trace.py), each beside its trace; hand-made databases with
one thing that is wrong; flipped bytes, cut files and pages that name themselves."""

import gzip
import json
import math
import shutil
import sqlite3
import struct
import subprocess
import sys
from decimal import Decimal

import pytest
from profile_program import PROGRAM, ROOT, report, start

sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "tests" / "tools"))
import nsys_from_trace
import peak_memory

EXIT_INPUT = 3
DATA = ROOT / "tests" / "data"
NAMES = ("host_sync.bad", "pageable.bad", "dataloader.bad", "healthy.good", "fp32.bad")
VARIANTS = tuple(nsys_from_trace.VARIANTS)

# What an export does not have: operators, and the occupancy that CUPTI's users estimate.
NOT_IN_EXPORTS = {
    "steps": {"breakdown_ns", "idle_by_cause_ns", "phases_ns", "start_ns", "host_start_ns"},
    "devices": {"occupancy", "start_ns", "idle_by_cause_ns"},
    "streams": {"idle_by_cause_ns"},
    "kernels": {"occupancy"},
    "copies": set(),
}


def trace_path(name):
    return next(DATA.glob(f"A.{name}.pt.trace.json.*"))


@pytest.fixture(scope="module")
def traces():
    return {name: nsys_from_trace.load(trace_path(name)) for name in NAMES}


def without(rows, keys):
    return [{key: value for key, value in row.items() if key not in keys} for row in rows]


def check_same(got, want, path=""):
    """Equal, but for numbers that the trace has as decimals of its own."""
    if isinstance(want, float) and isinstance(got, float):
        assert math.isclose(got, want, rel_tol=1e-6), path
    elif isinstance(want, dict):
        assert got.keys() == want.keys(), path
        for key, value in want.items():
            check_same(got[key], value, f"{path}.{key}")
    elif isinstance(want, list):
        assert len(got) == len(want), path
        for i, value in enumerate(want):
            check_same(got[i], value, f"{path}[{i}]")
    else:
        assert got == want, path


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", NAMES)
def test_report_is_that_of_the_trace(traces, name, variant, tmp_path):
    path = nsys_from_trace.convert([traces[name]], tmp_path / "run.sqlite", variant)
    got, want = report(path), report(trace_path(name))
    for key, keys in NOT_IN_EXPORTS.items():
        check_same(without(got[key], keys), without(want[key], keys), key)
    for step, other in zip(got["steps"], want["steps"], strict=True):
        assert sum(step["idle_by_cause_ns"].values()) == sum(other["idle_by_cause_ns"].values())
        for part in ("kernel", "memcpy", "memset", "runtime"):
            assert step["breakdown_ns"][part] == other["breakdown_ns"][part]
    launches = without(got["links"], {"ext_id"}) if isinstance(got["links"], list) else got["links"]
    assert launches == want["links"]
    assert got["inputs"][0]["format"] == "nsys"


def as_json(trace):
    """The text of a trace with its decimals as they were."""
    text = json.dumps(trace, default=lambda number: f"@{number}@")
    return text.replace('"@', "").replace('@"', "")


def stripped(trace):
    """What an export has of the trace."""
    events = []
    for event in trace["traceEvents"]:
        if event.get("ph") == "X" and event.get("cat") in nsys_from_trace.ADD:
            args = dict(event.get("args", {}))
            args.pop("est. achieved occupancy %", None)
            args.pop("External id", None)
            events.append({**event, "args": args})
    return {
        **trace,
        "traceEvents": events,
        "record_shapes": 0,
        "profile_memory": 0,
        "with_flops": 0,
    }


@pytest.mark.parametrize("name", NAMES)
def test_report_is_that_of_a_trace_without_operators(traces, name, tmp_path):
    """All of it, findings too."""
    path = nsys_from_trace.convert([traces[name]], tmp_path / "run.sqlite")
    other = tmp_path / "run.json"
    other.write_text(as_json(stripped(traces[name])))
    got, want = report(path), report(other)
    for key in ("inputs", "environment", "generator"):
        del got[key], want[key]
    for document in (got, want):
        for key in ("environment.cuda", "environment.driver"):
            document["reasons"].pop(key, None)
    check_same(got, want)


def test_findings_that_need_no_operators(traces, tmp_path):
    path = nsys_from_trace.convert([traces["pageable.bad"]], tmp_path / "run.sqlite")
    found = {finding["id"] for finding in report(path)["findings"]}
    assert "copy.pageable" in found
    path = nsys_from_trace.convert([traces["host_sync.bad"]], tmp_path / "run.sqlite")
    document = report(path)
    assert not {"launch.bound", "host.python_gap"} & {f["id"] for f in document["findings"]}
    states = {row["id"]: row for row in document["checked"]}
    assert "no operators" in json.dumps(states["launch.bound"])


def test_processes_do_not_mix(traces, tmp_path):
    """Two processes with the same correlations, devices and streams: ranks, each as it is alone."""
    first, second = traces["host_sync.bad"], traces["pageable.bad"]
    shift = int(second["baseTimeNanoseconds"]) - int(first["baseTimeNanoseconds"])
    moved = {**second, "traceEvents": []}
    pid = nsys_from_trace.program_of(first) + 1
    program = nsys_from_trace.program_of(second)
    for event in second["traceEvents"]:
        event = dict(event)
        if "ts" in event:
            event["ts"] = Decimal(str(event["ts"])) + Decimal(shift) / 1000
        if event.get("pid") == program:
            event["pid"] = pid
        moved["traceEvents"].append(event)
    path = nsys_from_trace.convert([first, moved], tmp_path / "both.sqlite")
    both = report(path)
    assert [row["rank"] for row in both["inputs"]] == [0, 1]
    assert all(row["counts"]["ranks_by_process"] == 1 for row in both["inputs"])
    for rank, name in enumerate(("host_sync.bad", "pageable.bad")):
        want = report(trace_path(name))["steps"]
        got = [step for step in both["steps"] if step["rank"] == rank]
        assert [step["dur_ns"] for step in got] == [step["dur_ns"] for step in want]
    assert not any("gpu_before_launch" in row["counts"] for row in both["inputs"])


def test_info_query_and_names(traces, tmp_path):
    path = nsys_from_trace.convert([traces["host_sync.bad"]], tmp_path / "run.sqlite")
    info = start("info", path).stdout
    assert "nsys" in info and "NVIDIA H100" in info
    rows = events(path, "select distinct name from slice where category = 'cuda_runtime'")
    assert ["cudaLaunchKernel"] in rows and not any("_v" in row[0] for row in rows)


# ---------------------------------------------------------------------- ranges, marks, work


@pytest.fixture
def export(tmp_path):
    made = nsys_from_trace.Export(tmp_path / "x.sqlite")
    made.path = tmp_path / "x.sqlite"
    return made


TID = nsys_from_trace.global_id(7, 8)
WORK = {"deviceId": 0, "streamId": 7, "globalPid": nsys_from_trace.global_id(7)}


def add_kernel(export, start_ns, end_ns, name="k", **more):
    export.add("CUPTI_ACTIVITY_KIND_KERNEL", start=start_ns, end=end_ns, **WORK,
               demangledName=export.string(name), shortName=0, **more)  # fmt: skip


def add_range(export, start_ns, end_ns, name, kind=59):
    export.add("NVTX_EVENTS", start=start_ns, end=end_ns, eventType=kind, text=name, globalTid=TID)


def events(path, sql):
    done = start("query", "--json", path, sql)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["rows"]


def test_ranges_of_each_kind(export):
    add_range(export, 10, 90, "step")
    add_range(export, 20, None, "open")
    add_range(export, 30, None, "mark", kind=34)
    add_range(export, 5, 200, "across threads", kind=60)
    add_range(export, 0, None, "domain", kind=75)
    add_range(export, 40, 50, "aten::mm, seq = 12, op_id = 3, sizes = [[2, 2]]")
    export.close()
    rows = events(export.path, "select name, category, ts_ns, dur_ns from slice order by 3, 1")
    assert rows == [
        ["across threads", "user_annotation", 0, 195],
        ["step", "user_annotation", 5, 80],
        ["open", "user_annotation", 15, 0],
        ["aten::mm", "cpu_op", 35, 10],
    ]
    assert events(export.path, "select name from mark") == [["mark"]]
    counts = report(export.path)["inputs"][0]["counts"]
    assert counts["unfinished_slices"] == 1 and counts["metadata_events"] == 1


@pytest.mark.parametrize("name", ["training step", "step {}", "iteration_{}"])
def test_steps_are_repeated_ranges(export, name):
    for i in range(5):
        add_range(export, i * 1000, i * 1000 + 900, name.format(i))
        add_kernel(export, i * 1000 + 100, i * 1000 + 500)
    export.close()
    steps = report(export.path)["steps"]
    assert len(steps) == 5 and {step["source"] for step in steps} == {"span"}


def test_graphs_as_a_whole_are_work(export):
    columns = "start, end, deviceId, streamId, correlationId, globalPid, graphId"
    export.db.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE ({columns})")
    export.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=10, end=60, **WORK, graphId=4)
    export.close()
    kernels = report(export.path)["kernels"]
    assert [(row["name"], row["total_ns"]) for row in kernels] == [("CUDA graph 4", 50)]


def test_rows_that_cannot_be_are_counted(export):
    export.db.execute("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL")
    export.db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, "
                      "globalPid, demangledName, shortName)")  # fmt: skip
    for start_ns, end_ns in ((None, 5), ("x", 5), (9, 5), ((1 << 63) - 5, (1 << 63) - 4), (2.5, 5)):
        add_kernel(export, start_ns, end_ns)
    add_kernel(export, 10, 20)
    export.add("CUPTI_ACTIVITY_KIND_KERNEL", start=30, end=40, **WORK, demangledName=99)
    export.close()
    counts = report(export.path)["inputs"][0]["counts"]
    assert counts["missing_time"] == 3 and counts["negative_duration"] == 1
    assert counts["time_out_of_range"] == 1 and counts["names_missing"] == 1
    names = {row["name"] for row in report(export.path)["kernels"]}
    assert names == {"k", "kernel 99"}


# ---------------------------------------------------------------------- hostile databases


def refuse(path, *words):
    done = start("report", "--json", *words, path)
    assert done.returncode == EXIT_INPUT, (done.returncode, done.stdout[:300])
    return json.loads(done.stdout)["error"]


@pytest.fixture
def small(export):
    for i in range(300):
        add_kernel(export, i * 100, i * 100 + 50, name=f"kernel number {i % 50} with a name")
    export.close()
    return export.path


def kernels_of(document):
    return sum(row["calls"] for row in document["kernels"])


def patch(path, offset, data):
    with open(path, "r+b") as file:
        file.seek(offset)
        file.write(data)
    return path


@pytest.mark.parametrize(
    ("offset", "data", "word"),
    [(16, b"\x03\xe8", "page_size=1000"), (16, b"\0\0", "page_size=0"),
     (19, b"\x07", "read_version"), (20, b"\xff", "reserved"), (44, b"\0\0\0\x09", "schema_format"),
     (56, b"\0\0\0\x09", "text_encoding")],
)  # fmt: skip
def test_headers_that_cannot_be(small, offset, data, word):
    error = refuse(patch(small, offset, data))
    assert error["offset"] == offset and word in error["message"] and "page=1" in error["message"]


def test_databases_of_others_are_named(tmp_path):
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE a(b)")
    assert "no table that nsys export writes" in refuse(path)["message"]
    path.write_bytes(b"SQLite format 3\0")
    assert refuse(path)["offset"] == 16


def test_compressed_ones_are_refused(small, tmp_path):
    packed = tmp_path / "x.sqlite.gz"
    packed.write_bytes(gzip.compress(small.read_bytes()))
    assert "plain file" in refuse(packed)["message"]


@pytest.mark.parametrize("name", ["odd ?#%&.sqlite", "ünï.sqlite", "a'b\".sqlite"])
def test_names_of_files(small, tmp_path, name):
    path = tmp_path / name
    shutil.copy(small, path)
    assert kernels_of(report(path)) == 300


def test_views_are_not_read(small):
    with sqlite3.connect(small) as db:
        db.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO hidden")
        db.execute("CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT * FROM hidden")
    document = report(small)
    assert kernels_of(document) == 0
    assert document["inputs"][0]["counts"]["tables_damaged"] == 1
    assert "no plain tables" in refuse(small, "--strict")["message"]


@pytest.mark.parametrize("module", ["fts5(start, end)", "rtree(id, a, b)", "unknown(a)"])
def test_virtual_tables_are_refused(small, module):
    """Also when the schema gives them another name than their statement does."""
    with sqlite3.connect(small) as db:
        db.execute("DROP TABLE CUPTI_ACTIVITY_KIND_MEMSET")
        db.execute("PRAGMA writable_schema=ON")
        sql = f"CREATE VIRTUAL TABLE CUPTI_ACTIVITY_KIND_MEMSET USING {module}"
        row = ("table", "harmless", "harmless", 0, sql)
        db.execute("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", row)
    error = refuse(small)
    assert "neither a table nor a view" in error["message"] and "harmless" in error["message"]


def test_generated_columns_are_not_computed(small):
    with sqlite3.connect(small) as db:
        db.execute("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL")
        db.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, deviceId INT, "
                   "streamId INT, globalPid INT, end INT AS (length(hex(start))))")  # fmt: skip
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 0, 7, 0)")
    document = report(small)
    assert [row["total_ns"] for row in document["kernels"]] == [0]


def test_triggers_and_checks_do_no_harm(small):
    with sqlite3.connect(small) as db:
        db.execute("CREATE TRIGGER t AFTER INSERT ON StringIds BEGIN DELETE FROM StringIds; END")
        db.execute("CREATE INDEX i ON CUPTI_ACTIVITY_KIND_KERNEL(start, end) WHERE end > 5")
    before = small.read_bytes()
    assert kernels_of(report(small)) == 300
    assert small.read_bytes() == before
    assert not list(small.parent.glob("*-journal")) + list(small.parent.glob("*-wal"))


@pytest.mark.parametrize(("count", "words"), [(65, "have GPU work"), (5000, "than 4096 proc")])
def test_processes_meet_a_limit(export, count, words):
    for pid in range(count):
        more = {**WORK, "globalPid": nsys_from_trace.global_id(pid)}
        export.add("CUPTI_ACTIVITY_KIND_KERNEL", start=pid, end=pid + 1, **more,
                   demangledName=1, shortName=0)  # fmt: skip
    export.close()
    assert words in refuse(export.path)["message"]


def test_huge_texts_meet_a_limit(small):
    with sqlite3.connect(small) as db:
        db.execute("INSERT INTO StringIds VALUES (1000, hex(zeroblob(9000000)))")
        db.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 1000 WHERE start = 0")
    document = report(small)
    assert document["inputs"][0]["counts"]["tables_damaged"] == 1
    error = refuse(small, "--strict")
    assert "page=" in error["message"] and "StringIds" in error["message"]


def root_page(path, table):
    with sqlite3.connect(path) as db:
        return db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()[
            0
        ]


def page_size(path):
    return struct.unpack(">H", path.read_bytes()[16:18])[0]


def interior_page(size, children):
    """A page of a table whose cells name these children."""
    page = bytearray(size)
    at = size
    for i, child in enumerate(children[:-1]):
        at -= 6
        page[at : at + 6] = struct.pack(">IBB", child, 0x81, i % 128)
        struct.pack_into(">H", page, 12 + 2 * i, at)
    struct.pack_into(">BHHHBI", page, 0, 5, 0, len(children) - 1, at, 0, children[-1])
    return bytes(page)


@pytest.mark.parametrize("shape", ["itself", "twice", "many times"])
def test_pages_that_name_themselves_end(small, shape):
    """A tree without end, or of 300 ^ 3 times the same leaf, made of three pages."""
    size = page_size(small)
    root = root_page(small, "CUPTI_ACTIVITY_KIND_KERNEL")
    whole = small.read_bytes()
    count = len(whole) // size
    leaf = first_leaf(whole, size, root)
    if shape == "itself":
        pages = {root: [root, root]}
        extra = []
    elif shape == "twice":
        pages = {root: [leaf, leaf]}
        extra = []
    else:
        extra = [count + 1, count + 2]
        pages = {root: [extra[0]] * 300, extra[0]: [extra[1]] * 300, extra[1]: [leaf] * 300}
    small.write_bytes(whole + bytes(size * len(extra)))
    patch(small, 28, struct.pack(">I", count + len(extra)))
    for page, children in pages.items():
        patch(small, (page - 1) * size, interior_page(size, children))
    document = report(small)
    assert document["inputs"][0]["counts"].get("tables_damaged", 0) == (shape != "twice")
    if shape != "twice":
        error = refuse(small, "--strict")
        assert f"page={error['offset'] // size + 1}" in error["message"]
        assert error["offset"] % size == 0


def first_leaf(data, size, page):
    at = (page - 1) * size
    while data[at] == 5:
        cell = struct.unpack_from(">H", data, at + 12)[0]
        page = struct.unpack_from(">I", data, at + cell)[0]
        at = (page - 1) * size
    return page


def test_a_damaged_page_is_named(small):
    size = page_size(small)
    data = small.read_bytes()
    root = root_page(small, "CUPTI_ACTIVITY_KIND_KERNEL")
    assert data[(root - 1) * size] == 5  # the table has several pages
    cell = struct.unpack_from(">H", data, (root - 1) * size + 12 + 2)[0]
    second = struct.unpack_from(">I", data, (root - 1) * size + cell)[0]
    patch(small, (second - 1) * size, b"\xee")
    document = report(small)
    assert 0 < kernels_of(document) < 300
    assert document["inputs"][0]["counts"]["tables_damaged"] == 1
    error = refuse(small, "--strict")
    assert error["offset"] == (second - 1) * size and f"page={second}:" in error["message"]


def test_cut_files(small):
    data = small.read_bytes()
    size = page_size(small)
    seen = set()
    for pages in range(len(data) // size):
        small.write_bytes(data[: pages * size + 100])
        done = start("report", "--json", small)
        document = json.loads(done.stdout)
        assert done.returncode in (0, EXIT_INPUT)
        if done.returncode == 0:
            assert document["inputs"][0]["counts"]["unterminated"] == 1
            seen.add(kernels_of(document))
            assert start("report", "--strict", small).returncode == EXIT_INPUT
        else:
            assert document["error"]["offset"] is not None
    assert max(seen) > 0


def test_flipped_bytes_never_crash(small, tmp_path):
    data = small.read_bytes()
    other = tmp_path / "flipped.sqlite"
    codes = set()
    for at in [*range(16, 100), *range(100, len(data), max(1, len(data) // 300))]:
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        other.write_bytes(bytes(flipped))
        done = start("report", "--json", other)
        codes.add(done.returncode)
        json.loads(done.stdout)
    assert codes <= {0, EXIT_INPUT} and 0 in codes


def test_a_schema_of_the_same_pages_ends(small):
    """The first page names 300 times a page that names 300 times the page of 300 leaves: all of it
    would be read before any table is."""
    with sqlite3.connect(small) as db:
        for i in range(200):  # so that the schema has several pages
            db.execute(f"CREATE TABLE {'more' * 30}{i} (a, b, c)")
    data, size = small.read_bytes(), page_size(small)
    count = len(data) // size
    assert data[100] == 5
    leaf = struct.unpack_from(">I", data, struct.unpack_from(">H", data, 112)[0])[0]
    first = bytearray(interior_page(size, [count + 1] * 300))
    offset = 100
    head, cells = first[:12], first[12 : 12 + 2 * 299]
    first[:100], first[offset : offset + 12] = data[:100], head
    first[offset + 12 : offset + 12 + len(cells)] = cells
    more = interior_page(size, [count + 2] * 300) + interior_page(size, [leaf] * 300)
    small.write_bytes(bytes(first) + data[size:] + more)
    patch(small, 28, struct.pack(">I", count + 2))
    error = refuse(small)
    assert "more rows or texts than the file has bytes for" in error["message"]


def test_long_names_of_memory_are_not_read_for_each_copy(export):
    export.db.execute("INSERT INTO ENUM_CUDA_MEM_KIND VALUES (1, 'x', hex(zeroblob(4000000)))")
    for i in range(20_000):
        export.add("CUPTI_ACTIVITY_KIND_MEMCPY", start=i * 100, end=i * 100 + 50, bytes=5,
                   copyKind=1, srcKind=1, dstKind=2, **WORK)  # fmt: skip
    export.close()
    document = report(export.path)
    assert sum(row["calls"] for row in document["copies"]) == 20_000


def test_names_that_are_not_there_stay_apart(export):
    for i in range(4):
        export.add("CUPTI_ACTIVITY_KIND_KERNEL", start=i * 100, end=i * 100 + 50, **WORK,
                   demangledName=500 + i % 2, shortName=900)  # fmt: skip
    export.close()
    rows = {row["name"]: row["calls"] for row in report(export.path)["kernels"]}
    assert rows == {"kernel 500": 2, "kernel 501": 2}


@pytest.mark.parametrize("ending", ["-journal", "-wal"])
def test_a_database_that_is_written_is_told(small, ending):
    beside = small.with_name(small.name + ending)
    beside.touch()  # an empty one is left behind by who has ended
    assert "database_being_written" not in report(small)["inputs"][0]["counts"]
    beside.write_bytes(b"x")
    assert report(small)["inputs"][0]["counts"]["database_being_written"] == 1
    assert "journal" in refuse(small, "--strict")["message"]


def test_the_highest_version_of_a_table_counts(small):
    with sqlite3.connect(small) as db:
        for version, rows in ((2, 5), (10, 7)):
            table = f"CUPTI_ACTIVITY_KIND_KERNEL_V{version}"
            db.execute(
                f"CREATE TABLE {table} AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL LIMIT {rows}"
            )
    assert kernels_of(report(small)) == 7


def test_memory_is_bounded(tmp_path):
    """Of a million events mostly their rows are kept, and none of the strings that nobody needs."""
    export = nsys_from_trace.Export(tmp_path / "big.sqlite")
    name = export.string("kernel")
    process = nsys_from_trace.global_id(7)
    export.db.executemany(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, globalPid, "
        "demangledName, shortName) VALUES (?, ?, 0, 7, ?, ?, 0)",
        ((i * 100, i * 100 + 50, process, name) for i in range(200_000)),
    )
    export.db.executemany("INSERT INTO StringIds VALUES (?, ?)",
                          ((i, f"symbol {i} " * 10) for i in range(10, 200_000)))  # fmt: skip
    export.close()
    file = tmp_path / "peak"
    words = peak_memory.command([PROGRAM, "report", "--no-cache", tmp_path / "big.sqlite"], file)
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    assert peak_memory.peak_bytes(file) < 120_000_000
