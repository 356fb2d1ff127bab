"""Goal: text_faults.py notices each way in which advice can be wrong.

Method: stand-ins for kscope and for the program say what is right; then one thing is made wrong.
"""

import json
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
FAULT = "sync.host"

PROGRAM = """
import sys
def clean():
    pass
def faulty():
    clean()  # fault: sync.host
print("device H")
print("median_step_ms", 30.0 if "--fault" in sys.argv else 20.0, "tokens_per_s 1")
"""

# `run` leaves a window and its stacks in a folder named after the fault; `report` is asked for it.
KSCOPE = """#!{python}
import json, pathlib, sys
docs = json.loads(pathlib.Path({docs!r}).read_text())
if sys.argv[1] == "run":
    folder = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
    folder.mkdir()
    for end in ("", ".stacks"):
        (folder / f"rank0.window1{{end}}.pt.trace.json.gz").write_bytes(b"")
else:
    print(json.dumps(docs[pathlib.Path(sys.argv[-1]).name]))
"""


def report(*findings):
    steps = [{"dur_ns": ms * 1_000_000, "complete": ms != 99} for ms in (33, 34, 35, 99)]
    return {"steps": steps, "findings": list(findings)}


def finding(low=8, high=11, id=FAULT, file="program.py", line=6):
    saving = {"low": low * 1_000_000, "high": high * 1_000_000}
    where = {"file": file and f"/some/{file}", "line": line}
    return {"id": id, "saving_ns_per_step": saving, "where": where}


def check(folder, bad, good=(), program=PROGRAM, fault=FAULT):
    docs = folder / "docs.json"
    docs.write_text(json.dumps({fault: report(*bad), "none": report(*good)}))
    kscope = folder / "kscope"
    kscope.write_text(KSCOPE.format(python=sys.executable, docs=str(docs)))
    kscope.chmod(0o755)
    (folder / "program.py").write_text(program)
    words = [sys.executable, HERE / "text_faults.py", kscope, folder / "out", fault]
    words += ["--program", folder / "program.py"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def last(text):
    return text.splitlines()[-1]


def test_right_advice(tmp_path):
    status, text = check(tmp_path, [finding()])
    assert (status, last(text)) == (0, "0 of 4 checks missed")
    (row,) = json.loads((tmp_path / "out" / "text_faults.json").read_text())
    assert (row["good_ms"], row["bad_ms"], row["saved_ms"], row["trace_ms"]) == (20, 30, 10, 34)
    assert row["first"] == FAULT and row["saving_ms"] == [8, 11] and row["line"] == "program.py:6"
    assert text.endswith((tmp_path / "out" / "text_faults.txt").read_text()[-60:])


@pytest.mark.parametrize(
    ("bad", "missed"),
    [
        ([finding(low=10.5)], "0 of 4"),  # within 2 % of the step of 30 ms
        ([finding(low=10.7)], "1 of 4"),
        ([finding(high=9.5)], "0 of 4"),
        ([finding(high=9.3)], "1 of 4"),
        ([finding(line=5)], "0 of 4"),  # the first line of the marked function
        ([finding(line=3)], "1 of 4"),
        ([finding(file="torch.py")], "1 of 4"),
        ([finding(file=None, line=None)], "0 of 3"),
        ([finding(id="launch.bound"), finding()], "1 of 4"),
        ([finding(id="launch.bound")], "2 of 3"),
        ([], "2 of 3"),
    ],
)
def test_wrong_advice(tmp_path, bad, missed):
    status, text = check(tmp_path, bad)
    assert last(text) == f"{missed} checks missed"
    assert status == (not missed.startswith("0"))


def test_repaired_program_with_the_finding(tmp_path):
    status, text = check(tmp_path, [finding()], good=[finding(id="launch.bound"), finding()])
    assert (status, last(text)) == (1, "1 of 4 checks missed")


def test_program_that_fails(tmp_path):
    program = PROGRAM.replace("print(", "sys.exit(3) if '--fault' in sys.argv else print(", 1)
    status, text = check(tmp_path, [finding()], program=program)
    assert status == 1 and "exit status 3" in text and last(text) == "1 of 2 checks missed"


def test_program_without_the_mark(tmp_path):
    status, text = check(tmp_path, [finding()], program=PROGRAM.replace("# fault", "# vault"))
    assert status == 1 and "0 marks of sync.host" in text


def test_line_of_a_setting_is_only_noted(tmp_path):
    id = "precision.fp32_matmul"
    status, text = check(tmp_path, [finding(id=id, line=3)], fault=id)
    assert (status, last(text)) == (0, "0 of 3 checks missed")
    assert "program.py:3" in text


def test_unknown_fault(tmp_path):
    assert check(tmp_path, [finding()], fault="sync.hots")[0] == 2
