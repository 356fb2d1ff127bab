"""Goal: every rule can be explained, on any terminal. Method: the pages of docs/rules against what
the program says."""

import re

import pytest
from cli_program import ROOT

PAGES = sorted(path for path in (ROOT / "docs/rules").glob("*.md") if path.stem != "README")


def test_each_rule_has_a_page_and_each_page_a_rule(kscope):
    run = kscope("explain")
    assert (run.returncode, run.stderr) == (0, "")
    listed = [line.split(maxsplit=1) for line in run.stdout.splitlines()]
    assert sorted(id_ for id_, _ in listed) == [path.stem for path in PAGES]
    assert all(title for _, title in listed)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_says_all_that_its_file_says(kscope, path):
    run = kscope("explain", path.stem)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith(f"{path.stem}\n")
    assert not re.search(r"\x1b|\]\(|\*\*|^#", run.stdout, re.M)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)|```\w*\n", r"\1", path.read_text(encoding="utf-8"))
    strip = str.maketrans("", "", "#*")
    assert run.stdout.translate(strip).split() == text.translate(strip).split()


def test_headings_are_coloured_on_demand(kscope):
    text = kscope("explain", "--color", "always", "sync.host").stdout
    assert text.startswith("\x1b[1msync.host\x1b[0m\n")
    assert "\x1b[1mClaim.\x1b[0m" in text


def test_a_wrong_id_names_the_nearest(kscope):
    run = kscope("explain", "sync.hots")
    assert run.returncode == 2
    assert "did you mean sync.host?" in run.stderr
    assert kscope("explain", "no such rule at all").returncode == 2
