"""Goal: predict_steps.py runs its programs, and says so where nothing can be predicted or a program
fails. Method: the script itself without a GPU, whose times no report predicts.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests" / "device" / "predict_steps.py"
KSCOPE = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))


def run(out, *names):
    command = [sys.executable, str(SCRIPT), KSCOPE, str(out), *names, "--device", "cpu"]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def test_without_a_gpu_nothing_is_predicted(tmp_path):
    done = run(tmp_path, "matmuls")
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1] == "1 of 1 predictions missed"
    (row,) = json.loads((tmp_path / "predict_steps.json").read_text())
    assert len(row["step_ms"]) == len(row["windows"]) + 1 == 6
    for window in row["windows"]:
        assert min(window["measured_ms"], window["trace_ms"]) > 0
        assert (window["predicted_ms"], window["off"]) == (None, None)
    assert row["off"] is None
    assert "no prediction" in (tmp_path / "predict_steps.txt").read_text()


def test_a_program_that_fails_is_a_miss(tmp_path):
    done = run(tmp_path, "unknown", "matmuls")
    assert done.stdout.splitlines()[-1] == "2 of 2 predictions missed"
    first, second = json.loads((tmp_path / "predict_steps.json").read_text())
    assert "KeyError" in first["failure"]
    assert min(second["step_ms"]) > 0
