"""Goal: the magics of a notebook record a cell, and show what kinetoscope.open would. Method: an
IPython shell as a notebook has one; the cell's own variables and words, and its steps by number."""

import pathlib

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

pytestmark = pytest.mark.torch
ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACE = ROOT / "tests" / "data" / "A.healthy.good.pt.trace.json.gz"
CELL = """
import kinetoscope, torch, time
layer = torch.nn.Linear(8, 8)
for number in range(4):
    total = layer(torch.ones(2, 8)).sum().item()
    time.sleep(0.01)
    kinetoscope.step()
print("seen", number)
"""


@pytest.fixture
def shell(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "python"))
    shell = InteractiveShell.instance()
    shell.extension_manager.load_extension("kinetoscope")
    yield shell
    shell.extension_manager.unload_extension("kinetoscope")
    shell.reset(new_session=False)
    InteractiveShell.clear_instance()


def run(shell, text):
    with capture_output() as captured:
        result = shell.run_cell(text)
    return result, captured.stdout


def test_a_cell_is_recorded(shell, tmp_path):
    result, words = run(shell, f"%%kscope --out {tmp_path / 'run'}\n{CELL}")
    assert result.success and words.startswith("seen 3\n")
    report = result.result
    assert [step["dur_ns"] >= 10e6 for step in report.steps] == [True] * 4
    (row,) = (row for row in report.operators if row["name"] == "aten::linear")
    assert row["calls"] == 4
    assert list((tmp_path / "run").rglob("*.pt.trace.json*"))
    # What the cell has made is the user's, and steps are nobody's any more.
    assert shell.user_ns["number"] == 3 and "verdict" in report.document
    assert shell.user_ns["kinetoscope"]._step is None
    assert report.verdict["text"] in words  # the shell shows its last value


def test_nothing_is_left_behind(shell, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    result, _ = run(shell, f"%%kscope --schedule 1:1:2\n{CELL}")
    assert len(result.result.steps) == 2
    assert list(tmp_path.iterdir()) == []
    assert result.result.query("select count(*) from fact_steps")[0][0] >= 2


def test_a_cell_that_raises(shell):
    text = CELL.replace("print(", "assert total is None\nprint(")
    result, words = run(shell, f"%%kscope\n{text}")
    assert "AssertionError" in words and "seen 3" not in words
    assert len(result.result.steps) == 4
    assert shell.user_ns["kinetoscope"]._step is None


def test_a_line_opens_a_report(shell):
    result, words = run(shell, f"%kscope {TRACE}")
    assert result.success and result.result.verdict["text"] in words


@pytest.mark.parametrize("line", ["--out", "--folder x", "run"])
def test_wrong_words(shell, line):
    result, words = run(shell, f"%%kscope {line}\npass")
    assert isinstance(result.error_in_exec, ValueError) and "usage:" in words


def test_magics_go_with_the_extension(shell):
    shell.extension_manager.unload_extension("kinetoscope")
    assert not shell.find_magic("kscope", "line") and not shell.find_magic("kscope", "cell")
    shell.extension_manager.load_extension("kinetoscope")
