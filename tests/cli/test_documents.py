"""Goal: what is made for other programs to read is read by them as it is meant. Method: Markdown of
a trace whose names are full of markup; SARIF of a real trace with Python stacks."""

import gzip
import json
import re
import urllib.parse

import pytest
from cli_program import ROOT, SMALL

STACKS = ROOT / "tests" / "data" / "A.host_sync.bad.pt.trace.json.gz"


def report(kscope, *words, **options):
    run = kscope("report", *words, **options)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


# ---------------------------------------------------------------- Markdown


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def test_markdown_says_what_json_says(kscope):
    text = report(kscope, "--markdown", STACKS)
    doc = json.loads(report(kscope, "--json", STACKS))
    assert text.startswith(f"## {doc['verdict']['text']}\n")
    ids = re.findall(r"^### \d+\. .* \(`([a-z_.0-9]+)`, (low|medium|high)\)$", text, re.M)
    assert ids == [(finding["id"], finding["severity"]) for finding in doc["findings"]]
    for finding in doc["findings"]:
        assert f"```python\n{finding['fix']['code']}\n```\n" in text
        for evidence in finding["evidence"]:
            assert f"`{evidence['name']}` " in text
    checked = [cells(line) for line in text.splitlines() if re.match(r"\| `", line)]
    assert [row[0].strip("`") for row in checked] == [check["id"] for check in doc["checked"]]
    assert "At gen\\_corpus.py:109, aten::item.\n" in text


def test_every_table_of_markdown_is_whole(kscope):
    rows = [line for line in report(kscope, "--markdown", STACKS).splitlines() if line[:1] == "|"]
    heads = [index for index, row in enumerate(rows) if set(row) <= set("|-:")]
    assert len(heads) == 3
    for begin, end in zip(heads, [*(head - 1 for head in heads[1:]), len(rows)], strict=True):
        assert {len(cells(row)) for row in rows[begin - 1 : end]} == {len(cells(rows[begin]))}


def test_names_are_no_markup_in_markdown(kscope, tmp_path):
    name = "<img src=x>|**b**`c`[d](e)\n# f.json"
    (tmp_path / name).write_text(json.dumps(SMALL))
    text = report(kscope, "--markdown", name, cwd=tmp_path)
    assert "<img" not in text
    assert "&lt;img src=x>\\|\\*\\*b\\*\\*\\`c\\`\\[d\\](e)\\\\u000a\\# f.json" in text
    assert not re.search(r"^# f", text, re.M)


# ---------------------------------------------------------------- SARIF


def results(text):
    log = json.loads(text)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    return run


def test_sarif_holds_findings_with_a_line(kscope):
    run = results(report(kscope, "--sarif", STACKS))
    findings = json.loads(report(kscope, "--json", STACKS))["findings"]
    placed = [finding for finding in findings if finding["where"]["line"]]
    assert placed
    assert [result["ruleId"] for result in run["results"]] == [one["id"] for one in placed]
    assert run["properties"]["findings_without_line"] == len(findings) - len(placed)
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    levels = {"low": "note", "medium": "warning", "high": "error"}
    for result, finding in zip(run["results"], placed, strict=True):
        assert rules[result["ruleId"]]["help"]["text"].startswith(f"# {finding['id']}\n")
        assert result["level"] == levels[finding["severity"]]
        (place,) = result["locations"]
        assert place["physicalLocation"] == {
            "artifactLocation": {"uri": finding["where"]["file"]},
            "region": {"startLine": finding["where"]["line"]},
        }
        assert result["properties"]["saving_ns_per_step"] == finding["saving_ns_per_step"]


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("{folder}/sub dir/tra%in.py", "sub%20dir/tra%25in.py"),
        ("/else/where/ü.py", "file:///else/where/%C3%BC.py"),
        ("{folder}x/train.py", "file://{folder}x/train.py"),
    ],
)
def test_sarif_names_files_as_uris(kscope, tmp_path, file, uri):
    """The file of a frame is replaced in a trace with stacks."""
    text = gzip.decompress(STACKS.read_bytes()).decode()
    quoted = json.dumps(file.format(folder=tmp_path), ensure_ascii=False)[1:-1]
    trace = tmp_path / "trace.json"
    trace.write_text(text.replace("gen_corpus.py(", f"{quoted}("), encoding="utf-8")
    (result,) = results(report(kscope, "--sarif", trace, cwd=tmp_path))["results"]
    said = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert said == uri.format(folder=tmp_path)
    assert urllib.parse.unquote(said).endswith(file.split("/")[-1])


def test_sarif_without_findings_is_whole(kscope, small):
    run = results(report(kscope, "--sarif", small))
    assert (run["results"], run["tool"]["driver"]["rules"]) == ([], [])


# ---------------------------------------------------------------- both


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--markdown", "--json"], "Cannot use --markdown with --json"),
        (["--sarif", "--markdown"], "Cannot use --sarif with --markdown"),
        (["--json", "--table", "steps"], "JSON holds all tables"),
        (["--sarif", "--sort", "count"], "Cannot use --sort with --sarif"),
    ],
)
def test_one_format_at_a_time(kscope, small, words, message):
    run = kscope("report", *words, small)
    assert run.returncode == 2
    assert message in run.stderr
