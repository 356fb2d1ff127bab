"""Goal: the JSON is what its schema and docs/report.md say, and each number is the same in every
output. Method: the schema is strict, so an unknown or missing key fails; tables are read back and
compared with the JSON, one test a metric."""

import copy
import json
import os
import pathlib
import re
import subprocess

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))
SCHEMA = json.loads((ROOT / "docs" / "report.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
DATA = ROOT / "tests" / "data"
INPUTS = sorted((ROOT / "tests" / "golden" / "kineto").glob("*/*.json*")) + [
    DATA / "A.dataloader.bad.pt.trace.json.gz",
    DATA / "A.leak.bad.pt.trace.json.gz",
    DATA / "D.straggler.bad.rank0.pt.trace.json.gz",
]
BROAD = DATA / "A.leak.bad.pt.trace.json.gz"


def run(*words):
    env = {**os.environ, "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
    command = [PROGRAM, "report", *map(str, words)]
    result = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=env)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refuse(name):
    raise ValueError(f"{name} is not JSON")


def report(*words):
    return json.loads(run("--json", *words), parse_constant=refuse)


def name_of(path):
    return f"{path.parent.name}/{path.name}"


# ---------------------------------------------------------------- schema


def test_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", INPUTS, ids=name_of)
def test_report_follows_schema(path):
    VALIDATOR.validate(report(path))


@pytest.mark.parametrize(
    "options", [["--group-by", "shape"], ["--limit", "2"], ["--sort", "count"], ["--step", "3..4"]]
)
def test_options_follow_schema(options):
    VALIDATOR.validate(report(*options, BROAD))


def objects_of(value, path=()):
    if isinstance(value, dict):
        yield path, value
        for key, item in value.items():
            yield from objects_of(item, (*path, key))
    elif isinstance(value, list) and value:
        yield from objects_of(value[0], (*path, 0))


def test_schema_sees_a_key_too_many_and_one_too_few():
    document = report(DATA / "A.dataloader.bad.pt.trace.json.gz")
    free = {"counts", "reasons", "truncated"}  # objects whose keys are data
    for path, _ in objects_of(document):
        if path and path[-1] in free:
            continue
        planted = copy.deepcopy(document)
        target = planted
        for key in path:
            target = target[key]
        target["Planted"] = 1
        assert not VALIDATOR.is_valid(planted), path
        del target["Planted"]
        if target:
            target.pop(next(iter(target)))
            assert not VALIDATOR.is_valid(planted), path


def keys_of_schema(schema, found):
    for key, value in schema.get("properties", {}).items():
        found.add(key)
        keys_of_schema(value, found)
    if "items" in schema:
        keys_of_schema(schema["items"], found)
    return found


def test_every_key_is_explained():
    text = (ROOT / "docs" / "report.md").read_text()
    words = set(re.findall(r"[a-z0-9_]+", text))
    assert keys_of_schema(SCHEMA, set()) - words == set()


def test_every_counter_is_explained():
    text = (ROOT / "docs" / "report.md").read_text()
    names = re.findall(r"KS_STAT\((\w+),", (ROOT / "core/store/stats.def").read_text())
    assert [name for name in names if f"`{name}`" not in text] == []


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("path", INPUTS, ids=name_of)
def test_sums(path):
    document = report(path)
    for step in document["steps"]:
        assert sum(step["breakdown_ns"].values()) == step["dur_ns"]
        assert step["dur_ns"] >= step["host_ns"] or step["index"] > 0
    for device in document["devices"]:
        assert device["busy_ns"] + device["idle_ns"] == device["span_ns"]
        assert device["exposed_comm_ns"] <= device["comm_ns"] <= device["busy_ns"]
    assert [f["order"] for f in document["findings"]] == [
        i + 1 for i in range(len(document["findings"]))
    ]


def nulls_of(value, path=""):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from nulls_of(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for item in value:
            yield from nulls_of(item, f"{path}[]")
    elif value is None:
        yield path


@pytest.mark.parametrize("options", [[], ["--limit", "1"]], ids=["all", "first"])
@pytest.mark.parametrize("path", INPUTS, ids=name_of)
def test_each_null_has_a_reason(path, options):
    document = report(*options, path)
    reasons = document.pop("reasons")
    free = ("findings[].where", "findings[].fix", "findings[].verify", "checked[].reason")
    missing = {p for p in nulls_of(document) if p not in reasons and not p.startswith(free)}
    assert missing == set()
    assert set(reasons) <= set(nulls_of(document))


def test_rows_left_out_need_no_reason(tmp_path):
    def row(category, name, start, length):
        ids = {"ph": "X", "pid": 1, "tid": 1}
        return {**ids, "cat": category, "name": name, "ts": start, "dur": length}

    rows = [
        row("python_function", "train.py(7): step", 0, 50),
        row("cuda_runtime", "cudaStreamSynchronize", 10, 30),
        row("cuda_runtime", "cudaDeviceSynchronize", 60, 5),
    ]
    path = tmp_path / "two_waits.json"
    path.write_text(json.dumps({"traceEvents": rows}))
    assert "syncs[].where.file" in report(path)["reasons"]
    first = report("--limit", "1", path)
    assert first["syncs"][0]["where"]["file"] == "train.py"
    assert "syncs[].where.file" not in first["reasons"]


def test_batches_a_second_are_of_the_steps_shown():
    document = report("--step", "3..4", DATA / "A.dataloader.bad.pt.trace.json.gz")
    (loader,) = document["data_loading"]["loaders"]
    assert loader["batches"] == 4  # of the recording; one a step
    seconds = sum(step["dur_ns"] for step in document["steps"]) / 1e9
    assert loader["batches_per_s"] == pytest.approx(2 / seconds)


@pytest.mark.parametrize("memory", ["1M", "4M"])
def test_tables_that_spill_give_the_same_bytes(memory):
    path = DATA / "A.healthy.good.pt.trace.json.gz"
    assert run("--json", "--memory", memory, path) == run("--json", path)


# ---------------------------------------------------------------- the same number everywhere

UNITS = {
    "ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
    "%": 0.01, "B/s": 1, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9,
    "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "": 1,
}  # fmt: skip


def read_cell(text):
    if text in ("-", "yes", "no"):
        return {"-": None, "yes": True, "no": False}[text]
    match = re.fullmatch(r"(-?[\d,]+\.?\d*) ?(\S*)", text)
    if match and match[2] in UNITS:
        return float(match[1].replace(",", "")) * UNITS[match[2]]
    return text


def read_table(text):
    """Rows as lists of cells; columns are two blanks apart or more."""
    lines = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    return lines[0], [[read_cell(cell) for cell in line] for line in lines[1:]]


def look_up(row, key):
    for part in key.split("."):
        row = row[part]
    return row


METRICS = [
    ("operators", "operator", "name"), ("operators", "calls", "calls"),
    ("operators", "self CPU", "self_cpu_ns"), ("operators", "CPU", "cpu_ns"),
    ("operators", "self GPU", "self_device_ns"), ("operators", "GPU", "device_ns"),
    ("operators", "self GPU mem", "self_device_bytes"),
    ("kernels", "calls", "calls"), ("kernels", "total", "total_ns"), ("kernels", "mean", "mean_ns"),
    ("kernels", "tensor core", "tensor_core"), ("kernels", "occupancy", "occupancy"),
    ("steps", "step", "number"), ("steps", "host", "host_ns"), ("steps", "time", "dur_ns"),
    ("steps", "kernel", "breakdown_ns.kernel"), ("steps", "memset", "breakdown_ns.memset"),
    ("steps", "runtime", "breakdown_ns.runtime"), ("steps", "cpu", "breakdown_ns.cpu"),
    ("steps", "other", "breakdown_ns.other"),
    ("devices", "span", "span_ns"), ("devices", "busy", "busy_ns"), ("devices", "idle", "idle_ns"),
    ("devices", "util", "util"), ("devices", "compute", "compute_ns"),
    ("devices", "kernels", "kernel_count"),
    ("streams", "busy", "busy_ns"), ("streams", "gaps", "gap_ns"),
    ("streams", "events", "work_count"), ("streams", "stream", "stream"),
    ("copies", "calls", "calls"), ("copies", "bytes", "bytes"), ("copies", "total", "total_ns"),
    ("copies", "rate", "bytes_per_s"), ("copies", "copy", "kind"),
    ("links", "launches", "launches"), ("links", "linked", "linked"),
    ("links", "delay min", "delay_ns.min"), ("links", "median", "delay_ns.median"),
    ("links", "max", "delay_ns.max"),
    ("idle", "step", "number"), ("idle", "time", "dur_ns"), ("idle", "idle", "idle_ns"),
    ("idle", "host code", "idle_by_cause_ns.host_code"),
    ("idle", "launch", "idle_by_cause_ns.launch"),
    ("idle", "data", "idle_by_cause_ns.data"), ("idle", "profiler", "idle_by_cause_ns.profiler"),
    ("inputs", "events", "events"), ("inputs", "text", "bytes"), ("inputs", "status", "status"),
    ("findings", "of step", "share"), ("findings", "saves", "saving_ns_per_step.low"),
    ("findings", "to", "saving_ns_per_step.high"), ("findings", "id", "id"),
]  # fmt: skip


# Which trace holds rows of a table, when it is not BROAD.
HOLDERS = {
    "findings": "A.dataloader.bad.pt.trace.json.gz",
    "copies": "D.straggler.bad.rank0.pt.trace.json.gz",
    "idle": "A.dataloader.bad.pt.trace.json.gz",
}
JSON_LISTS = {"idle": "steps"}  # tables that show rows of another list


@pytest.fixture(scope="module")
def outputs():
    """JSON and tables of the traces that hold all metrics, made once."""
    memo = {}

    def get(table):
        path = DATA / HOLDERS.get(table, BROAD.name)
        if path not in memo:
            memo[path] = report(path)
        if table not in memo:
            memo[table] = run("--table", table, "--all-rows", "--width", "1000", path)
        rows = memo[path][JSON_LISTS.get(table, table)]
        return rows if isinstance(rows, list) else [rows], memo[table]

    return get


@pytest.mark.parametrize(("table", "title", "key"), METRICS)
def test_table_and_json_agree(outputs, table, title, key):
    rows, text = outputs(table)
    titles, cells = read_table(text)
    assert title in titles, titles
    assert len(cells) == len(rows) > 0
    column = titles.index(title)
    for row, line in zip(rows, cells, strict=True):
        wanted, shown = look_up(row, key), line[column]
        if isinstance(wanted, (int, float)) and not isinstance(wanted, bool):
            # Three digits are shown, and shares are rounded to whole per cents.
            step = 0.005 if key in ("util", "occupancy", "share") else 0.5
            assert shown == pytest.approx(wanted, rel=0.0051, abs=step), (row, line)
        else:
            assert shown == wanted


def check_idle_line(text, steps):
    line = re.search(r"GPU idle ([\d.]+ %) of a step: (.*)", text)
    total = sum(step["dur_ns"] for step in steps)
    idle = sum(step["idle_ns"] for step in steps)
    assert read_cell(line[1]) == pytest.approx(idle / total, abs=0.005)
    shown = re.findall(r"([a-z ]+[a-z]) ([\d.]+ %)", line[2])
    assert [cause.strip() for cause, _ in shown] == ["data", "launch", "host code", "profiler"]
    for cause, share in shown:
        key = cause.strip().replace(" ", "_")
        wanted = sum(step["idle_by_cause_ns"][key] for step in steps) / total
        assert read_cell(share) == pytest.approx(wanted, rel=0.0051, abs=0.005)


def test_screen_and_json_agree():
    path = DATA / "A.dataloader.bad.pt.trace.json.gz"
    text, document = run(path), report(path)
    assert text.startswith(document["verdict"]["text"])
    first = document["findings"][0]
    assert first["title"] in text and first["id"] in text
    check_idle_line(text, document["steps"])
    saves = re.search(r"saves ([\d.]+ \w+) to ([\d.]+ \w+) a step", text)
    for shown, bound in zip(saves.groups(), ("low", "high"), strict=True):
        assert read_cell(shown) == pytest.approx(first["saving_ns_per_step"][bound], rel=0.0051)
    busy = re.search(r"busy ([\d.]+ %) of ([\d.]+ \w+)", text)
    assert read_cell(busy[1]) == pytest.approx(document["devices"][0]["util"], abs=0.005)
    assert read_cell(busy[2]) == pytest.approx(document["devices"][0]["span_ns"], rel=0.0051)
