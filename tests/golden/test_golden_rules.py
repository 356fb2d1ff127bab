"""Goal: each rule has a golden case that fires, one just short of what it asks for, and one that is
silent, whose findings were worked out by hand. Method: the folders are compared with the rules of a
report, and with what tests/support/write_rule_cases.py writes from the descriptions of the cases;
test_golden.py holds the program against them."""

import json
import pathlib
import sys

import pytest
import run_golden

sys.path.insert(0, str(run_golden.ROOT / "tests" / "support"))

import write_rule_cases  # noqa: E402

KINDS = {"fires", "near_miss", "silent"}
RULES = write_rule_cases.RULES
HOW = "make golden-rules, see tests/golden/rules/README.md"


def rule_ids():
    """All rules, as a report names them."""
    run = run_golden.run_program(["report", "--json", "input.json"], RULES / "sync.host" / "silent")
    document = json.loads(run.stdout)
    return sorted(row["id"] for row in document["findings"] + document["checked"])


def texts_of(folder):
    """What is in each file below a folder, by its name."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def inputs_of(folder):
    texts = texts_of(folder)
    return {name: texts[name] for name in texts.keys() - {"cmd", "expected.txt", "why.md"}}


def missing(root, ids):
    """What rules lack, as sentences, and folders that are no rule's."""
    lacks = [
        f"{id} has no {kind}" for id in ids for kind in KINDS if not (root / id / kind).is_dir()
    ]
    folders = {path.name for path in root.iterdir() if path.is_dir()}
    return sorted(lacks) + [f"{id} is no rule" for id in sorted(folders - set(ids))]


def is_found(root, id, kind):
    lines = (root / id / kind / "expected.txt").read_text(encoding="utf-8").split("\n\n")[0]
    return any(line.split()[0] == id for line in lines.splitlines()[1:])


def test_every_rule_has_three_cases():
    assert len(rule_ids()) >= 42
    assert missing(RULES, rule_ids()) == [], HOW


@pytest.mark.parametrize("id", sorted(path.name for path in RULES.iterdir() if path.is_dir()))
def test_only_the_fault_is_found(id):
    assert [kind for kind in sorted(KINDS) if is_found(RULES, id, kind)] == ["fires"]
    fires, near_miss, silent = (inputs_of(RULES / id / kind) for kind in sorted(KINDS))
    assert fires.keys() == near_miss.keys() == silent.keys()
    assert fires != near_miss and fires != silent and near_miss != silent


def test_files_are_those_of_the_descriptions(tmp_path):
    write_rule_cases.write(tmp_path)
    committed = texts_of(RULES)
    del committed["README.md"]
    assert committed.keys() == texts_of(tmp_path).keys(), HOW
    changed = [name for name, text in texts_of(tmp_path).items() if committed[name] != text]
    assert changed == [], HOW


def test_what_is_missing_is_noticed(tmp_path):
    write_rule_cases.write(tmp_path)
    (tmp_path / "sync.host" / "silent").rename(tmp_path / "no.such")
    assert missing(tmp_path, rule_ids()) == ["sync.host has no silent", "no.such is no rule"]
    fires = pathlib.Path("launch.bound", "fires", "expected.txt")
    (tmp_path / "launch.bound" / "silent" / "expected.txt").write_text(
        (tmp_path / fires).read_text()
    )
    assert is_found(tmp_path, "launch.bound", "silent")
    assert not is_found(tmp_path, "launch.bound", "near_miss")
