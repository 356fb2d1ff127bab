"""Goal: damaged and odd files come out as the reference cases say, through the whole program.

Method: expected.txt holds one line a file, written by hand from what each file means; each file is
reported twice, as usual and with --strict.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
KSCOPE = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))
EXIT_STATUS = {"ok": 0, "format": 3, "unsupported": 3}


def expected_rows():
    for line in (FOLDER / "expected.txt").read_text().splitlines():
        if not line.startswith("#"):
            name, outcome, status, events, strict, *counts = line.split()
            counts = dict((k, int(v)) for k, v in (c.split("=") for c in counts))
            yield pytest.param(outcome, status, int(events), strict, counts, name, id=name)


def report(name, *options):
    run = subprocess.run(
        [KSCOPE, "report", "--json", *options, str(FOLDER / f"{name}.json")],
        capture_output=True,
        timeout=60,
    )
    return run.returncode, json.loads(run.stdout.decode("utf-8"))


@pytest.mark.parametrize("outcome,status,events,strict,counts,name", list(expected_rows()))
def test_file(outcome, status, events, strict, counts, name):
    code, document = report(name)
    assert code == EXIT_STATUS[outcome]
    if outcome == "ok":
        (source,) = document["inputs"]
        got = (source["status"], source["events"], source["counts"])
        assert got == (status, events, counts)
    else:
        assert document["error"]["code"] == outcome


@pytest.mark.parametrize("outcome,status,events,strict,counts,name", list(expected_rows()))
def test_strict(outcome, status, events, strict, counts, name):
    code, document = report(name, "--strict")
    if strict == "ok":
        assert code == 0
        return
    assert code == 3
    assert document["error"]["offset"] == (None if strict == "-" else int(strict))


def test_every_file_is_expected():
    listed = {param.values[-1] for param in expected_rows()}
    assert listed == {path.stem for path in FOLDER.glob("*.json")}
