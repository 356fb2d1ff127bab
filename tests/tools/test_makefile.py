"""Goal: the front door keeps what `make help` says. Method: read the Makefile, and dry runs."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
PHONY = re.search(r"^\.PHONY: (.*)$", TEXT, re.M)[1].split()
TOLD = re.findall(r"^([a-z-]+):.*## \S", TEXT, re.M)


def test_each_target_is_told_and_phony():
    assert sorted(PHONY) == sorted(TOLD)


def test_help_lists_each_target():
    out = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in out.stdout.splitlines()] == TOLD


@pytest.mark.parametrize("target", TOLD)
def test_each_target_can_be_planned(target):
    words = ["make", "--dry-run", "MAKE=true", target, "CASE=a/b", "TARGET=x"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("target", ["bless", "fuzz"])
def test_missing_argument_is_said(target):
    recipe = re.search(rf"^{target}:.*?\n(.*?)\n\n", TEXT, re.M | re.S)[1]
    assert "usage: make " + target in recipe and "exit 2" in recipe


def test_scripts_that_targets_call_are_executable():
    for path in ("tools/setup.sh", ".ci/run", "tools/pre-commit"):
        assert (ROOT / path).stat().st_mode & 0o111, path
