"""Advice on recordings of an H100 with one known fault each, and on the same runs repaired.

Step times of both were measured without the profiler: a saving must hold their difference, give or
take 2 % of the step. The repaired runs give no ground for the finding.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
KSCOPE = os.environ.get("KSCOPE_BIN", str(ROOT / "build" / "kscope"))

# name, id, step in ms with the fault, ms that the repair saved
FAULTS = [
    ("A.cpu_fallback.bad", "device.round_trip", 4.9, 1.6),
    ("A.dataloader.bad", "input.starved", 41.4, 33.8),
    ("A.fp32.bad", "precision.fp32_matmul", 94.8, 85.6),
    ("A.host_sync.bad", "sync.host", 12.5, 3.7),
    ("A.pageable.bad", "copy.pageable", 166.5, 28.8),
    ("A.python_bound.bad", "host.python_gap", 60.9, 51.5),
    ("A.small_h2d.bad", "copy.many_small", 18.1, 14.1),
]
# name, ids that may be there
REPAIRED = [
    ("A.cpu_fallback.good", {"launch.bound"}),
    ("A.dataloader.good", {"launch.bound", "host.python_gap"}),
    ("A.fp32.good", set()),
    ("A.host_sync.good", {"launch.bound", "host.python_gap"}),
    ("A.pageable.good", {"precision.fp32_matmul"}),
    ("A.python_bound.good", {"launch.bound"}),
    ("A.healthy.good", set()),
]


def report(name):
    path = DATA / f"{name}.pt.trace.json.gz"
    done = subprocess.run(
        [KSCOPE, "report", "--json", str(path)], capture_output=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(("name", "fault", "step_ms", "saved_ms"), FAULTS)
def test_fault_is_found_with_its_saving(name, fault, step_ms, saved_ms):
    findings = report(name)["findings"]
    found = [f for f in findings[:2] if f["id"] == fault]
    assert found, [f["id"] for f in findings]
    saving = found[0]["saving_ns_per_step"]
    tolerance_ms = 0.02 * step_ms
    assert saving["low"] / 1e6 <= saved_ms + tolerance_ms
    assert saving["high"] / 1e6 >= saved_ms - tolerance_ms


@pytest.mark.parametrize(("name", "allowed"), REPAIRED)
def test_no_ground_in_repaired_runs(name, allowed):
    assert {f["id"] for f in report(name)["findings"]} <= allowed


def test_place_of_reading_values():
    """The recording has Python stacks: the finding names the function that holds the calls."""
    finding = next(f for f in report("A.host_sync.bad")["findings"] if f["id"] == "sync.host")
    assert finding["where"]["file"].endswith("gen_corpus.py")
    assert finding["where"]["line"] == 109
    assert finding["where"]["operator"] == "aten::item"


def test_round_trip_says_what_happened():
    """[2048, 100] in fp32 goes to the CPU, is sorted there, and a column of it comes back."""
    findings = {f["id"]: f for f in report("A.cpu_fallback.bad")["findings"]}
    trip = findings["device.round_trip"]
    evidence = {e["name"]: e["value"] for e in trip["evidence"]}
    assert evidence["trips_per_step"] == 1
    assert evidence["to_host"] == 2048 * 100 * 4
    assert evidence["to_device"] == 2048 * 4
    assert 1.4e6 < evidence["on_host"] < evidence["idle_meanwhile"] < 2.1e6
    assert trip["where"]["operator"] == "aten::to"
    assert "aten::sort" in trip["fix"]["text"]
    # What the trip explains is no slow launching.
    launching = {e["name"]: e["value"] for e in findings["launch.bound"]["evidence"]}
    assert launching["idle_launching"] < 3.7e6


@pytest.mark.parametrize(("name", "fault", "step_ms", "saved_ms"), FAULTS)
def test_findings_fit_into_the_step(name, fault, step_ms, saved_ms):
    document = report(name)
    complete = [s["dur_ns"] for s in document["steps"] if s["complete"]]
    highs = sum(f["saving_ns_per_step"]["high"] for f in document["findings"] if f["primary"])
    assert highs <= sum(complete) / len(complete) + 1
