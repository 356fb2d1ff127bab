"""Goal: the script that tunes on a GPU works. Method: one part of it, small, on the CPU."""

import os
import pathlib
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parent / "tune_python_gpu.py"


@pytest.mark.torch
def test_a_part_runs_without_a_gpu():
    pytest.importorskip("torch")
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPT), "--small", "--only", "overflow"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not finite" in done.stdout and done.stdout.endswith("0 failures: \n")
