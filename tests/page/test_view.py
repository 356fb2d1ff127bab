"""The page of `kscope view` in a browser. Goal: it works with its token and nothing else, asks for
the detail in sight, and follows its input. Method: view.test.mjs looks at it in Chromium, and each
of its tests counts as one here."""

import os
import pathlib
import re
import subprocess

import pytest
from test_browser import BUNDLE, CHROMIUM, PROGRAM, ROOT, missing_parts, read_results, why_left_out

CHECKS = pathlib.Path(__file__).with_name("view.test.mjs")
NAMES = re.findall(r"^test\('(.*?)'", CHECKS.read_text(encoding="utf-8"), re.M)


def why_not_served():
    """Why this build has no server, or no page to serve; None if it does."""
    doctor = subprocess.run([PROGRAM, "doctor"], capture_output=True, text=True).stdout
    view = next((line for line in doctor.split("\n") if " view " in line), "")
    return why_left_out(PROGRAM) or (None if view.startswith("ok") else view.strip())


LEFT_OUT = why_not_served() if PROGRAM.exists() else None
needs_view = pytest.mark.skipif(LEFT_OUT is not None, reason=LEFT_OUT or "")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    missing = missing_parts(ROOT, BUNDLE, CHROMIUM)
    if missing:
        pytest.fail("the page cannot be tested without " + "; ".join(missing))
    folder = tmp_path_factory.mktemp("view")
    env = dict(os.environ, PAGES=str(folder), KSCOPE_BIN=str(PROGRAM), CHROMIUM=CHROMIUM)
    report = folder / "report.xml"
    command = ["node", "--test", "--test-reporter=junit", f"--test-reporter-destination={report}"]
    subprocess.run([*command, str(CHECKS)], env=env, cwd=ROOT, timeout=200)
    return read_results(report.read_text(encoding="utf-8", errors="replace"))


@needs_view
@pytest.mark.parametrize("name", NAMES)
def test_in_chromium(results, name):
    assert name in results, "it did not run"
    passed, text = results[name]
    assert passed, text


@needs_view
def test_every_check_counts_here(results):
    assert sorted(results) == sorted(NAMES)
