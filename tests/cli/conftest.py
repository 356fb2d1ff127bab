"""Fixtures of the command line tests."""

import json
import signal
import subprocess

import pytest
from cli_program import PROGRAM, SMALL, environment


@pytest.fixture
def kscope():
    """Runs the program; text in, text out."""

    def run(*words, env=None, **more):
        more.setdefault("stdin", subprocess.DEVNULL if "input" not in more else None)
        if more["stdin"] is None:
            del more["stdin"]
        return subprocess.run(
            [PROGRAM, *map(str, words)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=60,
            env=environment(**(env or {})),
            **more,
        )

    return run


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(SMALL))
    return path


@pytest.fixture
def damaged(tmp_path):
    """Its one fault is the raw TAB in a name."""
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(SMALL).replace("aten::add", "aten\t:add"))
    return path


@pytest.fixture(autouse=True, scope="session")
def hangups_are_not_ignored():
    """A program ignores the signals that were ignored when it started, as those of nohup are."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
