"""Goal: the tests of every rule hold a fault that it finds, a run to which it says nothing, and one
just short of a threshold. Method: the C tests that say `RULE_FIRES` run once, and note their cases;
the rules are those that a report says it has asked.
"""

from collections import defaultdict

from rule_texts import read_cases, rule_ids

KINDS = {"fires", "silent", "near_miss"}
HOW = "rule_case() in tests/unit, see core/advise/README.md"


def missing(cases, ids):
    """What each rule lacks, as sentences."""
    kinds = defaultdict(set)
    for kind, id, _ in cases:
        kinds[id].add(kind)
    return [f"{id} has no case {kind}" for id in ids for kind in sorted(KINDS - kinds[id])]


def test_every_rule_has_its_three_cases(cases):
    ids = rule_ids()
    assert len(ids) >= 28 and len(set(ids)) == len(ids)
    assert missing(cases, ids) == [], HOW
    assert {id for _, id, _ in cases} <= set(ids)


def test_a_missing_case_is_noticed(cases):
    without = [case for case in cases if case[:2] != ("near_miss", "sync.host")]
    assert len(without) < len(cases)
    assert missing(without, rule_ids()) == ["sync.host has no case near_miss"]
    assert missing(cases, ["no.such"]) == [
        f"no.such has no case {kind}" for kind in ("fires", "near_miss", "silent")
    ]


def test_text_of_cases_comes_back(tmp_path):
    path = tmp_path / "cases"
    path.write_text("fires\ta.b\tx = '\\\\n'\\ny = 1\nsilent\ta.b\t\n")
    assert read_cases(path) == [("fires", "a.b", "x = '\\n'\ny = 1"), ("silent", "a.b", "")]
