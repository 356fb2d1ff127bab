"""The page of `kscope view` in a browser. Goal: it works with its token and nothing else, asks for
the detail in sight, and follows its input. Method: view.test.mjs looks at it in Chromium, and each
of its tests counts as one here."""

import os
import pathlib
import re
import subprocess

import pytest
from test_browser import BUNDLE, CHROMIUM, PROGRAM, ROOT, missing_parts, read_results, why_no_view

CHECKS = pathlib.Path(__file__).with_name("view.test.mjs")
NAMES = re.findall(r"^test\('(.*?)'", CHECKS.read_text(encoding="utf-8"), re.M)


LEFT_OUT = why_no_view(PROGRAM)
needs_view = pytest.mark.skipif(LEFT_OUT is not None, reason=LEFT_OUT or "")


@needs_view
@pytest.mark.parametrize("name", NAMES)
def test_in_chromium(name, tmp_path):
    """Each by itself: they take long, and several processes can share them."""
    missing = missing_parts(ROOT, BUNDLE, CHROMIUM)
    if missing:
        pytest.fail("the page cannot be tested without " + "; ".join(missing))
    env = dict(os.environ, PAGES=str(tmp_path), KSCOPE_BIN=str(PROGRAM), CHROMIUM=CHROMIUM)
    report = tmp_path / "report.xml"
    command = ["node", "--test", f"--test-name-pattern=^{re.escape(name)}$"]
    command += ["--test-reporter=junit", f"--test-reporter-destination={report}", str(CHECKS)]
    subprocess.run(command, env=env, cwd=ROOT, timeout=200)
    results = read_results(report.read_text(encoding="utf-8", errors="replace"))
    assert sorted(results) == sorted(NAMES)
    passed, text = results[name]
    assert passed, text


def test_there_are_checks():
    assert len(NAMES) >= 6
