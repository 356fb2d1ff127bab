#!/usr/bin/env python3
"""Runs the C unit tests and pytest, and ends with one line that counts every test function.

The program under test is BUILD/kscope; tests find it by the variable KSCOPE_BIN. Exit status: 0
when all passed, 1 when something failed or nothing ran.

Use: tools/run_tests.py --build FOLDER [--only c|python] [--suite NAME] [--jobs N]
                        [-- PYTEST-ARGUMENTS]
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import xml.etree.ElementTree
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Sanitizers make tests several times slower.
TIMEOUT_MULTIPLIER = "4"

# Tests start programs of several threads and processes, so more at once would only wait.
JOBS_MAX = 4

# One line per test function, as cmocka says it on the terminal and in TAP.
STARTED = re.compile(r"^\[ RUN +\]", re.M)
PASSED = re.compile(r"^\[ +OK \]|^ok \d+(?!.*# SKIP)", re.M)
SKIPPED = re.compile(r"^\[  SKIPPED \] \w|^(?:not )?ok \d+.*# SKIP", re.M)
FAILED = re.compile(r"^not ok \d+(?!.*# SKIP)", re.M)


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def count_program(entry):
    """Test functions of one test program, from its line of Meson's log.

    A program that dies has failed at least once, also when it never said so.
    """
    text = entry.get("stdout") or ""
    is_good = entry["result"] in ("OK", "EXPECTEDFAIL")
    if entry["result"] == "SKIP":
        return Count(skipped=1)
    count = Count(len(PASSED.findall(text)), len(FAILED.findall(text)), 0)
    count.skipped = len(SKIPPED.findall(text))
    started = len(STARTED.findall(text))
    count.failed = max(count.failed, started - count.passed - count.skipped)
    if is_good:
        # A program without cmocka is one test.
        return count if count.passed + count.skipped else Count(passed=1)
    count.failed = max(count.failed, 1)
    return count


def run_c(build, suite):
    command = ["meson", "test", "-C", str(build), "--no-rebuild", "--print-errorlogs"]
    command += ["--timeout-multiplier", TIMEOUT_MULTIPLIER]
    command += ["--suite", suite] if suite else []
    log = build / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    status = subprocess.run(command, cwd=ROOT).returncode
    total = Count()
    if log.exists():
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            total.add(count_program(json.loads(line)))
    if status and not total.failed:
        total.failed = 1
    return total


def core_count():
    return len(os.sched_getaffinity(0))


def run_python(build, arguments, jobs=1):
    """`jobs` processes run tests; each begins with a stretch of its own, since neighbours share
    what they need, and takes from others what is left at the end."""
    report = build / "pytest.xml"
    report.unlink(missing_ok=True)
    program = str((build / "kscope").resolve())
    env = dict(os.environ, KSCOPE=program, KSCOPE_BIN=program)
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):  # tests that call make start from scratch
        env.pop(name, None)
    command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}"]
    command += ["-n", str(jobs), "--dist", "worksteal"] if jobs > 1 else []
    command += arguments
    status = subprocess.run(command, cwd=ROOT, env=env).returncode
    total = Count()
    if report.exists():
        for suite in xml.etree.ElementTree.parse(report).iter("testsuite"):
            number = {key: int(suite.get(key, "0")) for key in ("failures", "errors", "skipped")}
            failed = number["failures"] + number["errors"]
            passed = int(suite.get("tests", "0")) - failed - number["skipped"]
            total.add(Count(passed, failed, number["skipped"]))
    if status and not total.failed:
        total.failed = 1
    return total


def main(arguments):
    parser = argparse.ArgumentParser(description="Runs the tests and counts them.")
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--only", choices=("c", "python"))
    parser.add_argument("--suite", help="only this suite of C tests")
    parser.add_argument(
        "--jobs",
        type=int,
        default=min(core_count(), JOBS_MAX),
        help=f"processes that run Python tests (the number of cores, at most {JOBS_MAX})",
    )
    parser.add_argument("pytest", nargs="*", help="what pytest gets")
    options = parser.parse_args(arguments)
    build = ROOT / options.build
    total = Count()
    for name, run in (
        ("c", lambda: run_c(build, options.suite)),
        ("python", lambda: run_python(build, options.pytest, options.jobs)),
    ):
        if options.only in (None, name):
            begin = time.monotonic()
            count = run()
            print(f"{name} tests: {count} in {time.monotonic() - begin:.0f} s", flush=True)
            total.add(count)
    print(total)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
