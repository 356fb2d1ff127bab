"""The benches run: small input, one round, no limits."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_bench_runs_and_saves_its_figures(tmp_path):
    save = tmp_path / "figures.json"
    command = [sys.executable, str(ROOT / "bench" / "run.py"), "--tiny"]
    command += ["--folder", str(tmp_path), "--save", str(save)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(save.read_text())["results"]
    ours = {"read-1", "report-2", "again"}
    # The library of simdjson belongs to the bench, so it may be missing here.
    named = {name: set(result["programs"]) - {"simdjson"} for name, result in results.items()}
    assert named == {
        "A.recompiles.good": {*ours, "kscope", "python"},
        "A.recompiles.good, classic": {*ours, "gz-2"},
        "A.recompiles.good, modern": ours,
        "A.recompiles.good, compact": ours,
    }
    rows = [row for result in results.values() for row in result["programs"].values()]
    assert all(row["median_s"] > 0 and row["peak_bytes"] > 0 for row in rows)


def test_instructions_are_counted(tmp_path):
    command = [sys.executable, str(ROOT / "bench" / "instructions.py"), "--tiny"]
    command += ["--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if shutil.which("valgrind") is None:
        assert done.returncode == 1 and "valgrind" in done.stderr
        return
    assert done.returncode == 0, done.stdout + done.stderr
    name, events, count, *_ = done.stdout.splitlines()[1].split()
    assert name == "A.recompiles.good" and int(events) > 100 and 500 < int(count) < 50000


def test_part_of_advice_is_measured(tmp_path):
    command = [sys.executable, str(ROOT / "bench" / "advice_share.py"), "--tiny"]
    command += ["--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if shutil.which("valgrind") is None:
        assert done.returncode == 1 and "valgrind" in done.stderr
        return
    assert done.returncode == 0, done.stdout + done.stderr
    assert 0.1 < float(done.stdout.split()[2]) < 50


def test_pages_are_measured(tmp_path):
    command = [sys.executable, str(ROOT / "bench" / "page.py"), "--tiny"]
    command += ["--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "built without Node.js" in done.stderr:
        return
    assert done.returncode == 0, done.stdout + done.stderr
    *_, size, report, page, _, _ = done.stdout.splitlines()[1].split()
    assert 0.1 < float(size) < 5
    assert 0 <= float(report[:-1]) < 10 and 0 <= float(page[:-1]) < 10


def test_reading_snapshots_is_measured(tmp_path):
    command = [sys.executable, str(ROOT / "bench" / "snapshot.py"), "--tiny"]
    command += ["--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split("  ")[0] for line in done.stdout.splitlines()[1:3]] == [
        "kscope memory",
        "pickle.load",
    ]


def test_growth_is_shown(tmp_path):
    command = [sys.executable, str(ROOT / "bench" / "growth.py"), "--tiny"]
    command += ["--folder", str(tmp_path)]
    cache = tmp_path / "cache"
    env = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert not cache.exists(), "what a cache holds is not read"
    assert done.returncode == 0, done.stdout + done.stderr
    names = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    assert names[0] == "A.recompiles.good" and "one_launch" in names and len(names) == 7


def test_cost_of_the_recorder_is_measured():
    command = [sys.executable, str(ROOT / "bench" / "recorder_cost.py"), "--tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split("  ")[0] for line in done.stdout.splitlines()] == [
        "start of Python",
        "import torch",
        "step by optimizer",
    ]


def test_function_profiler_is_measured():
    command = [sys.executable, str(ROOT / "bench" / "function_profiler.py"), "--tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    names = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    assert names == ["python_calls", "python_tree", "c_calls", "mixed"]
    assert all(line.endswith("of cProfile") for line in done.stdout.splitlines()[1:])


def test_regions_of_python_are_timed():
    command = [sys.executable, str(ROOT / "bench" / "python_region.py"), "--tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    names = ("region, not recording", "region, made anew", "record_function", "dict, generator")
    assert all(name in done.stdout for name in names)


def test_stack_sampler_is_measured():
    command = [sys.executable, str(ROOT / "bench" / "stack_sampler.py"), "--tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    _, *lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["100", "Hz"], ["1000", "Hz"]]


def test_monitor_is_compared_with_psutil():
    command = [sys.executable, str(ROOT / "bench" / "monitor_cost.py"), "--tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    ratios = {line[:18].strip(): float(line.split()[-1]) for line in done.stdout.splitlines()[3:]}
    others = ["psutil, as often", "psutil, all", "kernel", "waking"]
    assert list(ratios) == ["SystemMonitor", "its GPU driver", *others]
    assert ratios["SystemMonitor"] == 1 and ratios["psutil, all"] > 1


def test_cost_of_debugging_is_measured():
    pytest.importorskip("torch")
    command = [sys.executable, str(ROOT / "bench" / "debug_cost.py"), "--tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {line[:20].strip(): line.split() for line in done.stdout.splitlines()[2:-1]}
    assert float(rows["off again"][-1]) == 0 and float(rows["gradient_norms"][-1]) > 0
    assert float(rows["all light"][-1]) > float(rows["memory_usage"][-1])


def test_claims_are_measured(tmp_path):
    pytest.importorskip("torch")
    page = tmp_path / "claims.md"
    page.write_text("before\n<!-- claims: cpu -->\nold\n<!-- end: cpu -->\nbehind\n")
    command = [sys.executable, str(ROOT / "bench" / "claims.py"), "--tiny", "--write", str(page)]
    command += ["--only", "checkpointing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("behind\n") and "old" not in text
    cells = [cell.strip() for cell in text.splitlines()[-3].split("|")]
    assert cells[1] == "checkpointing" and float(cells[4]) > 0 and float(cells[5]) > 0


def test_profilers_are_compared(tmp_path):
    """Ours have figures; peers that are not there are named."""
    command = [sys.executable, str(ROOT / "bench" / "peers_python.py"), "--tiny"]
    command += ["--peers", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {line[:24].strip(): line[24:].split() for line in done.stdout.splitlines()[4:]}
    ours = ("kscope samples, 100 Hz", "kscope samples", "kscope functions")
    assert all(int(rows[name][3]) > 50 and float(rows[name][5]) > 0 for name in ours)
    absent = ("py-spy, 100 Hz", "py-spy, nonblocking", "austin", "scalene, CPU only", "viztracer")
    assert all(rows[name][:2] == ["no", "figures:"] for name in absent)
    assert set(rows) == {"alone", *ours, *absent}


def test_cost_of_a_region_is_measured():
    command = [sys.executable, str(ROOT / "bench" / "region_cost.py"), "--tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("two ticks and a store ") and "0 events lost" in done.stdout


def test_the_search_for_a_loader_is_measured():
    pytest.importorskip("torch")
    command = [sys.executable, str(ROOT / "bench" / "tune_loader.py"), "--tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    everything, search, epochs, judged = done.stdout.splitlines()
    assert "13 settings" in everything and "num_workers" in search
    without, best = (float(words.split()[0]) for words in epochs[8:].split(",")[:2])
    assert best < 1.5 * without and judged.startswith("found is ")


def test_functions_are_compared_with_themselves():
    pytest.importorskip("torch")
    command = [sys.executable, str(ROOT / "bench" / "compare_same.py"), "--tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("2 comparisons of a function with itself: ")
