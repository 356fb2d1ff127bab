"""The program under test, and what it says of a file."""

import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))


def start(*words, **more):
    return subprocess.run(
        [PROGRAM, *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        **more,
    )


def report(*words):
    done = start("report", "--json", *words)
    assert done.returncode == 0, done.stdout[:300] + done.stderr
    return json.loads(done.stdout)
