"""The program under test, a clean environment for it, and the smallest trace."""

import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))

# A program that looks at these must not be led by the machine that runs the tests.
UNSET = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "LC_CTYPE", "LANG", "COLUMNS")

# One annotated step of 100 us, one operator inside; enough for every output.
SMALL = {
    "schemaVersion": 1,
    "traceEvents": [
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 1, "tid": 1,
         "ts": 100, "dur": 100},
        {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 110,
         "dur": 20, "args": {"External id": 1}},
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 140,
         "dur": 50, "args": {"External id": 2}},
    ],
}  # fmt: skip


def environment(**changes):
    env = {key: value for key, value in os.environ.items() if key not in UNSET}
    return {**env, "TERM": "xterm", "LC_ALL": "C.UTF-8", **changes}
