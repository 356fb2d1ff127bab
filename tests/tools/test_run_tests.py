"""Goal: every test function is counted, and no failure is lost. Method: logs written by hand."""

import pytest
import run_tests
from run_tests import Count

TERMINAL = """[==========] Running 3 test(s).
[ RUN      ] a
[       OK ] a
[ RUN      ] b
[  SKIPPED ] b
[ RUN      ] c
[  FAILED  ] c
[==========] 3 test(s) run.
"""
TAP = "1..3\nok 1 - a\nnot ok 2 # SKIP b\nnot ok 3 - c\n# not ok - t\n"
DIED = "[==========] Running 2 test(s).\n[ RUN      ] a\n[       OK ] a\n[ RUN      ] b\n"


@pytest.mark.parametrize(
    ("result", "text", "count"),
    [
        ("FAIL", TERMINAL, Count(1, 1, 1)),
        ("FAIL", TAP, Count(1, 1, 1)),
        ("OK", "[ RUN      ] a\n[       OK ] a\n", Count(1, 0, 0)),
        ("OK", "1..2\nok 1 - a\nok 2 - b\n", Count(2, 0, 0)),
        ("FAIL", DIED, Count(1, 1, 0)),
        ("TIMEOUT", "[ RUN      ] a\n[       OK ] a\n", Count(1, 1, 0)),
        ("FAIL", "", Count(0, 1, 0)),
        ("ERROR", None, Count(0, 1, 0)),
        ("OK", "no cmocka here\n", Count(1, 0, 0)),
        ("SKIP", "", Count(0, 0, 1)),
    ],
)
def test_count_program(result, text, count):
    assert run_tests.count_program({"result": result, "stdout": text}) == count


def test_pytest_is_counted(tmp_path):
    path = tmp_path / "test_x.py"
    path.write_text(
        "import pytest\n"
        "def test_a(): pass\n"
        "def test_b(): assert 0\n"
        "@pytest.mark.skip\ndef test_c(): pass\n"
    )
    assert run_tests.run_python(tmp_path, [str(path)]) == Count(1, 1, 1)


def test_pytest_is_counted_over_processes(tmp_path):
    """Each test writes who ran it: two processes did, and nothing is counted twice or lost."""
    path = tmp_path / "test_x.py"
    path.write_text(
        "import os, pathlib, pytest, time\n"
        "@pytest.mark.parametrize('number', range(8))\n"
        "def test_a(number):\n"
        "    time.sleep(0.2)\n"
        f"    (pathlib.Path({str(tmp_path)!r}) / f'{{os.getpid()}}.{{number}}').touch()\n"
        "    assert number != 5\n"
    )
    assert run_tests.run_python(tmp_path, [str(path)], jobs=2) == Count(7, 1, 0)
    ran = [name.name.split(".") for name in tmp_path.glob("*.[0-7]")]
    assert sorted(number for _, number in ran) == list("01234567")
    assert len({pid for pid, _ in ran}) == 2


def test_pytest_that_cannot_start_has_failed(tmp_path):
    assert run_tests.run_python(tmp_path, [str(tmp_path / "gone")]).failed == 1


def test_closing_line():
    assert str(Count(3, 0, 1)) == "3 passed, 0 failed, 1 skipped"
