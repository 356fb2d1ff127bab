"""Goal: `kscope run` tells padding and tokenizing on the training thread, on the CPU. Method: the
fault programs recorded as a user would, and the reports of both twins."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
KSCOPE = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))


def report(folder, program, kind):
    command = [sys.executable, PROGRAMS / f"{program}.py", "--device", "cpu", kind, "--steps", "24"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    options = ["--out", folder / "run", "--steps", "6:1:4"]
    subprocess.run(
        [KSCOPE, "run", *options, "--", *command],
        env=environment, check=True, capture_output=True, timeout=180,
    )  # fmt: skip
    return json.loads((folder / "run" / "report.json").read_text())


def findings(document):
    return {finding["id"]: finding for finding in document["findings"]}


@pytest.mark.torch
def test_padded_batches(tmp_path):
    bad = report(tmp_path, "padded_batches", "--bad")
    finding = findings(bad)["input.padding"]
    evidence = {item["name"]: item["value"] for item in finding["evidence"]}
    assert bad["findings"][0] is finding or finding["order"] <= 2
    assert evidence["padding"] > 0.6 and evidence["slots_per_batch"] == 8 * 128
    # Steps that differ much, as on a busy machine, open the other interval, perhaps to nothing.
    assert 0 <= finding["saving_ns_per_step"]["low"] < finding["saving_ns_per_step"]["high"]
    saving = finding["saving_in_trace_ns_per_step"]
    assert 0 < saving["low"] < saving["high"]


@pytest.mark.torch
def test_batches_of_like_length(tmp_path):
    good = report(tmp_path, "padded_batches", "--good")
    assert "input.padding" not in findings(good)
    (check,) = [check for check in good["checked"] if check["id"] == "input.padding"]
    assert check["state"] == "fine"


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["--bad", "--good"])
def test_tokenizing(tmp_path, kind):
    found = findings(report(tmp_path, "tokenize_inline", kind))
    if kind == "--good":
        assert "input.tokenize_inline" not in found
        return
    where = found["input.tokenize_inline"]["where"]
    lines = (PROGRAMS / "tokenize_inline.py").read_text().split("\n")
    assert where["file"].endswith("tokenize_inline.py")
    assert "def encode" in lines[where["line"] - 1]
    assert "host.python_gap" not in found
