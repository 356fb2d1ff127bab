"""The benches run: small input, one round, no limits."""

import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_bench_runs_and_saves_its_figures(tmp_path):
    save = tmp_path / "figures.json"
    command = [sys.executable, str(ROOT / "bench" / "run.py"), "--tiny"]
    command += ["--folder", str(tmp_path), "--save", str(save)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = json.loads(save.read_text())["results"].values()
    assert set(result["programs"]) == {"kscope", "python"}
    for row in result["programs"].values():
        assert row["median_s"] > 0 and row["peak_bytes"] > 0


def test_cost_of_the_recorder_is_measured():
    command = [sys.executable, str(ROOT / "bench" / "recorder_cost.py"), "--tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == [
        "start of Python",
        "import torch",
        "step by optimizer",
    ]
