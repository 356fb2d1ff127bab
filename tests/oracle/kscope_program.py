"""Runs the program under test."""

import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
PROGRAM = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))


def run(*arguments, timeout=120):
    command = [PROGRAM, *map(str, arguments)]
    return subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False
    )


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def report_bytes(*arguments):
    """Output of `report --json`, which must succeed."""
    result = run("report", "--json", *arguments)
    assert result.returncode == 0, (
        f"exit {result.returncode}: {result.stderr.decode(errors='replace')[-500:]}"
    )
    return result.stdout


def report(*arguments):
    return json.loads(report_bytes(*arguments), parse_constant=refuse_constant)
