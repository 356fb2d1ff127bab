"""Goal: rules that users write run as docs/user_rules.md says. Method: the examples of the page on
real traces, compared with the report's own numbers; and rules by hand for what goes wrong."""

import functools
import json
import re

import pytest
from query_program import ROOT, TRACES, report, start

PAGE = ROOT / "docs" / "user_rules.md"

RISK = "-- id: team.rule\n-- title: A title\n-- impact: risk\n-- fix: Do it\n"


def examples():
    """Title to SQL, from the page."""
    part = PAGE.read_text().split("## Rules to start from")[1]
    sections = re.split(r"^### ", part, flags=re.M)[1:]
    return {
        section.split("\n", 1)[0]: re.search(r"```sql\n(.*?)```", section, re.S)[1]
        for section in sections
    }


EXAMPLES = examples()


@pytest.fixture
def rules(tmp_path):
    """A folder for rules; gives a function that writes one and gives the folder."""
    folder = tmp_path / "rules"
    folder.mkdir()

    def write(text, name="a.sql"):
        (folder / name).write_text(text)
        return folder

    return write


@functools.cache
def plain_report(trace):
    return report(TRACES[trace])


def judge(trace, folder, *options):
    result = start("report", "--json", "--rules", folder, *options, *TRACES[trace])
    assert result.returncode == 0, result.stderr.decode()
    return json.loads(result.stdout)


def found_by(document, rule_id="team.rule"):
    return [finding for finding in document["findings"] if finding["id"] == rule_id]


def plain_findings(document):
    return [finding for finding in document["findings"] if not finding["id"].startswith("team.")]


# ---------------------------------------------------------------- the examples of the page


def check_forbidden(document, findings):
    calls = {op["name"]: op["calls"] for op in document["operators"] if op["kind"] == "op"}
    expected = ("aten::nonzero", "aten::masked_select", "aten::unique_consecutive", "aten::item")
    assert {f["where"]["operator"]: f["evidence"][0]["value"] for f in findings} == {
        name: calls[name] for name in expected if name in calls
    }
    assert all(f["severity"] == "medium" and f["impact"] == "risk" for f in findings)


def check_memset(document, findings):
    sets = [kernel for kernel in document["kernels"] if kernel["kind"] == "memset"]
    steps = [step["dur_ns"] for step in document["steps"] if step["complete"]]
    per_step = sum(kernel["total_ns"] for kernel in sets) // max(len(steps), 1)
    is_much = bool(steps) and per_step > 0.001 * sum(steps) / len(steps)
    assert [f["saving_ns_per_step"]["high"] for f in findings] == [per_step] * is_much


def check_slow_steps(document, findings):
    steps = sorted(step["dur_ns"] for step in document["steps"] if step["complete"])
    middle = steps[(len(steps) + 1) // 2 - 1] if steps else 0
    slow = {
        step["number"]
        for step in document["steps"]
        if step["complete"] and step["dur_ns"] > 1.001 * middle
    }
    assert {f["where"]["steps"][0] for f in findings} <= slow
    if not plain_findings(document):
        assert bool(findings) == bool(slow)


def check_sync_lines(document, findings):
    steps = sum(step["complete"] for step in document["steps"])
    places = [
        (s["where"]["file"], s["where"]["line"])
        for s in document["syncs"]
        if steps and s["wait_ns"] // steps > 50000 and s["steps_with"] > 0
    ]
    assert [(f["where"]["file"], f["where"]["line"]) for f in findings] == places[:3]


def check_memory(document, findings):
    assert all(f["impact"] == "memory" and f["bytes"] > 10**9 for f in findings)


CHECKS = {
    "An operator that the team does not want": check_forbidden,
    "Filling memory on the GPU": check_memset,
    "Steps that are far longer than the others": check_slow_steps,
    "Reading values from the GPU, with the line that does it": check_sync_lines,
    "A budget for memory": check_memory,
}


def test_each_example_has_a_check():
    assert set(CHECKS) == set(EXAMPLES)


@pytest.mark.parametrize("title", CHECKS)
def test_example(title, rules):
    """Alone: savings of other rules would cut its own."""
    # Steps of the recordings are too even for the page's threshold.
    folder = rules(EXAMPLES[title].replace("> 1.1 *", "> 1.001 *"))
    rule_id = re.search(r"-- id: (\S+)", EXAMPLES[title])[1]
    has_fired = False
    for trace in TRACES:
        document = judge(trace, folder)
        findings = found_by(document, rule_id)
        has_fired |= bool(findings)
        if title != "Filling memory on the GPU" or not plain_report(trace)["findings"]:
            CHECKS[title](document, findings)
        state = [check["state"] for check in document["checked"] if check["id"] == rule_id]
        assert state == [] if findings else state in (["fine"], ["could_not"])
    assert has_fired, title


def test_all_examples_together(rules):
    for index, text in enumerate(EXAMPLES.values()):
        folder = rules(text, f"{index}.sql")
    document = judge("host_sync", folder)
    ids = {re.search(r"-- id: (\S+)", text)[1] for text in EXAMPLES.values()}
    listed = [f["id"] for f in document["findings"]] + [c["id"] for c in document["checked"]]
    assert ids <= set(listed)
    assert [f["order"] for f in document["findings"]] == list(
        range(1, len(document["findings"]) + 1)
    )
    total = sum(f["saving_ns_per_step"]["high"] for f in document["findings"] if f["primary"])
    steps = [step["dur_ns"] for step in document["steps"] if step["complete"]]
    assert total <= sum(steps) // len(steps)


# ---------------------------------------------------------------- beside our own findings


def test_without_a_row_nothing_changes(rules):
    folder = rules(RISK + "select 1 as n where 0")
    document = judge("host_sync", folder)
    plain = plain_report("host_sync")
    assert document["findings"] == plain["findings"]
    assert document["plan"] == plain["plan"]
    assert [c for c in document["checked"] if c["id"] != "team.rule"] == plain["checked"]


def test_one_file_is_a_rule(rules):
    folder = rules(RISK + "select 1 as n")
    assert found_by(judge("healthy", folder / "a.sql"))
    assert not [path for path in folder.iterdir() if path.name != "a.sql"]


def test_a_large_saving_cuts_ours_and_stays_within_the_step(rules):
    folder = rules(
        "-- id: team.rule\n-- title: All of it\n-- fix: Do it\n"
        "select 1e15 as saving_low_ns, 1e15 as saving_high_ns"
    )
    document = judge("host_sync", folder)
    (finding,) = found_by(document)
    steps = [step["dur_ns"] for step in document["steps"] if step["complete"]]
    assert finding["saving_ns_per_step"]["high"] == sum(steps) // len(steps)
    assert finding["share"] == 1 and finding["severity"] == "high" and finding["order"] == 1
    assert sum(f["saving_ns_per_step"]["high"] for f in document["findings"]) == (
        sum(steps) // len(steps)
    )


def test_the_cache_never_holds_them(rules, tmp_path):
    """The same trace with, without, and with other rules, from one cache."""
    folder = rules(RISK + "select 1 as n")
    cache = ("--cache", tmp_path / "cache")
    first = judge("host_sync", folder, *cache)
    plain = start("report", "--json", *cache, *TRACES["host_sync"])
    assert found_by(first) and not found_by(json.loads(plain.stdout))
    assert json.loads(plain.stdout) == plain_report("host_sync")
    assert judge("host_sync", folder, *cache) == first
    rules(RISK + "select 2 as n")
    assert found_by(judge("host_sync", folder, *cache))[0]["evidence"][0]["value"] == 2


def test_rules_see_what_ours_found(rules):
    folder = rules(RISK + "select count(*) as n from fact_findings")
    number = found_by(judge("host_sync", folder))[0]["evidence"][0]["value"]
    assert number == len(plain_report("host_sync")["findings"])


def test_every_output_names_them(rules):
    folder = rules(
        RISK.replace("Do it", "Do {n}") + "-- severity: high\n"
        "select 3 as n, '/src/train.py' as file, 12 as line, '\u202eevil\u0007' as odd"
    )
    words = {}
    for name, options in {
        "screen": (),
        "markdown": ("--markdown",),
        "sarif": ("--sarif",),
        "table": ("--table", "findings"),
    }.items():
        result = start("report", *options, "--rules", folder, *TRACES["healthy"])
        assert result.returncode == 0, result.stderr
        words[name] = result.stdout.decode()
    assert "team.rule" in words["table"]
    assert "A title  team.rule" in words["screen"] and "fix: Do 3" in words["screen"]
    assert "/src/train.py:12" in words["screen"]
    assert "(`team.rule`, high)" in words["markdown"]
    (run,) = json.loads(words["sarif"])["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]].count("team.rule") == 1
    (result,) = [r for r in run["results"] if r["ruleId"] == "team.rule"]
    location = result["locations"][0]["physicalLocation"]
    assert location["region"]["startLine"] == 12
    assert result["level"] == "error"


@pytest.mark.parametrize(("severity", "status"), [("high", 1), ("medium", 0)])
def test_fail_on_counts_them(rules, severity, status):
    folder = rules(RISK + f"-- severity: {severity}\nselect 1 as n")
    result = start("report", "--fail-on", "high", "--rules", folder, *TRACES["healthy"])
    assert result.returncode == status


# ---------------------------------------------------------------- what goes wrong


def fails(folder, *options):
    """A trace that is not there shows that rules are looked at first."""
    result = start("report", "--rules", folder, *options, "/nowhere/trace.json")
    return result.returncode, result.stderr.decode()


def test_faults_are_found_before_a_trace_is_read(rules, tmp_path):
    folder = rules(RISK + "select nobody from slice", "b.sql")
    status, words = fails(folder)
    assert status == 2 and "b.sql: no such column: nobody (line 5, column 8)" in words
    rules(RISK + "select 1 as n", "b.sql")
    rules(RISK + "select 1 as n", "c.sql")
    status, words = fails(folder)
    assert status == 2 and "c.sql: the id team.rule is that of b.sql" in words
    status, words = fails(tmp_path / "none")
    assert status == 3 and "No such file" in words
    (tmp_path / "empty").mkdir()
    status, words = fails(tmp_path / "empty")
    assert status == 2 and "no name ends in .sql" in words
    result = start("report", "--max-seconds", "3", *TRACES["healthy"])
    assert result.returncode == 2 and b"without --rules" in result.stderr


def test_odd_files(rules, tmp_path):
    folder = rules(RISK + "select 1 as n")
    (folder / ".hidden.sql").write_text("nonsense")
    (folder / "notes.txt").write_text("nonsense")
    assert found_by(judge("healthy", folder))
    (folder / "d.sql").mkdir()
    status, words = fails(folder)
    assert status == 3 and "d.sql: it is no file" in words
    (folder / "d.sql").rmdir()
    (folder / "d.sql").write_bytes(b"-- " + b"x" * 1_000_001)
    status, words = fails(folder)
    assert status == 3 and "more than 1,000,000 bytes" in words


def test_nothing_can_be_written(rules, tmp_path):
    target = tmp_path / "out.db"
    for statement in (
        f"attach '{target}' as other",
        f"vacuum into '{target}'",
        "create table t(x)",
        "pragma journal_mode = off",
        "select load_extension('x') as x",
    ):
        status, words = fails(rules(RISK + statement))
        assert status == 2 and "a.sql" in words, (statement, words)
    assert not target.exists()


def test_a_rule_that_fails_on_a_trace_is_a_check_that_could_not_be_made(rules):
    folder = rules(RISK + "select sum(9223372036854775807) as n from slice")
    rules(RISK.replace("rule", "other") + "select 1 as n", "b.sql")
    result = start("report", "--json", "--rules", folder, *TRACES["healthy"])
    document = json.loads(result.stdout)
    assert result.returncode == 0
    (check,) = [c for c in document["checked"] if c["id"] == "team.rule"]
    assert check["state"] == "could_not" and "integer overflow" in check["reason"]
    assert b"rule team.rule: Cannot run query: integer overflow" in result.stderr
    assert found_by(document, "team.other")


def test_a_rule_without_end_is_stopped(rules):
    folder = rules(
        RISK + "with recursive n(i) as (select 1 union all select i + 1 from n) "
        "select max(i) as n from n"
    )
    document = judge("healthy", folder, "--max-seconds", "1")
    (check,) = [c for c in document["checked"] if c["id"] == "team.rule"]
    assert check["state"] == "could_not" and "longer than 1 s" in check["reason"]


def test_a_long_fix_ends_with_a_word_on_the_screen(rules):
    words = " ".join(f"word{number:03}" for number in range(200))
    folder = rules(RISK.replace("Do it", words) + "select 1 as count_of_it")
    result = start("report", "--rules", folder, *TRACES["healthy"])
    lines = result.stdout.decode().splitlines()
    (begin,) = [i for i, line in enumerate(lines) if "fix: word000" in line]
    shown = " ".join(line.strip() for line in lines[begin : begin + 4]).removeprefix("fix: ")
    assert shown.endswith(" ..") and words.startswith(shown.removesuffix(" ..") + " word")
