"""Goal: what the program says about the golden inputs stays as it is. Method: each case is run and
compared with its expected text; `make bless CASE=area/name` takes over an intended change."""

import shutil

import pytest
import run_golden

CASES = run_golden.list_cases()
EXPECTED_BYTES_MAX = 50 * 1024


@pytest.mark.parametrize("case", CASES)
def test_output_is_as_expected(case):
    text = run_golden.difference(run_golden.GOLDEN / case)
    assert text == "", f"\n{text}\nintended? make bless CASE={case}"


@pytest.mark.parametrize("case", CASES)
def test_case_is_complete_and_small(case):
    folder = run_golden.GOLDEN / case
    assert len((folder / "why.md").read_text().splitlines()) == 2
    assert sum(file.stat().st_size for file in folder.rglob("*")) < EXPECTED_BYTES_MAX
    assert str(run_golden.ROOT) not in (folder / "expected.txt").read_text()


def test_a_difference_is_seen(tmp_path):
    folder = tmp_path / "case"
    shutil.copytree(run_golden.GOLDEN / CASES[0], folder)
    assert run_golden.difference(folder) == ""
    expected = folder / "expected.txt"
    expected.write_text(expected.read_text().replace("$ kscope", "$ other", 1))
    assert "-$ other" in run_golden.difference(folder)
    expected.unlink()
    assert "+$ kscope" in run_golden.difference(folder)
