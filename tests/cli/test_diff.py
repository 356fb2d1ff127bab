"""Goal: `kscope diff` keeps what docs/diff.md promises: exit status, options, the document, the
page, the tables of SQL, and the same numbers in each of them. Method: real pairs of runs, and small
ones made here; the schema is strict, so that an unknown or missing key fails."""

import json
import pathlib
import re
import sys

import jsonschema
import pytest
from cli_program import ROOT, SMALL

sys.path.insert(0, str(ROOT / "tests" / "support"))
import page_blocks  # noqa: E402

DATA = ROOT / "tests" / "data"
BEFORE = DATA / "A.host_sync.bad.pt.trace.json.gz"
AFTER = DATA / "A.host_sync.good.pt.trace.json.gz"
SCHEMA = json.loads((ROOT / "docs" / "diff.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
PAIRS = [
    (BEFORE, AFTER),
    (DATA / "A.leak.bad.pt.trace.json.gz", DATA / "A.python_bound.good.pt.trace.json.gz"),
    (DATA / "D.straggler.bad.rank0.pt.trace.json.gz", DATA / "A.healthy.good.pt.trace.json.gz"),
]


@pytest.fixture
def diff(kscope):
    def run(*words):
        result = kscope("diff", "--json", "--no-cache", *words)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    return run


def name_of(pair):
    return pair[0].name.split(".pt")[0]


@pytest.mark.parametrize("pair", PAIRS, ids=name_of)
@pytest.mark.parametrize("options", [[], ["--limit", "2"], ["--group-by", "shape"]])
def test_document_follows_schema(diff, pair, options):
    VALIDATOR.validate(diff(*options, *pair))


def test_schema_is_a_schema_and_says_no(diff):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    document = diff(BEFORE, AFTER)
    for change in (
        lambda doc: doc.pop("step"),
        lambda doc: doc["runs"][0].update(more=1),
        lambda doc: doc["operators"][0].update(state="maybe"),
        lambda doc: doc["runs"].pop(),
    ):
        broken = json.loads(json.dumps(document))
        change(broken)
        assert not VALIDATOR.is_valid(broken)


def test_each_null_has_a_reason(diff):
    """Of each list and key in which something is null."""
    document = diff(*PAIRS[2])

    def look(value, path):
        if value is None:
            assert path in document["reasons"], path
        elif isinstance(value, dict):
            for key, item in value.items():
                look(item, f"{path}.{key}" if path else key)
        elif isinstance(value, list):
            for item in value:
                look(item, f"{path}[]")

    look({key: value for key, value in document.items() if key != "reasons"}, "")
    assert len(document["reasons"]) > 3


def test_limit_cuts_lists_and_says_how_long_they_are(diff):
    whole, cut = diff(BEFORE, AFTER), diff("--limit", "3", BEFORE, AFTER)
    for key in ("operators", "kernels", "parts"):
        assert cut[key] == whole[key][:3]
        assert cut["truncated"][key] == len(whole[key])
    assert cut["truncated"]["runs[0].steps"] == 4 and len(cut["runs"][0]["steps"]) == 3
    assert "truncated" not in whole
    assert cut["step"] == whole["step"] and cut["verdict"] == whole["verdict"]


def test_text_says_the_numbers_of_the_document(kscope, diff):
    document = diff(BEFORE, AFTER)
    text = kscope("diff", "--width", "150", BEFORE, AFTER).stdout
    assert text.startswith(document["verdict"]["text"] + "\n")
    assert document["verdict"]["reason"] in text
    for row in document["findings"]:
        assert re.search(rf"^{row['state']} +{re.escape(row['id'])} ", text, re.M)
    for row in document["operators"][:10]:
        assert re.search(rf"^{re.escape(row['name'])} +{row['state']} ", text, re.M), row["name"]
    assert f"10 of {len(document['operators'])} rows; --all-rows shows all" in text
    every = kscope("diff", "--all-rows", BEFORE, AFTER).stdout
    assert "--all-rows shows" not in every and len(every) > len(text)


def test_page_holds_the_document(kscope, diff, tmp_path):
    page = tmp_path / "page.html"
    assert kscope("diff", "--no-cache", "--html", page, BEFORE, AFTER).returncode == 0
    written = page_blocks.Page(page)
    assert written.blocks["compare"] == diff("--limit", "1000", BEFORE, AFTER)
    other = tmp_path / "other.html"
    result = kscope("report", "--no-cache", "--html", other, "--compare", BEFORE, AFTER)
    assert result.returncode == 0
    assert other.read_bytes() == page.read_bytes()
    assert kscope("report", "--html", other, AFTER).returncode == 0
    assert "compare" not in page_blocks.Page(other).blocks
    assert "</script" not in page.read_text().split('id="compare">')[1].split("</script>")[0]


def test_tables_of_sql_hold_the_lists(kscope, diff):
    document = diff(BEFORE, AFTER)
    for list_name in ("recording", "parts", "operators", "kernels", "memory", "findings"):
        sql = f"select * from fact_compare_{list_name}"  # noqa: S608 - a name of ours
        found = json.loads(kscope("query", "--json", "--compare", BEFORE, AFTER, sql).stdout)
        assert found["row_count"] == len(document[list_name])
        assert json.loads(kscope("query", "--json", AFTER, sql).stdout)["row_count"] == 0
        for row, wanted in zip(found["rows"], document[list_name], strict=True):
            named = dict(zip(found["columns"], row, strict=True))
            for key, value in wanted.items():
                flat = value if isinstance(value, dict) else {None: value}
                for inner, cell in flat.items():
                    assert named[f"{key}_{inner}" if inner else key] == cell


def test_bytes_do_not_depend_on_threads_or_cache(kscope, tmp_path):
    plain = kscope("diff", "--json", "--no-cache", "--threads", "1", BEFORE, AFTER).stdout
    for words in (
        ["--threads", "4", "--no-cache"],
        ["--cache", tmp_path / "cache"],
        ["--cache", tmp_path / "cache"],
        ["--memory", "64M", "--no-cache"],
    ):
        assert kscope("diff", "--json", *words, BEFORE, AFTER).stdout == plain


def test_a_damaged_cache_changes_nothing(kscope, tmp_path):
    cache = tmp_path / "cache"
    plain = kscope("diff", "--json", "--no-cache", BEFORE, AFTER).stdout
    kscope("diff", "--json", "--cache", cache, BEFORE, AFTER)
    kept = [path for path in cache.rglob("*") if path.is_file()]
    for path in kept:
        data = bytearray(path.read_bytes())
        for at in range(len(data) // 3, len(data), max(1, len(data) // 50)):
            data[at] ^= 0xFF
        path.write_bytes(bytes(data))
    assert kscope("diff", "--json", "--cache", cache, BEFORE, AFTER).stdout == plain


def test_operators_are_those_of_the_steps_of_the_report(kscope, diff):
    """All steps of these traces are complete: `report --step` has the same work."""
    document = diff(BEFORE, AFTER)
    for side, path in (("a", BEFORE), ("b", AFTER)):
        report = json.loads(kscope("report", "--json", path).stdout)
        numbers = [step["number"] for step in report["steps"] if step["complete"]]
        chosen = f"{min(numbers)}..{max(numbers)}"
        kept = json.loads(kscope("report", "--json", "--step", chosen, path).stdout)
        operators = {(row["name"], row["kind"]): row for row in kept["operators"]}
        for row in document["operators"]:
            if row[side]["calls"] is None:
                assert (row["name"], row["kind"]) not in operators
                continue
            wanted = operators.pop((row["name"], row["kind"]))
            assert row[side]["calls"] == wanted["calls"] / len(numbers)
            assert row[side]["self_cpu_ns"] == wanted["self_cpu_ns"] / len(numbers)
            assert row[side]["self_device_ns"] == wanted["self_device_ns"] / len(numbers)
        assert not operators
        total = sum(row["total_ns"] for row in kept["kernels"])
        mine = sum(row[side]["total_ns"] or 0 for row in document["kernels"])
        assert mine == pytest.approx(total / len(numbers))


def test_parts_add_up(diff):
    document = diff(BEFORE, AFTER)
    for group in ("breakdown", "phase"):
        rows = [row for row in document["parts"] if row["group"] == group]
        for key, run in (("a_ns", 0), ("b_ns", 1)):
            mean = document["runs"][run]["mean_step_ns"]["value"]
            assert sum(row[key] for row in rows) == pytest.approx(mean)
        change = document["step"]["change_ns"]["value"]
        assert sum(row["change_ns"] for row in rows) == pytest.approx(change)


def test_steps_of_one_run_can_be_compared(diff):
    document = diff("--steps-a", "2..3", "--steps-b", "4..", BEFORE, BEFORE)
    assert [run["step_count"] for run in document["runs"]] == [2, 2]
    assert [step["number"] for step in document["runs"][1]["steps"]] == [4, 5]
    assert document["verdict"]["step"] == "cannot_tell"


def test_small_input_and_folders(diff, tmp_path, small):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "t.json").write_text(json.dumps(SMALL))
    document = diff(tmp_path / "a", tmp_path / "b")
    assert document["verdict"]["step"] == "cannot_tell"
    assert document["runs"][0]["step_count"] == 1
    assert document["runs"][0]["path"] == str(tmp_path / "a")
    empty = tmp_path / "empty.json"
    empty.write_text('{"traceEvents": []}')
    VALIDATOR.validate(diff(empty, small))
    assert "no steps" in diff(empty, empty)["verdict"]["reason"]


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ([BEFORE], 2, "A B"),
        ([BEFORE, AFTER, AFTER], 2, "Cannot use the word"),
        (["--limit", "0", BEFORE, AFTER], 2, "--limit"),
        (["--limit", "3", "--all-rows", BEFORE, AFTER], 2, "--all-rows"),
        (["--steps-a", "x", BEFORE, AFTER], 2, "--steps-a"),
        (["--html", "-", BEFORE, AFTER], 2, "standard output"),
        (["--html", BEFORE, BEFORE, AFTER], 2, "it is an input"),
        (["-o", AFTER, BEFORE, AFTER], 2, "it is an input"),
        ([BEFORE, "nowhere.json"], 3, "nowhere.json"),
        (["nowhere.json", AFTER], 3, "nowhere.json"),
        (["--steps-b", "900..", BEFORE, AFTER], 2, "steps"),
    ],
)
def test_refusals(kscope, words, status, said):
    result = kscope("diff", *words)
    assert result.returncode == status and said in result.stderr and result.stdout == ""
    failed = kscope("diff", "--json", *words)
    assert failed.returncode == status
    assert json.loads(failed.stdout)["schema"] == "kinetoscope.error/1"


def test_compare_wants_a_page(kscope):
    result = kscope("report", "--compare", BEFORE, AFTER)
    assert result.returncode == 2 and "--html" in result.stderr
    missing = kscope("query", "--compare", pathlib.Path("nowhere.json"), AFTER, "select 1")
    assert missing.returncode == 3 and "nowhere.json" in missing.stderr


def test_rules_of_the_user_are_compared(kscope, tmp_path):
    (tmp_path / "items.sql").write_text(
        "-- id: team.items\n-- title: Values are read one by one\n-- fix: Read {calls} at once.\n"
        "select calls, 0 as saving_low_ns, 1000 as saving_high_ns, name as op "
        "from fact_operators where name = 'aten::item'\n"
    )
    result = kscope("diff", "--json", "--rules", tmp_path, BEFORE, AFTER)
    document = json.loads(result.stdout)
    VALIDATOR.validate(document)
    (found,) = [row for row in document["findings"] if row["id"] == "team.items"]
    assert found["state"] == "gone" and found["where"]["operator"] == "aten::item"
    assert found["a"]["saving_high_ns"] == 1000
